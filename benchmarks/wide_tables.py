"""Tables with more columns than rows: real ones as samples x genes, and drawn ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from experiments import Array
from experiments.tables import SOURCES, TableTask

HIDDEN = 0.1
"""The share of the observed entries that is hidden."""


def expression(source: str, n_genes: int | None = None) -> Callable[[Path], Array]:
    """Return a function that reads a table of genes as samples x genes: the most variable genes, or all."""

    def read(folder: Path) -> Array:
        values = SOURCES[source].read(folder).T
        variable = np.argsort(-values.var(axis=0), kind="stable")[:n_genes]
        return values[:, np.sort(variable)]

    return read


def drawn(
    n_rows: int,
    n_columns: int,
    n_features: int,
    *,
    rows: float = 1.0,
    columns: float = 1.0,
    noise: float = 0.7,
    missing: float = 0.0,
    seed: int = 0,
) -> Callable[[Path], Array]:
    """Return a function that draws a table from a factor model.

    Parameters
    ----------
    n_rows, n_columns, n_features : int
    rows, columns : float
        The share of the features that a row, and that a column, uses.
    noise : float
        Mean standard deviation of the noise relative to the signal. Every column has a level of its own.
    missing : float
        The share of the entries that are missing from the start.
    """

    def draw(folder: Path) -> Array:
        rng = np.random.default_rng([seed, n_rows, n_columns])
        scores = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < rows)
        loadings = rng.normal(size=(n_features, n_columns)) * (rng.random((n_features, n_columns)) < columns)
        signal = scores @ loadings
        levels = noise * signal.std() * rng.gamma(4.0, 0.25, size=n_columns)
        values = signal + levels * rng.normal(size=signal.shape)
        values[rng.random(values.shape) < missing] = np.nan
        return values

    return draw


TABLES: dict[str, Callable[[Path], Array]] = {
    "cell lines, 500 x 1,000": expression("cell lines"),
    "tumours, 350 x 3,000": expression("expression", 3000),
    "tumours, 350 x 16,428": expression("expression"),
    "like proteomics, 50 x 4,384": drawn(50, 4384, 10, columns=0.3, missing=0.25),
    "drawn with sparse columns, 100 x 2,000": drawn(100, 2000, 20, columns=0.15),
    "drawn with sparse rows, 200 x 1,000": drawn(200, 1000, 20, rows=0.15),
    "drawn, dense, 100 x 1,000": drawn(100, 1000, 10),
    "drawn with sparse columns, 1,000 x 20,000": drawn(1000, 20_000, 40, columns=0.15),
}
"""Name -> a function from the data folder to the table, samples x genes."""

FILES = {name: "cell lines" if name.startswith("cell") else "expression" for name in list(TABLES)[:3]}
"""The source of each table that is read from a file."""


def load(name: str, folder: Path, seed: int, most_columns: int | None = None) -> TableTask:
    """Return a table with a share of its observed entries hidden, standardised by those that are left.

    `most_columns` keeps only the first of the columns, for a quick run.
    """
    values = TABLES[name](folder)[:, :most_columns]
    hidden = ~np.isnan(values) & (np.random.default_rng(seed).random(values.shape) < HIDDEN)
    train = np.where(hidden, np.nan, values)
    mean, std = np.nanmean(train, axis=0), np.nanstd(train, axis=0)
    std = np.where(std > 0, std, 1.0)
    return TableTask((train - mean) / std, hidden, ((values - mean) / std)[hidden])
