"""What should restoration use where the user does not say? PSNR and time for one change at a time.

`python -m benchmarks.image_defaults` prints a table, in an hour or two on two cores; the defaults of
`bpfa.images.defaults` come from here. Every line changes one thing of the first, which has the defaults.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.images import DATA, Task, hidden, observed_psnr
from bpfa import BPFA, Priors, algorithm
from bpfa.images import PatchRows, defaults
from bpfa.images.canvas import Canvas
from bpfa.images.restore import NOISE_SHARE, STRIP_PATCHES, PatchDraws, restore

# A square of this side, so that the grid ends in time.
SIDE = 256
TASKS = {
    "house 20 %": Task("house", 0.2, 0.0),
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


CHOICES = {
    "defaults": Choice(),
    "patches averaged with equal weights": Choice(noise_share=1e6),
    "weights with all of the noise": Choice(noise_share=1.0),
    "weights with a tenth of the noise": Choice(noise_share=0.1),
    "start at random": Choice(model={"init": "random"}),
    "joint features": Choice(model={"features": "joint"}),
    "all weights for g_w": Choice(model={"weights": "all"}),
    "step sizes t^-0.75": Choice(model={"step_delay": 0.0, "step_decay": 0.75}),
    "250 steps": Choice(model={"max_steps": 250}),
    "2000 steps": Choice(model={"max_steps": 2000}),
    "batches of 1024": Choice(model={"batch_size": 1024}),
    "batches of 16384": Choice(model={"batch_size": 16384}),
    "128 features": Choice(model={"n_components": 128}),
    "512 features": Choice(model={"n_components": 512}),
    "a = 1, b = N/4": Choice(model={"priors": Priors(a=1.0)}, shrunk_pi=0.25),
    "patches of 8 x 8": Choice(patch_size=8),
    "patches of 12 x 12": Choice(patch_size=12),
    "patches of 16 x 16": Choice(patch_size=16),
    "every patch restored": Choice(stride=1),
    "every fourth patch along an axis restored": Choice(stride=4),
    "2 + 1 sweeps in training": Choice(model={"burn_in": 2, "n_samples": 1}),
    "10 + 3 sweeps in training": Choice(model={"burn_in": 10, "n_samples": 3}),
    "4 draws": Choice(n_draws=4),
    "16 draws": Choice(n_draws=16),
    "5 sweeps before a draw": Choice(burn_in=5),
    "30 sweeps before a draw": Choice(burn_in=30),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="data folder")
    parser.add_argument("--choices", nargs="+", choices=CHOICES, default=list(CHOICES))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    console = Console(width=150)
    table = Table(title="PSNR in dB (missing pixels; all pixels where there is noise), and seconds")
    for heading in ("", *arguments.tasks):
        table.add_column(heading, justify="right" if heading else "left")
    for name in arguments.choices:
        cells = [score(TASKS[task], CHOICES[name], arguments) for task in arguments.tasks]
        console.print(name, *cells, highlight=False)
        table.add_row(name, *cells)
    console.print(table)


def score(task: Task, choice: Choice, arguments: argparse.Namespace) -> str:
    truth, seen, missing = hidden(task, arguments.data, arguments.seed)
    truth, seen, missing = (array[:SIDE, -SIDE:] for array in (truth, seen, missing))
    began = time.perf_counter()
    canvas = Canvas.of(seen, missing)
    size = choice.patch_size or defaults.default_patch_size(SIDE, SIDE, 1, task.observed)
    stride = choice.stride or defaults.default_stride((size, size))
    rows = PatchRows(canvas.values, canvas.observed, (size, size))
    settings = {
        "n_components": defaults.N_COMPONENTS,
        "batch_size": defaults.BATCH_SIZE,
        "max_steps": defaults.N_STEPS,
        "step_delay": defaults.STEP_DELAY,
        "step_decay": defaults.STEP_DECAY,
        "features": defaults.FEATURES,
        "init": defaults.INIT,
    } | choice.model
    if choice.shrunk_pi:
        settings["priors"] = Priors(a=settings["priors"].a, b=choice.shrunk_pi * rows.n_rows)
    model = BPFA(standardize=False, random_state=arguments.seed, **settings).fit(rows)
    chosen = algorithm("gibbs-ssvi", burn_in=choice.burn_in, n_jobs=1)
    stream = model.settings_.stream.child("restoration")
    draws = PatchDraws(model.posterior_, chosen, n_draws=choice.n_draws, stream=stream)
    draws.noise *= choice.noise_share / NOISE_SHARE
    rows = PatchRows(canvas.values, canvas.observed, (size, size), stride)
    restored = canvas.image(restore(rows, draws, rows.strips(STRIP_PATCHES), os.cpu_count() or 1).mean)
    seconds = time.perf_counter() - began
    where = np.ones_like(missing) if task.noise else missing
    return f"{observed_psnr(truth, restored, where):.2f} {seconds:.0f} s"


if __name__ == "__main__":
    main()
