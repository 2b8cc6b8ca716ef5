"""A noisier copy of a picture decides whether groups do harm (docs/math.md section 19)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.images.canvas import Canvas

__all__ = ["middle_of", "recorrupted", "trusted_weight"]

# Variance of the noise that is added, relative to that of the picture.
ADDED = 0.5
# Largest height and width of the part of the picture that is checked. It is in the middle.
LARGEST = 256
# Number of standard errors by which groups must be found to do harm before they lose weight.
DOUBT = 2.0


def middle_of(canvas: Canvas) -> tuple[slice, slice, slice]:
    """Return where the part of a picture is that is checked: the middle of one slice.

    Examples
    --------
    >>> middle_of(Canvas.of(np.zeros((300, 200))))
    (slice(0, 1, None), slice(22, 278, None), slice(0, 200, None))
    """
    n_slices, height, width, _ = canvas.values.shape
    top, left = max(0, height - LARGEST) // 2, max(0, width - LARGEST) // 2
    middle = n_slices // 2
    return (
        slice(middle, middle + 1),
        slice(top, top + min(height, LARGEST)),
        slice(left, left + min(width, LARGEST)),
    )


def recorrupted(canvas: Canvas, noise: Array, stream: Stream) -> tuple[Canvas, NDArray[np.float32]]:
    """Return a picture with more noise, and one whose noise is independent of it.

    With y = x + e, e ~ N(0, N), and z ~ N(0, 1), the noise of y + sqrt(h N) z and of y - sqrt(N / h) z is
    independent, where h is ADDED.

    Parameters
    ----------
    canvas : Canvas
    noise : array, shape (channels,)
        Variance of the noise of each channel.
    stream : Stream
        Source of random numbers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> canvas = Canvas.of(rng.normal(size=(99, 99)))
    >>> noisier, other = recorrupted(canvas, np.ones(1), Stream.from_seed(0))
    >>> bool(abs(np.mean(noisier.values * other)) < 0.05)
    True
    """
    generator = stream.child("recorrupted").generator(0)
    added = generator.standard_normal(canvas.values.shape) * np.sqrt(noise)
    noisier = np.where(canvas.observed, canvas.values + np.sqrt(ADDED) * added, 0)
    other = canvas.values - added / np.sqrt(ADDED)
    return replace(canvas, values=noisier.astype(np.float32)), other.astype(np.float32)


def trusted_weight(other: Array, dictionary: Array, groups: Array) -> float:
    """Return the weight of the groups: 1, unless they do harm.

    The squared error of dictionary + rho (groups - dictionary) is a parabola in rho, and rho = 1 is worse
    than rho = 0 if its minimum is below 1/2. If the minimum is below 1/2 by more than two standard errors, it
    is the weight.

    Parameters
    ----------
    other : array, shape (pixels,)
        Pixels whose noise is independent of both restorations.
    dictionary, groups : arrays, shape (pixels,)
        The two restorations.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth, noise = np.zeros(9999), rng.normal(size=(3, 9999))
    >>> trusted_weight(truth + noise[0], truth + 0.2 * noise[1], truth + 0.1 * noise[2])
    1.0
    >>> trusted_weight(truth + noise[0], truth + 0.2 * noise[1], truth + noise[2]) < 0.1
    True
    """
    difference = groups - dictionary
    square = float(difference @ difference)
    if square == 0:
        return 1.0
    slope = float(difference @ (other - dictionary)) / square
    residual = other - dictionary - slope * difference
    error = float(np.sqrt(difference**2 @ residual**2)) / square
    return 1.0 if slope + DOUBT * error >= 0.5 else max(slope, 0.0)
