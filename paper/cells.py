"""Cells: the pieces an experiment is run in, each stored as soon as it is done, so that a run resumes."""

from __future__ import annotations

import json
import os
import platform
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

import bpfa

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
Record = dict[str, Any]
"""What is stored of a cell: name, settings, result, seconds and machine."""


class DataFile(NamedTuple):
    """A file of the data folder."""

    path: str
    """Below the folder."""
    origin: str
    """Where it comes from."""


@dataclass(frozen=True)
class Cell:
    """A method on a data set with a seed, or the like: what is run, and stored, at a time."""

    name: str
    """Names the cell within its experiment."""
    settings: dict[str, Any] = field(compare=False)
    """All that the result depends on; a stored cell with equal settings is not run again."""
    expected: float = 1.0
    """Seconds that it may take."""
    group: str = ""
    """Cells of a group may have a common budget."""
    needs: DataFile | None = None


class Context(NamedTuple):
    """Where a cell finds its data, and where it may leave pictures."""

    data: Path
    output: Path


Run = Callable[[dict[str, Any], Context], dict[str, Any]]
"""From the settings of a cell to its result, both fit for JSON."""


class Store:
    """The records of an experiment, in one JSON file with a line for each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[str, Record] = {}
        self.places: dict[str, int] = {}
        if path.exists():
            self.records = {record["name"]: record for record in json.loads(path.read_text())}

    def has(self, cell: Cell) -> bool:
        """Whether the cell has been run with equal settings."""
        record = self.records.get(cell.name)
        # Through JSON, as a tuple comes back as a list.
        return record is not None and record["settings"] == json.loads(json.dumps(cell.settings))

    def add(self, record: Record) -> None:
        """Store a record."""
        self.records[record["name"]] = record
        self._write()

    def plan(self, names: list[str]) -> None:
        """Say which cells there are, and their order; records of others are forgotten."""
        self.places = {name: place for place, name in enumerate(names)}
        if not self.records.keys() <= self.places.keys():
            self.records = {name: record for name, record in self.records.items() if name in self.places}
            self._write()

    def _write(self) -> None:
        """Replace the file when the new one is whole; cells stand in their planned order."""
        self.records = dict(sorted(self.records.items(), key=lambda item: self.places.get(item[0], 0)))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(json.dumps(record, allow_nan=False) for record in self.records.values())
        partial = self.path.with_suffix(".partial")
        partial.write_text(f"[\n{lines}\n]\n")
        os.replace(partial, self.path)


def machine() -> str:
    """Processor and number of cores."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [line for line in information.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":")[1].strip() if names else model
    return f"{model}, {os.cpu_count()} cores"


def run_cell(cell: Cell, run: Run, context: Context) -> Record:
    """Run a cell on one thread and return its record."""
    began = time.perf_counter()
    with threadpool_limits(1):
        result = run(cell.settings, context)
    seconds = round(time.perf_counter() - began, 2)
    about = {"machine": machine(), "python": platform.python_version(), "bpfa": bpfa.__version__}
    return {"name": cell.name, "settings": cell.settings, "result": result, "seconds": seconds, **about}


def end_quietly() -> None:
    """Let Ctrl-C end a worker at once, without a word: the main process has one for all."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Finished(NamedTuple):
    """A cell that has ended: with its record, or with what went wrong."""

    cell: Cell
    record: Record | None
    error: str = ""


def run_cells(
    cells: list[Cell],
    run: Run,
    store: Store,
    context: Context,
    *,
    jobs: int,
    budgets: dict[str, float],
    force: bool = False,
) -> Iterator[Finished]:
    """Run the cells that are not stored yet, store each when it is done, and yield it.

    Every cell has one thread, and `jobs` of them run at a time. No cell of a group is begun that would end
    beyond the budget of the group, in minutes of `jobs` cells at a time; what is stored counts too.
    """
    spent = dict.fromkeys(budgets, 0.0)
    todo = []
    for cell in cells:
        if store.has(cell) and not force:
            if cell.group in spent:
                spent[cell.group] += store.records[cell.name]["seconds"] / jobs
        else:
            todo.append(cell)
    todo.reverse()

    def next_cell() -> Cell | None:
        while todo:
            cell = todo.pop()
            if cell.group not in budgets:
                return cell
            if spent[cell.group] + cell.expected / jobs <= 60 * budgets[cell.group]:
                # Counted when begun, and set right when done.
                spent[cell.group] += cell.expected / jobs
                return cell
        return None

    def done(cell: Cell, record: Record) -> Finished:
        store.add(record)
        if cell.group in spent:
            spent[cell.group] += (record["seconds"] - cell.expected) / jobs
        return Finished(cell, record)

    if jobs == 1:
        while cell := next_cell():
            try:
                yield done(cell, run_cell(cell, run, context))
            except Exception as error:  # one cell must not end the others
                yield Finished(cell, None, f"{type(error).__name__}: {error}")
        return
    # Read by the libraries of the workers when they start.
    os.environ |= dict.fromkeys(THREADS, "1")
    with ProcessPoolExecutor(jobs, get_context("spawn"), end_quietly) as pool:
        running: dict[Future[Record], Cell] = {}
        while True:
            while len(running) < jobs and (cell := next_cell()):
                running[pool.submit(run_cell, cell, run, context)] = cell
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                cell = running.pop(future)
                if error := future.exception():
                    yield Finished(cell, None, f"{type(error).__name__}: {error}")
                else:
                    yield done(cell, future.result())
