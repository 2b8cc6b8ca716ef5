"""How the defaults of restoration were chosen: PSNR and time, with one setting changed at a time.

`python -m benchmarks.image_defaults` prints a table, in an hour on two cores; the defaults of
`bpfa.images.defaults` come from here. The first line of the table has the defaults, and every other line
differs from it in one setting. The pictures are cut, and the missing pixels differ from those of
benchmarks.images, so that what is chosen here is tested there.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.command import parser_with_data, screen_table
from benchmarks.pages import SECTIONS
from bpfa import BPFA, Priors, algorithm
from bpfa.images import PatchRows, defaults
from bpfa.images.canvas import Canvas
from bpfa.images.restore import NOISE_SHARE
from experiments.cells import write_results
from experiments.markdown import table
from experiments.pictures import (
    HiddenPicture,
    PictureTask,
    clipped_psnr,
    hide_pixels,
    pixels_to_score,
    restored_picture,
)

RESULTS = SECTIONS["image_defaults"].results
# Pictures are cut to a square of this side, to save time.
SIDE = 256
TASKS = {
    "peppers 20 %": PictureTask("peppers", 0.2, 0.0),
    "barbara 20 %": PictureTask("barbara", 0.2, 0.0),
    "house 50 % + 15": PictureTask("house", 0.5, 15.0),
    "barbara 50 % + 15": PictureTask("barbara", 0.5, 15.0),
}


@dataclass(frozen=True)
class Choice:
    """Changes to the defaults: parameters of `BPFA`, and how patches are cut, predicted and averaged."""

    model: dict = field(default_factory=dict)
    patch_size: int | None = None
    stride: int | None = None
    n_draws: int = defaults.N_DRAWS
    burn_in: int = defaults.BURN_IN
    noise_share: float = NOISE_SHARE
    shrunk_pi: float = 0.0
    """The parameter b of the prior of pi as a share of the number of patches; 0 for the default."""


# Choices that differ only in the restoration come first, as they share the fit of the defaults.
CHOICES = {
    "defaults": Choice(),
    "patches averaged with equal weights": Choice(noise_share=1e6),
    "weights with a tenth of the noise": Choice(noise_share=0.1),
    "every patch restored": Choice(stride=1),
    "4 draws": Choice(n_draws=4),
    "16 draws": Choice(n_draws=16),
    "5 sweeps before a draw": Choice(burn_in=5),
    "30 sweeps before a draw": Choice(burn_in=30),
    "500 steps": Choice(model={"max_steps": 500}),
    "1000 steps": Choice(model={"max_steps": 1000}),
    "250 steps": Choice(model={"max_steps": 250}),
    "2000 steps": Choice(model={"max_steps": 2000}),
    "no dropout": Choice(model={"dropout": 0.0}),
    "no dropout, 1000 steps": Choice(model={"dropout": 0.0, "max_steps": 1000}),
    "dropout of a tenth": Choice(model={"dropout": 0.1}),
    "dropout of a fifth": Choice(model={"dropout": 0.2}),
    "patches of 8 x 8": Choice(patch_size=8),
    "patches of 12 x 12": Choice(patch_size=12),
    "patches of 16 x 16": Choice(patch_size=16),
    "start at random": Choice(model={"init": "random"}),
    "start from patches": Choice(model={"init": "data"}),
    "start from what patches have in common": Choice(model={"init": "common"}),
    "all weights for g_w": Choice(model={"weight_precision": "all"}),
    "step sizes (t + 5)^-0.5": Choice(model={"step_delay": 5.0, "step_decay": 0.5}),
    "batches of 1024": Choice(model={"batch_size": 1024}),
    "128 features": Choice(model={"n_components": 128}),
    "a = 1, b = N/4": Choice(model={"priors": Priors(a=1.0)}, shrunk_pi=0.25),
    "joint features": Choice(model={"features": "joint"}),
}


def main() -> None:
    parser = parser_with_data(__doc__)
    parser.add_argument("--choices", nargs="+", choices=CHOICES, default=list(CHOICES))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fresh", action="store_true", help="do not reuse earlier results")
    arguments = parser.parse_args()
    console = Console(width=150)
    found = earlier(arguments)
    for title in arguments.tasks:
        score = scorer(TASKS[title], arguments.data, arguments.seed)
        for name in arguments.choices:
            if title in found[name]:
                continue
            found[name][title] = score(CHOICES[name])
            console.print(f"{title}, {name}: {cell(found[name][title])}", highlight=False)
            write_results(RESULTS, {"seed": arguments.seed, "rows": found})
    title = "PSNR in dB (over missing pixels, or over all where there is noise), and seconds"
    shown = screen_table(title, ("", *arguments.tasks))
    for line in lines(found):
        shown.add_row(*line)
    console.print(shown)


def earlier(arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the results of an earlier run, which is then resumed; with --fresh there are none."""
    found: dict[str, dict[str, Any]] = {name: {} for name in arguments.choices}
    if RESULTS.exists() and not arguments.fresh:
        results = json.loads(RESULTS.read_text())
        if results["seed"] == arguments.seed:
            found |= results["rows"]
    return found


