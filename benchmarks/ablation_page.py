"""The tables and the figure of the ablation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.ablation_grid import DROPOUT, Choice
from benchmarks.learning_problems import PROBLEMS
from benchmarks.pages import link_from
from experiments import ROOT
from experiments.cells import Record
from experiments.figures import STYLE, legend, panels_below_each_other, save
from experiments.markdown import table

FIGURE = ROOT / "benchmarks" / "figures" / "ablation"
# The log-likelihood per entry of standardised columns under a standard normal distribution: the score of a
# model that has learned nothing.
NOTHING = -0.5 * (np.log(2 * np.pi) + 1)


def time_to(curve: Sequence[Sequence[float]], level: float) -> float | None:
    """Return the seconds at which a curve first reaches a level, interpolated on the logarithm of time.

    Examples
    --------
    >>> time_to([[1.0, 0.0], [4.0, 2.0]], 1.0), time_to([[1.0, 0.0]], 1.0)
    (2.0, None)
    """
    before: Sequence[float] | None = None
    for point in curve:
        seconds, value = point
        if value >= level:
            if before is None:
                return seconds
            share = (level - before[1]) / (value - before[1])
            return float(np.exp(np.log(before[0]) + share * (np.log(seconds) - np.log(before[0]))))
        before = point
    return None


def seconds_to_settle(curve: Sequence[Sequence[float]]) -> float:
    """Return the seconds to 99 % of what a run gains over a model that has learned nothing."""
    final = curve[-1][1]
    found = time_to(curve, NOTHING + 0.99 * (final - NOTHING)) if final > NOTHING else None
    return curve[-1][0] if found is None else found


def mean_curve(results: Sequence[dict[str, Any]]) -> list[list[float]]:
    """Return the mean over seeds of curves that were measured at nearly the same times."""
    points = [np.mean(points, axis=0) for points in zip(*(r["curve"] for r in results), strict=False)]
    return [[float(seconds), float(value)] for seconds, value in points]


def by_choice(records: Sequence[Record], problem: str) -> dict[Choice, list[dict[str, Any]]]:
    """Return choice -> the results of all seeds, for one problem."""
    found: dict[Choice, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        settings = record["settings"]
        if settings["problem"] == problem:
            found[Choice(*(settings[key] for key in Choice._fields))].append(record["result"])
    return found


def spread(values: Sequence[float], digits: int) -> str:
    """Return the mean and half of the range as text.

    Examples
    --------
    >>> spread([0.1, 0.3], 2)
    '0.20 ± 0.10'
    """
    return f"{np.mean(values):.{digits}f} ± {np.ptp(values) / 2:.{digits}f}"


def problem_table(results: dict[Choice, list[dict[str, Any]]]) -> str:
    """Return a table of all cells on a problem, ordered by log-likelihood, the best first."""
    picture = "psnr" in next(iter(results.values()))[0]
    headings = ["", "log-likelihood", *(["integrated"] if picture else []), "MSE"]
    headings += [*(["PSNR"] if picture else []), "covers", "noise", "in use"]
    headings += ["steps", "s to 99 %"]
    rows = []
    for choice in sorted(results, key=lambda c: -np.mean([r["log_likelihood"] for r in results[c]])):
        found = results[choice]
        values = {key: [result[key] for result in found] for key in found[0] if key != "curve"}
        rows.append(
            [
                str(choice),
                spread(values["log_likelihood"], 3),
                *([spread(values["integrated"], 3) if "integrated" in values else ""] if picture else []),
                spread(values["mse"], 4),
                *([spread(values["psnr"], 2)] if picture else []),
                f"{np.mean(values['coverage']):.1%}",
                f"{np.mean(values['noise_std']):.3g}",
                f"{np.mean(values['active']):.0f}",
                f"{np.mean(values['steps']):,.0f}",
                f"{np.mean([seconds_to_settle(result['curve']) for result in found]):.1f}",
            ]
        )
    return table(headings, rows)


def joint_line(results: dict[Choice, list[dict[str, Any]]], dropout: float = 0.0) -> str:
    """Say when joint features reach the final score of factorised ones, and where they end."""
    plain = results.get(Choice("gibbs-ssvi", "factorised", "all", carried=False))
    joint = results.get(Choice("gibbs-ssvi", "joint", "active", carried=False, dropout=dropout))
    if not plain or not joint:
        return ""
    what = f"active weights and a dropout of {dropout:.0%}" if dropout else "active weights"
    final = mean_curve(plain)[-1]
    reached = time_to(mean_curve(joint), final[1])
    when = "never reach" if reached is None else f"reach after {reached / final[0]:.0%} of the time"
    end = mean_curve(joint)[-1][1]
    return (
        f"Joint features with {what} {when} what the paper's form of Gibbs-SSVI has at the end "
        f"({final[1]:.3f}), and end at {end:.3f}."
    )


def markdown(records: Sequence[Record]) -> str:
    """Return the tables of the page."""
    parts = []
    for problem in PROBLEMS:
        if results := by_choice(records, problem):
            seeds = max(len(found) for found in results.values())
            seconds = max(record["settings"]["seconds"] for record in records)
            heading = f"{problem.capitalize()}, {seconds:g} s each, {seeds} seed{'s' * (seeds > 1)}:"
            parts += [heading, problem_table(results), joint_line(results), joint_line(results, DROPOUT)]
    parts.append(f"![Log-likelihood over time]({link_from('ablation', FIGURE.with_suffix('.png'))})")
    return "\n\n".join(filter(None, parts))


def marker_of(choice: Choice) -> str:
    """Return the marker that distinguishes the lines of the same colour."""
    if choice.init == "principal":
        return "D"
    if choice.dropout:
        return "s"
    return "o" if choice.weight_precision == "active" else "^"


def plot(records: Sequence[Record], path: Path = FIGURE) -> None:
    """Draw Gibbs-SSVI in all its forms over time, with a panel for each problem."""
    found = {problem: by_choice(records, problem) for problem in PROBLEMS}
    found = {problem: results for problem, results in found.items() if results}
    colours = {"factorised": "#0072B2", "joint": "#D55E00"}
    with plt.rc_context(STYLE):
        figure, panels = panels_below_each_other(len(found), 3.0)
        for axes, (problem, results) in zip(panels, found.items(), strict=True):
            for choice, of_seeds in results.items():
                if choice.algorithm != "gibbs-ssvi":
                    continue
                seconds, values = zip(*mean_curve(of_seeds), strict=True)
                axes.plot(
                    seconds, values, label=str(choice).removeprefix("gibbs-ssvi, "),
                    color=colours[choice.features], linestyle="--" if choice.carried else "-",
                    marker=marker_of(choice),
                )  # fmt: skip
            axes.set(
                title=problem.capitalize(), xscale="log", xlabel="training time (s), log scale",
                ylabel="log-likelihood\nper hidden entry",
            )  # fmt: skip
        legend(figure, panels[0], columns=1)
        save(figure, path)
