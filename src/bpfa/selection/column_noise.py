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
from bpfa.backends.registry import backend_of
from bpfa.data import Batch, Rows
from bpfa.inference.factor_analysis import FactorAnalysis, row_sample
from bpfa.inference.panel_factors import factor_analysis

__all__ = ["column_noise", "posterior_variances"]

# The most iterations of the factor analysis, and the most for tables of more than MANY columns.
MAX_ITERATIONS, WIDE_ITERATIONS, MANY = 100, 20, 512
# The prior of the noise is learned from columns with at least this many degrees of freedom. It counts as much
# as a number of rows between these two.
ENOUGH_FREEDOM, LEAST_PRIOR, LARGEST_PRIOR = 10.0, 1.0, 1e6
# The prior precision of the coefficients of a regression, relative to that of the data: hardly anything.
RIDGE = 1e-3
# How often, at most, the noise is estimated by regressions.
MAX_REGRESSIONS = 5


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
    if n_factors and len(batch) < rows.n_columns:
        noise = _noise_of_wide_table(analysis, n_factors)
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
    squares = analysis.values**2
    square, fourth = squares.sum(axis=0) / n, (squares**2).sum(axis=0) / n
    kurtosis = fourth / np.where(square > 0, square, 1.0) ** 2
    n_equivalent = n * np.minimum(1.0, 2 / np.maximum(kurtosis - 1, 2.0))
    n_loadings = np.count_nonzero(analysis.common)
    freedom: Array = np.maximum(n_equivalent - n_loadings, 0.0)
    return freedom


def _noise_of_wide_table(analysis: FactorAnalysis, n_factors: int) -> Array:
    """Return the noise variances of the columns of a table with fewer rows than columns.

    With few rows the directions of the factors are so noisy that what they leave of the variance of a column
    says little about its noise. But the many columns determine the scores of the rows well. The noise of a
    column is therefore what a regression of the column on these scores leaves. With a better estimate of the
    noise, factors may appear that were lost in it, and then all of it is done again.
    """
    noise, n_before = analysis.noise, -1
    for _ in range(MAX_REGRESSIONS):
        n_found = int(np.count_nonzero(analysis.common))
        if n_found == n_before:
            break
        n_before = n_found
        noise = posterior_variances(*_residual_variances(analysis))
        if n_found == n_factors:
            break
        analysis.noise = noise
        analysis.iterate(n_factors)
    return noise


def _residual_variances(analysis: FactorAnalysis) -> tuple[Array, Array]:
    """Return what a regression on the scores of the rows leaves of every column, and its degrees of freedom.

    It is the residual sum of squares, divided by the number of observed entries less that of coefficients.
    """
    found = analysis.common > 0
    scores = (analysis.filled / np.sqrt(analysis.noise)) @ analysis.directions[:, found]
    scores /= np.sqrt((scores**2).mean(axis=0))
    # The mean of a column is one of the coefficients, as it was estimated from the same entries.
    regressors = np.vstack([scores.T, np.ones(len(scores))])
    columns = Batch(analysis.values.T, analysis.observed.T)
    used = np.ones((len(columns), len(regressors)), dtype=bool)
    fitted = backend_of("cpu").signal(used, regressors, 1.0, RIDGE, columns).mean
    squares = np.where(columns.observed, columns.values - fitted, 0.0) ** 2
    n_left = np.maximum(analysis.n_observed - len(regressors), 0)
    variances = np.maximum(squares.sum(axis=1) / np.maximum(n_left, 1), analysis.least_noise)
    # Where there are no more entries than coefficients, nothing is known, and the prior decides.
    freedom = np.where(n_left > 0, np.maximum(_degrees_of_freedom(analysis) - 1, 0.0), 0.0)
    return variances, freedom


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
