"""How long the chains are by which the methods predict, and the study of how long they have to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bpfa import Algorithm, algorithm
from experiments.machine import thread_option
from experiments.markdown import table
from paper.methods import GIBBS_KINDS, INTRA_LOCAL, LABELS, METHODS

CHAINS = {"short": "as long as in training", "long": "long"}
"""The two lengths of chains by which every posterior is judged."""
# Sweeps discarded before every draw of a Gibbs kind; sweeps of coordinate ascent of a mean-field kind.
GIBBS_LENGTHS = {"short": 3, "long": 100}
MEAN_FIELD_LENGTHS = {"short": 10, "long": 25}
GIBBS_STUDY = (3, 10, 25, 50, 100, 200)
MEAN_FIELD_STUDY = (10, 25, 50)
WHAT = (
    f"Training has chains of {GIBBS_LENGTHS['short']} sweeps of burn-in (Gibbs kinds) or "
    f"{MEAN_FIELD_LENGTHS['short']} sweeps of coordinate ascent (mean-field kinds). 'Short' predicts by the "
    f"same; 'long' discards {GIBBS_LENGTHS['long']} sweeps before each of its draws, or makes "
    f"{MEAN_FIELD_LENGTHS['long']} sweeps of ascent."
)


def length(method: str, chains: str) -> int:
    """Return how long the short or long chains of a method are.

    Examples
    --------
    >>> length("gibbs-ssvi", "short"), length("mf-svi", "short")
    (3, 10)
    """
    return (GIBBS_LENGTHS if method in GIBBS_KINDS else MEAN_FIELD_LENGTHS)[chains]


def studied_lengths(method: str) -> tuple[int, ...]:
    """Return the lengths that the study tries."""
    return GIBBS_STUDY if method in GIBBS_KINDS else MEAN_FIELD_STUDY


def with_length(method: str, sweeps: int, device: str) -> Algorithm:
    """Return a method whose chains have this length.

    Examples
    --------
    >>> with_length("mimno-svi", 25, "cpu").local.burn_in, with_length("mf-svi", 50, "cpu").local.n_sweeps
    (25, 50)
    """
    option = "burn_in" if method in GIBBS_KINDS else "n_sweeps"
    return algorithm(method, device=device, **{option: sweeps}, **thread_option(device))


def study_table(studies: Mapping[str, Mapping[str, Mapping[str, float]]], digits: int = 3) -> str:
    """Return a table of the scores by length.

    Parameters
    ----------
    studies : mapping
        Method -> "best" or "end" -> length -> score.
    digits : int
    """
    parts = []
    for lengths, kind in (
        (GIBBS_STUDY, "sweeps discarded before a draw"),
        (MEAN_FIELD_STUDY, "sweeps of ascent"),
    ):
        rows = _study_rows(studies, lengths, digits)
        if rows:
            parts.append(table([kind, *map(str, lengths)], rows))
    if any(method in studies for method in GIBBS_KINDS):
        best, end = (largest_change(studies, reading) for reading in ("best", "end"))
        changed, total = changed_winners(studies)
        parts.append(
            f"From {GIBBS_STUDY[-2]} to {GIBBS_STUDY[-1]} sweeps the scores of the Gibbs kinds change by up "
            f"to {best:.{digits}f} at their best and {end:.{digits}f} at their end, the chance of the draws "
            "included ([a study of its own](#how-long-the-chains-have-to-be) tells the two apart). With the "
            f"longest chains of both tables, {changed} of {total} comparisons between the kinds have another "
            "winner than with the long ones."
        )
    return "\n\n".join(parts)


def largest_change(studies: Mapping[str, Mapping[str, Mapping[str, float]]], reading: str) -> float:
    """Return by how much the longest chains of the Gibbs kinds differ at most from those half as long.

    Examples
    --------
    >>> largest_change({"gibbs-ssvi": {"end": {"100": -1.5, "200": -1.25}}}, "end")
    0.25
    """
    before, last = (str(sweeps) for sweeps in GIBBS_STUDY[-2:])
    scores = [studies[method][reading] for method in GIBBS_KINDS if method in studies]
    return max(abs(of_method[last] - of_method[before]) for of_method in scores)


def changed_winners(studies: Mapping[str, Mapping[str, Mapping[str, float]]]) -> tuple[int, int]:
    """Return in how many comparisons the longest chains have another winner than the long ones.

    Both readings of every Gibbs kind are compared with those of every mean-field kind. The second number is
    that of all comparisons.
    """

    def winners(lengths: Mapping[str, int]) -> list[bool]:
        return [
            studies[one][reading][str(lengths[one])] > studies[other][reading][str(lengths[other])]
            for one, other in INTRA_LOCAL
            if one in studies and other in studies
            for reading in studies[one]
        ]

    long = winners({method: length(method, "long") for method in METHODS})
    longest = winners({method: studied_lengths(method)[-1] for method in METHODS})
    return sum(one != other for one, other in zip(long, longest, strict=True)), len(long)


def _study_rows(studies: Mapping[str, Any], lengths: Sequence[int], digits: int) -> list[list[str]]:
    return [
        [f"{LABELS[method]}, {reading}", *(f"{scores[str(n)]:.{digits}f}" for n in lengths)]
        for method in METHODS
        if method in studies and studied_lengths(method) == tuple(lengths)
        for reading, scores in studies[method].items()
    ]
