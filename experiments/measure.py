"""How a model is followed while it learns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from bpfa import Progress


class Followed(NamedTuple):
    """A training run that has been followed to its end."""

    last: Progress
    start_seconds: float
    """Seconds that the initialisation took."""
    seconds: float
    """Seconds of training, including the initialisation."""
    curve: list[list[float]]
    """Pairs of the seconds so far, including the initialisation, and what was measured then."""

    def timing(self) -> dict[str, float]:
        """Return what every result records about its run."""
        return {
            "steps": self.last.step,
            "training_seconds": rounded(self.seconds),
            "start_seconds": rounded(self.start_seconds),
            "step_seconds": rounded((self.seconds - self.start_seconds) / self.last.step),
            "active": self.last.posterior.n_active(),
        }


def follow(
    training: Iterator[Progress],
    measure: Callable[[Progress], float] | None = None,
    *,
    n_steps: int | None = None,
    seconds: float | None = None,
    n_points: int = 12,
    clock: Callable[[], float] = time.perf_counter,
) -> Followed:
    """Train for a number of steps or seconds and measure the model at points that lie ever further apart.

    The time that the measuring takes is not counted.
    """
    limit = n_steps if seconds is None else seconds
    assert limit is not None
    marks = list(np.geomspace(limit / 200, limit, n_points)) if measure else []
    curve: list[list[float]] = []
    spent, start_seconds, resumed = 0.0, 0.0, clock()
    for progress in training:
        spent += clock() - resumed
        if progress.step == 1:
            start_seconds = max(spent - progress.seconds, 0.0)
        position = progress.step if seconds is None else spent
        if marks and measure and position >= marks[0] * (1 - 1e-9):
            curve.append([rounded(spent), rounded(measure(progress))])
            marks = [mark for mark in marks if mark > position]
        if position >= limit:
            break
        resumed = clock()
    return Followed(progress, start_seconds, spent, curve)


def rounded(value: float, digits: int = 5) -> float:
    """Return the value with this many significant digits; more would only make the result files larger.

    Examples
    --------
    >>> rounded(1.23456789)
    1.2346
    """
    return float(f"{value:.{digits}g}")


def all_rounded(values: dict[str, float]) -> dict[str, float]:
    """Return the values, each rounded.

    Examples
    --------
    >>> all_rounded({"mse": 0.123456789})
    {'mse': 0.12346}
    """
    return {name: rounded(value) for name, value in values.items()}
