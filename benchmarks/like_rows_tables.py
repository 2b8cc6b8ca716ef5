"""Tables whose rows may have kinds: cells, genes, written digits, and drawn ones with a known best error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments import Array
from experiments.tables import SOURCES, TableTask


class LikeRowsTable(NamedTuple):
    """A table, and the share of its entries that is hidden."""

    read: Callable[[Path, int], Array]
    """From the data folder and the number of rows to a complete table."""
    hidden: float
    source: str | None = None
    """The name of the source in `experiments.tables`, if the table is read from a file."""
    most_rows: int = 5000


def rows_of(source: str, n_columns: int | None = None) -> Callable[[Path, int], Array]:
    """Return a function that reads random rows, and perhaps random columns, of a source."""

    def read(folder: Path, n_rows: int) -> Array:
        rng = np.random.default_rng(0)
        values = SOURCES[source].read(folder)
        values = values[np.sort(rng.permutation(len(values))[:n_rows])]
        return (
            values if n_columns is None else values[:, np.sort(rng.permutation(values.shape[1])[:n_columns])]
        )

    return read


def digits(folder: Path, n_rows: int) -> Array:
    """Return scikit-learn's written digits, without the pixels that are 0 in nearly all of them.

    A pixel with a handful of other values has a deviation that depends on which of them are hidden.
    """
    from sklearn.datasets import load_digits

    values = load_digits().data[:n_rows]
    return values[:, (values > 0).mean(axis=0) > 0.02]


def kinds(n_kinds: int, spread: float) -> Callable[[Path, int], Array]:
    """Return a function that draws rows of several kinds, each with a mean and three factors of its own."""

    def draw(folder: Path, n_rows: int) -> Array:
        rng = np.random.default_rng([n_kinds, 20])
        kind = rng.integers(n_kinds, size=n_rows)
        means = spread * rng.normal(size=(n_kinds, 20))
        factors = 0.8 * rng.normal(size=(n_kinds, 3, 20))
        signal = means[kind] + np.einsum("nk,nkd->nd", rng.normal(size=(n_rows, 3)), factors[kind])
        return signal + 0.5 * rng.normal(size=signal.shape)

    return draw


TABLES = {
    "cells, 24 proteins": LikeRowsTable(rows_of("cytometry"), 0.05, "cytometry", 20_000),
    "genes of tumours, 200 samples": LikeRowsTable(rows_of("expression", 200), 0.1, "expression", 3000),
    "genes of cell lines, 200 samples": LikeRowsTable(rows_of("cell lines", 200), 0.1, "cell lines"),
    "written digits": LikeRowsTable(digits, 0.2),
    "drawn, six kinds": LikeRowsTable(kinds(6, 1.0), 0.1),
    "drawn, six kinds far apart": LikeRowsTable(kinds(6, 3.0), 0.1),
    "drawn, one kind": LikeRowsTable(kinds(1, 1.0), 0.1),
}


def load(name: str, folder: Path, seed: int, n_rows: int) -> TableTask:
    """Return a table with a share of its entries hidden, standardised by those that are left.

    It has at most `n_rows` rows, and at most as many as are set for it.
    """
    table = TABLES[name]
    values = table.read(folder, min(n_rows, table.most_rows))
    hidden = np.random.default_rng([seed, 7]).random(values.shape) < table.hidden
    train = np.where(hidden, np.nan, values)
    mean, std = np.nanmean(train, axis=0), np.nanstd(train, axis=0)
    std = np.where(std > 0, std, 1.0)
    return TableTask((train - mean) / std, hidden, ((values - mean) / std)[hidden])
