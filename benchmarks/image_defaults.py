"""What should restoration use where the user does not say? PSNR and time for one change at a time.

`python -m benchmarks.image_defaults` prints a table, in an hour on two cores; the defaults of
`bpfa.images.defaults` come from here. Every line changes one thing of the first, which has the defaults. The
pictures are cut, and other pixels are missing than in benchmarks.images: what is chosen here is tested there.
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

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import readme
from benchmarks.images import DATA, Task, hidden, observed_psnr
from bpfa import BPFA, Priors, algorithm
from bpfa.images import PatchRows, defaults
from bpfa.images.canvas import Canvas
from bpfa.images.restore import NOISE_SHARE, STRIP_PATCHES, PatchDraws, restore

RESULTS = Path(__file__).parent / "results" / "image_defaults.json"
# A square of this side, so that the grid ends in time.
SIDE = 256
TASKS = {
    "peppers 20 %": Task("peppers", 0.2, 0.0),
    "barbara 20 %": Task("barbara", 0.2, 0.0),
    "house 50 % + 15": Task("house", 0.5, 15.0),
    "barbara 50 % + 15": Task("barbara", 0.5, 15.0),
}


@dataclass(frozen=True)
class Choice:
    """What is changed: parameters of `BPFA`, and how patches are cut, predicted and averaged."""

    model: dict = field(default_factory=dict)
    patch_size: int | None = None
    stride: int | None = None
    n_draws: int = defaults.N_DRAWS
    burn_in: int = defaults.BURN_IN
    noise_share: float = NOISE_SHARE
    shrunk_pi: float = 0.0
    """b of the prior of pi as a share of the number of patches; 0 for the default."""


# What differs in the restoration alone comes first: it shares the fit of the defaults.
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
    "nothing hidden from chains": Choice(model={"dropout": 0.0}),
    "nothing hidden, 1000 steps": Choice(model={"dropout": 0.0, "max_steps": 1000}),
    "a tenth hidden": Choice(model={"dropout": 0.1}),
    "a fifth hidden": Choice(model={"dropout": 0.2}),
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="data folder")
    parser.add_argument("--choices", nargs="+", choices=CHOICES, default=list(CHOICES))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fresh", action="store_true", help="leave earlier results aside")
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
            RESULTS.parent.mkdir(parents=True, exist_ok=True)
            RESULTS.write_text(json.dumps({"seed": arguments.seed, "rows": found}, indent=1) + "\n")
    table = Table(title="PSNR in dB (missing pixels; all pixels where there is noise), and seconds")
    for heading in ("", *arguments.tasks):
        table.add_column(heading, justify="right" if heading else "left")
    for line in lines(found):
        table.add_row(*line)
    console.print(table)


def earlier(arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """What a run that was stopped has found, so that the next one goes on; all of it with --fresh."""
    found: dict[str, dict[str, Any]] = {name: {} for name in arguments.choices}
    if RESULTS.exists() and not arguments.fresh:
        results = json.loads(RESULTS.read_text())
        if results["seed"] == arguments.seed:
            found |= results["rows"]
    return found


def scorer(task: Task, data: Path, seed: int) -> Callable[[Choice], dict[str, float]]:
    """Return what scores a choice on a task; the last fit is kept, for choices that share it."""
    truth, seen, missing = (array[:SIDE, -SIDE:] for array in hidden(task, data, seed))
    canvas = Canvas.of(seen, missing)
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
        chosen = algorithm("gibbs-ssvi", burn_in=choice.burn_in, n_jobs=1)
        stream = model.settings_.stream.child("restoration")
        draws = PatchDraws(model.posterior_, chosen, n_draws=choice.n_draws, stream=stream)
        draws.noise *= choice.noise_share / NOISE_SHARE
        rows = PatchRows(canvas.values, canvas.observed, (size, size), stride)
        restored = canvas.image(restore(rows, draws, rows.strips(STRIP_PATCHES), os.cpu_count() or 1).mean)
        where = np.ones_like(missing) if task.noise else missing
        seconds += time.perf_counter() - began
        return {"psnr": observed_psnr(truth, restored, where), "seconds": seconds}

    return score


def model_settings(choice: Choice, rows: PatchRows, task: Task) -> dict[str, Any]:
    """The parameters of `BPFA`."""
    settings = {
        "n_components": defaults.N_COMPONENTS,
        "batch_size": defaults.BATCH_SIZE,
        "max_steps": defaults.default_steps(task.observed),
        "step_delay": defaults.STEP_DELAY,
        "step_decay": defaults.STEP_DECAY,
        "features": defaults.FEATURES,
        "init": defaults.default_init(rows.n_columns, noisy=task.noise > 0),
        "dropout": defaults.default_dropout(task.observed),
    } | choice.model
    if choice.shrunk_pi:
        settings["priors"] = Priors(a=settings["priors"].a, b=choice.shrunk_pi * rows.n_rows)
    return settings


def cell(result: dict[str, float]) -> str:
    return f"{result['psnr']:.2f} ({result['seconds']:.0f} s)"


def lines(found: dict[str, dict[str, Any]]) -> list[list[str]]:
    """The rows of the table, for the screen and for the page."""
    tasks = next(iter(found.values()))
    return [
        [name, *(cell(row[task]) if task in row else "" for task in tasks)] for name, row in found.items()
    ]


def markdown(results: dict) -> str:
    """The table of the page."""
    found = results["rows"]
    return readme.table(["", *next(iter(found.values()))], lines(found))


if __name__ == "__main__":
    main()
