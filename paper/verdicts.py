"""The picture of the verdicts: how many claims of each experiment hold, in both readings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from experiments.figures import STYLE, WIDTH, legend, save
from paper.experiment import Claim, Verdict
from paper.figures import image_link
from paper.readings import READINGS

# From Okabe and Ito's colours; also apart in print in grey.
COLOURS: dict[Verdict, str] = {"holds": "#0072B2", "holds partly": "#56B4E9", "does not hold": "#E69F00"}
TEXT_COLOURS: dict[Verdict, str] = {"holds": "white", "holds partly": "black", "does not hold": "black"}
TITLE = 1.2
"""How much space the title of an experiment takes, in bars."""
CAPTION = "How many of the paper's claims hold, by experiment; those about real data are judged twice"


def counts(claims: Sequence[Claim]) -> dict[str, Counter[Verdict]]:
    """Return how many claims have each verdict, once where no claim is judged twice.

    Examples
    --------
    >>> counts([Claim("", "", "holds")])
    {'': Counter({'holds': 1})}
    >>> counts([Claim("", "", "holds", "does not hold")])
    {'at its best': Counter({'holds': 1}), 'at its end': Counter({'does not hold': 1})}
    """
    best = Counter(claim.verdict for claim in claims)
    if all(claim.at_end is None for claim in claims):
        return {"": best}
    end = Counter(claim.at_end or claim.verdict for claim in claims)
    return dict(zip(READINGS.values(), (best, end), strict=True))


def verdicts_picture(claims: Mapping[str, Sequence[Claim]], figures: Path) -> list[str]:
    """Draw the picture, and return its Markdown; nothing without claims.

    Parameters
    ----------
    claims : mapping
        What the experiment is about -> its claims.
    figures : Path
        The folder for figures.
    """
    judged = {about: counts(of_experiment) for about, of_experiment in claims.items() if of_experiment}
    if not judged:
        return []
    with plt.rc_context({**STYLE, "axes.grid": False}):
        places = sum(TITLE + len(readings) for readings in judged.values())
        figure, axes = plt.subplots(figsize=(WIDTH, 0.8 + 0.3 * places), layout="constrained")
        place, ticks = 0.0, {}
        for about, readings in judged.items():
            axes.text(0, place, about[0].upper() + about[1:], weight="bold", va="center")
            for reading, of_reading in readings.items():
                place += 1
                draw_bar(axes, place, of_reading)
                ticks[place] = reading
            place += TITLE
        axes.set(yticks=list(ticks), ylim=(place - 0.5, -0.5), xlabel="claims")
        axes.set_yticklabels(ticks.values())
        axes.tick_params(left=False)
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        for verdict, colour in COLOURS.items():
            axes.bar(0, 0, color=colour, label=verdict)
        legend(figure, axes)
        save(figure, figures / "verdicts")
    return [image_link("verdicts", CAPTION)]


def draw_bar(axes: Axes, place: float, of_reading: Counter[Verdict]) -> None:
    """Draw one stacked bar, with a number in every part."""
    left = 0
    for verdict, colour in COLOURS.items():
        if count := of_reading[verdict]:
            axes.barh(place, count, 0.8, left, color=colour, edgecolor="white")
            axes.text(
                left + count / 2, place, str(count), color=TEXT_COLOURS[verdict], ha="center", va="center"
            )
            left += count
