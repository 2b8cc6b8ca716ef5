"""What an experiment is: cells to run, and a section of the page made from their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from experiments.cells import Cell, Record, Run

Verdict = Literal["holds", "holds partly", "does not hold"]
Scale = Literal["full", "quick", "tiny"]


class Options(NamedTuple):
    """How large a run is."""

    scale: Scale = "full"
    """"tiny" is for the tests: it only shows that everything runs."""
    budget: float | None = None
    """Minutes for the repetitions of the synthetic experiment at its full size."""


class Claim(NamedTuple):
    """A claim of the paper, and what we find."""

    text: str
    """The claim, with the paper's numbers."""
    evidence: str
    """What we find, with our numbers."""
    verdict: Verdict
    """On real data: at the step that validation entries choose."""
    at_end: Verdict | None = None
    """On real data: at the last step. None for claims that are judged once."""

    @property
    def in_words(self) -> str:
        """The verdict, or both where they differ.

        Examples
        --------
        >>> Claim("", "", "holds", "does not hold").in_words
        '**holds** at its best, **does not hold** at its end'
        """
        if self.at_end in (None, self.verdict):
            return f"**{self.verdict}**"
        return f"**{self.verdict}** at its best, **{self.at_end}** at its end"


class Section(NamedTuple):
    """A part of the page."""

    claims: Sequence[Claim]
    body: str
    """Markdown: settings, tables, figures, and what they show."""
    reached: Mapping[str, Mapping[tuple[str, int], Mapping[str, float]]] = {}
    """Reading -> (task, seed) -> method -> what it reached (more is better): see `paper.readings`."""
    summary: Sequence[str] = ()
    """Sentences for the summary at the top of the page."""


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper."""

    name: str
    title: str
    cells: Callable[[Options], list[Cell]]
    run: Run
    section: Callable[[list[Record], Path], Section]
    """A function from the records and the folder for figures to the section."""
    budgets: Callable[[Options], dict[str, float]] = field(default=lambda options: {})
    """Group of cells -> minutes that it may take."""
    on_device: bool = False
    """Whether its cells can run on a GPU; all others run on the CPU."""

    @property
    def subject(self) -> str:
        """What the experiment is about, as a sentence names it.

        Examples
        --------
        >>> Experiment("a", "The case (figure 1)", list, dict, Section).subject
        'the case'
        """
        return self.title.split(" (")[0][0].lower() + self.title.split(" (")[0][1:]


def by_wins(wins: int, total: int, *, enough: bool = True) -> Verdict:
    """Judge a claim that one method is better than another by how many comparisons it wins.

    The claim holds if all comparisons are won, and partly if three quarters are; two methods that are alike
    would each win half of them by chance. `enough` says whether the difference is as large as claimed.

    Examples
    --------
    >>> by_wins(6, 6), by_wins(6, 6, enough=False), by_wins(5, 6), by_wins(4, 6)
    ('holds', 'holds partly', 'holds partly', 'does not hold')
    """
    if wins == total and enough:
        return "holds"
    return "holds partly" if wins >= 0.75 * total else "does not hold"


def verdict(*parts: bool) -> Verdict:
    """Judge a claim by whether all of its parts hold, some of them, or none.

    Examples
    --------
    >>> verdict(True, True), verdict(True, False), verdict(False)
    ('holds', 'holds partly', 'does not hold')
    """
    return "holds" if all(parts) else "holds partly" if any(parts) else "does not hold"
