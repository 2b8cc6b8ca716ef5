"""Fits on the workers of a local Dask cluster: `python -m benchmarks.cluster`.

Without arguments: what a step costs beside its rows, and how many times as fast two workers are as one, with
256 features and 64 columns, workers of one thread each, and clusters that take turns. `--disk GB` writes rows
to a Zarr array and fits them for an epoch, and prints the largest memory of every process. `--plan` fits a
model of a step to measurements with one to four workers, and prints what it predicts for more of them. What
is printed is stored, too, for docs/cluster.md.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cluster_plan import measured_times, plan_text
from benchmarks.pages import SECTIONS
from bpfa import BPFA, open_rows
from experiments import Array
from experiments.cells import write_results
from experiments.markdown import table

RESULTS = SECTIONS["cluster"].results

K, D = 256, 64
BATCHES = (16_384, 65_536)
# The fewest rows of a worker in a step, for the time that a step takes beside its rows.
FEW = 512
STEPS, ROUNDS, WARM_STEPS = 12, 3, 3
SETTINGS: dict[str, Any] = {
    "features": "factorised",
    "standardize": False,
    "noise": "shared",
    "init": "random",
    "held_out": 0.0,
    "groups": False,
    "random_state": 0,
    "device": "cpu",
}


@contextmanager
def workers(n: int, memory: str = "auto") -> Iterator[Any]:
    """Start n worker processes of one thread, and yield a client that is not the current one."""
    from distributed import Client, LocalCluster

    cluster = LocalCluster(
        n_workers=n,
        memory_limit=memory,
        threads_per_worker=1,
        dashboard_address=":0",
        silence_logs=logging.ERROR,
    )
    with cluster, Client(cluster, set_as_default=False) as client:
        yield client


def rows(n: int) -> Array:
    """Return rows of noise, a fifth of which is observed: as in patches of an undersampled picture."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n, D)).astype(np.float32)
    values[rng.random(values.shape) < 0.8] = np.nan
    return values


def step_milliseconds(X: Any, batch_size: int, *, client: Any = None, n_steps: int = STEPS) -> float:
    """Return the median time of a step of a fit, without the first ones."""
    moments: list[float] = []
    model = BPFA(
        K,
        batch_size=batch_size,
        max_steps=n_steps + WARM_STEPS,
        n_jobs=1,
        **SETTINGS,
    )
    model.fit(X, client=client, callbacks=[lambda progress, history: moments.append(time.perf_counter())])
    return 1e3 * float(np.median(np.diff(moments)[WARM_STEPS - 1 :]))


