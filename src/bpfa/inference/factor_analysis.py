"""Factor analysis of a sample of the rows: a quick look at the data before a fit (docs/math.md section 10).

Each iteration computes the covariance of the rows with their missing entries filled in, derives the common
factors and the noise of every column from it, and fills in the missing entries anew.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import Batch, Rows, sample_ids

__all__ = ["LEAST_NOISE_SHARE", "FactorAnalysis", "pairwise_covariance", "row_sample"]

# A sample has at most this many rows, and at most this many entries unless so few rows would not suffice.
MAX_ROWS, MAX_ENTRIES, ENOUGH_ROWS = 10_000, 2**21, 1000
# The smallest noise variance of a column, as a share of the variance of the column. Without it, a column that
# is explained without any noise (a Heywood case) would outweigh all others.
LEAST_NOISE_SHARE = 1e-3
# Iterations end when no noise variance changes by more than this share of itself.
TOLERANCE = 1e-3


def row_sample(rows: Rows, stream: Stream) -> Batch:
    """Return a random sample of the rows that is small enough to be analysed quickly."""
    n_rows = min(MAX_ROWS, max(ENOUGH_ROWS, MAX_ENTRIES // rows.n_columns))
    return rows.take(sample_ids(rows, n_rows, stream.generator(0)))


def pairwise_covariance(batch: Batch) -> Array:
    """Return the mean product of every two columns over the rows in which both are observed.

    It is 0 for two columns that are never observed together.

    Examples
    --------
    >>> pairwise_covariance(Batch([[1.0, 2.0], [3.0, np.nan]]))
    array([[5., 2.],
           [2., 4.]])
    """
    observed, values = batch.observed.astype(np.float64), batch.values.astype(np.float64)
    covariance: Array = values.T @ values / np.maximum(observed.T @ observed, 1.0)
    return covariance


class FactorAnalysis:
    """Maximum-likelihood factor analysis of rows with missing entries, by iteration.

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
        The rows, with missing entries as the factors predict them.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> common = rng.normal(size=(2000, 1)) @ np.ones((1, 6))
    >>> y = common + rng.normal(size=(2000, 6)) * [0.2, 0.2, 0.2, 0.4, 0.4, 0.4]
    >>> analysis = FactorAnalysis(y, np.ones(y.shape, dtype=bool))
    >>> analysis.fit(1, max_iterations=20)
    >>> np.sqrt(analysis.noise).round(1)
    array([0.2, 0.2, 0.2, 0.4, 0.4, 0.4])
    """

    def __init__(self, values: Array, observed: NDArray[np.bool_]) -> None:
        self.values: Array = np.where(observed, values, 0.0).astype(np.float64)
        self.observed, self.filled = observed, self.values
        self.n_observed = observed.sum(axis=0)
        variance = (self.values**2).sum(axis=0) / np.maximum(self.n_observed, 1)
        self._least_noise = LEAST_NOISE_SHARE * np.where(variance > 0, variance, 1.0)
        self.noise: Array = np.maximum(variance, self._least_noise)

    def fit(self, n_factors: int, max_iterations: int) -> None:
        """Iterate until the noise no longer changes noticeably, at most `max_iterations` times."""
        for _ in range(max_iterations):
            if self.iterate(n_factors) <= TOLERANCE:
                break

    def iterate(self, n_factors: int) -> float:
        """Update factors, noise and missing entries once.

        Returns
        -------
        float
            The largest change of a noise variance, as a share of its earlier value.
        """
        n, D = self.values.shape
        noise, unit = self.noise, np.sqrt(self.noise)
        # Values that were filled in have no noise of their own; its variance is added here.
        covariance = self.filled.T @ self.filled / n + np.diag((1 - self.n_observed / n) * noise)
        eigenvalues, vectors = np.linalg.eigh(covariance / unit / unit[:, None])
        # In units of the noise, a common factor has the variance by which an eigenvalue exceeds 1.
        common = np.maximum(eigenvalues[D - n_factors :] - 1.0, 0.0)
        directions = vectors[:, D - n_factors :]
        self.noise = np.maximum(np.diag(covariance) - noise * (directions**2 @ common), self._least_noise)
        shrunk = directions * (common / (common + 1.0))
        self.filled = np.where(
            self.observed, self.values, ((self.filled / unit) @ shrunk) @ directions.T * unit
        )
        return float((np.abs(self.noise - noise) / noise).max())
