"""Patches of a picture as rows of a matrix, copied out of the picture only when they are asked for."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa.data.rows import Batch, RowSource

__all__ = ["PatchRows", "Strip", "starts"]


def starts(length: int, size: int, stride: int) -> NDArray[np.int64]:
    """Return where patches begin along an axis.

    Patches begin every `stride` pixels, and one more patch ends at the border where the regular ones do not
    reach it, so that every pixel is covered.

    Examples
    --------
    >>> starts(10, 4, 3), starts(9, 4, 3)
    (array([0, 3, 6]), array([0, 3, 5]))
    """
    regular = np.arange(0, length - size + 1, stride)
    return regular if regular[-1] == length - size else np.append(regular, length - size)


class Strip(NamedTuple):
    """All patches of one slice that begin at some consecutive values of y."""

    slice: int
    """Index of the slice in the stack."""
    y: NDArray[np.int64]
    """Values of y at which the patches begin."""
    ids: NDArray[np.int64]
    """Numbers of the patches, ordered by y and then by x."""


class PatchRows(RowSource):
    """The patches of a stack of pictures as a source of rows, which keeps only the pictures in memory.

    Patches are numbered slice by slice, within a slice by y, and then by x. A row lists the values of a patch
    by y, then by x, then by channel.

    Parameters
    ----------
    values : array, shape (slices, height, width, channels)
    observed : boolean array of the same shape
    size : pair of int
        Height and width of a patch.
    stride : int
        Distance in pixels from one patch to the next, along both axes.

    See Also
    --------
    bpfa.inpaint : Fill in missing pixels.
    bpfa.data.RowSource : The base of all sources.

    References
    ----------
    .. [1] M. Zhou, H. Chen, J. Paisley, L. Ren, L. Li, Z. Xing, D. Dunson, G. Sapiro and L. Carin,
       "Nonparametric Bayesian Dictionary Learning for Analysis of Noisy and Incomplete Images", IEEE
       Transactions on Image Processing 21 (2012).

    Examples
    --------
    >>> picture = np.arange(12.0).reshape(1, 3, 4, 1)
    >>> rows = PatchRows(picture, np.ones(picture.shape, dtype=bool), (2, 2))
    >>> rows.n_rows, rows.n_columns
    (6, 4)
    >>> rows.take(np.array([0, 5])).values
    array([[ 0.,  1.,  4.,  5.],
           [ 6.,  7., 10., 11.]])
    >>> rows.first_entries(np.array([5])), [strip.ids.tolist() for strip in rows.strips(3)]
    (array([6]), [[0, 1, 2], [3, 4, 5]])
    """

    def __init__(
        self, values: NDArray[Any], observed: NDArray[np.bool_], size: tuple[int, int], stride: int = 1
    ) -> None:
        n_slices, height, width, n_channels = values.shape
        self.size, self.shape = size, values.shape
        self.y, self.x = starts(height, size[0], stride), starts(width, size[1], stride)
        super().__init__(n_slices * len(self.y) * len(self.x), size[0] * size[1] * n_channels)
        self.picture_values = np.ascontiguousarray(values)
        self.picture_observed = np.ascontiguousarray(observed)
        y, x, channel = np.ogrid[: size[0], : size[1], :n_channels]
        self.offsets = ((y * width + x) * n_channels + channel).ravel()

    @cached_property
    def _clean(self) -> bool:
        """Whether nothing has to be checked or changed when patches are taken, as in pictures of a canvas."""
        values = self.picture_values
        return (
            values.dtype in (np.float32, np.float64)
            and bool(np.isfinite(values).all())
            and not values[~self.picture_observed].any()
        )

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the patches with these ids."""
        entries = self.first_entries(ids)[:, None] + self.offsets
        # `ndarray.take` is faster than an index.
        values = self.picture_values.ravel().take(entries)
        observed = self.picture_observed.ravel().take(entries)
        return Batch.unchecked(values, observed, ids) if self._clean else Batch(values, observed, ids)

    def first_entries(self, ids: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the position of each patch's first entry in the flattened array of the pictures.

        Entry d of a patch follows `offsets[d]` positions later. By default the result covers all patches.

        Parameters
        ----------
        ids : integer array, optional

        Returns
        -------
        integer array

        See Also
        --------
        bpfa.images.PatchRows.strips : The patches in strips.

        Examples
        --------
        >>> picture = np.arange(12.0).reshape(1, 3, 4, 1)
        >>> rows = PatchRows(picture, np.ones(picture.shape, dtype=bool), (2, 2))
        >>> rows.first_entries(np.array([0, 5]))
        array([0, 6])
        """
        picture, place = np.divmod(np.arange(self.n_rows) if ids is None else ids, len(self.y) * len(self.x))
        row, column = np.divmod(place, len(self.x))
        _, height, width, n_channels = self.shape
        first: NDArray[np.int64] = ((picture * height + self.y[row]) * width + self.x[column]) * n_channels
        return first

    def strips(self, n_patches: int) -> list[Strip]:
        """Return all patches in strips of at most `n_patches`, but at least all patches that share one y.

        Parameters
        ----------
        n_patches : int

        Returns
        -------
        list of Strip

        See Also
        --------
        bpfa.images.PatchRows.first_entries : Where patches are in the pictures.

        Examples
        --------
        >>> picture = np.arange(12.0).reshape(1, 3, 4, 1)
        >>> rows = PatchRows(picture, np.ones(picture.shape, dtype=bool), (2, 2))
        >>> [strip.ids.tolist() for strip in rows.strips(3)]
        [[0, 1, 2], [3, 4, 5]]
        """
        per_row, per_slice = len(self.x), len(self.x) * len(self.y)
        height = max(1, n_patches // per_row)
        return [
            Strip(
                picture,
                self.y[first : first + height],
                picture * per_slice + np.arange(first * per_row, min(first + height, len(self.y)) * per_row),
            )
            for picture in range(self.shape[0])
            for first in range(0, len(self.y), height)
        ]
