"""How long the chains are by which the methods predict, and the study of how long they have to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from bpfa import Algorithm, algorithm
from experiments.machine import thread_option
from experiments.markdown import table
from paper.methods import GIBBS_KINDS, INTRA_LOCAL, LABELS, MEAN_FIELD_KINDS, METHODS

CHAINS = {"short": "as long as in training", "long": "long"}
"""The two lengths of chains by which every posterior is judged."""
Judged = Literal["interpolation", "denoising", "matrices"]
"""What a posterior predicts. Chains need longer the less of a row is observed."""
# Sweeps discarded before every draw of a Gibbs kind; sweeps of coordinate ascent of a mean-field kind.
GIBBS_SHORT = 3
GIBBS_LONG: dict[Judged, int] = {"interpolation": 3200, "denoising": 800, "matrices": 100}
MEAN_FIELD_LENGTHS = {"short": 10, "long": 25}
# The study also tries these lengths below the long one, and twice the long one.
GIBBS_STUDY: dict[Judged, tuple[int, ...]] = {
    "interpolation": (3, 25, 100, 400, 1600),
    "denoising": (3, 25, 100, 400),
    "matrices": (3, 10, 25, 50),
}
MEAN_FIELD_STUDY = (10, 25, 50)


def lengths_in_words(judged: Judged) -> str:
    """Return a sentence for the page about the lengths of chains.

    Examples
    --------
    >>> lengths_in_words("matrices").split("; ")[1]
    "'long' discards 100 sweeps before each of its draws, or makes 25 of ascent."
    """
    return (
        f"Training has chains of {GIBBS_SHORT} sweeps of burn-in (Gibbs kinds) or "
        f"{MEAN_FIELD_LENGTHS['short']} sweeps of coordinate ascent (mean-field kinds). 'Short' predicts by "
        f"the same; 'long' discards {GIBBS_LONG[judged]:,} sweeps before each of its draws, or makes "
        f"{MEAN_FIELD_LENGTHS['long']} of ascent."
    )


def length(method: str, chains: str, judged: Judged) -> int:
    """Return how long the short or long chains of a method are.

    Examples
    --------
    >>> length("gibbs-ssvi", "long", "denoising"), length("mf-svi", "long", "denoising")
    (800, 25)
    """
    if method not in GIBBS_KINDS:
        return MEAN_FIELD_LENGTHS[chains]
    return GIBBS_SHORT if chains == "short" else GIBBS_LONG[judged]


def studied_lengths(method: str, judged: Judged) -> tuple[int, ...]:
    """Return the lengths that the study tries.

    Examples
    --------
    >>> studied_lengths("titsias-ssvi", "matrices"), studied_lengths("gibbs-ssvi", "matrices")
    ((10, 25, 50), (3, 10, 25, 50, 100, 200))
    """
    if method not in GIBBS_KINDS:
        return MEAN_FIELD_STUDY
    long = GIBBS_LONG[judged]
    return (*GIBBS_STUDY[judged], long, 2 * long)


def with_length(method: str, sweeps: int, device: str) -> Algorithm:
    """Return a method whose chains have this length.

    Examples
    --------
    >>> with_length("mimno-svi", 25, "cpu").local.burn_in, with_length("mf-svi", 50, "cpu").local.n_sweeps
    (25, 50)
    """
    option = "burn_in" if method in GIBBS_KINDS else "n_sweeps"
    return algorithm(method, device=device, **{option: sweeps}, **thread_option(device))


def study_table(
    studies: Mapping[str, Mapping[str, Mapping[str, float]]], judged: Judged, digits: int = 3
) -> str:
    """Return a table of the scores by length.

    Parameters
    ----------
    studies : mapping
        Method -> "best" or "end" -> length -> score.
    judged : str
        What is predicted.
    digits : int
    """
    parts = []
    for methods, kind in (
        (GIBBS_KINDS, "sweeps discarded before a draw"),
        (MEAN_FIELD_KINDS, "sweeps of ascent"),
    ):
        lengths = studied_lengths(methods[0], judged)
        rows = [
            [f"{LABELS[method]}, {reading}", *(f"{scores[str(n)]:.{digits}f}" for n in lengths)]
            for method in methods
            if method in studies
            for reading, scores in studies[method].items()
        ]
        if rows:
            parts.append(table([kind, *(f"{n:,}" for n in lengths)], rows))
    if any(method in studies for method in GIBBS_KINDS):
        best, end = (largest_change(studies, reading, judged) for reading in ("best", "end"))
        changed, total = changed_winners(studies, judged)
        long = GIBBS_LONG[judged]
        parts.append(
            f"From {long:,} to {2 * long:,} sweeps the scores of the Gibbs kinds change by up "
            f"to {best:.{digits}f} at their best and {end:.{digits}f} at their end, the chance of the draws "
            "included ([a study of its own](#how-long-the-chains-have-to-be) tells the two apart). With the "
            f"longest chains of both tables, {changed} of {total} comparisons between the kinds have another "
            "winner than with the long ones."
        )
    return "\n\n".join(parts)


def largest_change(
    studies: Mapping[str, Mapping[str, Mapping[str, float]]], reading: str, judged: Judged
) -> float:
    """Return by how much the longest chains of the Gibbs kinds differ at most from the long ones.

    Examples
    --------
    >>> largest_change({"gibbs-ssvi": {"end": {"100": -1.5, "200": -1.25}}}, "end", "matrices")
    0.25
    """
    long, longest = str(GIBBS_LONG[judged]), str(2 * GIBBS_LONG[judged])
    scores = [studies[method][reading] for method in GIBBS_KINDS if method in studies]
    return max(abs(of_method[longest] - of_method[long]) for of_method in scores)


def changed_winners(
    studies: Mapping[str, Mapping[str, Mapping[str, float]]], judged: Judged
) -> tuple[int, int]:
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

    long = winners({method: length(method, "long", judged) for method in METHODS})
    longest = winners({method: studied_lengths(method, judged)[-1] for method in METHODS})
    return sum(one != other for one, other in zip(long, longest, strict=True)), len(long)
