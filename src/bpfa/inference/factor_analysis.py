"""Factor analysis of some of the rows, by turns: a quick look at the data before the fit.

By turns, the covariances of the rows filled in, the common factors and the noise of every column from them,
and what these say of the missing entries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import Batch, Rows, sample_ids

__all__ = ["LEAST_NOISE", "Factoring", "pairwise_covariance", "some_rows"]

# Rows that are looked at, and entries in all, of which there are more only where a thousand rows have more.
MAX_ROWS, MAX_ENTRIES = 10_000, 2**21
# The least noise variance, as a share of the column's own: a column explained without noise (a Heywood case)
# would count for everything.
LEAST_NOISE = 1e-3
# Turns have settled when no noise variance moves by more than this share.
TOLERANCE = 1e-3


def some_rows(rows: Rows, stream: Stream) -> Batch:
    """Return rows at random, as many as one can look at in no time."""
    n_rows = min(MAX_ROWS, max(1000, MAX_ENTRIES // rows.n_columns))
    return rows.take(sample_ids(rows, n_rows, stream.generator(0)))


def pairwise_covariance(batch: Batch) -> Array:
    """Return the mean products of columns over the rows where both are observed, 0 where there are none.

    Examples
    --------
    >>> pairwise_covariance(Batch([[1.0, 2.0], [3.0, np.nan]]))
    array([[5., 2.],
           [2., 4.]])
    """
    observed, values = batch.observed.astype(np.float64), batch.values.astype(np.float64)
    covariance: Array = values.T @ values / np.maximum(observed.T @ observed, 1.0)
    return covariance


class Factoring:
    """Maximum-likelihood factor analysis, turn by turn.

    Parameters
    ----------
    values : array, shape (n_rows, n_columns)
        With columns of mean 0.
    observed : boolean array, shape (n_rows, n_columns)

    Attributes
    ----------
    noise : array, shape (n_columns,)
        Noise variance of every column.
    filled : array, shape (n_rows, n_columns)
        The rows, missing entries as the factors have them.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> common = rng.normal(size=(2000, 1)) @ np.ones((1, 6))
    >>> y = common + rng.normal(size=(2000, 6)) * [0.2, 0.2, 0.2, 0.4, 0.4, 0.4]
    >>> factoring = Factoring(y, np.ones(y.shape, dtype=bool))
    >>> factoring.settle(1, max_turns=20)
    >>> np.sqrt(factoring.noise).round(1)
    array([0.2, 0.2, 0.2, 0.4, 0.4, 0.4])
    """

    def __init__(self, values: Array, observed: NDArray[np.bool_]) -> None:
        self.values: Array = np.where(observed, values, 0.0).astype(np.float64)
        self.observed, self.filled = observed, self.values
        self.n_observed = observed.sum(axis=0)
        variance = (self.values**2).sum(axis=0) / np.maximum(self.n_observed, 1)
        self._least = LEAST_NOISE * np.where(variance > 0, variance, 1.0)
        self.noise: Array = np.maximum(variance, self._least)

    def settle(self, n_factors: int, max_turns: int) -> None:
        """Make turns until no noise variance moves by more than a thousandth, or so many."""
        for _ in range(max_turns):
            if self.turn(n_factors) <= TOLERANCE:
                break

    def turn(self, n_factors: int) -> float:
        """Move factors, noise and missing entries once; return the largest change of a noise, as a share."""
        n, D = self.values.shape
        noise, unit = self.noise, np.sqrt(self.noise)
        # What is filled in has no noise; its variance comes back here.
        covariance = self.filled.T @ self.filled / n + np.diag((1 - self.n_observed / n) * noise)
        eigenvalues, vectors = np.linalg.eigh(covariance / unit / unit[:, None])
        # In units of the noise, what is common has the variance that exceeds 1.
        common = np.maximum(eigenvalues[D - n_factors :] - 1.0, 0.0)
        directions = vectors[:, D - n_factors :]
        self.noise = np.maximum(np.diag(covariance) - noise * (directions**2 @ common), self._least)
        shrunk = directions * (common / (common + 1.0))
        self.filled = np.where(
            self.observed, self.values, ((self.filled / unit) @ shrunk) @ directions.T * unit
        )
        return float((np.abs(self.noise - noise) / noise).max())
