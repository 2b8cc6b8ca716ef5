"""Real matrices of which some entries are hidden, standardised by the entries that are left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments import Array
from experiments.cells import DataFile


class Source(NamedTuple):
    """A data file and what is asked of it."""

    file: DataFile
    values: Callable[[Mapping[str, Array]], Array]
    """A function from the arrays of the file to the matrix, rows x columns."""
    hidden: float
    """The share of the entries to hide."""
    components: int
    """K, where nothing else is asked for."""

    def read(self, folder: Path) -> Array:
        """Read the matrix from the data folder."""
        with np.load(folder / self.file.path) as arrays:
            return self.values(arrays).astype(np.float64)


SOURCES = {
    "cytometry": Source(
        DataFile("cytof/bcr_xl.npz", "Bodenmiller's BCR-XL mass cytometry, from the PBMC8_30min FCS files"),
        lambda arrays: np.arcsinh(arrays["X"] / 5.0),
        0.05,
        15,
    ),
    "expression": Source(
        DataFile(
            "expression/tcga_rnaseq.npz", "TCGA RNA-seq, log2(RSEM + 1), from the R package RTCGA.rnaseq"
        ),
        lambda arrays: arrays["X"],
        0.1,
        40,
    ),
    "cell lines": Source(
        DataFile(
            "expression/ccle_small.npz",
            "an excerpt of the Cancer Cell Line Encyclopedia, CCLE_small of the R package MCbiclust",
        ),
        lambda arrays: arrays["X"],
        0.1,
        40,
    ),
}


class TableTask(NamedTuple):
    """A matrix to fill in."""

    train: Array
    """Rows x columns, NaN where hidden; the observed entries of every column have mean 0 and variance 1."""
    hidden: Array
    """True at the entries to predict."""
    truth: Array
    """The values of the hidden entries, on the scale of `train`."""

    def complete(self) -> Array:
        """Return the matrix with the hidden entries filled in by their true values."""
        whole: Array = self.train.copy()
        whole[self.hidden] = self.truth
        return whole


def load(name: str, folder: Path, seed: int) -> TableTask:
    """Return the task made from a source, whose entries are hidden at random by the seed."""
    source = SOURCES[name]
    return hide(source.read(folder), source.hidden, seed)


def hide(values: Array, share: float, seed: int) -> TableTask:
    """Hide a share of the entries at random and standardise the columns by the entries that are left.

    A constant column is only moved to 0.

    Examples
    --------
    >>> task = hide(np.random.default_rng(0).normal(5.0, 2.0, size=(1000, 3)), 0.1, seed=0)
    >>> bool(abs(np.nanmean(task.train)) < 1e-12), task.truth.shape == (task.hidden.sum(),)
    (True, True)
    """
    hidden = np.random.default_rng(seed).random(values.shape) < share
    train = np.where(hidden, np.nan, values)
    mean, std = np.nanmean(train, axis=0), np.nanstd(train, axis=0)
    std = np.where(std > 0, std, 1.0)
    return TableTask((train - mean) / std, hidden, ((values - mean) / std)[hidden])


def cut(task: TableTask, n_rows: int, n_columns: int | None = None) -> TableTask:
    """Return the task with at most this many rows and columns, chosen at random.

    Examples
    --------
    >>> task = hide(np.random.default_rng(0).normal(size=(100, 3)), 0.1, seed=0)
    >>> smaller = cut(task, 20, 2)
    >>> smaller.train.shape, bool(len(smaller.truth) == smaller.hidden.sum())
    ((20, 2), True)
    """
    whole = task.complete()
    rows, columns = (
        np.sort(np.random.default_rng(0).permutation(size)[:n])
        for size, n in zip(whole.shape, (n_rows, n_columns), strict=True)
    )
    kept = np.ix_(rows, columns)
    hidden = task.hidden[kept]
    return TableTask(task.train[kept], hidden, whole[kept][hidden])


def rows_to_score(n_rows: int, n_scored: int) -> Array:
    """Return the ids of the rows whose hidden entries are scored: at most `n_scored`, chosen at random.

    Examples
    --------
    >>> len(rows_to_score(100, 10)), len(rows_to_score(5, 10))
    (10, 5)
    """
    return np.sort(np.random.default_rng(1).permutation(n_rows)[:n_scored])
