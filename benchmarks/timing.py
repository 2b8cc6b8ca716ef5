"""Timing on noisy machines: contestants take turns, and the median is shown with its spread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Timing(NamedTuple):
    """Microseconds a row: the median over rounds, the fastest and the slowest."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3g} ({self.low:.3g}-{self.high:.3g})"


def race(contestants: dict[str, tuple[Callable[[], object], int]], n_rounds: int = 5) -> dict[str, Timing]:
    """Time (work, rows) of every contestant in turn, round after round; the first round is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for counted in [False] + [True] * n_rounds:
        for name, (work, n_rows) in contestants.items():
            # Threads of the contestant before may still be spinning in wait for more.
            time.sleep(0.25)
            began = time.perf_counter()
            work()
            if counted:
                seconds[name].append((time.perf_counter() - began) / n_rows * 1e6)
    return {name: Timing(float(np.median(times)), min(times), max(times)) for name, times in seconds.items()}
