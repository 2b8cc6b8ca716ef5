"""Observed pixels that were hidden decide whether groups help, and how far they err."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream

__all__ = ["Verdict", "hide_pixels", "judge"]

# Share of the observed pixels that is hidden, the number that is enough, and the number that is too few to
# judge anything by.
HIDDEN_SHARE, MOST_HIDDEN, FEWEST_HIDDEN = 0.05, 20_000, 30
# The largest factor by which the variance is corrected, in either direction.
MOST_CORRECTION = 16.0
# Variance of the logarithm of that factor over pictures.
PRIOR_SPREAD = 0.2
# 95 % of a Gaussian distribution is within this many standard deviations.
DEVIATIONS, COVERED = 1.96, 0.95


@dataclass(frozen=True)
class Verdict:
    """How groups and dictionary are combined.

    Parameters
    ----------
    weight : float
        Weight of the groups in the combined picture; that of the dictionary is 1 - weight.
    correction : float
        Factor on the variance of a pixel.
    """

    weight: float
    correction: float


def hide_pixels(observed: NDArray[np.bool_], stream: Stream) -> NDArray[np.bool_] | None:
    """Return which observed pixels are hidden, or None if there are too few; channels are hidden together.

    Examples
    --------
    >>> hidden = hide_pixels(np.ones((1, 40, 40, 3), bool), Stream.from_seed(0))
    >>> hidden.shape, bool(abs(hidden.mean() - 0.05) < 0.02)
    ((1, 40, 40, 3), True)
    >>> hide_pixels(np.ones((1, 5, 5, 1), bool), Stream.from_seed(0)) is None
    True
    """
    pixels = np.flatnonzero(observed.any(axis=3))
    n_hidden = min(round(HIDDEN_SHARE * len(pixels)), MOST_HIDDEN)
    if n_hidden < FEWEST_HIDDEN:
        return None
    chosen = stream.child("hidden pixels").generator(0).choice(pixels, n_hidden, replace=False)
    hidden = np.zeros(observed.shape[:3], bool)
    hidden.ravel()[chosen] = True
    return hidden[..., None] & observed


def judge(
    seen: Array, dictionary: Array, groups: Array, spread: tuple[Array, Array], noise: Array
) -> Verdict:
    """Return how groups and dictionary are best combined, given hidden pixels and what both say of them.

    The weight is the one with the least squared error, and two standard errors more if the pixels are noisy.
    The correction makes 95 % of the intervals of plus and minus 1.96 standard deviations contain the pixel.

    Parameters
    ----------
    seen : array, shape (pixels,)
        Values of the hidden pixels.
    dictionary, groups : arrays, shape (pixels,)
        What both say of them.
    spread : pair of arrays, shape (pixels,)
        Variances of dictionary and groups.
    noise : array, shape (pixels,)
        Variance of the noise on the hidden pixels.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth, error = rng.normal(size=10_000), rng.normal(size=(2, 10_000))
    >>> found = judge(truth, truth + 2 * error[0], truth + error[1], (np.ones(10_000),) * 2, np.zeros(10_000))
    >>> round(found.weight, 1)
    0.8
    """
    difference = groups - dictionary
    square = float(difference @ difference)
    if square == 0:
        return Verdict(0.0, 1.0)
    # Groups are trusted unless the hidden pixels speak against them by more than their noise would.
    doubt = 2 * float(np.sqrt(difference**2 @ noise)) / square
    weight = float(np.clip(difference @ (seen - dictionary) / square + doubt, 0.0, 1.0))
    error = np.abs(seen - dictionary - weight * difference)
    variance = combined_variance(spread[0], spread[1], difference, weight)
    return Verdict(weight, _correction(error, variance, noise))


def _correction(error: Array, variance: Array, noise: Array) -> float:
    """Return the factor on the variance for which 95 % of the intervals contain the hidden pixels.

    Its logarithm is shrunk towards 0, by a prior with the variance PRIOR_SPREAD: if the noise is much larger
    than the variance, the hidden pixels hardly tell how large the variance is.
    """
    low, high = 1 / MOST_CORRECTION, MOST_CORRECTION
    for _ in range(40):
        middle = np.sqrt(low * high)
        if np.mean(error <= DEVIATIONS * np.sqrt(middle * variance + noise)) < COVERED:
            low = middle
        else:
            high = middle
    doubt = 3 / len(error) * float(1 + np.mean(noise) / np.mean(variance)) ** 2
    return float(high ** (PRIOR_SPREAD / (PRIOR_SPREAD + doubt)))


def combined_variance(dictionary: Array, groups: Array, difference: Array, weight: float) -> Array:
    """Return the variance of the mixture of what the dictionary and the groups say."""
    mixed: Array = (1 - weight) * dictionary + weight * groups + weight * (1 - weight) * difference**2
    return mixed
