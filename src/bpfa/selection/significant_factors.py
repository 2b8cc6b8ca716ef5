"""How many common factors stand out from the noise of a table (docs/math.md section 12).

What factor analysis with n factors leaves unexplained is either noise or further factors. If the signs of its
entries are flipped at random, every entry keeps its size, so that noise remains noise of the same kind,
whatever its level is in each row and column and wherever entries are missing. But a common factor is
destroyed. A direction in which the residuals vary more than flipped residuals do in any direction is
therefore a further factor. Factors are added until there is none (sign-flip parallel analysis, Hong, Sheng
and Dobriban, 2020, applied to the residuals of every stage).

A feature that few rows use may add too little to the variance of the whole table to stand out. But the rows
that use it are explained badly without it. Therefore the residuals of the worst explained rows are examined
in the same way. Flipped signs leave the residuals of a row as large as they are, so that the same rows are
the worst explained ones.
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
# ones by this many of their standard deviations: among all rows, and among the worst explained ones, of which
# several shares are examined.
N_FLIPS, STANDARD_DEVIATIONS, STANDARD_DEVIATIONS_OF_FEW = 8, 3.0, 4.0
WORST_SHARES = (1 / 2, 1 / 4, 1 / 8)
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
    if values.shape[0] < values.shape[1]:
        return n_factors
    return n_factors + _factors_of_few_rows(analysis, largest - n_factors, rng)


def _further_factors(analysis: FactorAnalysis, most: int, rng: np.random.Generator) -> int:
    """Return how many factors stand out from the noise in what is not explained yet, at most `most`."""
    right = analysis.directions
    residuals, scores = _residuals(analysis, right)
    left, _ = np.linalg.qr(scores)
    edge = _edge_of_noise(residuals, right, left, STANDARD_DEVIATIONS, rng)
    return int((_largest_singular_values(residuals, most) > edge).sum())


def _factors_of_few_rows(analysis: FactorAnalysis, most: int, rng: np.random.Generator) -> int:
    """Return how many further factors stand out in the worst explained rows, at most `most`."""
    known, n_found = analysis.directions, 0
    while n_found < most:
        residuals, _ = _residuals(analysis, known)
        size = (residuals**2).sum(axis=1) / np.maximum(analysis.observed.sum(axis=1), 1)
        worst, found = np.argsort(-size, kind="stable"), known[:, :0]
        for share in WORST_SHARES:
            part = residuals[np.sort(worst[: max(2, round(share * len(worst)))])]
            edge = _edge_of_noise(part, known, None, STANDARD_DEVIATIONS_OF_FEW, rng)
            _, singular, directions = np.linalg.svd(part, full_matrices=False)
            n_more = min(int((singular > edge).sum()), most - n_found)
            if n_more > found.shape[1]:
                found = directions[:n_more].T
        if not found.shape[1]:
            break
        n_found += found.shape[1]
        # Known directions are removed once more, because missing entries are 0 in the residuals.
        new, _ = np.linalg.qr(found - known @ (known.T @ found))
        known = np.hstack([known, new])
    return n_found


def _residuals(analysis: FactorAnalysis, directions: Array) -> tuple[Array, Array]:
    """Return what some directions leave unexplained, in units of the noise, and the scores in them."""
    unit = np.sqrt(analysis.noise)
    scores: Array = (analysis.filled / unit) @ directions
    residuals: Array = np.where(analysis.observed, analysis.values / unit - scores @ directions.T, 0.0)
    return residuals, scores


def _edge_of_noise(
    residuals: Array,
    right: Array,
    left: Array | None,
    standard_deviations: float,
    rng: np.random.Generator,
) -> float:
    """Return the largest singular value that residuals without any further factor could have.

    Residuals have nothing left in the directions of the factors. Flipped residuals are confined to the same
    space, and brought to the same size.
    """
    size = float(np.linalg.norm(residuals))
    edges = []
    for _ in range(N_FLIPS):
        flipped = np.where(rng.random(residuals.shape) < 0.5, residuals, -residuals)
        flipped -= (flipped @ right) @ right.T
        if left is not None:
            flipped -= left @ (left.T @ flipped)
        edges.append(_largest_singular_values(flipped, 1)[0] * size / max(np.linalg.norm(flipped), 1e-300))
    return float(np.mean(edges) + standard_deviations * np.std(edges))


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
