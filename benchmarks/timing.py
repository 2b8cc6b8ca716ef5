"""Timing on busy machines: contestants take turns, and the median is shown with its spread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Timing(NamedTuple):
    """Microseconds per row: the median over rounds, the fastest round and the slowest."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        median, low, high = (f"{number:.0f}" if number >= 100 else f"{number:.3g}" for number in self)
        return f"{median} ({low}-{high})"


def race(contestants: dict[str, tuple[Callable[[], object], int]], n_rounds: int = 5) -> dict[str, Timing]:
    """Time the (work, rows) of every contestant, one after the other, for several rounds.

    The first round is not counted. Short work is repeated within a round, so that a turn lasts at least a
    tenth of a second.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    times = dict.fromkeys(contestants, 1)
    for counted in [False] + [True] * n_rounds:
        for name, (work, n_rows) in contestants.items():
            # Threads of the previous contestant may still be busy waiting for more work.
            time.sleep(0.2)
            began = time.perf_counter()
            for _ in range(times[name]):
                work()
            elapsed = time.perf_counter() - began
            if counted:
                seconds[name].append(elapsed / times[name] / n_rows * 1e6)
            else:
                times[name] = max(1, round(0.1 / elapsed))
    return {name: Timing(float(np.median(turns)), min(turns), max(turns)) for name, turns in seconds.items()}
