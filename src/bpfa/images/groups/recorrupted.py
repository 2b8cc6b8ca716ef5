"""A noisier copy of a picture decides whether groups do harm (docs/math.md section 19)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.images.canvas import Canvas
from bpfa.images.groups.verdict import best_weight

__all__ = ["NoisierCopy", "can_be_checked", "middle_of", "recorrupted", "trusted_weight"]

# Variance of the noise that is added, relative to that of the picture.
ADDED = 0.5
# Largest height and width of the part of the picture that is checked. It is in the middle.
LARGEST = 256
# Groups keep their weight unless less than this is found to be better.
KEPT_WEIGHT = 0.8


@dataclass(frozen=True)
class NoisierCopy:
    """A noisier copy of a picture, and another one whose noise is independent of it.

    Parameters
    ----------
    canvas : Canvas
        The noisier copy.
    other : array
        The pixels of the other copy, in the units of `pixels`.
    pixels : callable
        Brings standardised values of the noisier copy to the units of `other`.
    """

    canvas: Canvas
    other: Array
    pixels: Callable[[Array], Array]


def can_be_checked(canvas: Canvas) -> bool:
    """Return whether there is a noisier copy of a picture: not if its noise is that of counts and reading.

    Examples
    --------
    >>> can_be_checked(Canvas.of(np.eye(9)))
    True
    """
    return canvas.stabiliser is None or canvas.stabiliser.kind == "poisson"


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


def recorrupted(canvas: Canvas, noise: Array, stream: Stream) -> NoisierCopy:
    """Return a picture with more noise, and one whose noise is independent of it.

    With y = x + e, e ~ N(0, N), and z ~ N(0, 1), the noise of y + sqrt(h N) z and of y - sqrt(N / h) z is
    independent, where h is ADDED. The counts of a Poisson distribution are divided at random instead: every
    count belongs to the noisier copy with the probability 1 / (1 + h), and otherwise to the other one.

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
    >>> copy = recorrupted(canvas, np.ones(1), Stream.from_seed(0))
    >>> bool(abs(np.mean(copy.canvas.values * copy.other)) < 0.05)
    True
    """
    generator = stream.child("recorrupted").generator(0)
    if canvas.stabiliser is not None:
        return _divided_counts(canvas, generator)
    added = generator.standard_normal(canvas.values.shape) * np.sqrt(noise)
    noisier = np.where(canvas.observed, canvas.values + np.sqrt(ADDED) * added, 0).astype(np.float32)
    other = canvas.values - added / np.sqrt(ADDED)
    return NoisierCopy(replace(canvas, values=noisier), other, lambda values: values)


def _divided_counts(canvas: Canvas, generator: np.random.Generator) -> NoisierCopy:
    """Divide the counts of a picture at random; both copies are in the units of the picture."""
    noise = canvas.stabiliser
    assert noise is not None
    kept = 1 / (1 + ADDED)
    # Where a pixel is missing, the value is any number of counts.
    stable = np.where(canvas.observed, canvas.pixels(), canvas.mean)
    # Anscombe's transform of whole numbers, backwards; the gain may be learned and not exact.
    counts = np.rint(np.maximum(np.square(stable / 2) - 3 / 8, 0)).astype(np.int64)
    first = generator.binomial(counts, kept)
    fewer = replace(noise, gain=noise.gain / kept)
    pixels = first * fewer.gain + noise.offset
    # Roots of fewer counts are smaller. In their own units the dictionary still fits them.
    mean, scale = canvas.mean * np.sqrt(kept), canvas.scale * np.sqrt(kept)
    values = (fewer.transform(pixels) - mean) / scale
    noisier = replace(
        canvas,
        values=np.where(canvas.observed, values, 0).astype(np.float32),
        mean=mean,
        scale=scale,
        stabiliser=fewer,
    )
    other = (counts - first) * noise.gain / (1 - kept) + noise.offset
    return NoisierCopy(noisier, other, lambda restored: fewer.mean(restored * scale + mean))


def trusted_weight(other: Array, dictionary: Array, groups: Array) -> float:
    """Return the weight of the groups: 1, unless a smaller one is clearly better.

    The weight with the least squared error is a regression coefficient, combined with what is usual for
    pictures. If it is below KEPT_WEIGHT, it is the weight.

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
    best = best_weight(other, dictionary, groups)
    return 1.0 if best is None or best >= KEPT_WEIGHT else best
