"""How long frames take, and how many of them are lost."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

__all__ = ["FrameCounts", "FrameWarning", "Latency"]

# Number of frames whose times are remembered.
REMEMBERED = 1000


class FrameWarning(UserWarning):
    """A frame could not be restored; the stream goes on with the next one."""


class Latency(NamedTuple):
    """How long frames took, and how many of them were lost."""

    n_restored: int
    n_skipped: int
    """Frames that came while an earlier one was being restored, and were replaced by a newer one."""
    n_refused: int
    """Frames that could not be restored."""
    median: float
    """Median number of seconds from the arrival of a frame to its result, over the last thousand frames."""
    worst: float
    """Largest number of seconds."""


class FrameCounts:
    """Counts frames that were restored, skipped and refused, and remembers how long the last ones took.

    Examples
    --------
    >>> counts = FrameCounts()
    >>> counts.restored(0.25)
    >>> counts.n_skipped += 2
    >>> counts.latency()
    Latency(n_restored=1, n_skipped=2, n_refused=0, median=0.25, worst=0.25)
    """

    def __init__(self) -> None:
        self.n_restored = self.n_skipped = self.n_refused = 0
        self._seconds: deque[float] = deque(maxlen=REMEMBERED)

    def restored(self, seconds: float) -> None:
        """Count a frame that took so many seconds."""
        self.n_restored += 1
        self._seconds.append(seconds)

    def latency(self) -> Latency:
        """Return what is known so far."""
        seconds = list(self._seconds) or [0.0]
        return Latency(
            self.n_restored, self.n_skipped, self.n_refused, float(np.median(seconds)), max(seconds)
        )
