"""The history of a fit: one record for each step, ready to be plotted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa.inference.progress import Progress
from bpfa.model.summary import ReadableSummary
from bpfa.prediction.scores import HeldOutScore

__all__ = ["History"]

# The most steps whose summaries have not yet been read from a device.
MAX_UNREAD = 1000


class History:
    """The record of every step of a fit.

    Parameters
    ----------
    arrays : mapping, optional
        The history of an earlier run, which this one continues.

    Examples
    --------
    >>> sorted(History().arrays())[:3]
    ['epoch', 'held_out_log_likelihood', 'held_out_mse']
    """

    COLUMNS = (
        "step",
        "epoch",
        "seconds",
        "step_size",
        "noise_std",
        "n_active",
        "held_out_log_likelihood",
        "held_out_mse",
    )
    COUNTS = ("step", "n_active")

    def __init__(self, arrays: Mapping[str, NDArray[Any]] | None = None) -> None:
        self._lists: dict[str, list[float]] = {
            name: [] if arrays is None else list(arrays[name].tolist()) for name in self.COLUMNS
        }
        self._unread: list[ReadableSummary] = []

    def __len__(self) -> int:
        return len(self._lists["step"])

    @property
    def lists(self) -> dict[str, list[float]]:
        """The columns as lists. If a device has not yet finished the last steps, this waits for it."""
        if self._unread:
            summaries, self._unread = type(self._unread[0]).read(self._unread), []
            first = len(self) - len(summaries)
            self._lists["noise_std"][first:] = [summary.noise_std for summary in summaries]
            self._lists["n_active"][first:] = [summary.n_active for summary in summaries]
        return self._lists

    def add(self, progress: Progress, seconds: float, score: HeldOutScore | None = None) -> None:
        """Add the record of a step; `seconds` counts from the start of the fit, including earlier runs."""
        # Reading the summary now would mean waiting for the device; it is read when it is needed.
        self._unread.append(progress.state.summary())
        record = (
            progress.step,
            progress.epoch,
            seconds,
            progress.rho,
            np.nan,
            0,
            np.nan if score is None else score.log_likelihood,
            np.nan if score is None else score.mse,
        )
        for values, value in zip(self._lists.values(), record, strict=True):
            values.append(value)
        if len(self._unread) >= MAX_UNREAD:
            _ = self.lists

    @property
    def seconds(self) -> float:
        """Seconds of training so far."""
        return self._lists["seconds"][-1] if self._lists["seconds"] else 0.0

    @property
    def scores(self) -> list[float]:
        """The held-out log-likelihoods of the steps that were scored, in order."""
        return [value for value in self._lists["held_out_log_likelihood"] if not np.isnan(value)]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the columns as arrays of the same length."""
        return {
            name: np.array(values, dtype=np.int64 if name in self.COUNTS else np.float64)
            for name, values in self.lists.items()
        }
