"""What the commands of the benchmarks share: their arguments, tables on the screen, and stored cells."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from experiments import DATA, ROOT
from experiments.cells import Cell, Context, Record, Run, Store
from experiments.machine import thread_limit
from experiments.runs import run_and_report


def parser_with_data(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the data folder as its first argument."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA, help="the data folder")
    return parser


def screen_table(title: str, headings: Sequence[str], left: Sequence[str] = ("",)) -> Table:
    """Return a table for the screen; the columns with the headings in `left` are aligned to the left."""
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in left else "right")
    return table


def parser_of_cells(
    description: str | None, *, problems: Sequence[str], seeds: Sequence[int], seconds: float
) -> argparse.ArgumentParser:
    """Return the parser of a benchmark whose cells are a problem, a seed and some seconds of training."""
    parser = parser_with_data(description)
    parser.add_argument(
        "--seconds", type=_positive, default=seconds, help=f"seconds of training for each cell ({seconds:g})"
    )
    parser.add_argument("--problems", nargs="+", choices=problems, default=list(problems))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(seeds))
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="how many cells run at a time, with one thread each (default: as many as there are cores)",
    )
    parser.add_argument("--fresh", action="store_true", help="run cells again that are already stored")
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text}: expected a positive number")
    return value


Cells = Callable[[Sequence[str], Sequence[int], float], list[Cell]]
"""A function from problems, seeds and seconds to cells."""


def run_stored_cells(
    title: str,
    cells: Cells,
    run: Run,
    results: Path,
    arguments: argparse.Namespace,
    *,
    problems: Sequence[str],
    seeds: Sequence[int],
) -> tuple[list[Record], int]:
    """Run the cells that are asked for and not stored; return all records, and how many cells failed.

    Records that are not asked for this time are kept as long as their problem and seed still exist.
    """
    everything = cells(problems, sorted({*seeds, *arguments.seeds}), arguments.seconds)
    store = Store(results)
    store.plan([cell.name for cell in everything])
    failed = run_and_report(
        title,
        cells(arguments.problems, arguments.seeds, arguments.seconds),
        run,
        store,
        Context(arguments.data.resolve(), results.parent),
        Console(highlight=False, soft_wrap=True),
        jobs=arguments.jobs,
        force=arguments.fresh,
    )
    return list(store.records.values()), failed


def row_of_process(
    module: str, row: Sequence[str], options: Sequence[str], *, threads: int, limit: float
) -> dict:
    """Run a contestant in a process of its own, and return the row that it prints.

    Parameters
    ----------
    module : str
        A benchmark that prints a row as JSON if it is given `--row`.
    row : sequence of str
        The values of `--row`.
    options : sequence of str
        Further arguments.
    threads : int
        Number of threads that the process may use.
    limit : float
        Seconds after which it is stopped.

    Returns
    -------
    dict
        Only with a note that says why where there is no result.
    """
    command = [sys.executable, "-m", module, "--row", *row, *options]
    environment = os.environ | thread_limit(threads)
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return {"note": f"not finished in {limit:.0f} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"note": lines[-1] if lines else f"ended with status {done.returncode}"}
    result: dict = json.loads(done.stdout.splitlines()[-1])
    return result


def peak_megabytes() -> float:
    """Return the peak resident memory of this process; that of getrusage would include the parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def earlier_rows(path: Path, settings: dict) -> dict[tuple[str, str], dict]:
    """Return the rows of an earlier run with the same settings, so that one contestant can be run again."""
    if not path.exists():
        return {}
    results = json.loads(path.read_text())
    if results["settings"] != settings:
        return {}
    return {(row["table"], row["contestant"]): row for row in results["rows"]}


def score_cells(result: dict) -> list[str]:
    """Return the scores of a contestant as a row of a table, for the screen and for the page."""
    if "mse" not in result:
        return [result["contestant"], "", "", "", "", result["note"]]
    coverage = f"{result['coverage']:.1%}" if "coverage" in result else ""
    return [
        result["contestant"],
        f"{result['mse']:.4f}",
        f"{result['log_likelihood']:.4f}",
        coverage,
        f"{result['seconds']:.1f}",
        result["note"],
    ]
