"""Factor analysis of a sample of the rows: a quick look at the data before a fit (docs/math.md section 10).

Each iteration computes the covariance of the rows with their missing entries filled in, derives the common
factors and the noise of every column from it, and fills in the missing entries anew.

With few rows for the number of columns, the largest eigenvalues of the covariance are larger than the
variances of the factors, and their directions contain noise. Both are corrected for in the limit of large
tables, so that wide tables can be analysed, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import Batch, Rows, sample_ids
from bpfa.inference.eigenpairs import largest_eigenpairs

__all__ = [
    "LEAST_NOISE_SHARE",
    "FactorAnalysis",
    "pairwise_covariance",
    "row_sample",
    "sample_size",
    "true_factors",
]

# A sample has at most this many rows, and at most this many entries unless so few rows would not suffice.
MAX_ROWS, MAX_ENTRIES, ENOUGH_ROWS = 10_000, 2**21, 1000
# The smallest noise variance of a column, as a share of the variance of the column. Without it, a column that
# is explained without any noise (a Heywood case) would outweigh all others.
LEAST_NOISE_SHARE = 1e-3
# Iterations end when no noise variance changes by more than this share of itself.
TOLERANCE = 1e-3


def sample_size(n_columns: int) -> int:
    """Return how many rows of a table of so many columns are analysed, if it has as many."""
    return min(MAX_ROWS, max(ENOUGH_ROWS, MAX_ENTRIES // n_columns))


def row_sample(rows: Rows, stream: Stream) -> Batch:
    """Return a random sample of the rows that is small enough to be analysed quickly."""
    return rows.take(sample_ids(rows, sample_size(rows.n_columns), stream.generator(0)))


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


def true_factors(eigenvalues: Array, columns_per_row: float) -> tuple[Array, Array]:
    """Return what the largest eigenvalues of a sample covariance say about the true common factors.

    The noise has variance 1. A factor of variance v is seen, in a table with g columns for every row, as an
    eigenvalue of (1 + v) (1 + g / v), provided that v > sqrt(g); otherwise it is lost in the noise.

    Parameters
    ----------
    eigenvalues : array
        The largest eigenvalues of the covariance of the rows.
    columns_per_row : float
        g, the number of columns divided by the number of rows.

    Returns
    -------
    variances : array
        Variance of every factor; 0 for an eigenvalue that noise alone could have.
    shrinkage : array
        What the projection of a row onto the direction of a factor must be multiplied by to predict the row
        with the least squared error (Gavish and Donoho, 2017).

    Examples
    --------
    >>> variances, shrinkage = true_factors(np.array([3.0, 7.0]), columns_per_row=1.0)
    >>> variances.round(2), shrinkage.round(2)
    (array([0.  , 4.79]), array([0.  , 0.65]))
    >>> true_factors(np.array([3.0, 7.0]), columns_per_row=0.0)[0]
    array([2., 6.])
    """
    excess = eigenvalues - 1.0 - columns_per_row
    spread = np.sqrt(np.maximum(excess**2 - 4 * columns_per_row, 0.0))
    visible = excess > 2 * np.sqrt(columns_per_row)
    variances: Array = np.where(visible, (excess + spread) / 2, 0.0)
    shrinkage: Array = np.where(visible, spread / np.maximum(eigenvalues, 1e-300), 0.0)
    return variances, shrinkage


class FactorAnalysis:
    """Factor analysis of rows with missing entries, by iteration.

    Parameters
    ----------
    values : array, shape (n_rows, n_columns)
        With columns of mean 0.
    observed : boolean array, shape (n_rows, n_columns)

    Attributes
    ----------
    noise : array, shape (n_columns,)
        Noise variance of every column.
    least_noise : array, shape (n_columns,)
        The smallest value that each of them may have.
    filled : array, shape (n_rows, n_columns)
        The rows, with missing entries as the factors predict them.
    directions : array, shape (n_columns, n_factors)
        Orthonormal directions of the common factors in units of the noise, the strongest last.
    common : array, shape (n_factors,)
        Variance of every common factor in units of the noise.

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
        self.least_noise = LEAST_NOISE_SHARE * np.where(variance > 0, variance, 1.0)
        self.noise: Array = np.maximum(variance, self.least_noise)
        self.directions: Array = np.zeros((values.shape[1], 0))
        self.common: Array = np.zeros(0)
        self._columns_per_row = values.shape[1] / max(1.0, float(self.n_observed.mean()))

    def fit(self, n_factors: int, max_iterations: int, tolerance: float = TOLERANCE) -> None:
        """Iterate until no noise variance changes by more than `tolerance` of itself, or so many times."""
        for _ in range(max_iterations):
            if self.iterate(n_factors) <= tolerance:
                break

    def iterate(self, n_factors: int) -> float:
        """Update factors, noise and missing entries once.

        Returns
        -------
        float
            The largest change of a noise variance, as a share of its earlier value.
        """
        noise, unit = self.noise, np.sqrt(self.noise)
        scaled = self.filled / unit
        # Values that were filled in have no noise of their own; its variance, 1 in these units, is added.
        missing = 1 - self.n_observed / len(scaled)
        eigenvalues, self.directions = largest_eigenpairs(scaled, missing, n_factors, self.directions)
        self.common, shrinkage = true_factors(eigenvalues, self._columns_per_row)
        scores = scaled @ (self.directions * shrinkage)
        # From here on, the memory of `scaled` serves for other arrays of its size, as new memory takes time.
        total = np.square(self.filled, out=scaled).mean(axis=0) + missing * noise
        self.noise = np.maximum(total - noise * (self.directions**2 @ self.common), self.least_noise)
        prediction = np.matmul(scores, self.directions.T, out=scaled)
        prediction *= unit
        np.copyto(prediction, self.values, where=self.observed)
        self.filled = prediction
        return float((np.abs(self.noise - noise) / noise).max())
