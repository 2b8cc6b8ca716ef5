"""A frame whose pixels come while it is still being scanned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from bpfa.images.partial_scan import PartialScan
from bpfa.images.result import ImageResult

__all__ = ["PartialScans"]


class PartialScans(ABC):
    """The methods of `FrameRestorer` for a frame that is still being scanned."""

    _scan: PartialScan | None = None

    @abstractmethod
    def restore(self, frame: Any, mask: Any = None) -> ImageResult:
        """Restore a frame, after learning from it."""

    @abstractmethod
    def _restored(self, frame: Any, mask: Any, n_steps: int, *, whole: bool = True) -> ImageResult:
        """Restore a frame after this number of training steps; one that is not whole is not judged."""

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
        self._scan = PartialScan.of_shape(shape, dtype)

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
        self._present_scan("add").add(positions, values)

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
        return self._restored(scan.values, scan.missing, 0, whole=False)

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

    def _present_scan(self, method: str) -> PartialScan:
        if self._scan is None:
            raise ValueError(f"{method}: no frame is being scanned; expected a call of `begin` before")
        return self._scan
