"""How many features BPFA finds in data drawn from its own model: `python -m benchmarks.counts`.

Every line is a kind of table, drawn three times. The truth is the number of features that at least one row in
a hundred uses; a feature that fewer rows use can hardly be told from noise. The table shows what the default
fit says is in use. It also shows how many directions of the true signal have a variance above the threshold
below which no method that uses only variances and covariances can tell them from noise (Baik, Ben Arous and
Peche, 2005). A method that also uses the sparsity of the features may find others.
"""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.pages import SECTIONS
from bpfa import BPFA, Priors, draw_data
from experiments import Array
from experiments.cells import write_results
from experiments.markdown import table

RESULTS = SECTIONS["counts"].results
SEEDS = range(3)
SHAPES = [(300, 40), (1000, 20), (1000, 80), (4000, 40)]
FEATURES = [4, 8, 16]
# The noise precision, the share of missing entries, and how many features a row uses on average.
CONDITIONS = [(100.0, 0.0, 1.0), (100.0, 0.3, 1.0), (25.0, 0.1, 1.0), (400.0, 0.1, 3.0)]
LEAST_SHARE = 0.01
HEADINGS = [
    "rows x columns",
    "features",
    "noise",
    "missing",
    "a row uses",
    "truth",
    "visible",
    "found",
    "within 20 %",
]


def main() -> None:
    console, rows = Console(), []
    for (n_rows, n_columns), n_features, condition in product(SHAPES, FEATURES, CONDITIONS):
        if n_features > n_columns / 2:
            continue
        rows.append(measure(n_rows, n_columns, n_features, *condition))
        write_results(RESULTS, {"rows": rows})
        console.print(cells(rows[-1]))


def measure(
    n_rows: int, n_columns: int, n_features: int, g_o: float, missing: float, per_row: float
) -> dict[str, Any]:
    """Fit tables of one kind, and count."""
    truths, visible, found, seconds = [], [], [], []
    for seed in SEEDS:
        priors = Priors(a=10.0 * per_row, b=10.0)
        drawn = draw_data(n_rows, n_columns, n_features, g_o=g_o, g_w=1.0, priors=priors, seed=seed)
        hidden = np.random.default_rng(seed).random(drawn.y.shape) < missing
        began = time.perf_counter()
        model = BPFA(random_state=seed).fit(np.where(hidden, np.nan, drawn.y))
        seconds.append(time.perf_counter() - began)
        truths.append(int((drawn.z.mean(axis=0) >= LEAST_SHARE).sum()))
        visible.append(n_visible((drawn.z * drawn.w) @ drawn.phi, g_o, missing))
        found.append(model.n_components_used_)
    return {
        "shape": [n_rows, n_columns],
        "features": n_features,
        "noise": g_o**-0.5,
        "missing": missing,
        "per_row": per_row,
        "truths": truths,
        "visible": visible,
        "found": found,
        "seconds": float(np.median(seconds)),
    }


def n_visible(signal: Array, g_o: float, missing: float) -> int:
    """Return how many directions of the signal could be told from noise by their variance.

    In units of the noise, the variance of a direction must exceed sqrt(D / N), divided by the share of the
    entries that is observed, because a missing entry is like one with more noise.
    """
    n_rows, n_columns = signal.shape
    variances = g_o * np.linalg.svd(signal, compute_uv=False) ** 2 / n_rows
    return int((variances > (n_columns / n_rows) ** 0.5 / (1 - missing)).sum())


def within(number: int, truth: int) -> bool:
    return abs(number - truth) <= 0.2 * truth


def n_right(row: dict[str, Any]) -> int:
    """Return how many of the numbers are within 20 % of the truth."""
    pairs = zip(row["found"], row["truths"], strict=True)
    return sum(within(found, truth) for found, truth in pairs)


def n_hidden(row: dict[str, Any]) -> int:
    """Return how many of the wrong numbers have a truth of which fewer than 80 % is visible."""
    triples = zip(row["found"], row["visible"], row["truths"], strict=True)
    return sum(not within(found, truth) and visible < 0.8 * truth for found, visible, truth in triples)


def cells(row: dict[str, Any]) -> list[str]:
    """Return a line of the table."""
    return [
        "{:,} x {}".format(*row["shape"]),
        str(row["features"]),
        f"{row['noise']:.2f}",
        f"{row['missing']:.0%}",
        f"{row['per_row']:g}",
        ", ".join(map(str, row["truths"])),
        ", ".join(map(str, row["visible"])),
        ", ".join(map(str, row["found"])),
        f"{n_right(row)} of {len(row['found'])}",
    ]


def markdown(results: dict) -> str:
    """Return the table of the page, and how many numbers are right in all."""
    rows = results["rows"]
    right, total = sum(map(n_right, rows)), sum(len(row["found"]) for row in rows)
    summary = (
        f"{right} of {total} numbers are within 20 % of the truth. Of the other {total - right}, "
        f"{sum(map(n_hidden, rows))} belong to tables in which less than 80 % of the truth is visible."
    )
    return f"{summary}\n\n{table(HEADINGS, [cells(row) for row in rows])}"


if __name__ == "__main__":
    main()
