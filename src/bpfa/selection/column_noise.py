"""How noisy each column is relative to the others, estimated before the fit (docs/math.md section 10).

The model has a single noise level. Once every column is divided by its own noise, a single level suffices.
The noise of a column is what factor analysis cannot explain by what the columns have in common. Only the
ratios between columns are taken from it; the fit learns the common level.
"""

from __future__ import annotations

import numpy as np

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import Rows
from bpfa.inference.factor_analysis import FactorAnalysis, row_sample

__all__ = ["column_noise"]

# The number of iterations of the factor analysis. One takes about D^3 operations: wide data has fewer
# iterations, so that all of them together take at most MAX_OPERATIONS.
MAX_ITERATIONS, MIN_ITERATIONS, MAX_OPERATIONS = 100, 10, 2e10
# The noise variance of a column is shrunk towards the mean over all columns, as if the column had this many
# additional rows with the mean noise.
PRIOR_ROWS = 20.0


def column_noise(rows: Rows, n_features: int, stream: Stream) -> Array:
    """Return the noise of every column relative to the others, scaled so that the mean square is 1.

    Parameters
    ----------
    rows : Rows
        With columns of mean 0 and variance 1.
    n_features : int
        Number of features K. There are as many common factors, but at most half as many as columns.
    stream : Stream
        Chooses the rows that are analysed.

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
    batch = row_sample(rows, stream)
    analysis = FactorAnalysis(batch.values, batch.observed)
    n_factors = min(n_features, D // 2)
    if n_factors:
        analysis.fit(n_factors, min(MAX_ITERATIONS, max(MIN_ITERATIONS, int(MAX_OPERATIONS / D**3))))
    noise, n_observed = analysis.noise, analysis.n_observed
    noise = (PRIOR_ROWS * noise.mean() + n_observed * noise) / (PRIOR_ROWS + n_observed)
    ratio: Array = np.sqrt(noise / noise.mean())
    return ratio
