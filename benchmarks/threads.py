"""Two threads instead of one, on an idle machine and on a busy one: `python -m benchmarks.threads`.

Confines itself to two processors and fits tables of different sizes with one thread and with two:
alone, next to a process that keeps one processor busy, and as two fits at the same time. The contestants take
turns. The median over rounds is printed and stored, with the fastest and the slowest round, and how many
times as fast two threads are as one.

It also measures, with one thread, which share of the processor time is not spent in loops that threads
share. If that share is s, two threads cannot be more than 2 / (1 + s) times as fast (Amdahl's law),
even if they never had to wait for each other.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.pages import SECTIONS
from bpfa import BPFA, draw_data
from bpfa.backends.cpu import _groups, _kernels
from bpfa.backends.cpu.row_groups import CpuRowGroups
from experiments import Array
from experiments.cells import write_results
from experiments.markdown import table

RESULTS = SECTIONS["threads"].results
TABLES = {
    "20,000 x 100, 32 features, 100 steps": (20_000, 100, 32, 100),
    "20,000 x 24, 400 steps": (20_000, 24, 8, 400),
    "400 x 12, 1,000 steps": (400, 12, 8, 1000),
}
"""Name -> rows, columns, features and steps of the fit."""
LOOPS = [
    (_kernels, "run_float32"),
    (_kernels, "add_draws"),
    (_groups, "nearest_rows"),
    (_groups, "student_rows"),
    (_groups, "kind_rows"),
    (_groups, "kind_sums"),
    (CpuRowGroups, "feature_rows"),
]
"""The loops in which fits spend their time, and which threads share."""
SITUATIONS = ("idle", "one busy process", "two fits at once")


def data(n_rows: int, n_columns: int, n_features: int) -> Array:
    """Return a table drawn from the model, of which a twentieth is missing."""
    # A second thread of BLAS would go on waiting for work while the fit is timed.
    with threadpool_limits(1):
        values = draw_data(n_rows, n_columns, n_features, g_o=4.0, g_w=1.0, seed=0).y
    values[np.random.default_rng(0).random(values.shape) < 0.05] = np.nan
    return values


def fit_seconds(name: str, n_jobs: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return how long a fit takes, by the clock on the wall or by another one."""
    n_rows, n_columns, n_features, n_steps = TABLES[name]
    X = data(n_rows, n_columns, n_features)
    model = BPFA(n_features, max_steps=n_steps, random_state=0, device="cpu", n_jobs=n_jobs)
    began = clock()
    model.fit(X)
    return clock() - began


def serial_share(name: str) -> float:
    """Return the share of the processor time of a fit that is not spent in loops that threads share."""
    in_loops = 0.0

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal in_loops
            began = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                in_loops += time.process_time() - began

        return call

    with ExitStack() as stack:
        for module, loop in LOOPS:
            stack.enter_context(mock.patch.object(module, loop, timed(getattr(module, loop))))
        total = fit_seconds(name, 1, time.process_time)
    return 1 - in_loops / total


def keep_busy() -> None:
    """Occupy a processor until the process is ended."""
    while True:
        pass


def seconds_in(situation: str, name: str, n_jobs: int) -> float:
    """Return how long a fit takes in a situation; of two fits at once, the longer of the two times."""
    context = multiprocessing.get_context("spawn")
    if situation == "two fits at once":
        with context.Pool(2) as pool:
            pool.starmap(fit_seconds, [("400 x 12, 1,000 steps", 1)] * 2)  # import everything first
            return max(pool.starmap(fit_seconds, [(name, n_jobs)] * 2, chunksize=1))
    busy = context.Process(target=keep_busy, daemon=True) if situation == "one busy process" else None
    if busy is not None:
        busy.start()
        time.sleep(1.0)
    try:
        return fit_seconds(name, n_jobs)
    finally:
        if busy is not None:
            busy.kill()
            busy.join()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    for name in TABLES:
        fit_seconds(name, 2)
    results: dict[str, Any] = {"serial": {name: serial_share(name) for name in TABLES}, "times": {}}
    print(serial_words(results["serial"]), flush=True)
    for situation in SITUATIONS:
        for name in TABLES:
            times: dict[int, list[float]] = {1: [], 2: []}
            for _ in range(arguments.rounds):
                for n_jobs, found in times.items():
                    found.append(seconds_in(situation, name, n_jobs))
            title = f"{situation}: {name}"
            results["times"][title] = {str(n_jobs): sorted(found) for n_jobs, found in times.items()}
            print(*rows_of(results["times"])[-1], sep="  ", flush=True)
            write_results(RESULTS, results)


def serial_words(shares: dict[str, float]) -> str:
    """Return a sentence about the shares of the fits that only one thread works on."""
    each = "; ".join(
        f"{share:.0%} of {name}, so that two threads are at most {2 / (1 + share):.2f} times as fast"
        for name, share in shares.items()
    )
    return f"What is not spent in loops that threads share, with one thread: {each}."


def rows_of(times_of: dict[str, Any]) -> list[list[str]]:
    """Return a row for each situation and table."""
    rows = []
    for title, times in times_of.items():
        one, two = (np.asarray(times[n_jobs]) for n_jobs in ("1", "2"))
        shown = [f"{np.median(found):.2f} ({found.min():.2f}-{found.max():.2f})" for found in (one, two)]
        rows.append([*title.split(": "), *shown, f"{np.median(one) / np.median(two):.2f}"])
    return rows


def markdown(results: dict[str, Any]) -> str:
    """Return the results as a table, and the limits of what two threads can do."""
    rows = rows_of(results["times"])
    shown = table(["machine", "fit", "1 thread, s", "2 threads, s", "times as fast"], rows)
    return f"{shown}\n\n{serial_words(results['serial'])}"


if __name__ == "__main__":
    main()
