"""The way from pixels whose noise grows with the signal to pixels with equal noise, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import roots_hermitenorm

from bpfa._support.checks import Array
from bpfa.images.noise.anscombe import UnbiasedInverse, anscombe

__all__ = ["Stabiliser"]

# Number of nodes of the Gauss-Hermite rule that carries a standard deviation through the inverse.
NODES = 9


@dataclass(frozen=True)
class Stabiliser:
    """The noise y = gain k + offset + n of each channel, with Poisson counts k and Gaussian read noise n.

    Parameters
    ----------
    kind : str
        "poisson" or "poisson-gaussian".
    gain : array, shape (channels,)
        Units of the picture per count.
    read_noise : array, shape (channels,)
        Standard deviation of the Gaussian part, in units of the picture.
    offset : array, shape (channels,)
        What a pixel without any signal has on average.

    Examples
    --------
    >>> noise = Stabiliser("poisson", np.array([2.0]), np.zeros(1), np.zeros(1))
    >>> pixels = 2.0 * np.random.default_rng(0).poisson(5.0, size=(100, 100, 1))
    >>> stable = noise.transform(pixels)
    >>> bool(abs(stable.std() - 1) < 0.05), bool(abs(noise.mean(stable.mean(axis=(0, 1)))[0] - 10) < 0.2)
    (True, True)
    """

    kind: str
    gain: Array
    read_noise: Array
    offset: Array

    def transform(self, pixels: Array) -> Array:
        """Return pixels, channels last, on a scale on which the variance of their noise is about 1."""
        stable = np.empty(pixels.shape)
        for channel in range(pixels.shape[-1]):
            counts = (pixels[..., channel] - self.offset[channel]) / self.gain[channel]
            stable[..., channel] = anscombe(counts, self._read_counts(channel))
        return stable

    def mean(self, stable: Array, std: Array | None = None) -> Array:
        """Return pixels, channels last, given what is known of their transforms.

        Parameters
        ----------
        stable : array, channels last
            Estimates of the expectations of the transforms.
        std : array of the same shape, optional
            Standard deviations of the estimates. Without them the pixels are the unbiased inverse of the
            estimates. With them they are its mean over a Gaussian distribution of the expectation, which is a
            little larger, because the inverse is convex.
        """
        return self._by_channel(stable, std, 0)

    def deviation(self, stable: Array, std: Array) -> Array:
        """Return the standard deviations of the pixels that `mean(stable, std)` returns."""
        return self._by_channel(stable, std, 1)

    def noise_std(self, pixels: Array) -> Array:
        """Return the root of the mean variance of the noise of each channel, given pixels without noise."""
        variance = self.gain * (pixels - self.offset) + self.read_noise**2
        root: Array = np.sqrt(variance.mean(axis=tuple(range(pixels.ndim - 1))))
        return root

    def _by_channel(self, stable: Array, std: Array | None, moment: int) -> Array:
        """Return the means (moment 0) or the standard deviations (moment 1) of pixels."""
        pixels = np.empty(stable.shape)
        for channel in range(stable.shape[-1]):
            spread = None if std is None else std[..., channel]
            counts = _moments(stable[..., channel], spread, self._read_counts(channel))[moment]
            pixels[..., channel] = self.gain[channel] * counts + (self.offset[channel] if moment == 0 else 0)
        return pixels

    def _read_counts(self, channel: int) -> float:
        return float(self.read_noise[channel] / self.gain[channel])


def _moments(stable: Array, std: Array | None, read_noise: float) -> tuple[Array, Array]:
    """Return mean and standard deviation of the inverse of a Gaussian expectation, in counts."""
    if std is None:
        return UnbiasedInverse(read_noise, float(stable.max()))(stable), np.zeros(stable.shape)
    nodes, weights = roots_hermitenorm(NODES)
    inverse = UnbiasedInverse(read_noise, float((stable + nodes[-1] * std).max()))
    first, second = np.zeros(stable.shape), np.zeros(stable.shape)
    # Squares of differences from the centre, because those of the counts themselves would lose digits.
    centre = inverse(stable)
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        difference = inverse(stable + node * std) - centre
        first += weight * difference
        second += weight * difference**2
    return centre + first, np.sqrt(np.maximum(second - first**2, 0.0))
