"""How long cells take: the plan of a run rests on recorded times, and on estimates where there are none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from experiments.cells import Cell, Record, Store, write_results
from experiments.runs import planned_minutes, to_run
from paper.experiment import Experiment, Options
from paper.report import results_path

HERE = Path(__file__).parent
QUICK = HERE / "quick_times.json"
"""The seconds that the cells of the quick runs took, whose other results are not kept."""


def on_cpu(record: Record) -> bool:
    """Return whether a cell ran on a CPU: on a GPU it takes another time.

    Examples
    --------
    >>> on_cpu({"machine": "a processor, 2 cores"}), on_cpu({"machine": "a processor, a GPU, CuPy 14"})
    (True, False)
    """
    return "CuPy" not in record["machine"]


def stored_seconds(output: Path, experiment: Experiment) -> dict[str, float]:
    """Return cell -> seconds, of the records that were made on one thread of a CPU."""
    records = Store(results_path(output, experiment)).records.values()
    return {record["name"]: record["seconds"] for record in records if on_cpu(record)}


def store_quick_times(experiments: Sequence[Experiment], output: Path) -> None:
    """Keep how long the cells of a quick run took."""
    write_results(QUICK, {experiment.name: stored_seconds(output, experiment) for experiment in experiments})


def recorded_seconds(experiment: Experiment, scale: str) -> dict[str, float]:
    """Return cell -> seconds, as recorded at this scale with the results of the page."""
    if scale == "quick":
        return dict(json.loads(QUICK.read_text()).get(experiment.name, {})) if QUICK.exists() else {}
    return stored_seconds(HERE, experiment) if scale == "full" else {}


def timed_cells(experiment: Experiment, options: Options) -> list[Cell]:
    """Return the cells of an experiment, each expected to take as long as it took when it was recorded."""
    seconds = recorded_seconds(experiment, options.scale)
    cells = experiment.cells(options)
    return [replace(cell, expected=seconds.get(cell.name, cell.expected)) for cell in cells]


class Plan(NamedTuple):
    """What is left to run of an experiment."""

    cells: int
    recorded: int
    """How many of the cells have a recorded time; the others are estimated."""
    minutes: float


def plan(experiment: Experiment, options: Options, output: Path, *, jobs: int, force: bool = False) -> Plan:
    """Return how long the cells would take that are not stored in `output`, or all with `force`."""
    left = to_run(timed_cells(experiment, options), Store(results_path(output, experiment)), force=force)
    known = recorded_seconds(experiment, options.scale)
    minutes = planned_minutes(left, experiment.budgets(options), jobs)
    return Plan(len(left), sum(cell.name in known for cell in left), minutes)
