"""What it costs to hold out a few entries: `python -m benchmarks.held_out [--data ../shared/data]`.

A table is fitted twice for each of several seeds: with `held_out=0`, and with the default. Hidden entries
that neither fit sees show by how much the second one predicts worse, and whether the figures that a model
gives about the data of its fit agree with how well it really predicts. They are entries of the real tables
that were missing in the fit, and for the complete table entries of other rows.
"""

from __future__ import annotations

import json
import time
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from benchmarks.command import parser_with_data, screen_table
from benchmarks.pages import SECTIONS
from bpfa import BPFA, draw_data
from experiments.cells import write_results
from experiments.markdown import table
from experiments.tables import SOURCES, cut, load

RESULTS = SECTIONS["held_out"].results
MASK_SEED = 200
# Rows and columns of the matrices that are used: a long table, and a wide one.
SHAPES = {"cytometry": (10_000, None), "expression": (600, 200)}
COMPLETE = "drawn, complete"
SEEDS = range(3)
HEADINGS = (
    "held_out",
    "entries",
    "MSE",
    "CPU seconds",
    "said R2",
    "true R2",
    "said coverage",
    "true coverage",
)


class Task(NamedTuple):
    """A table, and entries that its fit does not see."""

    train: Any
    whole: Any
    hidden: Any


def main() -> None:
    parser = parser_with_data(__doc__)
    parser.add_argument("--datasets", nargs="+", choices=(*SHAPES, COMPLETE), default=[*SHAPES, COMPLETE])
    arguments = parser.parse_args()
    console = Console()
    stored = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    results = [result for result in stored if result["dataset"] not in arguments.datasets]
    for name in arguments.datasets:
        if name != COMPLETE and (line := SOURCES[name].file.missing_from(arguments.data)):
            console.print(line)
            continue
        task = complete_task() if name == COMPLETE else real_task(name, arguments.data)
        shown = screen_table(f"{name}: {task.train.shape[0]:,} x {task.train.shape[1]}", HEADINGS)
        runs: dict[Any, list[dict[str, float]]] = {0.0: [], "auto": []}
        for seed in SEEDS:
            for held_out, measured in runs.items():
                measured.append(measure(task, held_out, seed))
        for held_out, measured in runs.items():
            result = {key: [run[key] for run in measured] for key in measured[0]}
            results.append({"dataset": name, "held_out": held_out, **result})
            shown.add_row(*cells(results[-1]))
        write_results(RESULTS, {"rows": results})
        console.print(shown)


def real_task(name: str, folder: Any) -> Task:
    """Return part of a real table, with some entries missing."""
    task = cut(load(name, folder, MASK_SEED), *SHAPES[name])
    return Task(task.train, task.complete(), task.hidden)


def complete_task() -> Task:
    """Return a complete table that was drawn from the model, and a tenth of the entries of other rows."""
    rows = draw_data(12_000, 40, 10, g_o=4.0, g_w=1.0, seed=MASK_SEED).y
    new = rows[10_000:]
    return Task(rows[:10_000], new, np.random.default_rng(MASK_SEED).random(new.shape) < 0.1)


def measure(task: Task, held_out: Any, seed: int) -> dict[str, float]:
    """Fit the task, and return what the model says about its data and what is true of the hidden entries."""
    # The time of the processor, not of the clock: other programs have little influence on it.
    began = time.process_time()
    model = BPFA(held_out=held_out, random_state=seed, n_jobs=1).fit(task.train)
    seconds = time.process_time() - began
    said = model.calibration(task.train, levels=[0.95])
    true = model.calibration(task.whole, task.hidden, levels=[0.95])
    said_share, true_share = (
        model.variance_explained(*data)["variance_explained"][1]
        for data in ((task.train,), (task.whole, task.hidden))
    )
    return {
        "n_held_out": round(model.settings_.held_out * int(np.isfinite(task.train).sum())),
        "mse": model.held_out_score(task.whole, task.hidden).mse,
        "seconds": seconds,
        "said_share": float(said_share),
        "true_share": float(true_share),
        "said_coverage": float(said["coverage"][0]),
        "true_coverage": float(true["coverage"][0]),
    }


def cells(result: dict[str, Any]) -> list[str]:
    """Return the means over the seeds as the cells of a table, and the range of the errors."""

    def percent(name: str) -> str:
        return f"{np.mean(result[name]):.1%}"

    low, high = min(result["mse"]), max(result["mse"])
    return [
        str(result["held_out"]),
        f"{result['n_held_out'][0]:,}",
        f"{np.mean(result['mse']):.4f} ({low:.4f}-{high:.4f})",
        f"{np.median(result['seconds']):.1f}",
        percent("said_share"),
        percent("true_share"),
        percent("said_coverage"),
        percent("true_coverage"),
    ]


def markdown(results: dict[str, Any]) -> str:
    """Return the tables of the page, one for each data set."""
    parts = []
    for dataset in dict.fromkeys(row["dataset"] for row in results["rows"]):
        rows = [cells(row) for row in results["rows"] if row["dataset"] == dataset]
        parts.append(f"{dataset.capitalize()}:\n\n{table(HEADINGS, rows)}")
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
