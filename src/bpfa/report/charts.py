"""Charts in SVG, which take their colours and fonts from the page that they are part of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

__all__ = ["coverage_chart", "line_chart", "ticks"]

WIDTH, HEIGHT = 400, 220
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 16, 34
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

    def across(value: Any) -> Any:
        return LEFT + (value - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)

    def down(value: Any) -> Any:
        return HEIGHT - BOTTOM - (value - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}: {last:.4g} at the end">'
    ]
    for value in ticks(y_low, y_high):
        at = down(value)
        parts.append(f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{value:g}</text>')
    parts += [
        f'<text x="{across(value):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{value:g}</text>'
        for value in ticks(x_low, x_high)
    ]
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{escape(x_label)}</text>')
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


def coverage_chart(levels: Sequence[float], shares: Sequence[float]) -> Markup:
    """Return a chart of the share of pixels within intervals against the probability of the intervals.

    A dashed line shows where the two agree.

    Parameters
    ----------
    levels, shares : sequences of float
        Probabilities in ascending order, and the shares that were found.
    """
    left, right = float(levels[0]), 1.0
    low = min(left, math.floor(10 * min(shares)) / 10)
    # Room for half of the label of the last tick.
    room = RIGHT + 8

    def across(value: float) -> float:
        return LEFT + (value - left) / (right - left) * (WIDTH - LEFT - room)

    def down(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (1 - low) * (HEIGHT - TOP - BOTTOM)

    spoken = ", ".join(f"{share:.1%} at {level:.0%}" for level, share in zip(levels, shares, strict=True))
    parts = [f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Coverage: {spoken}">']
    for value in ticks(low, 1.0):
        at = down(value)
        parts.append(f'<line class="rule" x1="{LEFT}" x2="{WIDTH - room}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{value:.0%}</text>')
    parts += [
        f'<text x="{across(value):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{value:.0%}</text>'
        for value in ticks(left, right)
    ]
    parts.append(
        f'<text x="{WIDTH - room}" y="{HEIGHT - 4}" text-anchor="end">probability of the interval</text>'
        f'<line class="ideal" x1="{across(left):.1f}" y1="{down(left):.1f}" '
        f'x2="{across(right):.1f}" y2="{down(right):.1f}"/>'
    )
    points = [(across(level), down(share)) for level, share in zip(levels, shares, strict=True)]
    line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    parts.append(f'<polyline class="line" points="{line}"/>')
    parts += [f'<circle class="dot" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in points]
    return Markup("".join([*parts, "</svg>"]))


def _range(values: NDArray[Any]) -> tuple[float, float]:
    """Return the range of an axis: from the smallest to the largest value, or from zero if that is near."""
    low, high = float(values.min()), float(values.max())
    if 0 < low < 0.5 * high:
        low = 0.0
    if low < high:
        return low, high
    return (0.0, 1.25 * high) if high > 0 else (low - 1, low + 1)
