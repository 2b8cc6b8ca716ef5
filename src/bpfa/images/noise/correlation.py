"""Whether neighbouring pixels share their noise, which `denoise` assumes they do not."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa.images.noise.blocks import TEXTURE_TERMS, blocks_of, residual_projection

__all__ = ["CorrelatedNoiseWarning", "neighbour_correlation", "warn_of_correlation"]

# The flattest blocks are this share of all, and at least so many for a judgement.
FLAT_SHARE, FEWEST_BLOCKS = 0.1, 20
# A correlation is worth a warning above this value, if it is also so many standard errors above 0.
LARGE_CORRELATION, ERRORS = 0.2, 4.0
# Of a picture with more channels than this, some are looked at.
MOST_CHANNELS = 16


class CorrelatedNoiseWarning(UserWarning):
    """The noise of neighbouring pixels seems to be correlated.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("ignore", CorrelatedNoiseWarning)
    """


def neighbour_correlation(
    pixels: NDArray[np.floating[Any]], observed: NDArray[np.bool_]
) -> tuple[float, float] | None:
    """Return the larger of the correlations of vertical and horizontal neighbours, and its standard error.

    It is that of the residuals of cubic polynomials in the flattest blocks that are completely observed. The
    polynomial takes away as much of the correlation as it does of independent noise, which is added again.

    Parameters
    ----------
    pixels : array, shape (slices, height, width)
        One channel of a picture.
    observed : boolean array of the same shape

    Returns
    -------
    pair of float, or None
        None if there are too few blocks.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=(1, 128, 128))
    >>> correlation, error = neighbour_correlation(noise, np.ones(noise.shape, bool))
    >>> abs(correlation) < 4 * error
    True
    """
    blocks = blocks_of(pixels, observed)
    width = blocks.residuals.shape[1]
    usable = np.flatnonzero((blocks.n_pixels == width * width) & blocks.noisy)
    n_flat = max(FEWEST_BLOCKS, round(FLAT_SHARE * len(usable)))
    if len(usable) < n_flat:
        return None
    energy = np.square(blocks.residuals).sum(axis=(1, 2)) + TEXTURE_TERMS * blocks.texture
    flattest = usable[np.argsort(energy[usable], kind="stable")[:n_flat]]
    residuals = blocks.residuals[flattest]
    independent = _of_independent_noise(width)
    found = []
    for axis, expected in enumerate(independent, start=1):
        one = np.delete(residuals, 0, axis=axis)
        other = np.delete(residuals, width - 1, axis=axis)
        share = (one * other).sum(axis=(1, 2)) / np.square(residuals).sum(axis=(1, 2)) - expected
        # A block has width^2 pixels, and width (width - 1) pairs of neighbours along an axis.
        share *= width / (width - 1)
        found.append((float(share.mean()), float(share.std(ddof=1) / np.sqrt(n_flat))))
    return max(found)


def _of_independent_noise(width: int) -> tuple[float, float]:
    """Return what the residuals of independent noise give for vertical and for horizontal neighbours.

    It is tr(P L) / tr(P), where P projects on the residuals and L moves pixels by one. It also holds for
    blocks that were chosen by the sum of their squares, of which the direction of Gaussian noise is
    independent.
    """
    projection = residual_projection(width)
    four, place = projection.reshape((width,) * 4), range(width - 1)
    vertical = sum(np.trace(four[i + 1, :, i, :]) for i in place)
    horizontal = sum(np.trace(four[:, i + 1, :, i]) for i in place)
    total = float(np.trace(projection))
    return float(vertical) / total, float(horizontal) / total


def warn_of_correlation(pixels: NDArray[np.floating[Any]], observed: NDArray[np.bool_]) -> None:
    """Warn if the noise of neighbouring pixels seems to be correlated in a channel of a picture.

    Parameters
    ----------
    pixels : array, shape (slices, height, width, channels)
        Pixels whose noise has the same variance everywhere, in any units.
    observed : boolean array of the same shape
    """
    n_channels = pixels.shape[-1]
    found = [
        neighbour_correlation(pixels[..., channel], observed[..., channel])
        for channel in range(0, n_channels, -(-n_channels // MOST_CHANNELS))
    ]
    large = [
        pair[0] for pair in found if pair is not None and pair[0] > max(LARGE_CORRELATION, ERRORS * pair[1])
    ]
    if large:
        warnings.warn(
            f"image: neighbouring pixels have a correlation of {max(large):.2f} even in the flattest parts. "
            "Either the image has hardly any noise, or neighbouring pixels share their noise; denoise "
            "assumes that they do not. It keeps such noise as if it were structure, and its standard "
            "deviations are then too small",
            CorrelatedNoiseWarning,
            stacklevel=3,
        )
