"""Run experiments of the paper: `python -m paper NAME ... [--quick]`.

`report` only writes the page, and `times --quick` keeps how long the quick runs took, for later plans.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from rich.console import Console

from bpfa.backends.registry import check_device
from experiments import DATA
from experiments.cells import Context, Store
from experiments.runs import run_and_report
from paper import (
    burn_in,
    chain_study,
    cytof,
    denoising,
    drift_section,
    errata,
    expression,
    interpolation,
    optimiser,
    synthetic,
    thought_experiment,
)
from paper.experiment import Experiment, Options
from paper.report import results_path, write_report
from paper.times import plan, store_quick_times, timed_cells

HERE = Path(__file__).parent
NOTE = HERE.parent / "docs" / "notes" / "drift.md"
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
        chain_study,
        drift_section,
        optimiser,
        errata,
    )
]
NAMES = {experiment.name: experiment for experiment in EXPERIMENTS}


def main(arguments: list[str] | None = None) -> int:
    """Run the experiments that are asked for, write the page, and return the exit status."""
    given = parse(arguments)
    console = Console(soft_wrap=True, highlight=False)
    options = Options(given.scale, given.budget)
    output = given.output or (HERE if given.scale == "full" else HERE / given.scale)
    context = Context(given.data.resolve(), output.resolve(), given.device)
    names = list(NAMES) if "all" in given.names else [name for name in given.names if name in NAMES]
    if len(names) > 1 or given.plan:
        announce([NAMES[name] for name in names], options, context.output, given, console)
    if given.plan:
        return 0
    failed = 0
    try:
        for name in names:
            failed += run_experiment(NAMES[name], options, context, given, console)
    except KeyboardInterrupt:
        console.print("stopped; the same command resumes the run")
        return 130
    console.print(f"written: {write_report(EXPERIMENTS, output, quick=given.scale != 'full')}")
    if "times" in given.names and given.scale == "quick":
        store_quick_times(EXPERIMENTS, output)
    if output == HERE:
        drift_section.update_note(NOTE, list(Store(results_path(output, NAMES["drift"])).records.values()))
    if failed:
        console.print(f"{failed} cells failed; the same command tries them again")
    return int(failed > 0)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m paper", description=__doc__)
    parser.add_argument(
        "names", nargs="+", metavar="NAME", choices=[*NAMES, "all", "report", "times"], help=", ".join(NAMES)
    )
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument(
        "--quick", dest="scale", action="store_const", const="quick", default="full",
        help="small runs, which take ten minutes in all and go into a folder of their own",
    )  # fmt: skip
    scale.add_argument("--tiny", dest="scale", action="store_const", const="tiny", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, default=DATA, help="the data folder")
    parser.add_argument(
        "--output", type=Path, help="the folder for results, figures and the page (default: paper/)"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1,
        help="how many cells run at a time, with one thread each (default: as many as there are cores)",
    )  # fmt: skip
    parser.add_argument(
        "--device", default="cpu",
        help="where the experiments on real data run: cpu (default), or cuda for a GPU; the others need none",
    )  # fmt: skip
    parser.add_argument(
        "--budget", type=float, help="synthetic: minutes for the repetitions at full size (30)"
    )
    parser.add_argument(
        "--plan", action="store_true",
        help="only print how long the cells would take that are not stored (all of them with --force)",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="run cells again that are already stored")
    given = parser.parse_args(arguments)
    try:
        given.device = check_device(given.device)
    except ValueError as error:
        parser.error(str(error))
    return given


def announce(
    experiments: list[Experiment], options: Options, output: Path, given: argparse.Namespace, console: Console
) -> None:
    """Print how long a run of several experiments can take, before it begins."""
    plans = {
        experiment.name: plan(experiment, options, output, jobs=given.jobs, force=given.force)
        for experiment in experiments
    }
    for name, planned in plans.items():
        console.print(f"planned: {name}, {planned.cells} cells, {planned.minutes:.1f} minutes", markup=False)
    cells, recorded, minutes = map(sum, zip(*plans.values(), strict=True))
    console.print(
        f"planned in all: {minutes:.0f} minutes with {given.jobs} cells at a time, one thread each; "
        f"{recorded} of {cells} cells by their recorded times, the others by estimates"
    )


def run_experiment(
    experiment: Experiment, options: Options, context: Context, given: argparse.Namespace, console: Console
) -> int:
    """Run the cells of an experiment that are not stored yet; return how many of them failed."""
    store = Store(results_path(context.output, experiment))
    if not experiment.on_device:
        context = context._replace(device="cpu")
    cells = timed_cells(experiment, options)
    store.plan([cell.name for cell in cells])
    return run_and_report(
        experiment.name,
        cells,
        experiment.run,
        store,
        context,
        console,
        jobs=given.jobs,
        budgets=experiment.budgets(options),
        force=given.force,
    )


if __name__ == "__main__":
    sys.exit(main())
