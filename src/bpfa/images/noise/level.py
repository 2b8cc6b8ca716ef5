"""The variance of the noise of each channel, as the flat parts of a picture show it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter

from bpfa._support.checks import Array
from bpfa.images.noise.blocks import MOST_BLOCKS, blocks_of
from bpfa.images.noise.relation import fit_line

__all__ = ["channel_noise"]

# A channel of a picture with many of them is judged by this many blocks.
FEWEST_OF_CHANNEL = 256
# If more than this share of the pixels has the least or the largest value of the channel, these pixels were
# clipped. Their noise is smaller, and so is that of others within REACH pixels.
CLIPPED_SHARE, REACH = 0.002, 8


def channel_noise(values: NDArray[np.floating[Any]], observed: NDArray[np.bool_], most: float) -> Array:
    """Return the variance of the noise of each channel.

    A model of patches takes for noise what it does not explain, and the flat parts of a picture may have some
    texture. Both estimates are therefore too large rather than too small, and the smaller one is better. A
    model has one variance for all channels, so that it limits the mean of those of the flat parts.

    Parameters
    ----------
    values : array, shape (slices, height, width, channels)
        Pixels whose noise has the same variance everywhere in a channel.
    observed : boolean array of the same shape
    most : float
        The variance that a model of patches has learned. It is also that of channels without flat parts.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> noise = rng.normal(size=(1, 99, 99, 2)) * [1.0, 3.0]
    >>> channel_noise(noise, np.ones(noise.shape, bool), 9.0).round()
    array([1., 9.])
    >>> channel_noise(noise[..., :1], np.ones(noise[..., :1].shape, bool), 0.5)
    array([0.5])
    """
    n_channels = values.shape[-1]
    n_blocks = max(FEWEST_OF_CHANNEL, MOST_BLOCKS // n_channels)
    found = np.full(n_channels, float(most))
    for channel in range(n_channels):
        usable = observed[..., channel] & ~_clipped(values[..., channel], observed[..., channel])
        blocks = blocks_of(values[..., channel], usable, n_blocks)
        line = fit_line(blocks, slope=0.0)
        if line is not None:
            found[channel] = line.intercept
    limited: Array = found * min(1.0, most / float(found.mean()))
    return limited


def _clipped(values: NDArray[np.floating[Any]], observed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which pixels of a channel were clipped to the range of the picture, or are near such pixels.

    Examples
    --------
    >>> picture = np.random.default_rng(0).normal(size=(1, 40, 40))
    >>> everywhere = np.ones(picture.shape, bool)
    >>> _clipped(picture, everywhere).any(), _clipped(np.maximum(picture, 0), everywhere).all()
    (np.False_, np.True_)
    """
    clipped = np.zeros(observed.shape, bool)
    for extreme in (values.min(where=observed, initial=np.inf), values.max(where=observed, initial=-np.inf)):
        equal = observed & (values == extreme)
        if equal.sum() > CLIPPED_SHARE * observed.sum():
            clipped |= equal
    near: NDArray[np.bool_] = maximum_filter(clipped, size=(1, 2 * REACH + 1, 2 * REACH + 1))
    return near
