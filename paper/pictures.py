"""Pictures with missing pixels, restored by one method: what interpolation and denoising have in common."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from imageio.v3 import imwrite

from bpfa import Progress, Schedule, algorithm, denoise, inpaint, train
from bpfa._support.philox import Stream
from bpfa.images import PatchRows
from bpfa.images.canvas import Canvas
from bpfa.inference.starts import random_posterior
from bpfa.model.posterior import Posterior
from experiments import Array
from experiments.cells import Cell, Context
from experiments.measure import follow, rounded
from experiments.pictures import (
    HiddenPicture,
    PictureTask,
    clipped_psnr,
    hide_pixels,
    interpolated,
    pixels_to_score,
    psnrs,
    restored_picture,
)
from paper.experiment import Options
from paper.methods import METHODS

PICTURES = ("boat", "barbara", "lena", "house", "peppers")
PATCH, BATCH = 8, 250
STARTS = {"half on": (1.0, 0.5), "half on, little noise": (0.1, 0.5)}
"""Other random starts: the share of the variance that is taken for noise, and of the features that are on."""
SLOW = (1000.0, 0.5)
"""The delay and decay of the step sizes of Li et al. (2012)."""
# With this factor for the noise, all overlapping patches have the same weight in their average, as in the
# paper.
EQUAL_WEIGHTS = 1e6
SIZES: dict[str, dict[str, Any]] = {
    "full": {"features": 250, "steps": 3000, "stride": 2, "draws": 8, "side": 512},
    "quick": {"features": 250, "steps": 300, "stride": 4, "draws": 4, "side": 128},
    "tiny": {"features": 8, "steps": 4, "stride": 8, "draws": 2, "side": 24},
}
# The page shows a square of this side from each picture; its corner is at these shares of height and width.
SHOWN_PIXELS = 112
SHOWN = {"boat": (0.28, 0.5), "barbara": (0.06, 0.64)}
# The restorations from which the points of a curve are measured.
CURVE_STRIDE, CURVE_DRAWS, CURVE_POINTS = 4, 4, 9


def cell(options: Options, task: PictureTask, method: str, init: str = "gibbs", **more: Any) -> Cell:
    """Return the cell of a method on a picture; `curve`, `show`, `schedule` and `blocked` can be given."""
    size = SIZES[options.scale]
    by_model = method in METHODS
    side = min(size["side"], 512 if task.picture in ("boat", "barbara", "lena") else 256)
    settings: dict[str, Any] = {**task._asdict(), "method": method, "side": side, "seed": 0}
    expected = 4.0
    if by_model:
        settings |= {
            "init": init,
            **{name: size[name] for name in ("features", "steps", "stride", "draws")},
            **more,
        }
        pixels = (side / size["stride"] / 256) ** 2 * size["draws"] / 8
        slow = "half on" in init or method not in ("gibbs-ssvi", "mimno-svi")
        expected = size["steps"] * (0.007 if slow else 0.0025) + (15 if slow else 3) * pixels
        expected += 15 * (side / 512) ** 2 * bool(more.get("curve"))
    elif method == "defaults":
        # As much time as the slower ones of the paper's methods take.
        settings["seconds"] = size["steps"] * 0.006
        expected = settings["seconds"] + 25 * (side / 512) ** 2
    details = [
        init,
        *(["slow steps"] if "schedule" in more else []),
        *(["two-step"] if "blocked" in more else []),
    ]
    detail = "/".join(details) if by_model else ""
    return Cell("/".join(filter(None, (task.picture, method, detail))), settings, expected, needs=task.file)


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Restore the picture of a cell and score it."""
    task = PictureTask(settings["picture"], settings["observed"], settings["noise"])
    side = settings["side"]
    whole = hide_pixels(task, context.data, settings["seed"])
    picture = HiddenPicture(*(array[:side, :side] for array in whole))
    truth, seen, missing = picture
    if settings["method"] in METHODS:
        restored, result = restored_by_method(settings, picture)
    elif settings["method"] == "defaults":
        restored, result = restored_by_defaults(settings, picture)
    else:
        restored, result = interpolated(seen, missing, "cubic"), {}
    if settings.get("show"):
        name = f"{task.picture}-{settings['method']}"
        show(context, task, {f"{task.picture}-truth": truth, f"{task.picture}-seen": seen, name: restored})
    found = {
        kind: None if value is None else rounded(value)
        for kind, value in psnrs(truth, restored, missing).items()
    }
    return {**found, "sharpness": sharpness(truth, restored), **result}


