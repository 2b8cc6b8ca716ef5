"""What batches do to a fit, and whether their effects are found: `python -m benchmarks.batches`.

Drawn tables: offsets and noise scales are known, and compared with what a fit finds. The cytometry: every
sample (a donor with or without stimulation) is a batch. The mixing score is the share of the nearest
neighbours of a cell, by the weights of the features, that are from the batch of the cell itself; if batches
cannot be told apart it is the share of the batch among all cells.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.command import parser_with_data, screen_table
from benchmarks.pages import SECTIONS
from bpfa import BPFA
from experiments import Array
from experiments.cells import write_results
from experiments.markdown import table
from experiments.scores import gaussian_scores
from experiments.tables import SOURCES

HEADINGS = (
    "",
    "own batch among neighbours",
    "if mixed",
    "MSE",
    "log-likelihood",
    "95 % covers",
    "CPU seconds",
)
DRAWN_HEADINGS = ("batches", "rows", "z-score of batch means", "z-score of offsets", "error of noise scales")
N_NEIGHBOURS = 15
HIDDEN_SHARE = 0.05
# Number of batches and of rows of the drawn tables.
DRAWN = ((2, 2000), (8, 2000), (20, 5000))


def drawn_table(n_batches: int, n_rows: int, seed: int) -> dict[str, Array]:
    """Return rows of a factor model with three factors, with known offsets and noise scales of batches."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_batches, n_rows)
    offset = 0.5 * rng.normal(size=(n_batches, 30))
    scale = np.exp(0.3 * rng.normal(size=n_batches))
    signal = rng.normal(size=(n_rows, 3)) @ rng.normal(size=(3, 30))
    noise = scale[codes][:, None] * rng.normal(size=signal.shape)
    return {"y": signal + offset[codes] + noise, "codes": codes, "offset": offset, "scale": scale}


def drawn_row(n_batches: int, n_rows: int, seeds: list[int]) -> dict[str, float]:
    """Return how far what is found is from the truth, in units of its own stated errors."""
    levels, offsets, scales = [], [], []
    for seed in seeds:
        known = drawn_table(n_batches, n_rows, seed)
        found = (
            BPFA(max_steps=1, n_jobs=1, random_state=0).fit(known["y"], batch=known["codes"]).batch_effects_
        )
        levels.append((found.mean + found.offset - known["offset"]) / found.level_std)
        offsets.append((found.offset - known["offset"]) / found.offset_std)
        overall = np.sqrt((found.n_rows * known["scale"] ** 2).sum() / n_rows)
        scales.append(found.scale / (known["scale"] / overall) - 1)
    return {
        "batches": n_batches,
        "rows": n_rows,
        "levels": _root_mean_square(levels),
        "offsets": _root_mean_square(offsets),
        "scales": _root_mean_square(scales),
    }


def _root_mean_square(parts: list[Array]) -> float:
    return float(np.sqrt(np.mean(np.concatenate([part.ravel() for part in parts]) ** 2)))


def mixing(weights: Array, codes: Array) -> float:
    """Return the share of the nearest neighbours of a row that are from its own batch.

    Examples
    --------
    >>> mixing(np.arange(40.0)[:, None], np.repeat([0, 1], 20)) > 0.8
    True
    """
    from sklearn.neighbors import NearestNeighbors

    scaled = weights / np.maximum(weights.std(axis=0), 1e-12)
    near = NearestNeighbors(n_neighbors=N_NEIGHBOURS + 1).fit(scaled)
    _, neighbours = near.kneighbors(scaled)
    return float((codes[neighbours[:, 1:]] == codes[:, None]).mean())


def cytometry(folder: Path, n_cells: int, seed: int) -> list[dict[str, Any]]:
    """Return scores of the cytometry without and with batches."""
    with np.load(folder / SOURCES["cytometry"].file.path) as arrays:
        whole, samples = np.arcsinh(arrays["X"] / 5.0).astype(np.float64), arrays["sample"]
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(whole))[:n_cells]
    values, codes = whole[chosen], np.unique(samples[chosen], return_inverse=True)[1]
    hidden = rng.random(values.shape) < HIDDEN_SHARE
    holes, unit = np.where(hidden, np.nan, values), values.std(axis=0)
    if_mixed = float(((np.bincount(codes) / n_cells) ** 2).sum())
    rows = []
    for name, labels in (("without batches", None), ("with batches", codes)):
        began = time.process_time()
        model = BPFA(n_jobs=1, random_state=seed, device="cpu").fit(holes, batch=labels)
        mean, std = model.impute(holes, batch=labels, return_std=True)
        seconds = time.process_time() - began
        scores = gaussian_scores((values / unit)[hidden], (mean / unit)[hidden], (std / unit)[hidden])
        own = mixing(model.transform(holes, batch=labels), codes)
        rows.append({"name": name, "own": own, "if_mixed": if_mixed, "seconds": seconds} | scores)
    return rows


def main() -> None:
    parser = parser_with_data(__doc__)
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--output", type=Path, default=SECTIONS["batches"].results)
    arguments = parser.parse_args()
    console = Console(width=130)
    drawn = [drawn_row(n_batches, n_rows, arguments.seeds) for n_batches, n_rows in DRAWN]
    shown = screen_table("drawn tables", DRAWN_HEADINGS)
    for row in drawn:
        shown.add_row(*drawn_cells(row))
    console.print(shown)
    rows = []
    if line := SOURCES["cytometry"].file.missing_from(arguments.data):
        console.print(line)
    else:
        rows = cytometry(arguments.data, arguments.cells, arguments.seeds[0])
        shown = screen_table("cytometry", HEADINGS)
        for row in rows:
            shown.add_row(*cells(row))
        console.print(shown)
    settings = {"cells": arguments.cells, "seeds": arguments.seeds}
    write_results(arguments.output, {"settings": settings, "drawn": drawn, "rows": rows})


def drawn_cells(row: dict) -> list[str]:
    """Return a row of the table of drawn tables."""
    return [
        str(row["batches"]),
        f"{row['rows']:,}",
        f"{row['levels']:.2f}",
        f"{row['offsets']:.2f}",
        f"{row['scales']:.1%}",
    ]


def cells(row: dict) -> list[str]:
    """Return a row of the table of the cytometry."""
    return [
        row["name"],
        f"{row['own']:.1%}",
        f"{row['if_mixed']:.1%}",
        f"{row['mse']:.4f}",
        f"{row['log_likelihood']:.4f}",
        f"{row['coverage']:.1%}",
        f"{row['seconds']:.1f}",
    ]


def markdown(results: dict) -> str:
    """Return the tables of the page."""
    settings = results["settings"]
    parts = [
        f"Drawn tables, root mean squares over {len(settings['seeds'])} of each kind:",
        table(DRAWN_HEADINGS, [drawn_cells(row) for row in results["drawn"]]),
    ]
    if results["rows"]:
        parts.append(
            f"Cytometry, {settings['cells']:,} cells of 16 samples, {HIDDEN_SHARE:.0%} of entries hidden:"
        )
        parts.append(table(HEADINGS, [cells(row) for row in results["rows"]]))
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
