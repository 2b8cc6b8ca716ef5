"""How the defaults of BPFA were chosen: `python -m benchmarks.defaults [--data ../shared/data]`.

Every line is a fit on a real matrix with some entries hidden, in which one setting differs from the defaults.
It shows the log-likelihood and squared error of the hidden entries, for columns of standard deviation 1, and
how many of them the 95 % intervals cover. The hidden entries are not those of benchmarks.imputation.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.command import parser_with_data, screen_table
from benchmarks.pages import SECTIONS
from bpfa import BPFA
from experiments.cells import write_results
from experiments.markdown import table
from experiments.scores import gaussian_scores
from experiments.tables import SOURCES, TableTask, cut, load

RESULTS = SECTIONS["defaults"].results
MASK_SEED = 100
# How many rows of the matrices are used; the first two have more than that.
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
"""Settings that differ; `n_components` and `max_steps` are multiples of what the defaults lead to."""


def main() -> None:
    parser = parser_with_data(__doc__)
    parser.add_argument("--datasets", nargs="+", choices=ROWS, default=list(ROWS))
    arguments = parser.parse_args()
    console = Console()
    # The lines of other data sets are kept from earlier runs.
    stored = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else []
    results = [result for result in stored if result["dataset"] not in arguments.datasets]
    for name in arguments.datasets:
        if line := SOURCES[name].file.missing_from(arguments.data):
            console.print(line)
            continue
        task = cut(load(name, arguments.data, MASK_SEED), ROWS[name])
        shown, usual = screen_table(title(name, task), HEADINGS, left=HEADINGS[:1]), {}
        for variation in VARIATIONS:
            result = {"dataset": name, **measure(task, variation, usual)}
            usual = usual or {"n_components": result["components"], "max_steps": result["steps"]}
            results.append(result)
            write_results(RESULTS, {"rows": results})
            shown.add_row(*cells(result))
            console.print(cells(result))
        console.print(shown)


def title(name: str, task: TableTask) -> str:
    """Return the title of the table of a data set."""
    n_rows, n_columns = task.train.shape
    return f"{name}: {n_rows:,} x {n_columns}, {SOURCES[name].hidden:.0%} hidden"


def measure(task: TableTask, variation: dict[str, Any], usual: dict[str, int]) -> dict[str, Any]:
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


def scores(model: BPFA, task: TableTask) -> dict[str, float]:
    """Return how well a model predicts the hidden entries of the first rows."""
    train, hidden = task.train[:SCORED_ROWS], task.hidden[:SCORED_ROWS]
    truth = task.truth[: int(hidden.sum())]
    mean, std = (values[hidden] for values in model.impute(train, return_std=True, n_draws=N_DRAWS))
    return gaussian_scores(truth, mean, std)


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


def markdown(results: dict[str, Any]) -> str:
    """Return the tables of the page, one for each data set."""
    parts = []
    for dataset in dict.fromkeys(row["dataset"] for row in results["rows"]):
        rows = [cells(row) for row in results["rows"] if row["dataset"] == dataset]
        parts.append(f"{dataset.capitalize()}:\n\n{table(HEADINGS, rows)}")
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
