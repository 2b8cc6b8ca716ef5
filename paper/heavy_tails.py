"""Is heavier-tailed noise worth offering? Both kinds of noise and our defaults on three tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from experiments.cells import Record
from experiments.figures import STYLE, WIDTH, legend, save
from experiments.markdown import table
from paper.drift import KINDS, TABLES
from paper.drift_tables import by_name

GAUSSIAN, STUDENT = KINDS.values()
CAPTION = (
    "Is heavier-tailed noise worth offering? Log-likelihood per hidden entry on three tables (higher is "
    f"better): the sampler with {GAUSSIAN} and its weights integrated out, with {STUDENT} noise, and our "
    "defaults"
)
# Okabe and Ito's colours.
COLOURS = {f"sampler, {GAUSSIAN}": "#56B4E9", f"sampler, {STUDENT}": "#0072B2", "our defaults": "#E69F00"}


class Compared(NamedTuple):
    """What was found on one table."""

    gaussian: dict[str, Any]
    student: dict[str, Any]
    defaults: dict[str, Any]

    def densities(self) -> tuple[float, float, float]:
        """Return the log-likelihoods that the figure shows."""
        return self.gaussian["integrated"], self.student["log_likelihood"], self.defaults["density"]


def compared(records: list[Record]) -> dict[str, Compared]:
    """Return what was found on the tables on which both kinds of noise and our defaults have been run."""
    found = by_name(records)
    named = {dataset: [f"{kind}/table/{dataset}" for kind in (*KINDS, "defaults")] for dataset in TABLES}
    tables = {}
    for dataset, names in named.items():
        if all(name in found for name in names):
            gaussian, student, defaults = (found[name] for name in names)
            tables[dataset] = Compared(gaussian["trace"][-1], student["trace"][-1], defaults)
    return tables


def noise_table(records: list[Record]) -> str:
    """Return a table of both kinds of noise and our defaults on tables of the benchmark of imputation."""
    rows = [
        [
            dataset,
            *(f"{one.gaussian[score]:.3f}" for score in ("log_likelihood", "integrated")),
            f"{one.student['log_likelihood']:.3f}",
            *(f"{one.defaults[score]:.3f}" for score in ("density", "log_likelihood")),
            *(f"{result['mse']:.3f}" for result in one),
            f"{one.student['nu']:g}",
        ]
        for dataset, one in compared(records).items()
    ]
    headings = [f"log-likelihood, {GAUSSIAN}", "integrated", f"log-likelihood, {STUDENT}"]
    headings += ["log-likelihood, our defaults", "by `impute`"]
    headings += [f"MSE, {words}" for words in (GAUSSIAN, STUDENT, "our defaults")]
    return table(["", *headings, "nu"], rows)


def answer(records: list[Record]) -> str:
    """Return in words whether heavier tails are worth offering, by density and by squared error."""
    tables = list(compared(records).values())
    if not tables:
        return ""
    total = len(tables)
    over_gaussian = sum(one.densities()[1] > one.densities()[0] for one in tables)
    behind = sum(
        one.defaults["density"] > one.student["log_likelihood"] and one.defaults["mse"] < one.student["mse"]
        for one in tables
    )
    offered = "is not worth offering" if behind > total / 2 else "may be worth offering"
    return (
        f"**Heavier-tailed noise {offered}.** In the sampler, Student's t has a higher density than Gaussian "
        f"noise on {over_gaussian} of {total} tables. But our defaults have both a higher density and a "
        f"smaller squared error than Student's t on {behind} of {total} (one seed each)."
    )


def draw_tails(records: list[Record], figures: Path) -> bool:
    """Draw the log-likelihoods on every table; return False if there is none."""
    tables = compared(records)
    if not tables:
        return False
    places = np.arange(len(tables))
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(WIDTH, 3.4), layout="constrained")
        for at, (label, colour) in enumerate(COLOURS.items()):
            values = [one.densities()[at] for one in tables.values()]
            bars = axes.bar(places + 0.27 * (at - 1), values, 0.27, color=colour, label=label)
            axes.bar_label(bars, fmt="%.2f", fontsize=9)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.grid(visible=False, axis="x")
        axes.set_axisbelow(True)
        axes.set(ylabel="log-likelihood\nper hidden entry")
        axes.set_xticks(places, list(tables))
        axes.margins(y=0.12)
        legend(figure, axes, columns=2)
        save(figure, figures / "heavy-tails")
    return True
