"""The conclusions that the paper draws from all of its experiments on real data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from experiments.markdown import table
from paper.experiment import Claim, by_wins
from paper.methods import GIBBS_KINDS, LABELS, MEAN_FIELD_KINDS, METHODS

INTRA_LOCAL = [(one, other) for one in GIBBS_KINDS for other in MEAN_FIELD_KINDS]
STRUCTURED = [("gibbs-ssvi", "mimno-svi"), ("mf-ssvi", "mf-svi")]


def table_of_all(reached: Mapping[str, Mapping[str, float]]) -> str:
    """Return a table with a row for each task and a column for each method; the best of a row is in bold."""
    columns = (*METHODS, "defaults", "cubic")
    rows = []
    for task, found in reached.items():
        digits = 1 if task.endswith("(dB)") else 3
        best = max(found.values())
        cells = [f"{found[method]:.{digits}f}" if method in found else "" for method in columns]
        bold = [found.get(method) == best for method in columns]
        rows.append(
            [task, *(f"**{text}**" if is_best else text for text, is_best in zip(cells, bold, strict=True))]
        )
    return table(["", *(LABELS[method] for method in columns)], rows)


def conclusions(reached: Mapping[str, Mapping[str, float]]) -> list[Claim]:
    """Judge the conclusions by all tasks on which the five methods have been run.

    Examples
    --------
    >>> found = {"mf-svi": 1.0, "mf-ssvi": 2.0, "titsias-ssvi": 3.0, "mimno-svi": 4.0, "gibbs-ssvi": 5.0}
    >>> [claim.verdict for claim in conclusions({"a picture": found})]
    ['holds', 'holds']
    """
    if not reached:
        return []

    def wins(pairs: list[tuple[str, str]]) -> tuple[int, int]:
        won = [found[one] > found[other] for found in reached.values() for one, other in pairs]
        return sum(won), len(won)

    best = Counter(max(METHODS, key=lambda method: found[method]) for found in reached.values())
    listed = ", ".join(f"{LABELS[method]} {count}" for method, count in best.most_common())
    texts = [
        (
            INTRA_LOCAL,
            "Conclusion: dependence among the local variables of a row is crucial; Gibbs-SSVI and Mimno-SVI "
            "consistently and significantly outperform the other three",
            "the Gibbs kinds win",
            f"; best on {len(reached)} tasks: {listed}",
        ),
        (
            STRUCTURED,
            "Conclusion: dependence between local and global variables helps modestly",
            "structured methods (Gibbs-SSVI over Mimno-SVI, MF-SSVI over MF-SVI) win",
            "",
        ),
    ]
    claims = []
    for pairs, text, who, more in texts:
        won, total = wins(pairs)
        claims.append(Claim(text, f"{who} {won} of {total} comparisons{more}", by_wins(won, total)))
    return claims