@contextmanager
def timed_on(n: int, values: Array) -> Iterator[Callable[[int, int], float]]:
    """Start n workers that hold rows, and yield what times steps by their number of rows and of steps."""
    import dask.array

    with workers(n) as client:
        lazy = client.persist(dask.array.from_array(values, chunks=(len(values) // 64, D)))
        # The first fit opens the connections between the processes.
        step_milliseconds(lazy, min(BATCHES), client=client)
        yield lambda batch_size, n_steps: step_milliseconds(lazy, batch_size, client=client, n_steps=n_steps)


def measure_speed() -> list[dict[str, Any]]:
    """Return the times of steps without Dask (no workers), with one worker and with two."""
    values = rows(2 * max(BATCHES))
    times: dict[tuple[int, int], list[float]] = {}
    for _ in range(ROUNDS):
        # The contestants take turns, so that whatever else the machine does meets all of them. There is one
        # cluster at a time, because the processes of another would take a few percent of both cores.
        found = step_milliseconds(values[: 8 * FEW], FEW, n_steps=3 * STEPS)
        times.setdefault((0, FEW), []).append(found)
        for n in (1, 2):
            with timed_on(n, values) as milliseconds:
                for batch_size in (n * FEW, *BATCHES):
                    found = milliseconds(batch_size, STEPS if batch_size in BATCHES else 3 * STEPS)
                    times.setdefault((n, batch_size), []).append(found)
    return [{"workers": n, "rows": batch_size, "ms": found} for (n, batch_size), found in times.items()]


def speed_text(results: list[dict[str, Any]]) -> str:
    """Return a table of the times, the overhead of a step, and how much faster two workers are than one."""
    median = {(row["workers"], row["rows"]): float(np.median(row["ms"])) for row in results}
    lines = [
        [
            f"{row['workers'] or 'no Dask'}",
            f"{row['rows']:,}",
            *(f"{of(row['ms']):.1f}" for of in (np.median, min, max)),
        ]
        for row in results
    ]
    # With as many rows for every worker as the step without Dask has, what differs is the cost of Dask.
    one, two = (median[n, n * FEW] - median[0, FEW] for n in (1, 2))
    ratios = " and ".join(
        f"{median[1, batch_size] / median[2, batch_size]:.2f} times as fast "
        f"as one with batches of {batch_size:,} rows"
        for batch_size in BATCHES
    )
    return (
        f"{table(['workers', 'rows of a step', 'ms', 'fastest', 'slowest'], lines)}\n\n"
        f"Beside its rows, a step costs {one:.1f} ms more with one worker than without Dask, and {two:.1f} "
        f"ms more with two. Two workers are {ratios}."
    )


class MemoryWatch:
    """Notes the largest memory of this process and of all its children while it is open."""

    def __init__(self) -> None:
        self.largest: dict[int, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        import psutil

        this = psutil.Process()
        while not self._stop.wait(0.2):
            for process in [this, *this.children(recursive=True)]:
                try:
                    used = process.memory_info().rss / 1e9
                except psutil.Error:
                    continue
                self.largest[process.pid] = max(used, self.largest.get(process.pid, 0.0))

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def written(path: Path, gigabytes: float) -> None:
    """Write rows of noise, in single precision and without compression, to a Zarr array."""
    import zarr

    block, n_rows = rows(65_536), int(gigabytes * 1e9 / (4 * D))
    array = zarr.create_array(path, shape=(n_rows, D), chunks=(16_384, D), dtype="float32", compressors=None)
    for start in range(0, n_rows, len(block)):
        array[start : start + len(block)] = block[: min(len(block), n_rows - start)]


def measure_memory(gigabytes: float, folder: Path | None, n_features: int) -> dict[str, Any]:
    """Return how long an epoch over rows on disk takes, and the largest memory of every process."""
    place = Path(tempfile.mkdtemp(dir=folder))
    try:
        written(place / "rows.zarr", gigabytes)
        source = open_rows(place / "rows.zarr")
        with workers(2, memory="2GB") as client, MemoryWatch() as watch:
            began = time.perf_counter()
            model = BPFA(n_features, batch_size=65_536, max_epochs=1, **SETTINGS)
            model.fit(source, client=client)
            seconds = time.perf_counter() - began
    finally:
        shutil.rmtree(place)
    return {
        "gigabytes": gigabytes,
        "rows": source.n_rows,
        "features": n_features,
        "seconds": seconds,
        "steps": model.n_steps_,
        "process_gigabytes": sorted(watch.largest.values(), reverse=True),
    }


def memory_text(results: dict[str, Any]) -> str:
    """Return a sentence about the epoch, and one about memory."""
    largest = ", ".join(f"{used:.2f}" for used in results["process_gigabytes"])
    return (
        f"An epoch over {results['rows']:,} rows of {D} columns in a Zarr array ({results['gigabytes']:g} "
        f"GB) with {results['features']} features and two workers takes {results['seconds']:.0f} s, which is "
        f"{results['rows'] / results['seconds']:,.0f} rows a second, in {results['steps']:,} steps. The "
        f"largest memory of each process, in GB: {largest}."
    )


def measure_plan() -> dict[str, Any]:
    """Return the times of steps with one to four workers, and on how many cores."""
    values = rows(2 * max(BATCHES))
    times = measured_times(lambda n: timed_on(n, values), STEPS, ROUNDS)
    return {"cores": len(os.sched_getaffinity(0)), "features": K, "columns": D, "times": times}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plan", action="store_true", help="a model of a step, and what it predicts")
    parser.add_argument("--disk", type=float, metavar="GB", help="fit so many gigabytes of rows on disk")
    parser.add_argument("--folder", type=Path, help="where these are written")
    parser.add_argument("--features", type=int, default=16, help="features of the fit of rows on disk (16)")
    arguments = parser.parse_args()
    if arguments.disk:
        store("disk", measure_memory(arguments.disk, arguments.folder, arguments.features))
    elif arguments.plan:
        store("plan", measure_plan())
    else:
        store("speed", measure_speed())


TEXTS: dict[str, Callable[[Any], str]] = {"speed": speed_text, "disk": memory_text, "plan": plan_text}
"""What is measured -> the function that makes its text."""


def store(name: str, measured: Any) -> None:
    """Print what was measured, and store it beside what was measured before."""
    print(TEXTS[name](measured))
    earlier = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    write_results(RESULTS, earlier | {name: measured})


def markdown(results: dict[str, Any]) -> str:
    """Return the text of the page, as it was printed."""
    return "\n\n".join(text(results[name]) for name, text in TEXTS.items() if name in results)


if __name__ == "__main__":
    main()
