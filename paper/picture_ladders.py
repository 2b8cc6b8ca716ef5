"""Pictures judged at a ladder of steps: the best one by a part of the hidden pixels, and the last one."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from bpfa import Algorithm, train
from bpfa._support.philox import Stream
from bpfa.images import PatchRows
from bpfa.images.canvas import Canvas
from bpfa.model.posterior import Posterior
from experiments import Array
from experiments.cells import Cell, Context
from experiments.machine import thread_option
from experiments.measure import climb, rounded
from experiments.pictures import HiddenPicture, PictureTask, clipped_psnr, hide_pixels, restored_picture
from paper import pictures
from paper.chains import CHAINS, Judged, length, studied_lengths, with_length
from paper.experiment import Options
from paper.methods import GIBBS_KINDS, METHODS
from paper.pictures import BATCH, EQUAL_WEIGHTS, PATCH, PICTURES

VALIDATION_SHARE = 0.5
"""The share of the pixels to judge by that choose the step; the others are scored."""
SIZES: dict[str, dict[str, Any]] = {
    "full": {
        "features": 250, "steps": (375, 750, 1500, 3000), "stride": 4, "draws": 8,
        "trial_draws": 2, "seeds": 3, "side": 512,
    },
    "quick": {
        "features": 250, "steps": (25, 50, 100), "stride": 8, "draws": 4, "trial_draws": 2, "seeds": 1,
        "side": 128,
    },
    "tiny": {
        "features": 8, "steps": (2, 4), "stride": 8, "draws": 2, "trial_draws": 2, "seeds": 2, "side": 24,
    },
}  # fmt: skip
STUDIED = "house"
"""The picture on which the length of chains is studied, in the first seed."""


def cells_of(options: Options, observed: float, noise: float, only: str) -> list[Cell]:
    """Return the cells of all pictures, methods and seeds; a tiny run has one picture `only`."""
    size = SIZES[options.scale]
    return [
        _cell(size, PictureTask(picture, observed, noise), method, seed)
        for picture in ((only,) if options.scale == "tiny" else PICTURES)
        for seed in range(size["seeds"])
        for method in METHODS
    ]


def _cell(size: dict[str, Any], task: PictureTask, method: str, seed: int) -> Cell:
    side = min(size["side"], 512 if task.picture in ("boat", "barbara", "lena") else 256)
    judged: Judged = "denoising" if task.noise else "interpolation"
    studied = seed == 0 and task.picture == STUDIED
    settings = {
        **task._asdict(), "method": method, "side": side, "ladder": list(size["steps"]),
        **{name: size[name] for name in ("features", "stride", "draws", "trial_draws")},
        "chains": [length(method, chains, judged) for chains in CHAINS], "seed": seed,
        **({"study": list(studied_lengths(method, judged))} if studied else {}),
    }  # fmt: skip
    gibbs = method in GIBBS_KINDS
    patches = (side / size["stride"]) ** 2
    drawn = 1 if method == "mf-svi" else size["draws"]
    sweeps = drawn * (2 * sum(settings["chains"]) + 2 * sum(settings.get("study", ())))
    sweeps += len(size["steps"]) * size["trial_draws"] * settings["chains"][0]
    row_sweep = 4e-7 if gibbs else 2.5e-6
    expected = 2 + size["steps"][-1] * (0.0025 if gibbs else 0.007) + row_sweep * patches * sweeps
    return Cell(f"{task.picture}/{method}/ladder/{seed}", settings, expected, needs=task.file)


class JudgedPicture:
    """A picture with hidden pixels, restored and scored; the pixels to judge by are in two parts."""

    def __init__(self, settings: dict[str, Any], context: Context) -> None:
        task = PictureTask(settings["picture"], settings["observed"], settings["noise"])
        side = settings["side"]
        whole = hide_pixels(task, context.data, settings["seed"])
        self.picture = HiddenPicture(*(array[:side, :side] for array in whole))
        self.canvas = Canvas.of(self.picture.seen, self.picture.missing)
        self.settings = settings
        chooses = np.random.default_rng(settings["seed"] + 1).random(whole.truth.shape) < VALIDATION_SHARE
        self.chooses: Array = chooses[:side, :side]

    @property
    def rows(self) -> PatchRows:
        """All patches, as training sees them."""
        return PatchRows(self.canvas.values, self.canvas.observed, (PATCH, PATCH))

    def restored(
        self, posterior: Posterior, chosen: Algorithm, n_draws: int, seed: int | None = None
    ) -> Array:
        """Restore the picture by draws from a posterior, with the seed of the cell or another one."""
        return restored_picture(
            self.canvas,
            posterior,
            chosen,
            patch_size=PATCH,
            stride=self.settings["stride"],
            n_draws=n_draws,
            stream=Stream.from_seed(self.settings["seed"] if seed is None else seed).child("restoration"),
            noise_factor=EQUAL_WEIGHTS,
        )

    def validation(self, restored: Array) -> float:
        """Return the PSNR by which the step is chosen: over missing pixels, or over all if there is noise."""
        judged = self.chooses & (self.picture.missing | (self.settings["noise"] > 0))
        return rounded(clipped_psnr(self.picture.truth, restored, judged))

    def scores(self, restored: Array) -> dict[str, float]:
        """Return the PSNR over all, missing and observed pixels, without those that choose the step."""
        truth, _, missing = self.picture
        kinds = {
            "all": ~self.chooses,
            "missing": missing & ~self.chooses,
            "observed": ~missing & ~self.chooses,
        }
        return {kind: rounded(clipped_psnr(truth, restored, where)) for kind, where in kinds.items()}


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Run a cell of a picture: one that is judged at a ladder of steps, or one of `paper.pictures`."""
    return judge(settings, context) if "ladder" in settings else pictures.run(settings, context)


