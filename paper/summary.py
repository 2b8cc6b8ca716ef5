"""The summary at the top of the page: at most ten plain lines, whose words follow from the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paper.experiment import Claim, by_wins
from paper.methods import INTRA_LOCAL, LABELS, METHODS
from paper.readings import READINGS, Reached, mean_of, wins

MOMENTS = {"best": "at their best", "end": "at their end"}
"""The readings, as a sentence about several methods names them."""
WORDS = (
    "On real data every method is judged twice: *at its best*, after the step that hidden entries choose "
    "which are not scored, and *at its end*, after the last step."
)


def headline(reached: Reached) -> list[str]:
    """Return a line about the paper's main claim, judged by all real data."""
    if not reached["best"]:
        return []
    return [
        f"**The paper's main claim {held(reached)} on real data.** It says that the *Gibbs kinds* (Mimno-SVI "
        "and Gibbs-SSVI), which draw the features of a row together, predict far better than the *mean-field "
        f"kinds*, which take them to be independent. {shares(reached)}."
    ]


def reproduced(claims: Mapping[str, Sequence[Claim]]) -> list[str]:
    """Return a line about the experiments of which every claim holds, and how many claims do in all.

    Parameters
    ----------
    claims : mapping
        What the experiment is about -> its claims.

    Examples
    --------
    >>> claims = {"burn-in": [Claim("", "", "holds")], "cells": [Claim("", "", "does not hold", "holds")]}
    >>> found, counted, counted_at_end = reproduced(claims)[0].split(". ")
    >>> found
    '**What reproduces:** every claim about burn-in holds, at least in part'
    >>> counted, counted_at_end
    ("Of all 2 claims, 1 holds at the methods' best", 'At their end it is 2.')
    """
    all_claims = [claim for of_experiment in claims.values() for claim in of_experiment]
    if not all_claims:
        return []
    counts = [sum(holds(claim, reading) for claim in all_claims) for reading in READINGS]
    whole = [
        about
        for about, of_experiment in claims.items()
        if of_experiment and all(holds(claim, reading) for claim in of_experiment for reading in READINGS)
    ]
    first = (
        f"every claim about {listed(whole)} holds, at least in part" if whole else "no experiment as a whole"
    )
    verb = "holds" if counts[0] == 1 else "hold"
    return [
        f"**What reproduces:** {first}. Of all {len(all_claims)} claims, {counts[0]} {verb} at the methods' "
        f"best. At their end it is {counts[1]}."
    ]


def holds(claim: Claim, reading: str) -> bool:
    """Return whether a claim holds in a reading, at least partly."""
    verdict = claim.at_end if reading == "end" and claim.at_end else claim.verdict
    return verdict != "does not hold"


def listed(names: Sequence[str]) -> str:
    """Return names in words.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def held(reached: Reached) -> str:
    """Return in words whether the Gibbs kinds win in both readings.

    Examples
    --------
    >>> equal = {("a", 0): dict.fromkeys(METHODS, 0.0)}
    >>> better = {("a", 0): equal["a", 0] | {"mimno-svi": 1.0, "gibbs-ssvi": 1.0}}
    >>> held({"best": better, "end": equal}), held({"best": better, "end": better})
    ('holds at their best but does not hold at their end', 'holds')
    """
    best, end = (by_wins(*wins(reached[reading], INTRA_LOCAL)) for reading in READINGS)
    if best == end:
        return best
    return f"{best} {MOMENTS['best']} but {end} {MOMENTS['end']}"


def shares(reached: Reached) -> str:
    """Return in words how many comparisons the Gibbs kinds win in both readings.

    Examples
    --------
    >>> found = dict.fromkeys(METHODS, 0.0) | {"gibbs-ssvi": 1.0}
    >>> shares({"best": {("a", 0): found}, "end": {("a", 0): dict.fromkeys(METHODS, 0.0)}})
    'The Gibbs kinds win 50 % of the comparisons at their best, and 0 % at their end'
    """
    best, end = (wins(reached[reading], INTRA_LOCAL) for reading in READINGS)
    percent = [f"{100 * won / total:.0f} %" for won, total in (best, end)]
    return (
        f"The Gibbs kinds win {percent[0]} of the comparisons {MOMENTS['best']}, and {percent[1]} "
        f"{MOMENTS['end']}"
    )


def matrix_line(reached: Reached, where: str) -> list[str]:
    """Return a line about which kind predicts a matrix better, and who loses most between the readings."""
    if not reached["best"]:
        return []
    losses = {
        method: mean_of(reached["best"], method) - mean_of(reached["end"], method) for method in METHODS
    }
    loser = max(losses, key=lambda method: losses[method])
    return [
        f"**{where}: that the Gibbs kinds predict better {held(reached)}.** {shares(reached)}. "
        f"{LABELS[loser]} loses most between the two."
    ]


def apart(gap: float, unit: str, digits: int, other: str = "") -> str:
    """Return in words by how much something is ahead of another, which can be named.

    Examples
    --------
    >>> apart(0.5, "dB", 1, "it"), apart(-0.5, "dB", 1, "it"), apart(-0.5, "dB", 1)
    ('0.5 dB ahead of it', '0.5 dB behind it', '0.5 dB behind')
    """
    where = "behind" if gap < 0 else "ahead of" if other else "ahead"
    return f"{abs(gap):.{digits}f} {unit} {where} {other}".rstrip()


def how_many(count: int, total: int) -> str:
    """Return in words how many of some there are.

    Examples
    --------
    >>> how_many(0, 5), how_many(5, 5), how_many(2, 5)
    ('none', 'all', '2 of 5')
    """
    return "none" if count == 0 else "all" if count == total else f"{count} of {total}"
