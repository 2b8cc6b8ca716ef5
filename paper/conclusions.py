"""The conclusions that the paper draws from all of its experiments on real data."""

from __future__ import annotations

from collections import Counter

import numpy as np

from experiments.markdown import table
from paper.experiment import Claim, Verdict, by_wins
from paper.methods import INTRA_LOCAL, LABELS, METHODS, STRUCTURED
from paper.readings import Found, Reached, judged_twice, wins


def tasks_of(found: Found) -> dict[str, list[dict[str, float]]]:
    """Return task -> scores with every seed."""
    tasks: dict[str, list[dict[str, float]]] = {}
    for (task, _), scores in found.items():
        tasks.setdefault(task, []).append(dict(scores))
    return tasks


def table_of_all(reached: Reached) -> str:
    """Return a table with a row for each task: means over the seeds, at the best step / at the last one."""
    columns = (*METHODS, "defaults", "cubic")
    best, end = (tasks_of(reached[reading]) for reading in ("best", "end"))
    rows = []
    for task in best:
        digits = 1 if task.endswith("(dB)") else 3
        means = {
            method: [
                np.mean([scores[method] for scores in found[task] if method in scores])
                for found in (best, end)
            ]
            for method in columns
            if any(method in scores for scores in best[task])
        }
        top = max(values[0] for values in means.values())
        texts = []
        for method in columns:
            values = [f"{value:.{digits}f}" for value in means.get(method, [])]
            text = " / ".join(values if method in METHODS else values[:1])
            texts.append(f"**{text}**" if method in means and means[method][0] == top else text)
        rows.append([task, *texts])
    return table(["", *(LABELS[method] for method in columns)], rows)


def conclusions(reached: Reached) -> list[Claim]:
    """Judge the conclusions by all tasks on which the five methods have been run, in both readings.

    Examples
    --------
    >>> found = {"mf-svi": 1.0, "mf-ssvi": 2.0, "titsias-ssvi": 3.0, "mimno-svi": 4.0, "gibbs-ssvi": 5.0}
    >>> [claim.verdict for claim in conclusions({"best": {("a", 0): found}, "end": {("a", 0): found}})]
    ['holds', 'holds']
    """
    if not reached or not reached["best"]:
        return []

    def dependence(found: Found) -> tuple[str, Verdict]:
        won, total = wins(found, INTRA_LOCAL)
        tasks = tasks_of(found).values()
        tops = (
            max(METHODS, key=lambda method: float(np.mean([scores[method] for scores in seeds])))
            for seeds in tasks
        )
        listed = ", ".join(f"{LABELS[method]} {count}" for method, count in Counter(tops).most_common())
        evidence = f"the Gibbs kinds win {won} of {total} comparisons; best on {len(tasks)} tasks: {listed}"
        return evidence, by_wins(won, total)

    def structure(found: Found) -> tuple[str, Verdict]:
        won, total = wins(found, STRUCTURED)
        evidence = f"structured methods (Gibbs-SSVI over Mimno-SVI, MF-SSVI over MF-SVI) win {won} of {total}"
        return evidence, by_wins(won, total)

    return [
        judged_twice(
            "Conclusion: dependence among the local variables of a row is crucial; Gibbs-SSVI and Mimno-SVI "
            "consistently and significantly outperform the other three",
            reached,
            dependence,
        ),
        judged_twice(
            "Conclusion: dependence between local and global variables helps modestly", reached, structure
        ),
    ]
