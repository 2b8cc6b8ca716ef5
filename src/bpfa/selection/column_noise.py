"""How noisy each column is relative to the others, estimated before the fit (docs/math.md section 10).

The model has a single noise level. Once every column is divided by its own noise, a single level suffices.
The noise of a column is what factor analysis cannot explain by what the columns have in common. Only the
ratios between columns are taken from it; the fit learns the common level.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import Rows
from bpfa.inference.factor_analysis import FactorAnalysis, row_sample
from bpfa.inference.panel_factors import factor_analysis

__all__ = ["column_noise", "posterior_variances"]

# The most iterations of the factor analysis, and the most for tables of more than MANY columns.
MAX_ITERATIONS, WIDE_ITERATIONS, MANY = 100, 20, 512
# The prior of the noise is learned from columns with at least this many degrees of freedom. It counts as much
# as a number of rows between these two.
ENOUGH_FREEDOM, LEAST_PRIOR, LARGEST_PRIOR = 10.0, 1.0, 1e6


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
    array([0.64, 0.64, 0.62, 1.27, 1.27, 1.26])
    """
    batch = row_sample(rows, stream)
    analysis = factor_analysis(batch.values, batch.observed)
    n_factors = min(n_features, rows.n_columns // 2)
    if n_factors:
        analysis.fit(n_factors, WIDE_ITERATIONS if rows.n_columns > MANY else MAX_ITERATIONS)
    noise = posterior_variances(analysis.noise, _degrees_of_freedom(analysis))
    ratio: Array = np.sqrt(noise / noise.mean())
    return ratio


def _degrees_of_freedom(analysis: FactorAnalysis) -> Array:
    """Return how many independent normal numbers would tell as much about the noise of every column.

    The variance of n numbers with kurtosis k has a relative standard error of sqrt((k - 1) / n), and k is 3
    for normal numbers. A column that is constant but for a few rows has a kurtosis of nearly n: whatever is
    found for its noise rests on these few rows. The loadings of the common factors are learned from the same
    rows, and each takes one degree of freedom.
    """
    n = np.maximum(analysis.n_observed, 1)
    square, fourth = (analysis.values**2).sum(axis=0) / n, (analysis.values**4).sum(axis=0) / n
    kurtosis = fourth / np.where(square > 0, square, 1.0) ** 2
    n_equivalent = n * np.minimum(1.0, 2 / np.maximum(kurtosis - 1, 2.0))
    n_loadings = np.count_nonzero(analysis.common)
    freedom: Array = np.maximum(n_equivalent - n_loadings, 0.0)
    return freedom


def posterior_variances(variances: Array, freedom: Array) -> Array:
    """Return variances shrunk towards a common one, each by as much as its degrees of freedom demand.

    The prior of a variance is a scaled inverse chi-squared distribution. Both of its parameters, the common
    variance and the degrees of freedom that it counts for, are learned from all variances (empirical Bayes,
    by the moments of their logarithms: Smyth, 2004).

    Parameters
    ----------
    variances : array, shape (n,)
        Estimated variances.
    freedom : array, shape (n,)
        Degrees of freedom of each estimate.

    Examples
    --------
    >>> posterior_variances(np.array([1.0, 2.0, 0.5, 1e-9]), np.array([1000.0, 1000.0, 1000.0, 0.0])).round(1)
    array([1. , 2. , 0.5, 0.8])
    """
    enough = freedom >= ENOUGH_FREEDOM
    if not enough.any():
        return np.full_like(variances, variances.mean())
    half = freedom[enough] / 2
    # These are the expectation and the variance of the logarithm of an estimate of variance 1.
    logs = np.log(variances[enough]) - digamma(half) + np.log(half)
    spread = logs.var(ddof=1) - polygamma(1, half).mean() if len(logs) > 1 else 0.0
    prior = _freedom_of_spread(spread)
    common = np.exp(logs.mean() + digamma(prior / 2) - np.log(prior / 2))
    shrunk: Array = (prior * common + freedom * variances) / (prior + freedom)
    return shrunk


def _freedom_of_spread(spread: float) -> float:
    """Return the degrees of freedom for which logarithms of variances vary by `spread`."""
    if spread <= polygamma(1, LARGEST_PRIOR / 2):
        return LARGEST_PRIOR
    if spread >= polygamma(1, LEAST_PRIOR / 2):
        return LEAST_PRIOR
    return float(brentq(lambda freedom: polygamma(1, freedom / 2) - spread, LEAST_PRIOR, LARGEST_PRIOR))