def restored_by_method(settings: dict[str, Any], picture: HiddenPicture) -> tuple[Array, dict[str, Any]]:
    """Restore a picture by a method of the paper, in the form that the paper gives it."""
    method, init, seed, K = (settings[name] for name in ("method", "init", "seed", "features"))
    canvas = Canvas.of(picture.seen, picture.missing)
    rows = PatchRows(canvas.values, canvas.observed, (PATCH, PATCH))
    start: dict[str, Any] = {"init": init}
    if init in STARTS:
        noise_share, on = STARTS[init]
        start = {
            "posterior": random_posterior(
                rows, K, seed=seed, noise_share=noise_share, features_per_row=on * K
            )
        }
    form = {"blocked": settings["blocked"]} if "blocked" in settings else {}
    chosen = algorithm(method, n_jobs=1, **form)
    training = train(
        rows, K, algorithm=method, batch_size=BATCH, n_steps=None, seed=seed, n_jobs=1,
        schedule=Schedule(*settings.get("schedule", ())), **form, **start,
    )  # fmt: skip

    def restored(posterior: Posterior, stride: int, n_draws: int) -> Array:
        return restored_picture(
            canvas,
            posterior,
            chosen,
            patch_size=PATCH,
            stride=stride,
            n_draws=n_draws,
            stream=Stream.from_seed(seed).child("restoration"),
            noise_factor=EQUAL_WEIGHTS,
        )

    def measure(progress: Progress) -> float:
        image = restored(progress.posterior, CURVE_STRIDE, CURVE_DRAWS)
        scored = pixels_to_score(picture.missing, noisy=settings["noise"] > 0)
        return clipped_psnr(picture.truth, image, scored)

    followed = follow(
        training, measure if settings.get("curve") else None, n_steps=settings["steps"], n_points=CURVE_POINTS
    )
    posterior = followed.last.posterior
    side_by_side = restored(posterior, PATCH, settings["draws"])
    result = {
        **followed.timing(),
        "noise_std": rounded(posterior.noise_std * float(canvas.scale[0])),
        "missing_without_overlap": rounded(clipped_psnr(picture.truth, side_by_side, picture.missing)),
        **({"curve": followed.curve} if settings.get("curve") else {}),
    }
    return restored(posterior, settings["stride"], settings["draws"]), result


def restored_by_defaults(settings: dict[str, Any], picture: HiddenPicture) -> tuple[Array, dict[str, Any]]:
    """Restore a picture by `inpaint` or `denoise`, with as much time for training as the paper's methods."""
    function = denoise if settings["noise"] else inpaint
    began = time.perf_counter()
    answer = function(
        picture.seen,
        picture.missing,
        max_time=settings["seconds"],
        random_state=settings["seed"],
        n_jobs=1,
    )
    result = {
        "steps": answer.model.n_steps_,
        "training_seconds": rounded(answer.history["seconds"][-1]),
        "whole_seconds": rounded(time.perf_counter() - began),
        "noise_std": rounded(answer.noise_std),
    }
    return answer.image, result


def sharpness(truth: Array, restored: Array) -> float:
    """Return the mean difference of neighbouring pixels relative to the original; below 1 it is blurred."""

    def steepness(image: Array) -> float:
        return float(np.mean([np.abs(np.diff(image, axis=axis)).mean() for axis in (0, 1)]))

    return rounded(steepness(restored) / steepness(truth), 4)


def show(context: Context, task: PictureTask, pictures: dict[str, Array]) -> None:
    """Write a small part of some pictures to the folder of figures, for the page."""
    folder = context.output / "figures" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures.items():
        top, left = (
            int(share * side) for share, side in zip(SHOWN[task.picture], picture.shape, strict=True)
        )
        part = np.nan_to_num(picture[top : top + SHOWN_PIXELS, left : left + SHOWN_PIXELS])
        whole = np.clip(np.rint(part), 0, 255).astype(np.uint8)
        imwrite(folder / f"{name}.jpg", whole, quality=88)
