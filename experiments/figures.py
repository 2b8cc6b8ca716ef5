"""One style for all figures: legible on a phone, with small files."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from PIL import Image

from experiments import Array

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
    # Text stays text, which takes little space and can be searched; ids do not change from run to run.
    "svg.fonttype": "none",
    "svg.hashsalt": "bpfa",
}
WIDTH = 5.2
"""The width of a panel in inches; at 100 dots per inch its text is as large as the text of a page."""
DOTS = 100
# The number of greys in a file, and of colours; and how far apart the red, green and blue of a pixel must be
# for it to count as coloured.
PALETTE, SATURATED = 48, 24


def panels_below_each_other(n_panels: int, height: float) -> tuple[Figure, Array]:
    """Return a figure with panels of this height, one below the other, and their axes."""
    figure, axes = plt.subplots(
        n_panels, 1, figsize=(WIDTH, height * n_panels), squeeze=False, layout="constrained"
    )
    return figure, axes[:, 0]


def legend(figure: FigureBase, axes: Axes, columns: int = 3) -> None:
    """Put the legend of some axes below the figure."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels)), fontsize=10)


def save(figure: Figure, path: Path, formats: Sequence[str] = ("png", "svg")) -> None:
    """Write a figure, without a date, so that equal figures are equal files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if "svg" in formats:
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    if "png" in formats:
        buffer = BytesIO()
        figure.savefig(buffer, format="png", dpi=DOTS)
        with_palette(Image.open(buffer).convert("RGB")).save(path.with_suffix(".png"), optimize=True)
    plt.close(figure)


def with_palette(image: Image.Image) -> Image.Image:
    """Return the image with a palette of greys and of its colours, which takes a quarter of the bytes.

    Greys and colours each have a part of the palette to themselves, as lines have few pixels and would lose
    their colours to the greys of a picture.
    """
    pixels = np.asarray(image)
    coloured = np.ptp(pixels, axis=2) > SATURATED
    grey = np.linspace(0, 255, PALETTE).round().astype(np.uint8)
    indices = np.rint(pixels.mean(axis=2) / 255 * (PALETTE - 1)).astype(np.uint8)
    palette = np.repeat(grey, 3).tobytes()
    if coloured.any():
        strip = Image.fromarray(pixels[coloured][None]).quantize(PALETTE)
        indices[coloured] = PALETTE + np.asarray(strip)[0]
        # Pillow 10 fills the palette up to 256 colours.
        palette += bytes(strip.getpalette() or ())[: 3 * PALETTE]
    small = Image.fromarray(indices)
    small.putpalette(palette)
    return small