def judge(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Train a method on a picture from a Gibbs start, and read off its best and its end."""
    judged = JudgedPicture(settings, context)
    lengths = dict(zip(CHAINS, settings["chains"], strict=True))
    short = with_length(settings["method"], lengths["short"], context.device)
    training = train(
        judged.rows, settings["features"], algorithm=settings["method"], batch_size=BATCH, n_steps=None,
        seed=settings["seed"], init="gibbs", device=context.device, **thread_option(context.device),
    )  # fmt: skip
    ladder, posteriors = [], {}
    for rung in climb(training, settings["ladder"]):
        trial = judged.restored(rung.posterior, short, settings["trial_draws"])
        noise_std = rung.posterior.noise_std * float(judged.canvas.scale[0])
        ladder.append(
            {
                "step": rung.step,
                "seconds": rounded(rung.seconds),
                "noise_std": rounded(noise_std),
                "active": rung.posterior.n_active(),
                "validation": judged.validation(trial),
            }
        )
        posteriors[rung.step] = rung.posterior
    chosen = {"best": max(ladder, key=lambda rung: rung["validation"]), "end": ladder[-1]}

    @cache
    def scores(step: int, sweeps: int) -> dict[str, float]:
        chosen = with_length(settings["method"], sweeps, context.device)
        return judged.scores(judged.restored(posteriors[step], chosen, settings["draws"]))

    readings = {
        reading: {
            chains: {"step": rung["step"], "noise_std": rung["noise_std"], **scores(rung["step"], sweeps)}
            for chains, sweeps in lengths.items()
        }
        for reading, rung in chosen.items()
    }
    over = "all" if settings["noise"] else "missing"
    study = {
        reading: {str(sweeps): scores(rung["step"], sweeps)[over] for sweeps in settings.get("study", ())}
        for reading, rung in chosen.items()
    }
    return {"readings": readings, "ladder": ladder, **({"study": study} if "study" in settings else {})}
