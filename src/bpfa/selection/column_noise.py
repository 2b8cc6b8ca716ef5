"""How noisy each column is beside the others, before the fit.

The model has one noise level; columns that are divided by their own noise have one. Factor analysis of the
covariances of the columns tells it well enough: what of each column the others do not share. What comes out
is the noise of each column beside the others; the fit then learns the level that they have in common.
"""

from __future__ import annotations

import numpy as np

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import Rows
from bpfa.inference.factor_analysis import Factoring, some_rows

__all__ = ["column_noise"]

# Turns at most; wide data has fewer, as a turn takes D^3 operations.
MAX_TURNS, OPERATIONS = 100, 2e10
# A column's noise variance is drawn to that of all columns as if so many of its rows were of theirs.
PRIOR_ROWS = 20.0


def column_noise(rows: Rows, n_features: int, stream: Stream) -> Array:
    """Return the noise of every column beside that of the others; the mean of the squares is 1.

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
    batch = some_rows(rows, stream)
    factoring = Factoring(batch.values, batch.observed)
    n_factors = min(n_features, D // 2)
    n_turns = min(MAX_TURNS, max(10, int(OPERATIONS / D**3))) if n_factors else 0
    factoring.settle(n_factors, n_turns)
    noise, n_observed = factoring.noise, factoring.n_observed
    noise = (PRIOR_ROWS * noise.mean() + n_observed * noise) / (PRIOR_ROWS + n_observed)
    ratio: Array = np.sqrt(noise / noise.mean())
    return ratio
