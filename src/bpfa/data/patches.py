"""Patches of a picture as rows of a matrix, gathered when they are asked for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa.data.rows import Batch

__all__ = ["PatchRows", "Strip", "starts"]


def starts(length: int, size: int, stride: int) -> NDArray[np.int64]:
    """Return where patches begin along an axis, so that they cover it: the last one ends at the border.

    Examples
    --------
    >>> starts(10, 4, 3), starts(9, 4, 3)
    (array([0, 3, 6]), array([0, 3, 5]))
    """
    regular = np.arange(0, length - size + 1, stride)
    return regular if regular[-1] == length - size else np.append(regular, length - size)


class Strip(NamedTuple):
    """Patches of one slice that begin in some consecutive rows of starts."""

    slice: int
    y: NDArray[np.int64]
    """Where the rows of starts are."""
    ids: NDArray[np.int64]
    """The patches, one row of starts after another."""


class PatchRows:
    """The patches of a stack of pictures, as a source of rows that holds no more than the pictures.

    Patches are numbered along x, then y, then slices. A row lists the pixels of a patch by y, x and channel.

    Parameters
    ----------
    values : array, shape (slices, height, width, channels)
    observed : boolean array of the same shape
    size : pair of int
        Height and width of a patch.
    stride : int
        Pixels from one patch to the next.

    Examples
    --------
    >>> picture = np.arange(12.0).reshape(1, 3, 4, 1)
    >>> rows = PatchRows(picture, np.ones(picture.shape, dtype=bool), (2, 2))
    >>> rows.n_rows, rows.n_columns
    (6, 4)
    >>> rows.take(np.array([0, 5])).values
    array([[ 0.,  1.,  4.,  5.],
           [ 6.,  7., 10., 11.]])
    """

    def __init__(
        self, values: NDArray[Any], observed: NDArray[np.bool_], size: tuple[int, int], stride: int = 1
    ) -> None:
        n_slices, height, width, n_channels = values.shape
        self.size, self.shape = size, values.shape
        self.y, self.x = starts(height, size[0], stride), starts(width, size[1], stride)
        self.n_rows = n_slices * len(self.y) * len(self.x)
        self.n_columns = size[0] * size[1] * n_channels
        self.picture_values = np.ascontiguousarray(values)
        self.picture_observed = np.ascontiguousarray(observed)
        y, x, channel = np.ogrid[: size[0], : size[1], :n_channels]
        self.offsets = ((y * width + x) * n_channels + channel).ravel()

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the patches with these ids."""
        entries = self.first_entries(ids)[:, None] + self.offsets
        return Batch(self.picture_values.ravel()[entries], self.picture_observed.ravel()[entries], ids)

    def first_entries(self, ids: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return where patches begin in the pictures, whose entries are counted one after another.

        Entry d of a patch is `offsets[d]` further. All patches by default.
        """
        picture, place = np.divmod(np.arange(self.n_rows) if ids is None else ids, len(self.y) * len(self.x))
        row, column = np.divmod(place, len(self.x))
        _, height, width, n_channels = self.shape
        first: NDArray[np.int64] = ((picture * height + self.y[row]) * width + self.x[column]) * n_channels
        return first

    def strips(self, n_patches: int) -> list[Strip]:
        """Return all patches, in strips of about so many."""
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
