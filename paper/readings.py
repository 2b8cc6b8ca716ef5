"""Two readings of every experiment on real data: at the best step, and at the last one.

The best step is chosen by hidden entries that are not scored. Both readings are of long chains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.cells import Record
from experiments.markdown import table
from paper.chains import CHAINS
from paper.experiment import Claim, Verdict
from paper.methods import LABELS, METHODS

READINGS = {"best": "at its best", "end": "at its end"}
JUDGED_BY = "long"
"""The chains by which claims are judged."""
Found = Mapping[tuple[str, int], Mapping[str, float]]
"""(task, seed) -> method -> score, more is better."""
Reached = Mapping[str, Found]
"""Reading -> what was found."""
Judge = Callable[[Found], tuple[str, Verdict]]
"""From what was found in one reading to the evidence and the verdict."""


def found_in(records: Iterable[Record], task: str, over: str) -> Reached:
    """Return what the methods reached in a task, for the seeds with which all five have been run.

    Parameters
    ----------
    records : iterable of dict
        Those of the task alone.
    task : str
        The name of the task.
    over : str
        The name of the score.
    """
    found: dict[str, dict[tuple[str, int], dict[str, float]]] = {reading: {} for reading in READINGS}
    for record in records:
        settings, readings = record["settings"], record["result"].get("readings", {})
        for reading in readings:
            of_seed = found[reading].setdefault((task, settings["seed"]), {})
            of_seed[settings["method"]] = readings[reading][JUDGED_BY][over]
    return {reading: complete(of_reading) for reading, of_reading in found.items()}


def complete(found: Found) -> Found:
    """Return the tasks and seeds with all five methods."""
    return {key: scores for key, scores in found.items() if all(method in scores for method in METHODS)}


def merged(parts: Sequence[Reached]) -> Reached:
    """Return what was reached in several tasks."""
    return {
        reading: {key: scores for part in parts for key, scores in part.get(reading, {}).items()}
        for reading in READINGS
    }


def wins(found: Found, pairs: Iterable[tuple[str, str]]) -> tuple[int, int]:
    """Return how many comparisons are won by the first of a pair, and how many there are.

    Examples
    --------
    >>> found = {("a", 0): {"mf-svi": 1.0, "mf-ssvi": 2.0}, ("a", 1): {"mf-svi": 3.0, "mf-ssvi": 2.0}}
    >>> wins(found, [("mf-ssvi", "mf-svi")])
    (1, 2)
    """
    won = [scores[one] > scores[other] for one, other in pairs for scores in found.values()]
    return sum(won), len(won)


def mean_of(found: Found, method: str) -> float:
    """Return the mean score of a method over tasks and seeds."""
    return float(np.mean([scores[method] for scores in found.values()]))


def mean_gap(found: Found, ones: Sequence[str], others: Sequence[str]) -> float:
    """Return by how much some methods are better than others on average."""
    means = [np.mean([mean_of(found, method) for method in kinds]) for kinds in (ones, others)]
    return float(means[0] - means[1])


def listed_means(found: Found, digits: int) -> str:
    """Return in words the mean score of every method."""
    return ", ".join(f"{LABELS[method]} {mean_of(found, method):.{digits}f}" for method in METHODS)


def judged_twice(text: str, reached: Reached, judge: Judge) -> Claim:
    """Return a claim that is judged in both readings."""
    (best, verdict), (end, at_end) = (judge(reached[reading]) for reading in READINGS)
    return Claim(text, f"at its best: {best}; at its end: {end}", verdict, at_end)


def with_range(values: Sequence[float], digits: int) -> str:
    """Return the mean of some values, and their range where there are several.

    Examples
    --------
    >>> with_range([1.0, 2.0], 1), with_range([1.0], 1)
    ('1.5 (1.0 to 2.0)', '1.0')
    """
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def readings_table(records: Sequence[Record], over: str, digits: int) -> str:
    """Return a table with a row for each method: both readings, by short and by long chains."""
    headings = [""]
    for words in READINGS.values():
        headings += [f"{words}, {chains} chains" for chains in CHAINS] + ["after steps", "noise"]
    rows = []
    for method in METHODS:
        results = [
            record["result"]["readings"]
            for record in records
            if record["settings"]["method"] == method and "readings" in record["result"]
        ]
        if results:
            rows.append([LABELS[method], *_reading_cells(results, over, digits)])
    return table(headings, rows)


def _reading_cells(results: Sequence[dict[str, Any]], over: str, digits: int) -> list[str]:
    cells = []
    for reading in READINGS:
        cells += [
            with_range([result[reading][chains][over] for result in results], digits) for chains in CHAINS
        ]
        judged = [result[reading][JUDGED_BY] for result in results]
        steps = sorted({one["step"] for one in judged})
        cells.append(" to ".join(f"{step:,}" for step in dict.fromkeys((steps[0], steps[-1]))))
        cells.append(f"{np.mean([one['noise_std'] for one in judged]):.3g}")
    return cells
