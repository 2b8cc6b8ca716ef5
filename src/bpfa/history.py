"""What a fit was like: one line a step, ready to be plotted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa.progress import Progress
from bpfa.scores import HeldOutScore

__all__ = ["History"]


class History:
    """Lists that grow by a step at a time.

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
        self.lists: dict[str, list[float]] = {
            name: [] if arrays is None else list(arrays[name].tolist()) for name in self.COLUMNS
        }

    def __len__(self) -> int:
        return len(self.lists["step"])

    def add(self, progress: Progress, seconds: float, score: HeldOutScore | None = None) -> None:
        """Add the line of a step; `seconds` are those of the whole fit, earlier runs included."""
        line = (
            progress.step,
            progress.epoch,
            seconds,
            progress.rho,
            progress.posterior.noise_std,
            progress.posterior.n_active(),
            np.nan if score is None else score.log_likelihood,
            np.nan if score is None else score.mse,
        )
        for name, value in zip(self.COLUMNS, line, strict=True):
            self.lists[name].append(value)

    @property
    def seconds(self) -> float:
        """Seconds of training so far."""
        return self.lists["seconds"][-1] if self.lists["seconds"] else 0.0

    @property
    def scores(self) -> list[float]:
        """The held-out log-likelihoods that were taken, in order."""
        return [value for value in self.lists["held_out_log_likelihood"] if not np.isnan(value)]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the columns as arrays of one length."""
        return {
            name: np.array(values, dtype=np.int64 if name in self.COUNTS else np.float64)
            for name, values in self.lists.items()
        }
