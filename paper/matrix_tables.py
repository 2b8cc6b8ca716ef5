"""Tables, curves and claims about the real matrices: what the sections of expression and cytof share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.cells import Record
from paper.chains import study_table
from paper.experiment import Claim, Verdict, by_wins, verdict
from paper.methods import INTRA_LOCAL, LABELS, METHODS
from paper.readings import (
    READINGS,
    Found,
    Reached,
    found_in,
    judged_twice,
    listed_means,
    mean_of,
    readings_table,
    wins,
    with_range,
)


def of_dataset(records: Sequence[Record], dataset: str) -> list[Record]:
    """Return the records of one data set."""
    return [record for record in records if record["settings"]["dataset"] == dataset]


def body(records: Sequence[Record]) -> str:
    """Return the tables of a data set: both readings, our defaults, and the study of chains."""
    parts = [readings_table(records, "log_likelihood", 3)]
    if defaults := _defaults(records):
        scores, densities = ([result[name] for result in defaults] for name in ("log_likelihood", "density"))
        covers = float(np.mean([result["coverage"] for result in defaults]))
        parts.append(
            f"Our defaults reach {with_range(scores, 3)} by the means and deviations of `impute` "
            f"({with_range(densities, 3)} by the density of the hidden entries of a row together); their "
            f"95 % intervals cover {covers:.1%}."
        )
    parts += integrated_lines(records)
    if study := studies(records):
        parts.append(
            "How long the chains have to be, seed 0, by the log-likelihood per hidden entry:\n\n"
            + study_table(study, "matrices")
        )
    return "\n\n".join(parts)


def integrated_scores(records: Sequence[Record]) -> dict[str, list[float]]:
    """Return reading -> scores of Gibbs-SSVI with its weights integrated out, which mean field cannot do."""
    results = [
        record["result"]["readings"]
        for record in records
        if record["settings"]["method"] == "gibbs-ssvi"
        and "integrated" in record["result"].get("readings", {}).get("end", {}).get("long", {})
    ]
    return {reading: [result[reading]["long"]["integrated"] for result in results] for reading in READINGS}


def integrated_lines(records: Sequence[Record]) -> list[str]:
    """Return a line about Gibbs-SSVI with its weights integrated out."""
    scores = integrated_scores(records)
    if not scores["end"]:
        return []
    best, end = (with_range(scores[reading], 3) for reading in READINGS)
    return [
        "The paper estimates the likelihood by draws of z and w, which falls the further short the less "
        "noise there is and the more entries of a row are hidden. For Gibbs-SSVI the weights can be "
        f"integrated out ([section 13](../docs/math.md#13-weights-integrated-out)): it then has {best} at "
        f"its best and {end} at its end."
    ]


def studies(records: Sequence[Record]) -> dict[str, Any]:
    """Return the studies of chains: method -> reading -> length -> score."""
    return {
        record["settings"]["method"]: record["result"]["study"]
        for record in records
        if "study" in record["result"]
    }


def _defaults(records: Sequence[Record]) -> list[dict[str, Any]]:
    return [record["result"] for record in records if record["settings"]["method"] == "defaults"]


def reached_by(records: Sequence[Record], task: str) -> Reached:
    """Return what the methods and our defaults reached."""
    defaults = {
        (task, record["settings"]["seed"]): {"defaults": record["result"]["log_likelihood"]}
        for record in records
        if record["settings"]["method"] == "defaults"
    }
    found = found_in(records, task, "log_likelihood")
    return {
        reading: {key: {**scores, **defaults.get(key, {})} for key, scores in of_reading.items()}
        for reading, of_reading in found.items()
    }


def curves(records: Sequence[Record]) -> dict[str, list[list[float]]]:
    """Return the mean log-likelihood by long chains over the steps, for each method."""
    lines = {}
    for method in METHODS:
        ladders = [
            record["result"]["ladder"]
            for record in records
            if record["settings"]["method"] == method and "ladder" in record["result"]
        ]
        if ladders:
            lines[method] = [
                [rungs[0]["step"], float(np.mean([rung["long"]["log_likelihood"] for rung in rungs]))]
                for rungs in zip(*ladders, strict=True)
            ]
    return lines


def order_claims(reached: Reached, where: str, said: str) -> list[Claim]:
    """Judge whether the Gibbs kinds are better, and whether the methods come in the paper's order."""
    if not reached["best"]:
        return []

    def better(found: Found) -> tuple[str, Verdict]:
        won, total = wins(found, INTRA_LOCAL)
        return f"{listed_means(found, 3)}; the Gibbs kinds win {won} of {total}", by_wins(won, total)

    def in_order(found: Found) -> tuple[str, Verdict]:
        ascending = sorted(METHODS, key=lambda method: mean_of(found, method))
        return (
            ", ".join(LABELS[method] for method in ascending),
            verdict(ascending == list(METHODS), ascending[-1] == "gibbs-ssvi"),
        )

    return [
        judged_twice(
            f"{where}: the Gibbs kinds predict much better than the mean-field kinds{said}", reached, better
        ),
        judged_twice(
            f"{where}: from worst to best MF-SVI, MF-SSVI, Titsias-SSVI, Mimno-SVI, Gibbs-SSVI",
            reached,
            in_order,
        ),
    ]
