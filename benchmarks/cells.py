"""Run a benchmark whose cells are stored as they end, and say how far it is."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from paper.cells import Cell, Context, Record, Run, Store, run_cells
from rich.console import Console

from benchmarks.images import DATA


def parser_of(
    description: str | None, *, problems: Sequence[str], seeds: Sequence[int], seconds: float
) -> argparse.ArgumentParser:
    """Return a parser of what such benchmarks are asked for."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA, help="data folder")
    parser.add_argument(
        "--seconds", type=_positive, default=seconds, help=f"of training for each cell ({seconds:g})"
    )
    parser.add_argument("--problems", nargs="+", choices=problems, default=list(problems))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(seeds))
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="cells at a time, one thread each (all cores)"
    )
    parser.add_argument("--fresh", action="store_true", help="run again what is stored")
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text}: expected a positive number")
    return value


Cells = Callable[[Sequence[str], Sequence[int], float], list[Cell]]
"""From problems, seeds and seconds to cells."""


def finish(
    cells: Cells,
    run: Run,
    results: Path,
    arguments: argparse.Namespace,
    *,
    problems: Sequence[str],
    seeds: Sequence[int],
) -> tuple[list[Record], int]:
    """Run the cells that are asked for and not stored; return all records, and how many cells failed.

    Records that are not asked for this time stay, if they are of the problems and seeds there are.
    """
    planned = cells(arguments.problems, arguments.seeds, arguments.seconds)
    everything = cells(problems, sorted({*seeds, *arguments.seeds}), arguments.seconds)
    console = Console(highlight=False, soft_wrap=True)
    files = {cell.needs for cell in planned if cell.needs}
    lacking = {file for file in files if not (arguments.data / file.path).exists()}
    for file in sorted(lacking):
        console.print(f"left out: no {arguments.data / file.path}, which is {file.origin}", markup=False)
    planned = [cell for cell in planned if cell.needs not in lacking]
    store = Store(results)
    store.plan([cell.name for cell in everything])
    n_left = sum(arguments.fresh or not store.has(cell) for cell in planned)
    console.print(f"{n_left} of {len(planned)} cells to run")
    context, began, failed = Context(arguments.data.resolve(), results.parent), time.perf_counter(), 0
    finished = run_cells(planned, run, store, context, jobs=arguments.jobs, budgets={}, force=arguments.fresh)
    for n, (cell, record, error) in enumerate(finished, start=1):
        failed += record is None
        left = (time.perf_counter() - began) / 60 / n * (n_left - n)
        text = error if record is None else f"{record['seconds']:.1f} s"
        console.print(f"{cell.name}: {text}, {left:.0f} minutes left", markup=False)
    return list(store.records.values()), failed
