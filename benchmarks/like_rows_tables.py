"""Tables whose rows may have kinds: cells, genes, written digits, and drawn ones with a known best error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax
from scipy.stats import norm

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


class Kinds(NamedTuple):
    """Rows of several kinds, each with a mean and three factors of its own."""

    n_kinds: int
    spread: float

    def drawn(self, n_rows: int) -> tuple[Array, Array, Array]:
        """Return the rows, the means of the kinds, and their covariances."""
        rng = np.random.default_rng([self.n_kinds, 20])
        kind = rng.integers(self.n_kinds, size=n_rows)
        means = self.spread * rng.normal(size=(self.n_kinds, 20))
        factors = 0.8 * rng.normal(size=(self.n_kinds, 3, 20))
        signal = means[kind] + np.einsum("nk,nkd->nd", rng.normal(size=(n_rows, 3)), factors[kind])
        covariances = np.einsum("ckd,cke->cde", factors, factors) + 0.25 * np.eye(20)
        return signal + 0.5 * rng.normal(size=signal.shape), means, covariances

    def __call__(self, folder: Path, n_rows: int) -> Array:
        """Return the rows; no folder is needed."""
        return self.drawn(n_rows)[0]


TABLES = {
    "cells, 24 proteins": LikeRowsTable(rows_of("cytometry"), 0.05, "cytometry", 20_000),
    "genes of tumours, 200 samples": LikeRowsTable(rows_of("expression", 200), 0.1, "expression", 3000),
    "genes of cell lines, 200 samples": LikeRowsTable(rows_of("cell lines", 200), 0.1, "cell lines"),
    "written digits": LikeRowsTable(digits, 0.2),
    "drawn, six kinds": LikeRowsTable(Kinds(6, 1.0), 0.1),
    "drawn, six kinds far apart": LikeRowsTable(Kinds(6, 3.0), 0.1),
    "drawn, one kind": LikeRowsTable(Kinds(1, 1.0), 0.1),
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


def best_scores(name: str, folder: Path, seed: int, n_rows: int) -> dict[str, Any]:
    """Return the scores of predictions by the distribution that a table was drawn from.

    The log-likelihood is that of single entries. No method can have a smaller error, but for chance.
    """
    table = TABLES[name]
    if not isinstance(table.read, Kinds):
        raise ValueError("not a drawn table")
    values, means, covariances = table.read.drawn(min(n_rows, table.most_rows))
    task = load(name, folder, seed, n_rows)
    unit = np.nanstd(np.where(task.hidden, np.nan, values), axis=0)
    errors, densities, covered = [], [], []
    for row, hidden in zip(values, task.hidden, strict=True):
        if not hidden.any():
            continue
        seen, parts = ~hidden, []
        for mean, covariance in zip(means, covariances, strict=True):
            inner = covariance[np.ix_(seen, seen)]
            gain = np.linalg.solve(inner, covariance[seen][:, hidden]).T
            left = row[seen] - mean[seen]
            log_weight = -(left @ np.linalg.solve(inner, left) + np.linalg.slogdet(inner)[1]) / 2
            variance = np.diag(covariance)[hidden] - (gain * covariance[hidden][:, seen]).sum(axis=1)
            parts.append((log_weight, mean[hidden] + gain @ left, variance))
        weights = softmax([part[0] for part in parts])[:, None]
        centers, deviations = np.array([p[1] for p in parts]), np.sqrt([p[2] for p in parts])
        errors.append((weights * centers).sum(axis=0) - row[hidden])
        below = (weights * norm.cdf(row[hidden], centers, deviations)).sum(axis=0)
        density = (weights * norm.pdf(row[hidden], centers, deviations)).sum(axis=0)
        errors[-1] = errors[-1] / unit[hidden]
        densities.append(np.log(density * unit[hidden]))
        covered.append(np.abs(below - 0.5) < 0.475)
    return {
        "log_likelihood": float(np.concatenate(densities).mean()),
        "mse": float((np.concatenate(errors) ** 2).mean()),
        "coverage": float(np.concatenate(covered).mean()),
        "note": "not a method: the truth is not known",
    }
