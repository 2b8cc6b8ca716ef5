"""The variance of the noise as a linear function of the mean, learned from the flat parts of a picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from bpfa._support.checks import Array
from bpfa.images.noise.blocks import TEXTURE_TERMS, Blocks

__all__ = ["FEWEST_BLOCKS", "Line", "fit_line"]

# The fewest flat blocks that a line is fitted to.
FEWEST_BLOCKS = 8
# A block is flat if its texture is not above this quantile of what noise alone gives.
FLAT_QUANTILE = 0.5
# Blocks whose variance is more than this many standard deviations above the line are not flat either.
MOST_DEVIATIONS = 4.0
# The most times that flat blocks are chosen anew.
MOST_ITERATIONS = 30


@dataclass(frozen=True)
class Line:
    """The variance of the noise, slope * mean + intercept.

    Parameters
    ----------
    slope, intercept : float
    slope_error, intercept_error : float
        Their standard errors; 0 for one that was given.
    low, high : float
        The 5th and the 95th percentile of the means of flat blocks.
    """

    slope: float
    intercept: float
    slope_error: float
    intercept_error: float
    low: float
    high: float

    def variance(self, mean: Array) -> Array:
        """Return the variance at a mean."""
        return self.slope * mean + self.intercept

    @property
    def range_ratio(self) -> float:
        """How many times the variance at the low mean the variance at the high one is."""
        high = self.slope * self.high + self.intercept
        low = self.slope * self.low + self.intercept
        return float(high / low) if low > 0 else np.inf


def fit_line(blocks: Blocks, *, slope: float | None = None, intercept: float | None = None) -> Line | None:
    """Fit the line by weighted least squares to the flat blocks.

    Which blocks are flat is decided by their texture, which is independent of the variance that is fitted, so
    that the choice does not bias the line. Line and choice are improved in turn.

    Parameters
    ----------
    blocks : Blocks
    slope, intercept : float, optional
        What is known of the line.

    Returns
    -------
    Line or None
        None if there are fewer than 8 flat blocks, or no noise in them.

    Examples
    --------
    >>> from bpfa.images.noise.blocks import blocks_of
    >>> counts = np.random.default_rng(0).poisson(np.tile(np.linspace(2, 30, 256), (1, 256, 1)))
    >>> line = fit_line(blocks_of(3.0 * counts, np.ones(counts.shape, bool)))
    >>> abs(line.slope - 3) < 0.1, line.slope / line.slope_error > 10
    (True, True)
    """
    noisy = blocks.noisy
    if noisy.sum() < FEWEST_BLOCKS:
        return None
    flat = noisy & (blocks.texture < 1.5 * blocks.variance)
    line = Line(0.0, float(np.median(blocks.variance)), 0.0, 0.0, 0.0, 0.0)
    for _ in range(MOST_ITERATIONS):
        if flat.sum() < FEWEST_BLOCKS:
            return None
        # The weights follow from the line, so that a few steps are made for each choice of blocks.
        for _ in range(3):
            line = _weighted(blocks, flat, line, slope, intercept)
        expected, spread = _expected(blocks, line)
        limit = chi2.ppf(FLAT_QUANTILE, TEXTURE_TERMS) / TEXTURE_TERMS
        now = (blocks.texture <= limit * expected) & (blocks.variance <= expected + MOST_DEVIATIONS * spread)
        if np.array_equal(now, flat):
            break
        flat = now
    return line


def _expected(blocks: Blocks, line: Line) -> tuple[Array, Array]:
    """Return the variance that the line gives to each block, and the standard deviation of its estimate."""
    middle = float(np.median(blocks.variance))
    expected = np.maximum(line.variance(blocks.mean), 0.02 * middle)
    # The fourth cumulant of gain * Poisson is gain^2 times its variance.
    counted = np.maximum(expected - max(line.intercept, 0.0), 0.0)
    fourth = max(line.slope, 0.0) ** 2 * counted
    return expected, np.sqrt(2 * expected**2 / blocks.freedom + fourth / blocks.n_pixels)


def _weighted(
    blocks: Blocks, flat: NDArray[np.bool_], before: Line, slope: float | None, intercept: float | None
) -> Line:
    """Return the line of weighted least squares through flat blocks, with weights by the line before."""
    weight = 1 / _expected(blocks, before)[1][flat] ** 2
    means, target = blocks.mean[flat], blocks.variance[flat].copy()
    columns = []
    if slope is None:
        columns.append(means)
    else:
        target -= slope * means
    if intercept is None:
        columns.append(np.ones_like(means))
    else:
        target -= intercept
    solution = errors = np.zeros(0)
    if columns:
        design = np.stack(columns, axis=1)
        normal = (design * weight[:, None]).T @ design
        covariance = np.linalg.pinv(normal, hermitian=True)
        solution = covariance @ (design.T @ (weight * target))
        chi_square = float(weight @ (target - design @ solution) ** 2) / max(len(target) - len(columns), 1)
        errors = np.sqrt(np.diag(covariance) * max(chi_square, 1.0))
    found, error = iter(solution.tolist()), iter(errors.tolist())
    low, high = np.quantile(means, (0.05, 0.95))
    return Line(
        slope=next(found) if slope is None else slope,
        intercept=next(found) if intercept is None else intercept,
        slope_error=next(error) if slope is None else 0.0,
        intercept_error=next(error) if intercept is None else 0.0,
        low=float(low),
        high=float(high),
    )
