"""Observed pixels that were hidden decide whether groups help, and how large their errors are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.images.groups.verdict import Verdict, best_weight, combined_variance

__all__ = ["hide_pixels", "judge"]

# Share of the observed pixels that is hidden, the number that is enough, and the number that is too few to
# judge anything by.
HIDDEN_SHARE, MOST_HIDDEN, FEWEST_HIDDEN = 0.05, 20_000, 30
# The largest factor by which the variance is corrected, in either direction.
MOST_CORRECTION = 16.0
# Variance of the logarithm of that factor over pictures.
PRIOR_SPREAD = 0.05
# Variance of the logarithm of the factor, times the number of hidden pixels. For Gaussian errors, the 95 %
# quantile of |error| has the variance 0.95 * 0.05 / density^2 / n, where the density of |error| is 0.117.
QUANTILE_VARIANCE = 4 * 0.95 * 0.05 / (0.117 * 1.96) ** 2
# 95 % of a Gaussian distribution is within this many standard deviations.
DEVIATIONS, COVERED = 1.96, 0.95


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


def judge(seen: Array, dictionary: Array, groups: Array, spread: tuple[Array, Array]) -> Verdict:
    """Return how groups and dictionary are best combined, given hidden pixels and what both say of them.

    The weight with the least squared error is a regression coefficient. It is combined with what is usual for
    pictures according to its standard error, which allows for errors of different sizes at different pixels:
    a few pixels at an edge must not decide. The correction makes 95 % of the intervals of plus and minus 1.96
    standard deviations contain the pixel, and is shrunk towards 1 in the same way.

    Parameters
    ----------
    seen : array, shape (pixels,)
        Values of the hidden pixels.
    dictionary, groups : arrays, shape (pixels,)
        What both say of them.
    spread : pair of arrays, shape (pixels,)
        Variances of dictionary and groups.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth, error = rng.normal(size=10_000), rng.normal(size=(2, 10_000))
    >>> found = judge(truth, truth + 2 * error[0], truth + error[1], (np.ones(10_000),) * 2)
    >>> round(found.weight, 1)
    0.8
    """
    difference = groups - dictionary
    weight = best_weight(seen, dictionary, groups)
    if weight is None:
        return Verdict(0.0, 1.0)
    variance = combined_variance(spread[0], spread[1], difference, weight)
    return Verdict(weight, _correction(np.abs(seen - dictionary - weight * difference), variance))


def _correction(error: Array, variance: Array) -> float:
    """Return the factor on the variance for which 95 % of the intervals contain the hidden pixels.

    Its logarithm is shrunk towards 0, by a prior with the variance PRIOR_SPREAD.
    """
    ratio = np.quantile(error**2 / np.maximum(variance, np.finfo(float).tiny), COVERED) / DEVIATIONS**2
    factor = float(np.clip(ratio, 1 / MOST_CORRECTION, MOST_CORRECTION))
    doubt = QUANTILE_VARIANCE / len(error)
    return float(factor ** (PRIOR_SPREAD / (PRIOR_SPREAD + doubt)))
