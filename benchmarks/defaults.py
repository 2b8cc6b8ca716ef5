"""How the defaults of BPFA were chosen: `python -m benchmarks.defaults [--data ../shared/data]`.

Every line is a fit on a real matrix with some entries hidden, in which one setting differs from the defaults.
It shows the log-likelihood and squared error of the hidden entries, in the units of the columns' deviations,
and how many of them 95 % intervals cover. The hidden entries are not those of benchmarks.imputation.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from paper.measure import NORMAL_95
from rich.console import Console
from rich.table import Table

from benchmarks.matrices import SOURCES, Array, Task, load, missing_file
from bpfa import BPFA

RESULTS = Path(__file__).parent / "results" / "defaults.json"
MASK_SEED = 100
# Rows of the matrices, of which the first two are large enough to be cut.
ROWS = {"cytometry": 40_000, "expression": 4_000, "cell lines": 1_000}
SCORED_ROWS, N_DRAWS = 20_000, 20
HEADINGS = ("differs", "K", "log-likelihood", "MSE", "95 % covers", "used", "steps")
VARIATIONS: list[dict[str, Any]] = [
    {},
    {"n_components": 1 / 2},
    {"n_components": 2},
    {"batch_size": 256, "max_steps": 4},
    {"batch_size": 4096, "max_steps": 1 / 4},
    {"max_steps": 1 / 3},
    {"max_steps": 3},
    {"step_delay": 5.0, "step_decay": 0.5},
    {"step_decay": 0.75},
    {"features": "factorised"},
    {"weight_precision": "all"},
    {"burn_in": 1},
    {"burn_in": 10},
    {"noise": "shared"},
    {"init": "random", "max_steps": 5},
    {"init": "data", "max_steps": 5},
    {"held_out": 0.05, "patience": 2},
    {"held_out": 0.05, "patience": 2, "revise": True},
    {"algorithm": "titsias-ssvi"},
    {"algorithm": "mimno-svi"},
    {"algorithm": "mf-ssvi"},
]
"""Settings that differ; `n_components` and `max_steps` as multiples of what the defaults come to."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the data sets")
    parser.add_argument("--datasets", nargs="+", choices=ROWS, default=list(ROWS))
    arguments = parser.parse_args()
    console = Console()
    # Of other data sets, an earlier run's lines stay.
    stored = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    results = [result for result in stored if result["dataset"] not in arguments.datasets]
    for name in arguments.datasets:
        problem = missing_file(name, arguments.data)
        if problem:
            console.print(problem)
            continue
        task = cut(load(name, arguments.data, MASK_SEED), ROWS[name])
        table, usual = Table(*HEADINGS, title=title(name, task)), {}
        for variation in VARIATIONS:
            result = {"dataset": name, **measure(task, variation, usual)}
            usual = usual or {"n_components": result["components"], "max_steps": result["steps"]}
            results.append(result)
            RESULTS.write_text(json.dumps({"rows": results}, indent=1) + "\n")
            table.add_row(*cells(result))
            console.print(cells(result))
        console.print(table)


def title(name: str, task: Task) -> str:
    """Say what a table is about."""
    n_rows, n_columns = task.train.shape
    return f"{name}: {n_rows:,} x {n_columns}, {SOURCES[name].hidden:.0%} hidden"


def cut(task: Task, n_rows: int, n_columns: int | None = None) -> Task:
    """Return the task with some of its rows and columns, at random."""
    whole: Array = task.train.copy()
    whole[task.hidden] = task.truth
    rows, columns = (
        np.sort(np.random.default_rng(0).permutation(size)[:n])
        for size, n in zip(whole.shape, (n_rows, n_columns), strict=True)
    )
    kept = np.ix_(rows, columns)
    hidden = task.hidden[kept]
    return Task(task.train[kept], hidden, whole[kept][hidden])


def measure(task: Task, variation: dict[str, Any], usual: dict[str, int]) -> dict[str, Any]:
    """Fit the task with a variation of the defaults and score the hidden entries."""
    settings: dict[str, Any] = {"random_state": 0, "standardize": False} | variation
    for name in usual.keys() & variation.keys():
        settings[name] = max(1, round(variation[name] * usual[name]))
    model = BPFA(**settings).fit(task.train.astype(np.float32))
    return {
        "variation": variation,
        "components": len(model.components_),
        **scores(model, task),
        "used": model.n_components_used_,
        "steps": model.n_steps_,
    }


def scores(model: BPFA, task: Task) -> dict[str, float]:
    """Return how well a model predicts the hidden entries."""
    train, hidden = task.train[:SCORED_ROWS], task.hidden[:SCORED_ROWS]
    truth = task.truth[: int(hidden.sum())]
    mean, std = (values[hidden] for values in model.impute(train, return_std=True, n_draws=N_DRAWS))
    error = truth - mean
    return {
        "log_likelihood": float(-0.5 * (np.log(2 * np.pi * std**2) + (error / std) ** 2).mean()),
        "mse": float((error**2).mean()),
        "coverage": float((np.abs(error) < NORMAL_95 * std).mean()),
    }


def cells(result: dict[str, Any]) -> list[str]:
    """Return a result as the cells of a table."""
    variation = ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in result["variation"].items()
    )
    numbers = [f"{result[name]:.4f}" for name in ("log_likelihood", "mse")]
    return [
        variation or "defaults",
        str(result["components"]),
        *numbers,
        f"{result['coverage']:.1%}",
        str(result["used"]),
        f"{result['steps']:,}",
    ]


if __name__ == "__main__":
    main()