def scorer(task: PictureTask, data: Path, seed: int) -> Callable[[Choice], dict[str, float]]:
    """Return a function that scores a choice on a task; it keeps the last fit, for choices that share it."""
    picture = HiddenPicture(*(array[:SIDE, -SIDE:] for array in hide_pixels(task, data, seed)))
    canvas = Canvas.of(picture.seen, picture.missing)
    fits: dict[tuple[str, int], tuple[BPFA, float]] = {}

    def fitted(choice: Choice, size: int) -> tuple[BPFA, float]:
        rows = PatchRows(canvas.values, canvas.observed, (size, size))
        settings = model_settings(choice, rows, task)
        key = (repr(settings), size)
        if key not in fits:
            fits.clear()
            began = time.perf_counter()
            model = BPFA(standardize=False, noise="shared", random_state=seed, **settings).fit(rows)
            fits[key] = model, time.perf_counter() - began
        return fits[key]

    def score(choice: Choice) -> dict[str, float]:
        size = choice.patch_size or defaults.default_patch_size(SIDE, SIDE, 1, task.observed)
        stride = choice.stride or defaults.default_stride((size, size))
        model, seconds = fitted(choice, size)
        began = time.perf_counter()
        restored = restored_picture(
            canvas,
            model.posterior_,
            algorithm("gibbs-ssvi", burn_in=choice.burn_in, n_jobs=1),
            patch_size=size,
            stride=stride,
            n_draws=choice.n_draws,
            stream=model.settings_.stream.child("restoration"),
            noise_factor=choice.noise_share / NOISE_SHARE,
            n_threads=os.cpu_count() or 1,
        )
        seconds += time.perf_counter() - began
        scored = pixels_to_score(picture.missing, noisy=task.noise > 0)
        return {"psnr": clipped_psnr(picture.truth, restored, scored), "seconds": seconds}

    return score


def model_settings(choice: Choice, rows: PatchRows, task: PictureTask) -> dict[str, Any]:
    """Return the parameters of `BPFA` for a choice."""
    settings = {
        "n_components": defaults.N_COMPONENTS,
        "batch_size": defaults.BATCH_SIZE,
        "max_steps": defaults.default_steps(task.observed),
        "step_delay": defaults.STEP_DELAY,
        "step_decay": defaults.STEP_DECAY,
        "features": defaults.FEATURES,
        "init": defaults.default_init(rows.n_columns, task.observed, noisy=task.noise > 0),
        "dropout": defaults.default_dropout(task.observed),
    } | choice.model
    if choice.shrunk_pi:
        settings["priors"] = Priors(a=settings["priors"].a, b=choice.shrunk_pi * rows.n_rows)
    return settings


def cell(result: dict[str, float]) -> str:
    return f"{result['psnr']:.2f} ({result['seconds']:.0f} s)"


def lines(found: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Return the rows of the table, for the screen and for the page."""
    tasks = next(iter(found.values()))
    return [
        [name, *(cell(row[task]) if task in row else "" for task in tasks)] for name, row in found.items()
    ]


def markdown(results: dict) -> str:
    """Return the table of the page."""
    found = results["rows"]
    return table(["", *next(iter(found.values()))], lines(found))


if __name__ == "__main__":
    main()
