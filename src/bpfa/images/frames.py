"""Frames that come one after another, restored by one dictionary that goes on learning."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from threading import Condition, Thread
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import check_choice, check_integer, check_number
from bpfa.estimator import BPFA
from bpfa.images.kept import DECIDED
from bpfa.images.masks import checked_positions
from bpfa.images.pipeline import denoise, inpaint
from bpfa.images.result import ImageResult

__all__ = ["FrameRestorer", "FrameWarning", "Latency"]

# Training steps with each frame, and their least size, if the user does not choose.
LEARN, FORGETTING = 8, 0.1
# Draws from the posterior behind a frame. A picture has more of them, but nobody waits for it.
N_DRAWS = 4
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


class FrameRestorer:
    """Restores frames that come one after another by one dictionary, which goes on learning.

    The first frame is restored as any picture, unless a model is given; its dictionary is kept. With every
    further frame the dictionary learns for a few steps, and forgets slowly, so that it follows a scene that
    changes. Groups of like patches take longer than a frame lasts, and are off unless asked for.

    Parameters
    ----------
    model : BPFA, optional
        A kept model to begin with, as for `inpaint`.
    task : {"inpaint", "denoise"}
        Whether observed pixels stay as they are, or are noisy.
    learn : int
        Number of training steps with each frame after the first; 0 leaves the dictionary as it is.
    forgetting : float
        Least size of these steps: what was learned more than about 1 / forgetting steps ago is forgotten.
    **options
        All further options are those of `inpaint`. Here, `refine` is None and `n_draws` is 4 by default.

    Attributes
    ----------
    model : BPFA or None
        The present model.

    See Also
    --------
    bpfa.inpaint : Fill in missing pixels.
    bpfa.images.masks.Scan : The positions that a scan visits.

    Examples
    --------
    >>> from bpfa.images import FrameRestorer, masks
    >>> picture = np.add.outer(np.arange(24.0), np.arange(20.0))
    >>> restorer = FrameRestorer(patch_size=4, n_components=6, max_steps=40, random_state=0)
    >>> for seed in range(3):
    ...     result = restorer.restore(picture, masks.random(picture.shape, 0.5, seed=seed))
    >>> restorer.latency.n_restored, restorer.model.n_steps_
    (3, 56)
    >>> results = list(restorer.stream([(picture, masks.random(picture.shape, 0.5, seed=3))]))
    >>> len(results)
    1

    A frame can be looked at while it is still being scanned:

    >>> restorer.begin(picture.shape)
    >>> for row in range(0, 24, 2):
    ...     restorer.add([(row, column) for column in range(20)], picture[row])
    >>> bool(restorer.so_far().missing[1].all()), restorer.finish().image.shape
    (True, (24, 20))
    """

    def __init__(
        self,
        model: BPFA | None = None,
        *,
        task: str = "inpaint",
        learn: int = LEARN,
        forgetting: float = FORGETTING,
        **options: Any,
    ) -> None:
        self.model = model
        self.task = check_choice("task", task, ("inpaint", "denoise"))
        self.learn = check_integer("learn", learn, low=0)
        self.forgetting = check_number("forgetting", forgetting, low=0.0, high=1.0)
        self._options = {"refine": None, "n_draws": N_DRAWS} | options
        self._form: tuple[tuple[int, ...], np.dtype[Any]] | None = None
        self._scan: _PartialScan | None = None
        self._seconds: deque[float] = deque(maxlen=REMEMBERED)
        self._n_restored = self._n_skipped = self._n_refused = 0

    @property
    def latency(self) -> Latency:
        """How long frames took so far, and how many were lost."""
        seconds = list(self._seconds) or [0.0]
        return Latency(
            self._n_restored, self._n_skipped, self._n_refused, float(np.median(seconds)), max(seconds)
        )

    def restore(self, frame: Any, mask: Any = None) -> ImageResult:
        """Restore a frame, after learning from it.

        Parameters
        ----------
        frame : array-like
            With the shape and the type of the frames before.
        mask : array-like or Scan, optional
            As in `inpaint`.

        Returns
        -------
        ImageResult

        See Also
        --------
        bpfa.images.FrameRestorer.stream : Restore frames as they come.
        bpfa.images.FrameRestorer.begin : Begin a frame that is still being scanned.
        """
        began = time.perf_counter()
        result = self._restored(frame, mask, self.learn)
        # A frame that cannot be restored leaves everything as it was.
        self.model = result.model
        self._form = np.shape(frame), np.asarray(frame).dtype
        self._n_restored += 1
        self._seconds.append(time.perf_counter() - began)
        return result

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
        """
        scan = self._present_scan("so_far")
        result = self._restored(scan.values, scan.missing, 0)
        # The first dictionary is kept, so that the next look at the frame is quick.
        self.model = result.model
        return result

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
        """
        scan = self._present_scan("finish")
        result = self.restore(scan.values, scan.missing)
        self._scan = None
        return result

    def stream(self, frames: Iterable[Any]) -> Iterator[ImageResult]:
        """Restore frames as they come, and skip those that come too fast.

        The frames are read in a thread of their own. If another frame has come before the present one is
        done, the one in between is skipped, and `latency` counts it. A frame that cannot be restored gives a
        `FrameWarning`, and the stream goes on.

        Parameters
        ----------
        frames : iterable
            Each item is a frame, or a pair of a frame and its mask.

        Yields
        ------
        ImageResult

        See Also
        --------
        bpfa.images.FrameRestorer.restore : Restore one frame.
        """
        slot = _LatestFrame(frames)
        for item in slot:
            self._n_skipped = self._n_skipped + slot.take_skipped()
            frame, mask = item if isinstance(item, tuple) else (item, None)
            try:
                result = self.restore(frame, mask)
            except (TypeError, ValueError) as error:
                self._n_refused += 1
                warnings.warn(f"a frame is left out: {error}", FrameWarning, stacklevel=2)
                continue
            yield result

    def _restored(self, frame: Any, mask: Any, n_steps: int) -> ImageResult:
        """Restore a frame by the present model, or by a new one if there is none."""
        form = np.shape(frame), np.asarray(frame).dtype
        if self._form is not None and form != self._form:
            raise ValueError(
                f"frame: {form[1]} of shape {form[0]}; expected {self._form[1]} of shape {self._form[0]}, as "
                "the frames before"
            )
        restore = {"inpaint": inpaint, "denoise": denoise}[self.task]
        if self.model is None:
            return restore(frame, mask, **self._options)
        kept = {name: value for name, value in self._options.items() if name not in (*DECIDED, "patch_size")}
        return restore(
            frame,
            mask,
            model=self.model,
            update=n_steps,
            forgetting=self.forgetting if n_steps else 0.0,
            **kept,
        )

    def _present_scan(self, method: str) -> _PartialScan:
        if self._scan is None:
            raise ValueError(f"{method}: no frame is being scanned; expected a call of `begin` before")
        return self._scan


class _PartialScan(NamedTuple):
    """A frame that is still being scanned."""

    values: NDArray[Any]
    missing: NDArray[np.bool_]


class _LatestFrame:
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
