"""A frame whose pixels are added while it is still being scanned."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import check_integer
from bpfa.images.masks import checked_positions

__all__ = ["PartialScan"]


class PartialScan(NamedTuple):
    """The pixels of a frame that have been scanned so far.

    Examples
    --------
    >>> scan = PartialScan.of_shape((2, 3), float)
    >>> scan.add([(0, 1), (1, 2)], [5.0, 6.0])
    >>> scan.values[0], int(scan.missing.sum())
    (array([0., 5., 0.]), 4)
    """

    values: NDArray[Any]
    missing: NDArray[np.bool_]

    @classmethod
    def of_shape(cls, shape: tuple[int, int], dtype: Any) -> PartialScan:
        """Return a frame of which nothing has been scanned.

        Parameters
        ----------
        shape : pair of int
            Height and width.
        dtype : dtype
        """
        height, width = (check_integer("shape", n, low=1) for n in shape)
        return cls(np.zeros((height, width), dtype), np.ones((height, width), dtype=bool))

    def add(self, positions: Any, values: Any) -> None:
        """Add pixels.

        Parameters
        ----------
        positions : array-like of int, shape (n, 2)
            Row and column of every pixel.
        values : array-like, shape (n,)
        """
        places = checked_positions(positions, self.values.shape)
        found = np.asarray(values)
        if found.shape != (len(places),):
            raise ValueError(f"values: shape {found.shape}; expected ({len(places)},), one for each position")
        self.values[tuple(places.T)] = found
        self.missing[tuple(places.T)] = False
