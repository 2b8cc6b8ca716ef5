"""Real matrices with some of their entries hidden, standardised by what is left: the tasks of imputation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.factor_analysis import Array


class Source(NamedTuple):
    """A data file and what is asked of it."""

    file: str
    """Path below the data folder."""
    origin: str
    """Where the file comes from."""
    values: Callable[[Mapping[str, Array]], Array]
    """From the arrays of the file to the matrix, rows x columns."""
    hidden: float
    """Share of entries to hide."""
    components: int
    """K, where nothing else is asked for."""


SOURCES = {
    "cytometry": Source(
        "cytof/bcr_xl.npz",
        "Bodenmiller's BCR-XL mass cytometry, the PBMC8_30min FCS files",
        lambda arrays: np.arcsinh(arrays["X"] / 5.0),
        0.05,
        15,
    ),
    "expression": Source(
        "expression/tcga_rnaseq.npz",
        "TCGA RNA-seq, log2(RSEM + 1), from the R package RTCGA.rnaseq",
        lambda arrays: arrays["X"],
        0.1,
        40,
    ),
    "cell lines": Source(
        "expression/ccle_small.npz",
        "an excerpt of the Cancer Cell Line Encyclopedia, CCLE_small of the R package MCbiclust",
        lambda arrays: arrays["X"],
        0.1,
        40,
    ),
}


class Task(NamedTuple):
    """A matrix to fill in."""

    train: Array
    """Rows x columns, NaN where hidden; the observed entries of a column have mean 0 and variance 1."""
    hidden: Array
    """True at the entries to predict."""
    truth: Array
    """Their values, on the scale of `train`."""


def missing_file(name: str, folder: Path) -> str | None:
    """One line about the file of a source when it is not there, else None."""
    source = SOURCES[name]
    path = folder / source.file
    return None if path.exists() else f"{name}: no {path}, which is {source.origin}; left out"


def load(name: str, folder: Path, seed: int) -> Task:
    """The task made from a source."""
    source = SOURCES[name]
    with np.load(folder / source.file) as arrays:
        return hide(source.values(arrays).astype(np.float64), source.hidden, seed)


def hide(values: Array, share: float, seed: int) -> Task:
    """Hide a share of the entries at random and standardise the columns with the others.

    Examples
    --------
    >>> task = hide(np.random.default_rng(0).normal(5.0, 2.0, size=(1000, 3)), 0.1, seed=0)
    >>> bool(abs(np.nanmean(task.train)) < 1e-12), task.truth.shape == (task.hidden.sum(),)
    (True, True)
    """
    hidden = np.random.default_rng(seed).random(values.shape) < share
    train = np.where(hidden, np.nan, values)
    mean, std = np.nanmean(train, axis=0), np.nanstd(train, axis=0)
    return Task((train - mean) / std, hidden, ((values - mean) / std)[hidden])
