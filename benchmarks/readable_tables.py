"""The tables of benchmarks/readable.py: those that the settings were chosen on, and others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bpfa import Priors, draw_data
from experiments import Array
from experiments.tables import SOURCES, TableTask, hide

MASK_SEED = 0


class ReadableTable(NamedTuple):
    """A table of which some entries are hidden."""

    read: Callable[[Path], Array]
    """A function from the data folder to the table."""
    hidden: float
    """The share of the entries to hide."""
    source: str | None = None
    """The source in `experiments.tables`, if it is read from the data folder."""
    chosen_on: bool = False
    """Whether the settings of BPFA were chosen on this table."""

    def task(self, folder: Path) -> TableTask:
        """Return the table with entries hidden."""
        return hide(self.read(folder), self.hidden, MASK_SEED)


def part(source: str, rows: slice, columns: slice, folder: Path) -> Array:
    """Return some rows and columns of a source, which have been shuffled before."""
    values = SOURCES[source].read(folder)
    rng = np.random.default_rng(0)
    chosen_rows, chosen_columns = rng.permutation(len(values)), rng.permutation(values.shape[1])
    return values[np.ix_(chosen_rows[rows], chosen_columns[columns])]


def digits(folder: Path) -> Array:
    """Return scikit-learn's digits without the pixels that are 0 in nearly all of them."""
    from sklearn.datasets import load_digits

    values: Array = load_digits().data
    return values[:, (values > 0).mean(axis=0) > 0.02]


def of_scikit_learn(name: str, folder: Path) -> Array:
    """Return one of the tables that scikit-learn brings along."""
    from sklearn import datasets

    values: Array = getattr(datasets, f"load_{name}")().data
    return values


def from_the_model(folder: Path) -> Array:
    """Draw rows that use 3.1 of twenty features on average."""
    return draw_data(2000, 40, 20, g_o=100.0, g_w=1.0, priors=Priors(a=40.0, b=10.0), seed=3).y


def dense(folder: Path) -> Array:
    """Draw rows that use all of ten normal factors, of which no rotation is better than another."""
    rng = np.random.default_rng(5)
    signal = rng.normal(size=(2000, 10)) @ rng.normal(size=(10, 40))
    return signal + 0.5 * signal.std() * rng.normal(size=signal.shape)


TABLES = {
    "tumours, 2,000 genes x 100": ReadableTable(
        partial(part, "expression", slice(2000), slice(100)), 0.1, "expression", chosen_on=True
    ),
    "cytometry, 4,000 cells x 24": ReadableTable(
        partial(part, "cytometry", slice(4000), slice(None)), 0.05, "cytometry", chosen_on=True
    ),
    "digits, 1,797 x 52": ReadableTable(digits, 0.2, chosen_on=True),
    "cell lines, 1,000 genes x 100": ReadableTable(
        partial(part, "cell lines", slice(None), slice(100)), 0.1, "cell lines"
    ),
    "other tumours, 2,000 genes x 60": ReadableTable(
        partial(part, "expression", slice(5000, 7000), slice(250, 310)), 0.1, "expression"
    ),
    "breast cancer, 569 x 30": ReadableTable(partial(of_scikit_learn, "breast_cancer"), 0.1, chosen_on=True),
    "wine, 178 x 13": ReadableTable(partial(of_scikit_learn, "wine"), 0.1),
    "drawn, 2,000 x 40, 3 of 20 features a row": ReadableTable(from_the_model, 0.1),
    "drawn, 2,000 x 40, 10 normal factors": ReadableTable(dense, 0.1),
}
"""Name -> the table."""
