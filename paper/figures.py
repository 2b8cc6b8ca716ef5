"""Figures that compare the methods over time, each method in its own colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from experiments.figures import STYLE, legend, panels_below_each_other, save
from paper.methods import COLOURS, LABELS, MARKERS

Lines = Mapping[str, Sequence[Sequence[float]]]
"""Method -> points (seconds, value)."""


def draw_lines(axes: Axes, lines: Lines) -> None:
    """Draw a line for each method, in its colour."""
    for method, points in lines.items():
        seconds, values = zip(*points, strict=True)
        axes.plot(
            seconds, values, color=COLOURS.get(method), marker=MARKERS.get(method), label=LABELS[method]
        )


def likelihood_curves(
    panels: Mapping[str, Lines],
    path: Path,
    levels: Mapping[str, Mapping[str, float]] | None = None,
    *,
    against: str = "training time (s)",
) -> None:
    """Draw log-likelihoods over time or steps: panels one below the other, with a common legend.

    `levels` has horizontal lines for each panel: method -> value.
    """
    if not panels:
        return
    with plt.rc_context(STYLE):
        figure, all_axes = panels_below_each_other(len(panels), 3.2)
        for axes, (title, lines) in zip(all_axes, panels.items(), strict=True):
            draw_lines(axes, lines)
            for method, value in (levels or {}).get(title, {}).items():
                axes.axhline(value, color=COLOURS[method], linestyle="--", label=LABELS[method])
            axes.set_title(title)
            label_likelihood(axes, against)
        legend(figure, all_axes[0])
        save(figure, path)


def label_likelihood(axes: Axes, against: str = "training time (s)") -> None:
    """Label the axes of a panel that shows log-likelihood over time or steps."""
    axes.set(
        xlabel=f"{against}, log scale",
        ylabel="predictive log-likelihood\nper hidden entry",
        xscale="log",
    )


def image_link(name: str, caption: str) -> str:
    """Return the Markdown of a figure of the page, with a link to the same figure as SVG."""
    return f"![{caption}](figures/{name}.png)\n\n*{caption}* ([SVG](figures/{name}.svg))"
