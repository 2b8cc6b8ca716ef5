"""How many features BPFA finds in data drawn from its own model: `python -m benchmarks.counts`.

Every line is a kind of table, drawn three times. The table shows what the default fit says is in use, and
two numbers to compare it with. "Visible" is the number of features that somebody who knew everything else
could see: if the noise level and all other features were known, and taken out of the data, the largest
singular value of what is left would be larger than that of 99 in 100 tables of noise. A feature that no row
uses, or that the noise drowns, is not visible; one that very few rows use is visible if the noise is low
enough. "Used" is the number of features that at least one row in a hundred uses, whether they can be told
from noise or not.
"""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.pages import SECTIONS
from bpfa import BPFA, Priors, draw_data
from bpfa.model.priors import Synthetic
from experiments import Array
from experiments.cells import write_results
from experiments.markdown import table

RESULTS = SECTIONS["counts"].results
# Not those on which the method was developed, which were 0, 1 and 2.
SEEDS = range(100, 103)
SHAPES = [(300, 40), (1000, 20), (1000, 80), (4000, 40)]
FEATURES = [4, 8, 16]
# The noise precision, the share of missing entries, and how many features a row uses on average.
CONDITIONS = [(100.0, 0.0, 1.0), (100.0, 0.3, 1.0), (25.0, 0.1, 1.0), (400.0, 0.1, 3.0)]
LEAST_SHARE = 0.01
# Tables of noise, and the quantile of their largest singular values that a visible feature exceeds.
N_NOISE, QUANTILE = 200, 0.99
HEADINGS = [
    "rows x columns",
    "features",
    "noise",
    "missing",
    "a row uses",
    "used",
    "visible",
    "found",
    "within 20 % of visible",
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
    used, visible, found, seconds = [], [], [], []
    for seed in SEEDS:
        priors = Priors(a=10.0 * per_row, b=10.0)
        drawn = draw_data(n_rows, n_columns, n_features, g_o=g_o, g_w=1.0, priors=priors, seed=seed)
        hidden = np.random.default_rng(seed).random(drawn.y.shape) < missing
        began = time.perf_counter()
        model = BPFA(random_state=seed).fit(np.where(hidden, np.nan, drawn.y))
        seconds.append(time.perf_counter() - began)
        used.append(int((drawn.z.mean(axis=0) >= LEAST_SHARE).sum()))
        visible.append(n_visible(drawn, ~hidden, np.random.default_rng([seed, 1])))
        found.append(model.n_components_used_)
    return {
        "shape": [n_rows, n_columns],
        "features": n_features,
        "noise": g_o**-0.5,
        "missing": missing,
        "per_row": per_row,
        "used": used,
        "visible": visible,
        "found": found,
        "seconds": float(np.median(seconds)),
    }


def n_visible(drawn: Synthetic, observed: NDArray[np.bool_], rng: np.random.Generator) -> int:
    """Return how many features could be told from noise if the noise level and all others were known."""

    def largest_singular_value(table: Array) -> float:
        seen = np.where(observed, table, 0.0)
        return float(np.linalg.eigvalsh(seen.T @ seen)[-1] ** 0.5)

    noise_std, weights = drawn.g_o**-0.5, drawn.z * drawn.w
    of_noise = [largest_singular_value(noise_std * rng.normal(size=drawn.y.shape)) for _ in range(N_NOISE)]
    edge, noise = np.quantile(of_noise, QUANTILE), drawn.y - drawn.signal
    alone = (noise + np.outer(weights[:, k], drawn.phi[k]) for k in range(len(drawn.phi)))
    return int(sum(largest_singular_value(table) > edge for table in alone))


def within(number: int, truth: int) -> bool:
    return abs(number - truth) <= 0.2 * truth


def n_right(row: dict[str, Any], truth: str) -> int:
    """Return how many of the numbers are within 20 % of "visible" or "used"."""
    pairs = zip(row["found"], row[truth], strict=True)
    return sum(within(found, number) for found, number in pairs)


def cells(row: dict[str, Any]) -> list[str]:
    """Return a line of the table."""
    return [
        "{:,} x {}".format(*row["shape"]),
        str(row["features"]),
        f"{row['noise']:.2f}",
        f"{row['missing']:.0%}",
        f"{row['per_row']:g}",
        ", ".join(map(str, row["used"])),
        ", ".join(map(str, row["visible"])),
        ", ".join(map(str, row["found"])),
        f"{n_right(row, 'visible')} of {len(row['found'])}",
    ]


def markdown(results: dict) -> str:
    """Return the table of the page, and how many numbers are right in all."""
    rows = results["rows"]
    total = sum(len(row["found"]) for row in rows)
    right, right_of_used = (sum(n_right(row, truth) for row in rows) for truth in ("visible", "used"))
    summary = (
        f"{right} of {total} numbers are within 20 % of the number of visible features, and {right_of_used} "
        "within 20 % of the number of those that at least one row in a hundred uses."
    )
    return f"{summary}\n\n{table(HEADINGS, [cells(row) for row in rows])}"


if __name__ == "__main__":
    main()
