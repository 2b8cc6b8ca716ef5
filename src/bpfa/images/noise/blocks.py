"""Blocks of a picture: their mean, the variance of their noise, and whether they show more than noise."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array

__all__ = ["MOST_BLOCKS", "TEXTURE_TERMS", "Blocks", "blocks_of", "residual_projection"]

# A block should have about this many observed pixels; it is from NARROW to WIDE pixels wide.
WANTED_PIXELS, NARROW, WIDE = 64, 8, 16
# The most blocks of a channel that are looked at.
MOST_BLOCKS = 4096
# A cubic polynomial in two variables has 10 terms, of which the last 7 are no plane.
DEGREE, TEXTURE_TERMS = 3, 7
N_TERMS = 3 + TEXTURE_TERMS
# The fewest observed pixels of a block: 10 for the polynomial and as many for the noise.
FEWEST_PIXELS = 2 * N_TERMS
# Errors of rounding are below this share of the largest mean.
ROUNDING = 1e-6


class Blocks(NamedTuple):
    """What is known of each block of one channel; every array has one entry for each block."""

    mean: Array
    """Mean of the observed pixels."""
    variance: Array
    """Variance of what a cubic polynomial leaves, for which pixels less terms are the degrees of freedom."""
    texture: Array
    """Mean square of the seven quadratic and cubic terms. If the block shows a plane, its expectation is the
    variance of the noise, and it is independent of `variance`."""
    n_pixels: Array
    """Number of observed pixels."""
    residuals: Array
    """What the polynomial leaves of each pixel; 0 where it is missing. Shape (blocks, width, width)."""

    @property
    def freedom(self) -> Array:
        """Degrees of freedom of the variance."""
        return self.n_pixels - N_TERMS

    @property
    def noisy(self) -> NDArray[np.bool_]:
        """Whether a block is more than a polynomial with errors of rounding."""
        return np.asarray(self.variance > ROUNDING**2 * np.square(self.mean).max(initial=0.0))

    @classmethod
    def joined(cls, blocks: list[Blocks]) -> Blocks:
        """Return the blocks of all channels as if they were those of one, without their residuals."""
        means, variances, textures, n_pixels, _ = (list(field) for field in zip(*blocks, strict=True))
        join = np.concatenate
        # The blocks of another channel may have another width.
        return cls(
            join(means), join(variances), join(textures), join(n_pixels), residuals=np.zeros((0, 0, 0))
        )


def blocks_of(
    pixels: NDArray[np.floating[Any]], observed: NDArray[np.bool_], most: int = MOST_BLOCKS
) -> Blocks:
    """Return the blocks of one channel that have enough observed pixels.

    Parameters
    ----------
    pixels : array, shape (slices, height, width)
        Whatever is in missing pixels does not matter.
    observed : boolean array of the same shape
    most : int
        Number of blocks that are enough; they are spread over the picture.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(scale=3.0, size=(1, 64, 64))
    >>> blocks = blocks_of(noise, np.ones(noise.shape, bool))
    >>> len(blocks.mean), round(float(blocks.variance.mean()))
    (64, 9)
    """
    width = int(np.clip(np.sqrt(WANTED_PIXELS / max(observed.mean(), 1e-9)), NARROW, WIDE))
    width = min(width, max(NARROW, min(pixels.shape[1:]) // 4))
    seen = _cut(observed, width)
    values = _cut(pixels, width)
    chosen = np.flatnonzero(seen.sum(axis=1) >= FEWEST_PIXELS)
    if len(chosen) > most:
        chosen = chosen[np.linspace(0, len(chosen) - 1, most).astype(int)]
    seen, values = seen[chosen], values[chosen].astype(float)
    n_pixels = seen.sum(axis=1).astype(float)
    means = np.sum(values, axis=1, where=seen) / n_pixels
    centred = np.where(seen, values - means[:, None], 0.0)
    terms = _polynomials(width)
    basis, triangle = np.linalg.qr(terms * seen[:, :, None])
    coefficients = np.einsum("bpt,bp->bt", basis, centred)
    residuals = centred - np.einsum("bpt,bt->bp", basis, coefficients)
    # Where holes leave too little of a block, the terms cannot be told apart.
    diagonal = np.abs(np.diagonal(triangle, axis1=1, axis2=2))
    good = diagonal.min(axis=1, initial=np.inf) > 1e-3
    return Blocks(
        mean=means[good],
        variance=np.square(residuals).sum(axis=1)[good] / (n_pixels[good] - N_TERMS),
        texture=np.square(coefficients[good, 3:]).mean(axis=1),
        n_pixels=n_pixels[good],
        residuals=residuals[good].reshape(-1, width, width),
    )


def residual_projection(width: int) -> Array:
    """Return the matrix that turns a complete block into its residuals; shape (pixels, pixels)."""
    basis = np.linalg.qr(_polynomials(width))[0]
    projection: Array = np.eye(width * width) - basis @ basis.T
    return projection


def _cut(picture: NDArray[Any], width: int) -> NDArray[Any]:
    """Return the blocks of a picture as rows; what is left at its edges is not used."""
    slices, height, breadth = picture.shape
    rows, columns = height // width, breadth // width
    cropped = picture[:, : rows * width, : columns * width]
    cut = cropped.reshape(slices, rows, width, columns, width).swapaxes(2, 3)
    return cut.reshape(slices * rows * columns, width * width)


def _polynomials(width: int) -> Array:
    """Return the terms of a cubic polynomial, in the order of their degrees; shape (pixels, terms)."""
    place = np.linspace(-1.0, 1.0, width)
    y, x = (axis.ravel() for axis in np.meshgrid(place, place, indexing="ij"))
    return np.stack(
        [x**i * y ** (degree - i) for degree in range(DEGREE + 1) for i in range(degree + 1)], axis=1
    )
