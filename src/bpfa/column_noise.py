"""How noisy each column is beside the others, before the fit.

The model has one noise level; columns that are divided by their own noise have one. Factor analysis of the
covariances of the columns tells it well enough: what of each column the others do not share. What comes out
is the noise of each column beside the others; the fit then learns the level that they have in common.
"""

from __future__ import annotations

import numpy as np

from bpfa._checks import Array
from bpfa.data import Rows, sample_ids
from bpfa.philox import Stream

__all__ = ["column_noise"]

# Rows that are looked at, and entries in all, of which there are more only where a thousand rows have more.
MAX_ROWS, MAX_ENTRIES = 10_000, 2**21
# The iteration ends when no noise variance moves by more than this share, or after so many rounds; wide data
# has fewer, as a round takes D^3 operations.
TOLERANCE, MAX_ROUNDS, OPERATIONS = 1e-3, 100, 2e10
# A column's noise variance is drawn to that of all columns as if so many of its rows were of theirs.
PRIOR_ROWS = 20.0
# The least noise variance, as a share of the column's own: a column explained without noise (a Heywood case)
# would count for everything.
LEAST_NOISE = 1e-3


def column_noise(rows: Rows, n_features: int, stream: Stream) -> Array:
    """Return the noise of every column beside that of the others; the mean of the squares is 1.

    Maximum-likelihood factor analysis of some of the rows, by turns: the covariances of the rows filled in,
    the common factors and the noise from them, and what these say of the missing entries.

    Parameters
    ----------
    rows : Rows
        With columns of mean 0 and variance 1.
    n_features : int
        K; at most half as many as columns are taken for common factors here.
    stream : Stream
        Chooses the rows that are looked at.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rng = np.random.default_rng(0)
    >>> common = rng.normal(size=(2000, 1)) @ np.ones((1, 6))
    >>> y = common + rng.normal(size=(2000, 6)) * [0.2, 0.2, 0.2, 0.4, 0.4, 0.4]
    >>> column_noise(ArrayRows(y), 1, Stream.from_seed(0)).round(2)
    array([0.64, 0.64, 0.63, 1.26, 1.27, 1.26])
    """
    D = rows.n_columns
    n_rows = min(MAX_ROWS, max(1000, MAX_ENTRIES // D))
    batch = rows.take(sample_ids(rows, n_rows, stream.generator(0)))
    observed, filled = batch.observed, batch.values.astype(np.float64)
    n_observed = observed.sum(axis=0)
    variance = (filled**2).sum(axis=0) / np.maximum(n_observed, 1)
    least = LEAST_NOISE * np.where(variance > 0, variance, 1.0)
    n_factors, noise = min(n_features, D // 2), np.maximum(variance, least)
    n_rounds = min(MAX_ROUNDS, max(10, int(OPERATIONS / D**3))) if n_factors else 0
    for _ in range(n_rounds):
        before, unit = noise, np.sqrt(noise)
        # What is filled in has no noise; its variance comes back here.
        covariance = filled.T @ filled / len(batch) + np.diag((1 - n_observed / len(batch)) * noise)
        eigenvalues, vectors = np.linalg.eigh(covariance / unit / unit[:, None])
        # In units of the noise, what is common has the variance that exceeds 1.
        common = np.maximum(eigenvalues[D - n_factors :] - 1.0, 0.0)
        directions = vectors[:, D - n_factors :]
        noise = np.maximum(np.diag(covariance) - noise * (directions**2 @ common), least)
        shrunk = directions * (common / (common + 1.0))
        filled = np.where(observed, batch.values, ((filled / unit) @ shrunk) @ directions.T * unit)
        if (np.abs(noise - before) <= TOLERANCE * before).all():
            break
    noise = (PRIOR_ROWS * noise.mean() + n_observed * noise) / (PRIOR_ROWS + n_observed)
    ratio: Array = np.sqrt(noise / noise.mean())
    return ratio
