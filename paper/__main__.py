"""Run experiments of the paper: `python -m paper NAME ... [--quick]`; `report` only writes the page."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from paper import burn_in, cytof, denoising, errata, expression, interpolation, synthetic, thought_experiment
from paper.cells import Cell, Context, Store, run_cells
from paper.experiment import Experiment, Options
from paper.report import results_path, write_report

HERE = Path(__file__).parent
EXPERIMENTS = [
    module.EXPERIMENT
    for module in (
        synthetic,
        burn_in,
        interpolation,
        denoising,
        thought_experiment,
        expression,
        cytof,
        errata,
    )
]
NAMES = {experiment.name: experiment for experiment in EXPERIMENTS}


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for and return the exit status."""
    given = parse(arguments)
    console = Console(soft_wrap=True, highlight=False)
    options = Options(given.scale, given.minutes, given.budget)
    output = given.output or (HERE if given.scale == "full" else HERE / given.scale)
    context = Context(given.data.resolve(), output.resolve())
    names = list(NAMES) if "all" in given.names else [name for name in given.names if name != "report"]
    if len(names) > 1:
        announce([NAMES[name] for name in names], options, context, given, console)
    failed = 0
    try:
        for name in names:
            failed += run_experiment(NAMES[name], options, context, given, console)
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from here")
        return 130
    console.print(f"written: {write_report(EXPERIMENTS, output, quick=given.scale != 'full')}")
    if failed:
        console.print(f"{failed} cells failed; run the same command again to try them again")
    return int(failed > 0)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m paper", description=__doc__)
    parser.add_argument(
        "names", nargs="+", metavar="NAME", choices=[*NAMES, "all", "report"], help=", ".join(NAMES)
    )
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument(
        "--quick", dest="scale", action="store_const", const="quick", default="full",
        help="small runs, into a folder of their own: ten minutes in all",
    )  # fmt: skip
    scale.add_argument("--tiny", dest="scale", action="store_const", const="tiny", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, default=HERE.parents[1] / "shared" / "data", help="data folder")
    parser.add_argument("--output", type=Path, help="folder of results, figures and page (paper/)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="cells at a time, one thread each (all cores)"
    )
    parser.add_argument("--minutes", type=float, help="cytof: training of each method (10)")
    parser.add_argument("--budget", type=float, help="synthetic: minutes for repetitions at full size (30)")
    parser.add_argument("--force", action="store_true", help="run again what is stored")
    return parser.parse_args(arguments)


def announce(
    experiments: list[Experiment],
    options: Options,
    context: Context,
    given: argparse.Namespace,
    console: Console,
) -> None:
    """Say what a run of several experiments may take, before it begins."""
    total = 0.0
    for experiment in experiments:
        store = Store(results_path(context.output, experiment))
        todo = [cell for cell in experiment.cells(options) if given.force or not store.has(cell)]
        minutes = planned(todo, experiment.budgets(options), given.jobs)
        total += minutes
        console.print(f"planned: {experiment.name}, {len(todo)} cells, {minutes:.1f} minutes", markup=False)
    console.print(f"planned in all: {total:.0f} minutes with {given.jobs} cells at a time, one thread each")


def run_experiment(
    experiment: Experiment, options: Options, context: Context, given: argparse.Namespace, console: Console
) -> int:
    """Run an experiment as far as it is not stored; return how many cells failed."""
    store = Store(results_path(context.output, experiment))
    cells = experiment.cells(options)
    store.plan([cell.name for cell in cells])
    cells = with_data(cells, context.data, console)
    budgets = experiment.budgets(options)
    todo = [cell for cell in cells if given.force or not store.has(cell)]
    console.print(
        f"[bold]{experiment.name}[/bold]: {len(todo)} of {len(cells)} cells to run, at most about "
        f"{planned(todo, budgets, given.jobs):.1f} minutes with {given.jobs} at a time"
    )
    began, failed = time.perf_counter(), 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(experiment.name, total=len(todo))
        finished = run_cells(
            cells, experiment.run, store, context, jobs=given.jobs, budgets=budgets, force=given.force
        )
        for cell, record, error in finished:
            failed += record is None
            bar.advance(task)
            text = error if record is None else f"{record['seconds']:.1f} s"
            console.print(f"  {experiment.name} {cell.name}: {text}", markup=False)
    console.print(f"{experiment.name}: {(time.perf_counter() - began) / 60:.1f} minutes")
    return failed


def with_data(cells: list[Cell], data: Path, console: Console) -> list[Cell]:
    """Leave out the cells whose data file is not there, with one line for each file."""
    lines = {
        f"left out: no {data / cell.needs.path}, which is {cell.needs.origin}; --data names another folder"
        for cell in cells
        if cell.needs and not (data / cell.needs.path).exists()
    }
    for line in sorted(lines):
        console.print(line, markup=False)
    return [cell for cell in cells if not cell.needs or (data / cell.needs.path).exists()]


def planned(cells: list[Cell], budgets: dict[str, float], jobs: int) -> float:
    """Minutes that the cells may take."""
    minutes: dict[str, float] = {}
    for cell in cells:
        minutes[cell.group] = minutes.get(cell.group, 0.0) + cell.expected / 60 / jobs
    return sum(min(budgets.get(group, total), total) for group, total in minutes.items())


if __name__ == "__main__":
    sys.exit(main())
