"""A frame whose pixels come while it is still being scanned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import check_integer
from bpfa.images.masks import checked_positions
from bpfa.images.result import ImageResult

__all__ = ["PartialScans"]


class _PartialScan(NamedTuple):
    """A frame that is still being scanned."""

    values: NDArray[Any]
    missing: NDArray[np.bool_]


class PartialScans(ABC):
    """The methods of `FrameRestorer` for a frame that is still being scanned."""

    _scan: _PartialScan | None = None

    @abstractmethod
    def restore(self, frame: Any, mask: Any = None) -> ImageResult:
        """Restore a frame, after learning from it."""

    @abstractmethod
    def _restored(self, frame: Any, mask: Any, n_steps: int) -> ImageResult:
        """Restore a frame after this number of training steps."""

    def begin(self, shape: tuple[int, int], dtype: Any = np.float64) -> None:
        """Begin a frame whose pixels will be added while it is still being scanned.

        Parameters
        ----------
        shape : pair of int
            Height and width.
        dtype : dtype

        See Also
        --------
        bpfa.images.FrameRestorer.add : Add pixels to it.
        bpfa.images.FrameRestorer.so_far : Look at it.
        bpfa.images.FrameRestorer.finish : Restore it when it is complete.

        Examples
        --------
        >>> from bpfa.images import FrameRestorer
        >>> restorer = FrameRestorer(patch_size=4, n_components=6, max_steps=40, random_state=0)
        >>> restorer.begin((24, 20))
        """
        height, width = (check_integer("shape", n, low=1) for n in shape)
        self._scan = _PartialScan(np.zeros((height, width), dtype), np.ones((height, width), dtype=bool))

    def add(self, positions: Any, values: Any) -> None:
        """Add pixels to the frame that is being scanned.

        Parameters
        ----------
        positions : array-like of int, shape (n, 2)
            Row and column of every pixel.
        values : array-like, shape (n,)
            Their values.

        See Also
        --------
        bpfa.images.FrameRestorer.begin : Begin a frame that is still being scanned.
        bpfa.images.FrameRestorer.so_far : Look at it.
        bpfa.images.FrameRestorer.finish : Restore it when it is complete.

        Examples
        --------
        >>> from bpfa.images import FrameRestorer
        >>> restorer = FrameRestorer(patch_size=4, n_components=6, max_steps=40, random_state=0)
        >>> restorer.begin((24, 20))
        >>> restorer.add([(0, 0), (0, 1)], [5.0, 6.0])
        """
        scan = self._present_scan("add")
        places = checked_positions(positions, scan.values.shape)
        found = np.asarray(values)
        if found.shape != (len(places),):
            raise ValueError(f"values: shape {found.shape}; expected ({len(places)},), one for each position")
        scan.values[tuple(places.T)] = found
        scan.missing[tuple(places.T)] = False

    def so_far(self) -> ImageResult:
        """Return the frame as far as it is scanned, restored without learning from it.

        Returns
        -------
        ImageResult

        See Also
        --------
        bpfa.images.FrameRestorer.add : Add pixels to it.
        bpfa.images.FrameRestorer.finish : Restore it when it is complete.

        Examples
        --------
        >>> from bpfa.images import FrameRestorer
        >>> picture = np.add.outer(np.arange(24.0), np.arange(20.0))
        >>> restorer = FrameRestorer(patch_size=4, n_components=6, max_steps=40, random_state=0)
        >>> restorer.begin(picture.shape)
        >>> for row in range(0, 24, 2):
        ...     restorer.add([(row, column) for column in range(20)], picture[row])
        >>> bool(restorer.so_far().missing[1].all())
        True
        """
        scan = self._present_scan("so_far")
        return self._restored(scan.values, scan.missing, 0)

    def finish(self) -> ImageResult:
        """Return the frame that was scanned, restored after learning from it, and end the scan.

        Returns
        -------
        ImageResult

        See Also
        --------
        bpfa.images.FrameRestorer.begin : Begin a frame that is still being scanned.
        bpfa.images.FrameRestorer.add : Add pixels to it.
        bpfa.images.FrameRestorer.so_far : Look at it.

        Examples
        --------
        >>> from bpfa.images import FrameRestorer
        >>> picture = np.add.outer(np.arange(24.0), np.arange(20.0))
        >>> restorer = FrameRestorer(patch_size=4, n_components=6, max_steps=40, random_state=0)
        >>> restorer.begin(picture.shape)
        >>> for row in range(0, 24, 2):
        ...     restorer.add([(row, column) for column in range(20)], picture[row])
        >>> restorer.finish().image.shape
        (24, 20)
        """
        scan = self._present_scan("finish")
        result = self.restore(scan.values, scan.missing)
        self._scan = None
        return result

    def _present_scan(self, method: str) -> _PartialScan:
        if self._scan is None:
            raise ValueError(f"{method}: no frame is being scanned; expected a call of `begin` before")
        return self._scan
