"""Pictures with missing pixels, restored by one method: what interpolation and denoising share."""

from __future__ import annotations

import time
from math import isfinite
from typing import Any

import numpy as np
from benchmarks.images import Task, hidden, interpolated, observed_psnr
from imageio.v3 import imwrite

from bpfa import Progress, Schedule, algorithm, denoise, inpaint, train
from bpfa._support.philox import Stream
from bpfa.images import PatchRows
from bpfa.images.canvas import Canvas
from bpfa.images.restore import STRIP_PATCHES, PatchDraws, restore
from bpfa.inference.progress import Posterior
from bpfa.inference.starts import random_posterior
from paper.cells import Cell, Context, DataFile
from paper.experiment import Options
from paper.measure import Array, follow, rounded
from paper.methods import METHODS

PICTURES = ("boat", "barbara", "lena", "house", "peppers")
PATCH, BATCH = 8, 250
STARTS = {"half on": (1.0, 0.5), "half on, little noise": (0.1, 0.5)}
"""Random starts beside ours: share of the variance that is called noise, share of the features that is on."""
SLOW = (1000.0, 0.5)
"""Delay and decay of the step sizes of Li et al. (2012)."""
# Weight of the noise in the average of patches that makes all of them count the same, as in the paper.
EQUAL_WEIGHTS = 1e6
SIZES: dict[str, dict[str, Any]] = {
    "full": {"features": 250, "steps": 3000, "stride": 2, "draws": 8, "side": 512},
    "quick": {"features": 250, "steps": 300, "stride": 4, "draws": 4, "side": 256},
    "tiny": {"features": 8, "steps": 4, "stride": 8, "draws": 2, "side": 24},
}
# A picture of the page shows so many pixels of the restored one, beginning at this share of its sides.
SHOWN_PIXELS = 112
SHOWN = {"boat": (0.28, 0.5), "barbara": (0.06, 0.64)}
# Restorations behind a point of a curve.
CURVE_STRIDE, CURVE_DRAWS, CURVE_POINTS = 4, 4, 9


def cell(options: Options, task: Task, method: str, init: str = "gibbs", **more: Any) -> Cell:
    """A method on a picture; `curve`, `show`, `schedule` and `blocked` may be given."""
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
        # As long as the slower of the paper's methods take.
        settings["seconds"] = size["steps"] * 0.006
        expected = settings["seconds"] + 25 * (side / 512) ** 2
    needs = DataFile(f"images/{task.picture}.png", "a standard picture, from the BM3D authors' image set")
    details = [
        init,
        *(["slow steps"] if "schedule" in more else []),
        *(["two-step"] if "blocked" in more else []),
    ]
    detail = "/".join(details) if by_model else ""
    return Cell("/".join(filter(None, (task.picture, method, detail))), settings, expected, needs=needs)


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Restore the picture of a cell."""
    task = Task(settings["picture"], settings["observed"], settings["noise"])
    truth, seen, missing = hidden(task, context.data, settings["seed"])
    side = settings["side"]
    truth, seen, missing = (array[:side, :side] for array in (truth, seen, missing))
    if settings["method"] in METHODS:
        restored, result = by_paper(settings, truth, seen, missing)
    elif settings["method"] == "defaults":
        restored, result = by_defaults(settings, seen, missing)
    else:
        restored, result = interpolated(seen, missing, "cubic"), {}
    if settings.get("show"):
        name = f"{task.picture}-{settings['method']}"
        show(context, task, {f"{task.picture}-truth": truth, f"{task.picture}-seen": seen, name: restored})
    return {**psnrs(truth, restored, missing), "sharpness": sharpness(truth, restored), **result}


def by_paper(
    settings: dict[str, Any], truth: Array, seen: Array, missing: Array
) -> tuple[Array, dict[str, Any]]:
    """A method of the paper, in the paper's form."""
    method, init, seed, K = (settings[name] for name in ("method", "init", "seed", "features"))
    canvas = Canvas.of(seen, missing)
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

    def picture(posterior: Posterior, stride: int, n_draws: int) -> Array:
        few = PatchRows(canvas.values, canvas.observed, (PATCH, PATCH), stride)
        stream = Stream.from_seed(seed).child("restoration")
        draws = PatchDraws(posterior, chosen, n_draws=n_draws, stream=stream)
        draws.noise *= EQUAL_WEIGHTS
        return canvas.image(restore(few, draws, few.strips(STRIP_PATCHES)).mean)

    def measure(progress: Progress) -> float:
        restored = picture(progress.posterior, CURVE_STRIDE, CURVE_DRAWS)
        return observed_psnr(truth, restored, np.ones_like(missing) if settings["noise"] else missing)

    followed = follow(
        training, measure if settings.get("curve") else None, n_steps=settings["steps"], n_points=CURVE_POINTS
    )
    posterior = followed.last.posterior
    restored = picture(posterior, settings["stride"], settings["draws"])
    apart = picture(posterior, PATCH, settings["draws"])
    result = {
        **followed.timing(),
        "noise_std": rounded(posterior.noise_std * float(canvas.scale[0])),
        "missing_without_overlap": rounded(observed_psnr(truth, apart, missing)),
        **({"curve": followed.curve} if settings.get("curve") else {}),
    }
    return restored, result


def by_defaults(settings: dict[str, Any], seen: Array, missing: Array) -> tuple[Array, dict[str, Any]]:
    """`inpaint` or `denoise` as they come, with as much time for training as the paper's methods have."""
    restored = denoise if settings["noise"] else inpaint
    began = time.perf_counter()
    answer = restored(seen, missing, max_time=settings["seconds"], random_state=settings["seed"], n_jobs=1)
    result = {
        "steps": answer.model.n_steps_,
        "training_seconds": rounded(answer.history["seconds"][-1]),
        "whole_seconds": rounded(time.perf_counter() - began),
        "noise_std": rounded(answer.noise_std),
    }
    return answer.image, result


def psnrs(truth: Array, restored: Array, missing: Array) -> dict[str, float | None]:
    """PSNR over all, missing and observed pixels; None where the picture is exact."""
    over = {"all": np.ones_like(missing), "missing": missing, "observed": ~missing}
    found = {name: observed_psnr(truth, restored, where) for name, where in over.items()}
    return {name: rounded(value) if isfinite(value) else None for name, value in found.items()}


def sharpness(truth: Array, restored: Array) -> float:
    """Mean difference of neighbouring pixels, as a share of that in the picture; less than 1 is blurred."""

    def steepness(image: Array) -> float:
        return float(np.mean([np.abs(np.diff(image, axis=axis)).mean() for axis in (0, 1)]))

    return rounded(steepness(restored) / steepness(truth), 4)


def show(context: Context, task: Task, pictures: dict[str, Array]) -> None:
    """Keep a small part of some pictures for the page."""
    folder = context.output / "figures" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures.items():
        top, left = (
            int(share * side) for share, side in zip(SHOWN[task.picture], picture.shape, strict=True)
        )
        part = np.nan_to_num(picture[top : top + SHOWN_PIXELS, left : left + SHOWN_PIXELS])
        whole = np.clip(np.rint(part), 0, 255).astype(np.uint8)
        imwrite(folder / f"{name}.jpg", whole, quality=88)
