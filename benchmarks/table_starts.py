"""Which start BPFA chooses, and what the others would give: `python -m benchmarks.table_starts`.

Every line is a table, drawn or real, with some entries hidden. It shows the start that BPFA chose by the
data, and the squared error and log-likelihood of the hidden entries from each start, for columns of standard
deviation 1. "many" is the start "common" with two features for every column, and settings of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.command import parser_with_data
from benchmarks.defaults import MASK_SEED, ROWS, scores
from benchmarks.pages import SECTIONS
from bpfa import BPFA, draw_data
from bpfa.selection.defaults import SPARSE_DROPOUT, SPARSE_STEPS, sparse_components
from experiments import Array
from experiments.cells import write_results
from experiments.markdown import table
from experiments.tables import SOURCES, TableTask, cut, hide, load

RESULTS = SECTIONS["table_starts"].results
HIDDEN = 0.075
STARTS = {"principal": "dense", "rotated": "rotated", "common": "many"}
HEADINGS = [
    "",
    "chosen",
    *(f"MSE {start}" for start in STARTS.values()),
    *(f"log-lik {start}" for start in STARTS.values()),
    "95 % covers",
]


def from_the_model(n_rows: int, n_columns: int, n_features: int) -> Array:
    return draw_data(n_rows, n_columns, n_features, g_o=100.0, g_w=1.0, seed=0).y


def with_features(n_rows: int, n_columns: int, n_features: int, a_row: float, noise: float = 0.1) -> Array:
    """Draw rows that use `a_row` features each on average, all of which are used equally often."""
    rng = np.random.default_rng(0)
    x = (rng.random((n_rows, n_features)) < a_row / n_features) * rng.normal(size=(n_rows, n_features))
    return x @ rng.normal(size=(n_features, n_columns)) / n_columns**0.5 + noise * rng.normal(
        size=(n_rows, n_columns)
    )


def with_factors(weights: Callable[..., Array], n_factors: int) -> Array:
    rng = np.random.default_rng(0)
    y = weights(rng, (10_000, n_factors)) @ rng.normal(size=(n_factors, 40)) / n_factors**0.5
    return y + 0.3 * rng.normal(size=y.shape)


def in_clusters(n_clusters: int) -> Array:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n_clusters, 40))[rng.integers(n_clusters, size=10_000)] + 0.5 * rng.normal(
        size=(10_000, 40)
    )


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.normal(size=shape)


def heavy_tailed(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    return rng.standard_t(3, size=shape)


DRAWN: dict[str, Callable[[], Array]] = {
    "the model's own, 10,000 x 40, 80 features": partial(from_the_model, 10_000, 40, 80),
    "10,000 x 100, 50 features": partial(from_the_model, 10_000, 100, 50),
    "10,000 x 30, 30 features": partial(from_the_model, 10_000, 30, 30),
    "600 x 40, 80 features": partial(from_the_model, 600, 40, 80),
    "10,000 x 40, 3 of 80 features a row": partial(with_features, 10_000, 40, 80, 3),
    "8 of 80": partial(with_features, 10_000, 40, 80, 8),
    "20 of 80": partial(with_features, 10_000, 40, 80, 20),
    "1.5 of 80, much noise": partial(with_features, 10_000, 40, 80, 1.5, 0.3),
    "1,000 x 40, 1.5 of 80": partial(with_features, 1000, 40, 80, 1.5),
    "50 clusters, 10,000 x 40": partial(in_clusters, 50),
    "10 clusters": partial(in_clusters, 10),
    "5 Gaussian factors, 10,000 x 40": partial(with_factors, normal, 5),
    "30 Gaussian factors": partial(with_factors, normal, 30),
    "10 factors of heavy tails": partial(with_factors, heavy_tailed, 10),
    "noise, 10,000 x 40": lambda: np.random.default_rng(0).normal(size=(10_000, 40)),
}
# How many columns are taken at random from matrices that have too many for a trial of the sparse start.
REAL_COLUMNS = {"cytometry": None, "expression": 60, "cell lines": 60}


def main() -> None:
    arguments = parser_with_data(__doc__).parse_args()
    console, rows = Console(), []
    for name, task in tasks(arguments.data, console):
        rows.append({"table": name, **measure(task)})
        write_results(RESULTS, {"rows": rows})
        console.print(cells(rows[-1]))


def tasks(data: Path, console: Console) -> Iterator[tuple[str, TableTask]]:
    """Yield the names and the tasks of all tables."""
    for name, draw in DRAWN.items():
        yield name, hide(draw(), HIDDEN, MASK_SEED)
    for name, n_columns in REAL_COLUMNS.items():
        if line := SOURCES[name].file.missing_from(data):
            console.print(line)
            continue
        title = name if n_columns is None else f"{n_columns} columns of {name}"
        yield title, cut(load(name, data, MASK_SEED), ROWS[name], n_columns)


def measure(task: TableTask) -> dict[str, Any]:
    """Fit a table with the start that BPFA chooses and with the others."""
    own = fitted(task)
    n_factors = own["components"] if own["init"] != "common" else fitted(task, init="principal")["components"]
    settings = {
        "principal": {"n_components": n_factors},
        "rotated": {"n_components": n_factors},
        "common": {
            "n_components": sparse_components(task.train.shape[1]),
            "dropout": SPARSE_DROPOUT,
            "max_steps": SPARSE_STEPS,
        },
    }
    found = {
        name: own if own["init"] == init else fitted(task, init=init, **settings[init])
        for init, name in STARTS.items()
    }
    return {"chosen": STARTS[own["init"]], **found}


def fitted(task: TableTask, **settings: Any) -> dict[str, Any]:
    began = time.perf_counter()
    # Starts are compared by what the features alone predict.
    model = BPFA(random_state=0, standardize=False, groups=False, **settings)
    model.fit(task.train.astype(np.float32))
    seconds = time.perf_counter() - began
    return {
        "init": model.settings_.init,
        "components": len(model.components_),
        "seconds": seconds,
        **scores(model, task),
    }


def cells(row: dict[str, Any]) -> list[str]:
    """Return a line of the table."""
    all_found, chosen = [row[start] for start in STARTS.values()], row[row["chosen"]]
    return [
        row["table"],
        f"{row['chosen']}, {chosen['components']}",
        *(f"{found['mse']:.4f}" for found in all_found),
        *(f"{found['log_likelihood']:.3f}" for found in all_found),
        f"{chosen['coverage']:.1%}",
    ]


def markdown(results: dict) -> str:
    """Return the table of the page."""
    return table(HEADINGS, [cells(row) for row in results["rows"]])


if __name__ == "__main__":
    main()
