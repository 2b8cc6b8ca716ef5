"""Charts in SVG, which take their colours and fonts from the page that they are part of."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import ArrayLike, NDArray

__all__ = ["coverage_chart", "histogram", "line_chart", "ticks"]

WIDTH, HEIGHT = 400, 220
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 16, 34
Range = tuple[float, float]
# Bars of a histogram.
N_BINS = 20
# More points than this could not be told apart on the screen.
MOST_POINTS = 400


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Return round numbers from `low` to `high`, about `count` of them.

    Examples
    --------
    >>> ticks(0.0, 1.0), ticks(3.0, 480.0)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [100.0, 200.0, 300.0, 400.0])
    """
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * nice for nice in (1, 2, 5, 10) if power * nice >= 0.75 * rough)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def line_chart(x: NDArray[Any], y: NDArray[Any], *, title: str, x_label: str) -> Markup:
    """Return a chart of y against x, with the last value written next to its end.

    Parameters
    ----------
    x, y : arrays
        Points where y is NaN are left out.
    title : str
        What y is, for readers who cannot see the chart.
    x_label : str

    Returns
    -------
    Markup
        Empty if there is nothing to show.
    """
    known = np.isfinite(y)
    x, y = np.asarray(x, dtype=float)[known], np.asarray(y, dtype=float)[known]
    if not len(x):
        return Markup()
    last = float(y[-1])
    kept = np.unique(np.linspace(0, len(x) - 1, MOST_POINTS).round().astype(int))
    x, y = x[kept], y[kept]
    (x_low, x_high), (y_low, y_high) = _range(x), _range(y)

    across, down = _scales((x_low, x_high), (y_low, y_high))
    parts = [_opening(f"{title}: {last:.4g} at the end")]
    parts += _axes((x_low, x_high), (y_low, y_high), x_label=x_label)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across(x), down(y), strict=True))
    parts.append(f'<polyline class="line" points="{points}"/>')
    # The last value is written above or below the end of the line, wherever there is more room.
    above = down(last) > (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<circle class="dot" cx="{across(x[-1]):.1f}" cy="{down(last):.1f}" r="3"/>')
    parts.append(
        f'<text class="last" x="{WIDTH - RIGHT}" y="{down(last) + (-9 if above else 19):.1f}" '
        f'text-anchor="end">{last:.4g}</text></svg>'
    )
    return Markup("".join(parts))


def histogram(values: NDArray[Any], *, title: str, x_label: str) -> Markup:
    """Return a histogram of finite values, which are counted on the vertical axis.

    Parameters
    ----------
    values : array
    title : str
        What is counted, for readers who cannot see the chart.
    x_label : str

    Examples
    --------
    >>> histogram(np.array([0.0, 0.1, 0.1, 0.9]), title="Noise", x_label="share").count("<rect")
    3
    """
    counts, edges = np.histogram(values, N_BINS, range=(0.0, max(1.0, float(values.max()))))
    ranges = (float(edges[0]), float(edges[-1])), (0.0, float(counts.max()))
    across, down = _scales(*ranges)
    parts = [_opening(f"{title}: median {np.median(values):.3g}")]
    parts += _axes(*ranges, x_label=x_label)
    for count, left, right in zip(counts.tolist(), edges[:-1], edges[1:], strict=True):
        if count:
            x, width, y = across(left), across(right) - across(left) - 1, down(count)
            parts.append(
                f'<rect class="bin" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                f'height="{HEIGHT - BOTTOM - y:.1f}"/>'
            )
    return Markup("".join([*parts, "</svg>"]))


def coverage_chart(levels: ArrayLike, coverage: ArrayLike) -> Markup:
    """Return a chart of how often predictive intervals cover the truth, against how often they should.

    Examples
    --------
    >>> coverage_chart(np.array([0.5, 0.95]), np.array([0.6, 0.99])).count("<circle")
    2
    """
    across, down = _scales((0.0, 1.0), (0.0, 1.0))
    levels, coverage = np.asarray(levels), np.asarray(coverage)
    said = ", ".join(f"{level:.0%}: {found:.0%}" for level, found in zip(levels, coverage, strict=True))
    parts = [_opening(f"Coverage of predictive intervals by their level: {said}")]
    parts += _axes((0.0, 1.0), (0.0, 1.0), x_label="level of the interval", percent=True)
    ends = f'x1="{across(0):.1f}" y1="{down(0):.1f}" x2="{across(1):.1f}" y2="{down(1):.1f}"'
    parts.append(f'<line class="ideal" {ends}/>')
    points = list(zip(across(levels), down(coverage), strict=True))
    parts.append(f'<polyline class="line" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>')
    parts += [f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points]
    return Markup("".join([*parts, "</svg>"]))


def _opening(description: str) -> str:
    """Return the beginning of a chart, with words for readers who cannot see it."""
    label = escape(description)
    return f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'


def _scales(x_range: Range, y_range: Range) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return functions from values to places, across the chart and down."""
    (x_low, x_high), (y_low, y_high) = x_range, y_range

    def across(value: Any) -> Any:
        return LEFT + (value - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)

    def down(value: Any) -> Any:
        return HEIGHT - BOTTOM - (value - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM)

    return across, down


def _axes(x_range: Range, y_range: Range, *, x_label: str, percent: bool = False) -> list[str]:
    """Return the numbers at both axes, a rule at every number of the vertical one, and the label."""
    across, down = _scales(x_range, y_range)
    text = "{:.0%}" if percent else "{:g}"
    parts = []
    for value in ticks(*y_range):
        at = down(value)
        parts.append(f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{text.format(value)}</text>')
    for value in ticks(*x_range):
        # The last number ends at the border of the chart.
        anchor = "end" if across(value) > WIDTH - 2 * RIGHT else "middle"
        place = f'x="{across(value):.1f}" y="{HEIGHT - BOTTOM + 16}"'
        parts.append(f'<text {place} text-anchor="{anchor}">{text.format(value)}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{escape(x_label)}</text>')
    return parts


def _range(values: NDArray[Any]) -> Range:
    """Return the range of an axis: from the smallest to the largest value, or from zero if that is near."""
    low, high = float(values.min()), float(values.max())
    if 0 < low < 0.5 * high:
        low = 0.0
    if low < high:
        return low, high
    return (0.0, 1.25 * high) if high > 0 else (low - 1, low + 1)
