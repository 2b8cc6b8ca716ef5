"""Running cells: several at a time, within budgets of time, and each stored as soon as it is done."""

from __future__ import annotations

import os
import platform
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from threadpoolctl import threadpool_limits

import bpfa
from bpfa._support.progress import open_bar
from experiments.cells import Cell, Context, Record, Run, Store
from experiments.machine import machine, thread_limit


class Finished(NamedTuple):
    """A cell that has ended, either with its record or with an error message."""

    cell: Cell
    record: Record | None
    error: str = ""


class Queue:
    """The cells that are still to be run, and how much of its budget each group has spent.

    Budgets are in minutes of wall-clock time with `jobs` cells at a time; stored cells count, too.
    """

    def __init__(
        self, cells: Sequence[Cell], store: Store, *, jobs: int, budgets: Mapping[str, float], force: bool
    ) -> None:
        self.store, self.jobs, self.budgets = store, jobs, budgets
        self.spent = dict.fromkeys(budgets, 0.0)
        self.waiting = to_run(cells, store, force=force)
        for cell in set(cells) - set(self.waiting):
            if cell.group in self.spent:
                self.spent[cell.group] += store.records[cell.name]["seconds"] / jobs
        self.waiting.reverse()

    def next(self) -> Cell | None:
        """Return the next cell that is expected to end within the budget of its group, if there is one."""
        while self.waiting:
            cell = self.waiting.pop()
            if cell.group not in self.budgets:
                return cell
            if self.spent[cell.group] + cell.expected / self.jobs <= 60 * self.budgets[cell.group]:
                # What is expected is counted now, and replaced by what was spent once the cell is done.
                self.spent[cell.group] += cell.expected / self.jobs
                return cell
        return None

    def done(self, cell: Cell, record: Record) -> Finished:
        """Store the record of a cell."""
        self.store.add(record)
        if cell.group in self.spent:
            self.spent[cell.group] += (record["seconds"] - cell.expected) / self.jobs
        return Finished(cell, record)


def to_run(cells: Sequence[Cell], store: Store, *, force: bool = False) -> list[Cell]:
    """Return the cells that are not stored yet, or all of them with `force`."""
    return [cell for cell in cells if force or not store.has(cell)]


def run_cell(cell: Cell, run: Run, context: Context) -> Record:
    """Run a cell on one thread and return its record."""
    began = time.perf_counter()
    with threadpool_limits(1):
        result = run(cell.settings, context)
    seconds = round(time.perf_counter() - began, 2)
    about = {
        "machine": machine(context.device),
        "python": platform.python_version(),
        "bpfa": bpfa.__version__,
    }
    return {"name": cell.name, "settings": cell.settings, "result": result, "seconds": seconds, **about}


def run_cells(
    cells: Sequence[Cell],
    run: Run,
    store: Store,
    context: Context,
    *,
    jobs: int,
    budgets: Mapping[str, float],
    force: bool = False,
) -> Iterator[Finished]:
    """Run the cells that are not stored yet, store each when it is done, and yield it.

    Every cell has one thread, and `jobs` cells run at a time. No cell is begun that is expected to end beyond
    the budget of its group (see `Queue`). An error in one cell does not end the others.
    """
    queue = Queue(cells, store, jobs=jobs, budgets=budgets, force=force)
    if jobs > 1:
        yield from _run_in_processes(queue, run, context)
        return
    while cell := queue.next():
        try:
            yield queue.done(cell, run_cell(cell, run, context))
        except Exception as error:
            yield Finished(cell, None, f"{type(error).__name__}: {error}")


def _run_in_processes(queue: Queue, run: Run, context: Context) -> Iterator[Finished]:
    # The numerical libraries of the worker processes read this when they start.
    os.environ |= thread_limit(1)
    with ProcessPoolExecutor(queue.jobs, get_context("spawn"), _end_quietly) as pool:
        running: dict[Future[Record], Cell] = {}
        while True:
            while len(running) < queue.jobs and (cell := queue.next()):
                running[pool.submit(run_cell, cell, run, context)] = cell
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                cell = running.pop(future)
                if error := future.exception():
                    yield Finished(cell, None, f"{type(error).__name__}: {error}")
                else:
                    yield queue.done(cell, future.result())


def _end_quietly() -> None:
    """Let Ctrl-C end a worker at once and silently: the main process reports it for all of them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def with_data(cells: Sequence[Cell], data: Path, console: Console) -> list[Cell]:
    """Return the cells whose data file exists, and print one line for each file that does not."""
    missing = {
        file: line for file in {cell.needs for cell in cells} if file and (line := file.missing_from(data))
    }
    for line in sorted(missing.values()):
        console.print(line, markup=False)
    return [cell for cell in cells if cell.needs not in missing]


def planned_minutes(cells: Sequence[Cell], budgets: Mapping[str, float], jobs: int) -> float:
    """Return how many minutes the cells take at most, as far as their expected times are right.

    Examples
    --------
    >>> cells = [Cell(name, {}, expected=120.0, group="large") for name in "abc"]
    >>> planned_minutes(cells, {}, jobs=2), planned_minutes(cells, {"large": 1.0}, jobs=2)
    (3.0, 1.0)
    """
    minutes: dict[str, float] = {}
    for cell in cells:
        minutes[cell.group] = minutes.get(cell.group, 0.0) + cell.expected / 60 / jobs
    return sum(min(budgets.get(group, total), total) for group, total in minutes.items())


def run_and_report(
    title: str,
    cells: Sequence[Cell],
    run: Run,
    store: Store,
    context: Context,
    console: Console,
    *,
    jobs: int,
    budgets: Mapping[str, float] | None = None,
    force: bool = False,
) -> int:
    """Run the cells that are not stored, print a line for each, and return how many of them failed.

    Cells whose data file does not exist are left out.
    """
    budgets = budgets or {}
    cells = with_data(cells, context.data, console)
    left = to_run(cells, store, force=force)
    console.print(
        f"{title}: {len(left)} of {len(cells)} cells to run, at most about "
        f"{planned_minutes(left, budgets, jobs):.1f} minutes with {jobs} at a time"
    )
    began, failed = time.perf_counter(), 0
    with open_bar(title, total=len(left), console=console) as bar:
        for cell, record, error in run_cells(
            cells, run, store, context, jobs=jobs, budgets=budgets, force=force
        ):
            failed += record is None
            bar.advance()
            outcome = error if record is None else f"{record['seconds']:.1f} s"
            console.print(f"  {title} {cell.name}: {outcome}", markup=False)
    console.print(f"{title}: {(time.perf_counter() - began) / 60:.1f} minutes")
    return failed
