"""The latest of the frames that come one after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from threading import Condition, Thread
from typing import Any

__all__ = ["LatestFrame"]


class LatestFrame:
    """The latest of the frames that a thread reads; those that nobody fetched in time are skipped."""

    def __init__(self, frames: Iterable[Any]) -> None:
        self._changed = Condition()
        self._waiting: deque[Any] = deque()
        self._n_skipped, self._ended, self._wanted = 0, False, True
        self._error: BaseException | None = None
        self._thread = Thread(target=self._read, args=(iter(frames),), daemon=True)
        self._thread.start()

    def take_skipped(self) -> int:
        """Return how many frames were skipped since the last call."""
        with self._changed:
            n, self._n_skipped = self._n_skipped, 0
        return n

    def __iter__(self) -> Iterator[Any]:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._waiting or self._ended)
                    if not self._waiting:
                        break
                    item = self._waiting.popleft()
                yield item
        finally:
            with self._changed:
                self._wanted = False
        if self._error is not None:
            raise self._error

    def _read(self, frames: Iterator[Any]) -> None:
        """Read all frames; the newest replaces one that is still waiting."""
        try:
            for frame in frames:
                with self._changed:
                    if not self._wanted:
                        return
                    if self._waiting:
                        self._waiting.clear()
                        self._n_skipped += 1
                    self._waiting.append(frame)
                    self._changed.notify()
        except BaseException as error:  # It is raised again in the thread of the user.
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify()
