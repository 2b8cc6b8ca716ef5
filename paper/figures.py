"""Figures in one style: legible on a phone, colours that the colour-blind can tell apart, small files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from PIL import Image

from paper.methods import COLOURS, LABELS, MARKERS

STYLE = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "savefig.bbox": "tight",
    # Text stays text, which is small and can be searched; ids do not change from run to run.
    "svg.fonttype": "none",
    "svg.hashsalt": "bpfa",
}
WIDTH = 5.2
"""Inches of a panel; at 100 dots an inch the text has the size of a page's."""
DOTS = 100
# Greys in a file, and colours; how far apart red, green and blue of a colour are.
PALETTE, SATURATED = 48, 24
Lines = Mapping[str, Sequence[Sequence[float]]]
"""Method -> points (seconds, value)."""


def draw_lines(axes: Axes, lines: Lines, labels: Mapping[str, str] | None = None) -> None:
    """Draw a line for each method, in its colour."""
    for method, points in lines.items():
        seconds, values = zip(*points, strict=True)
        axes.plot(
            seconds, values, color=COLOURS.get(method), marker=MARKERS.get(method),
            label=(labels or LABELS)[method],
        )  # fmt: skip


def curves(
    panels: Mapping[str, Lines],
    path: Path,
    *,
    xlabel: str,
    ylabel: str,
    log_time: bool = False,
    levels: Mapping[str, Mapping[str, float]] | None = None,
) -> None:
    """Draw panels of curves over time, below one another, with a common legend.

    `levels` are horizontal lines by panel: method -> value.
    """
    with plt.rc_context(STYLE):
        figure, all_axes = plt.subplots(
            len(panels), 1, figsize=(WIDTH, 3.2 * len(panels)), squeeze=False, layout="constrained"
        )
        for axes, (title, lines) in zip(all_axes[:, 0], panels.items(), strict=True):
            draw_lines(axes, lines)
            for method, value in (levels or {}).get(title, {}).items():
                axes.axhline(value, color=COLOURS[method], linestyle="--", label=LABELS[method])
            axes.set(title=title, xlabel=xlabel, ylabel=ylabel, xscale="log" if log_time else "linear")
        legend(figure, all_axes[0, 0])
        save(figure, path)


def legend(figure: FigureBase, axes: Axes, columns: int = 3) -> None:
    """Put the legend of some axes below the figure."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels)), fontsize=10)


def save(figure: Figure, path: Path, formats: Sequence[str] = ("png", "svg")) -> None:
    """Write a figure: small, and without its date, so that an equal figure is an equal file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if "svg" in formats:
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    if "png" in formats:
        buffer = BytesIO()
        figure.savefig(buffer, format="png", dpi=DOTS)
        with_palette(Image.open(buffer).convert("RGB")).save(path.with_suffix(".png"), optimize=True)
    plt.close(figure)


def with_palette(image: Image.Image) -> Image.Image:
    """The image with a palette of greys and of its colours, which takes a quarter of the bytes.

    Each has a part of its own, as lines have few pixels and would lose their colours to a picture's greys.
    """
    pixels = np.asarray(image)
    coloured = np.ptp(pixels, axis=2) > SATURATED
    grey = np.linspace(0, 255, PALETTE).round().astype(np.uint8)
    indices = np.rint(pixels.mean(axis=2) / 255 * (PALETTE - 1)).astype(np.uint8)
    palette = np.repeat(grey, 3).tobytes()
    if coloured.any():
        strip = Image.fromarray(pixels[coloured][None]).quantize(PALETTE)
        indices[coloured] = PALETTE + np.asarray(strip)[0]
        palette += bytes(strip.getpalette() or ())
    small = Image.fromarray(indices)
    small.putpalette(palette)
    return small


def image_link(name: str, caption: str) -> str:
    """A figure of the page, with the same as SVG."""
    return f"![{caption}](figures/{name}.png)\n\n*{caption}* ([SVG](figures/{name}.svg))"
