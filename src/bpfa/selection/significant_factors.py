"""How many common factors stand out from the noise of a table (docs/math.md section 12).

What factor analysis with n factors leaves unexplained is either noise or further factors. If the signs of its
entries are flipped at random, every entry keeps its size, so that noise remains noise of the same kind,
whatever its level is in each row and column and wherever entries are missing. But a common factor is
destroyed. A direction in which the residuals vary more than flipped residuals do in any direction is
therefore a further factor. Factors are added until there is none (sign-flip parallel analysis, Hong, Sheng
and Dobriban, 2020, applied to the residuals of every stage).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from bpfa._support.checks import Array
from bpfa.inference.factor_analysis import FactorAnalysis
from bpfa.inference.panel_factors import factor_analysis

__all__ = ["significant_factors"]

# The residuals are flipped this many times. A factor is significant if it exceeds the mean of the flipped
# ones by this many of their standard deviations.
N_FLIPS, STANDARD_DEVIATIONS = 8, 4.0
# At most this many factors are added at a time, or as many as there are already, because factors that are
# still missing make the noise of the columns appear larger than it is.
FIRST_FACTORS = 8
# Factors are no longer added if there are so few of them, as a share of those found already: in tables that
# the model does not describe, there are always some more.
LEAST_SHARE = 0.05
# Whenever factors have been added, the factor analysis is iterated at most this many times, or until no noise
# variance changes by more than this share of itself.
MAX_ITERATIONS, TOLERANCE = 20, 0.01
# With at most this many rows or columns, all singular values are computed at once: if one is needed, and if
# many are needed.
FEW, MANY = 256, 2048


def significant_factors(
    values: Array, observed: NDArray[np.bool_], largest: int, rng: np.random.Generator
) -> int:
    """Return the number of common factors that stand out from the noise.

    Parameters
    ----------
    values : array, shape (n_rows, n_columns)
        With columns of mean 0.
    observed : boolean array, shape (n_rows, n_columns)
    largest : int
        The largest number to consider.
    rng : Generator
        Flips the signs.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=(500, 4)) @ rng.normal(size=(4, 20)) + rng.normal(size=(500, 20))
    >>> significant_factors(y, np.ones(y.shape, dtype=bool), 13, rng)
    4
    """
    analysis, n_factors = factor_analysis(values, observed), 0
    while n_factors < largest:
        if n_factors:
            analysis.fit(n_factors, MAX_ITERATIONS, TOLERANCE)
        most = min(largest - n_factors, max(n_factors, FIRST_FACTORS))
        n_more = _further_factors(analysis, most, rng)
        if n_more <= LEAST_SHARE * n_factors:
            break
        n_factors += n_more
    return n_factors


def _further_factors(analysis: FactorAnalysis, most: int, rng: np.random.Generator) -> int:
    """Return how many factors stand out from the noise in what is not explained yet, at most `most`."""
    unit = np.sqrt(analysis.noise)
    scaled, right = analysis.filled / unit, analysis.directions
    scores = scaled @ right
    left, _ = np.linalg.qr(scores)
    residuals = np.where(analysis.observed, analysis.values / unit - scores @ right.T, 0.0)
    size = np.linalg.norm(residuals)
    if size == 0:
        return 0
    edges = []
    for _ in range(N_FLIPS):
        flipped = np.where(rng.random(residuals.shape) < 0.5, residuals, -residuals)
        # Residuals have nothing left in the directions of the factors. Flipped residuals are confined to the
        # same space, and brought to the same size.
        flipped -= (flipped @ right) @ right.T
        flipped -= left @ (left.T @ flipped)
        edges.append(_largest_singular_values(flipped, 1)[0] * size / max(np.linalg.norm(flipped), 1e-300))
    edge = np.mean(edges) + STANDARD_DEVIATIONS * np.std(edges)
    return int((_largest_singular_values(residuals, most) > edge).sum())


def _largest_singular_values(A: Array, n_values: int) -> Array:
    """Return the largest singular values of a matrix, in no particular order."""
    smaller = min(A.shape)
    if smaller <= (FEW if n_values == 1 else MANY):
        gram = A.T @ A if smaller == A.shape[1] else A @ A.T
        squares = np.asarray(np.linalg.eigvalsh(gram)[-n_values:], dtype=np.float64)
        return np.sqrt(np.maximum(squares, 0.0))
    # The starting vector is fixed, so that the result is the same every time.
    values = svds(A, n_values, v0=np.ones(smaller), tol=1e-3, return_singular_vectors=False)
    return np.asarray(values, dtype=np.float64)
