"""What an experiment is: cells to run, and a section of the page made from their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from paper.cells import Cell, Record, Run

Verdict = Literal["holds", "holds partly", "does not hold"]
Scale = Literal["full", "quick", "tiny"]


class Options(NamedTuple):
    """How large a run is."""

    scale: Scale = "full"
    """"tiny" is for the tests: it shows that everything runs, and nothing else."""
    minutes: float | None = None
    """Of training for each method on the cytometry."""
    budget: float | None = None
    """Minutes for the repetitions of the synthetic experiment at its full size."""


class Claim(NamedTuple):
    """A claim of the paper and what we find."""

    text: str
    """With the paper's numbers."""
    evidence: str
    """With ours."""
    verdict: Verdict


class Section(NamedTuple):
    """A part of the page."""

    claims: Sequence[Claim]
    body: str
    """Markdown: settings, tables, figures, and what they show."""
    reached: Mapping[str, Mapping[str, float]] = {}
    """Task -> method -> what it reached, where the paper's five have been run; more is better."""


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper."""

    name: str
    title: str
    cells: Callable[[Options], list[Cell]]
    run: Run
    section: Callable[[list[Record], Path], Section]
    """From the records, and the folder for figures, to the section."""
    budgets: Callable[[Options], dict[str, float]] = field(default=lambda options: {})
    """Minutes that a group of cells may take."""


def by_wins(wins: int, total: int, *, enough: bool = True) -> Verdict:
    """Whether a claim that one is better than another holds always, in three quarters of the cases, or not.

    Half of the comparisons is what chance gives two that are alike. `enough` says whether the difference is
    as large as the claim has it.

    Examples
    --------
    >>> by_wins(6, 6), by_wins(6, 6, enough=False), by_wins(5, 6), by_wins(4, 6)
    ('holds', 'holds partly', 'holds partly', 'does not hold')
    """
    if wins == total and enough:
        return "holds"
    return "holds partly" if wins >= 0.75 * total else "does not hold"


def verdict(*parts: bool) -> Verdict:
    """Whether all parts of a claim hold, some, or none.

    Examples
    --------
    >>> verdict(True, True), verdict(True, False), verdict(False)
    ('holds', 'holds partly', 'does not hold')
    """
    return "holds" if all(parts) else "holds partly" if any(parts) else "does not hold"
