"""How a model is followed while it learns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

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


class Rung(NamedTuple):
    """A step of a training run at which its posterior is judged."""

    step: int
    seconds: float
    """Seconds of training so far, including the initialisation, without the time that judging takes."""
    posterior: Any


def climb(
    training: Iterator[Progress], steps: Sequence[int], clock: Callable[[], float] = time.perf_counter
) -> Iterator[Rung]:
    """Train to the last of some steps, and yield the posterior at each of them."""
    spent, resumed = 0.0, clock()
    for progress in training:
        if progress.step in steps:
            # On a GPU, the copy to the host waits for the steps that are queued.
            posterior = progress.posterior
            spent += clock() - resumed
            yield Rung(progress.step, spent, posterior)
            resumed = clock()
        if progress.step >= steps[-1]:
            return


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
