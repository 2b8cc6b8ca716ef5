"""How the picture of the dictionary and that of the groups are combined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from bpfa._support.checks import Array

__all__ = ["Verdict", "best_weight", "combined_variance", "like_its_surroundings", "variance_of_groups"]

# Least probability of the dictionary in the mixture that the variance of a pixel belongs to, in pictures that
# are taken as they are and in noisy ones.
LEAST_DICTIONARY, LEAST_DICTIONARY_NOISY = 0.3, 0.1
# The squared error of the mean of all estimates of a noisy pixel is this share of the variance that they
# state, plus so many times the variance of the estimates themselves.
STATED, DISAGREEMENT = 0.25, 6.0
# The share of the surroundings in the variance of a noisy pixel, the deviation in pixels of the Gaussian
# window that they are, and the factor on the result.
SURROUNDINGS_SHARE, SURROUNDINGS, NOISY_CORRECTION = 0.6, 48.0, 0.9
# Mean and standard deviation over pictures of the best weight of the groups.
USUAL_WEIGHT, WEIGHT_SPREAD = 0.9, 0.2


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
    correction: float = 1.0


def combined_variance(
    dictionary: Array, groups: Array, difference: Array, weight: float, *, noisy: bool = False
) -> Array:
    """Return the mean squared deviation of a mixture of both stages from the combined picture.

    The combined picture gives the groups the given weight. The mixture gives them the same probability, but
    the dictionary at least LEAST_DICTIONARY, or LEAST_DICTIONARY_NOISY: groups are a better estimate, and a
    worse judge of their own errors (docs/math.md section 19).

    Parameters
    ----------
    dictionary, groups : arrays
        Variances according to both stages.
    difference : array
        Picture of the groups minus that of the dictionary.
    weight : float
    noisy : bool
        Whether the observed pixels are noisy.

    Examples
    --------
    >>> combined_variance(np.array([1.0]), np.array([0.5]), np.array([2.0]), 0.5)
    array([1.75])
    """
    share = min(weight, 1 - (LEAST_DICTIONARY_NOISY if noisy else LEAST_DICTIONARY))
    mixed: Array = share * (groups + ((1 - weight) * difference) ** 2) + (1 - share) * (
        dictionary + (weight * difference) ** 2
    )
    return mixed


def variance_of_groups(
    stated: NDArray[np.floating[Any]], disagreement: NDArray[np.floating[Any]], *, noisy: bool
) -> Array:
    """Return the squared error that is expected of the mean of all estimates of a pixel.

    What the groups state is too much where a noisy picture is flat, and too little in texture; how far they
    disagree is a better measure of the error that they share (docs/math.md section 19). In pictures that are
    taken as they are it is the variance of the mixture of all estimates, which hidden pixels correct.

    Parameters
    ----------
    stated, disagreement : arrays
        Mean variance that the estimates of a pixel state, and the variance of these estimates.
    noisy : bool
        Whether the observed pixels are noisy.

    Examples
    --------
    >>> stated, disagreement = np.array([1.0]), np.array([0.25])
    >>> [variance_of_groups(stated, disagreement, noisy=noisy).item() for noisy in (True, False)]
    [1.75, 1.25]
    """
    shares = (STATED, DISAGREEMENT) if noisy else (1.0, 1.0)
    expected: Array = shares[0] * stated.astype(float)
    # In place, because the picture may be large.
    expected += shares[1] * disagreement
    return expected


def like_its_surroundings(variance: Array) -> Array:
    """Return the corrected variance of noisy pixels, a part of which is that of their surroundings.

    The variance of a single pixel is a rough estimate. That of its surroundings is a more reliable one, but
    does not tell an edge from the plain beside it (docs/math.md section 19).

    Parameters
    ----------
    variance : array, shape (slices, height, width, channels)

    Examples
    --------
    >>> variance = np.ones((1, 50, 50, 1))
    >>> variance[0, 25, 25] = 3.0
    >>> corrected = like_its_surroundings(variance)
    >>> [round(float(corrected[0, 25, x, 0]) / NOISY_CORRECTION, 1) for x in (0, 25)]
    [1.0, 1.8]
    """
    window = (0.0, SURROUNDINGS, SURROUNDINGS, 0.0)
    # In single precision, because the picture may be large.
    found: Array = gaussian_filter(variance, window, output=np.float32)
    found -= variance
    found *= SURROUNDINGS_SHARE
    found += variance
    found *= NOISY_CORRECTION
    return found


def best_weight(seen: Array, dictionary: Array, groups: Array) -> float | None:
    """Return the weight of the groups with the least squared error; None if both stages agree everywhere.

    It is a regression coefficient, combined with what is usual for pictures according to its standard error,
    which allows for errors of different sizes at different pixels: a few pixels at an edge must not decide.

    Parameters
    ----------
    seen : array, shape (pixels,)
        Pixels that both stages do not know.
    dictionary, groups : arrays, shape (pixels,)
        What both say of them.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth, error = rng.normal(size=10_000), rng.normal(size=(2, 10_000))
    >>> round(best_weight(truth, truth + 2 * error[0], truth + error[1]), 1)
    0.8
    """
    difference = groups - dictionary
    square = float(difference @ difference)
    if square == 0:
        return None
    slope = float(difference @ (seen - dictionary)) / square
    residual = seen - dictionary - slope * difference
    error = float(difference**2 @ residual**2) / square**2
    share = WEIGHT_SPREAD**2 / (WEIGHT_SPREAD**2 + error)
    return float(np.clip(share * slope + (1 - share) * USUAL_WEIGHT, 0.0, 1.0))
