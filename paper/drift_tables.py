"""The tables and the figure of the page about the drift on the mass cytometry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from experiments.cells import Record
from experiments.figures import STYLE, WIDTH, legend, save
from experiments.markdown import table
from paper.drift import KINDS, SAMPLER_STARTS, STEPWISE, TWIN

# Okabe and Ito's colours, one for each run or start.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#000000")
LINES = {"sampler": "-", "student": "--"}


def by_name(records: list[Record]) -> dict[str, dict[str, Any]]:
    """Return the results by the names of their cells."""
    return {record["name"]: record["result"] for record in records}


def steps_table(records: list[Record]) -> str:
    """Return a table of the runs by steps: where each is best, and where it ends."""
    rows = []
    for name in STEPWISE:
        if ladder := by_name(records).get(f"steps/{name}", {}).get("ladder"):
            best = max(ladder, key=lambda rung: float(rung["log_likelihood"]))
            end = ladder[-1]
            rows.append([name, *_rung_cells(best), *_rung_cells(end), f"{end['concentration']:.2f}"])
    columns = ["log-likelihood", "integrated", "noise"]
    return table(["", "best after", *columns, "ends after", *columns, "largest column"], rows)


def _rung_cells(rung: dict[str, Any]) -> list[str]:
    return [
        f"{rung['step']:,}",
        f"{rung['log_likelihood']:.3f}",
        _integrated(rung),
        f"{rung['noise_std']:.2f}",
    ]


def _integrated(point: dict[str, Any]) -> str:
    return f"{point['integrated']:.3f}" if "integrated" in point else ""


def sampler_table(records: list[Record]) -> str:
    """Return a table of the samplers at the end of their chains, and a hundredth of the way."""
    rows = []
    for kind, words in KINDS.items():
        for start in (*SAMPLER_STARTS, TWIN):
            trace = by_name(records).get(f"{kind}/{start}", {}).get("trace")
            if not trace:
                continue
            first, end = trace[0], trace[-1]
            rows.append(
                [
                    f"{words}, {start}{' start' * (start != TWIN)}",
                    f"{first['noise_std']:.2f} after {first['sweep']}",
                    f"{end['noise_std']:.2f} after {end['sweep']:,}",
                    f"{end['log_likelihood']:.3f}",
                    _integrated(end),
                    f"{end['mse']:.3f}",
                    f"{end['active']}",
                    f"{end['features_a_row']:.1f}",
                    f"{end['concentration']:.2f}",
                    f"{end['nu']:g}" if "nu" in end else "",
                ]
            )
    headings = ["", "noise", "noise", "log-likelihood", "integrated", "MSE", "in use", "features a row"]
    return table([*headings, "largest column", "nu"], rows)


def draw(records: list[Record], figures: Path) -> bool:
    """Draw noise and log-likelihood over steps and sweeps; return False if anything is missing."""
    found = by_name(records)
    steps = {name: found[f"steps/{name}"]["ladder"] for name in STEPWISE if f"steps/{name}" in found}
    traces = {
        (kind, start): found[f"{kind}/{start}"]["trace"]
        for kind in KINDS
        for start in (*SAMPLER_STARTS, TWIN)
        if f"{kind}/{start}" in found
    }
    if not steps or not traces:
        return False
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(1.7 * WIDTH, 10.0), layout="constrained")
        left, right = figure.subfigures(1, 2)
        panels = left.subplots(3, 1, sharex=True)
        for (name, ladder), colour in zip(steps.items(), COLOURS, strict=False):
            _draw_line(panels, ladder, "step", color=colour, marker="o", label=name)
        _label(panels, "steps", "Stochastic steps")
        legend(left, panels[0], columns=1)
        panels = right.subplots(3, 1, sharex=True)
        for (kind, start), trace in traces.items():
            colour = COLOURS[(*SAMPLER_STARTS, TWIN).index(start)]
            label = f"{KINDS[kind]}, {start}{' start' * (start != TWIN)}"
            _draw_line(panels, trace, "sweep", color=colour, linestyle=LINES[kind], marker="o", label=label)
        _label(panels, "sweeps", "The sampler itself")
        legend(right, panels[0], columns=1)
        save(figure, figures / "drift")
    return True


def _draw_line(panels: Any, points: list[dict[str, Any]], at: str, **look: Any) -> None:
    for axes, value in zip(panels, ("noise_std", "log_likelihood", "integrated"), strict=True):
        having = [point for point in points if value in point]
        axes.plot([point[at] for point in having], [point[value] for point in having], **look)


def _label(panels: Any, at: str, title: str) -> None:
    words = (
        "noise (standard deviation)",
        "log-likelihood,\nby draws of z and w",
        "log-likelihood,\nw integrated out",
    )
    axes: Axes
    for axes, label in zip(panels, words, strict=True):
        axes.set(ylabel=label, xscale="log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    panels[0].set_title(title)
    panels[-1].set_xlabel(f"{at}, log scale")
