"""What a report says of a restored image whose true pixels are known."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from bpfa._support.checks import Array
from bpfa.prediction.scores import psnr

__all__ = ["LEVELS", "Comparison", "coverage"]

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""The intervals whose coverage is shown."""


class Comparison(NamedTuple):
    """A true image, and the pixels by which a restored one is compared with it."""

    truth: NDArray[Any]
    where: NDArray[np.bool_]
    """True at the pixels that count."""
    pixels: str
    """These pixels in words."""

    @classmethod
    def of(cls, result: Any, truth: Any) -> Comparison:
        """Return the comparison of a result: over missing pixels if all others were taken as they are.

        Parameters
        ----------
        result : ImageResult
        truth : array-like
            The true image, of the same shape.
        """
        truth = np.asarray(truth)
        if truth.shape != result.image.shape:
            raise ValueError(f"truth: shape {truth.shape}; expected that of the image, {result.image.shape}")
        if result.missing.any() and not result.std[~result.missing].any():
            return cls(truth, result.missing, "missing pixels")
        return cls(truth, np.ones(truth.shape, dtype=bool), "pixels")

    @property
    def peak(self) -> float:
        """Largest value of an image of 8 or 16 bits, and the range of the true image for all other types."""
        if self.truth.dtype.kind in "iu" and self.truth.dtype.itemsize <= 2:
            return float(np.iinfo(self.truth.dtype).max)
        return float(np.ptp(self.truth.astype(np.float64))) or 1.0

    def psnr(self, image: NDArray[Any]) -> float:
        """Return the PSNR of an image in dB."""
        return psnr(self.truth.astype(float), image.astype(float), self.where, peak=self.peak)

    def coverage(self, result: Any) -> Array:
        """Return which share of the pixels lies within the intervals of `LEVELS`."""
        error = (self.truth.astype(np.float64) - result.image.astype(np.float64))[self.where]
        rounded = result.image.dtype.kind in "iu"
        std = np.asarray(result.std, dtype=np.float64)[self.where]
        return np.array([coverage(error, std, level, rounded=rounded) for level in LEVELS])


def coverage(error: Array, std: Array, level: float, *, rounded: bool) -> float:
    """Return which share of errors lies within the interval of a probability.

    Parameters
    ----------
    error, std : arrays
    level : float
        The probability.
    rounded : bool
        Whether errors are differences of whole numbers. The restored value was then anywhere within 1/2 of
        its whole number, and so was the error; the part of this range that lies within the interval counts.
        Where deviations are below 2, the share comes out too low, because rounding adds to the error.

    Examples
    --------
    >>> coverage(np.array([0.0, 1.9, -2.0, 1.0]), np.ones(4), 0.95, rounded=False)
    0.75
    >>> round(coverage(np.array([0.0, 2.0]), np.ones(2), 0.95, rounded=True), 2)
    0.73
    """
    width = float(ndtri((1 + level) / 2)) * std
    if not rounded:
        return float(np.mean(np.abs(error) < width))
    far = np.abs(error)
    inside = np.minimum(far + 0.5, width) - np.maximum(far - 0.5, -width)
    return float(np.mean(np.clip(inside, 0.0, 1.0)))
