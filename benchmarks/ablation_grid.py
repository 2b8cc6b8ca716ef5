"""The grid of the ablation: which forms of the posterior and of the training are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.learning_problems import PROBLEMS, Problem
from bpfa import ALGORITHMS
from bpfa.images import defaults
from experiments.cells import Cell

# The share of the entries of a row that its chain does not see, where entries are hidden from chains.
DROPOUT = defaults.DROPOUT


class Choice(NamedTuple):
    """A cell of the grid."""

    algorithm: str
    features: str
    weight_precision: str
    carried: bool
    dropout: float = 0.0
    init: str = "random"

    def __str__(self) -> str:
        chains = ", chains carried over" if self.carried else ""
        dropped = f", dropout {self.dropout:.0%}" if self.dropout else ""
        start = ", from components" if self.init == "principal" else ""
        return f"{self.algorithm}, {self.features}, {self.weight_precision} weights{chains}{dropped}{start}"


def grid(problem: Problem) -> Iterator[Choice]:
    """Yield the cells that exist for a problem.

    Joint features under an expected view need complete data, which none of the problems has. Mean field has
    no inactive weights, so that there is no choice of weights. Only chains can continue from their last
    state. Entries are hidden from chains only for pictures.
    """
    for name, cell in ALGORITHMS.items():
        if name == "gibbs":
            continue
        for features in ("factorised", "joint") if cell.view == "sampled" else ("factorised",):
            for weight_precision in ("all", "active") if cell.method != "MeanField" else ("all",):
                for carried in (False, True) if cell.method == "Gibbs" else (False,):
                    yield Choice(name, features, weight_precision, carried)
    for features in ("factorised", "joint") if problem.picture is not None else ():
        yield Choice("gibbs-ssvi", features, "active", carried=False, dropout=DROPOUT)
    for features in ("factorised", "joint"):
        yield Choice("gibbs-ssvi", features, "active", carried=False, init="principal")


def cells(problems: Sequence[str], seeds: Sequence[int], seconds: float) -> list[Cell]:
    """Return all cells, ordered by seed, so that a run that was stopped tried all choices equally often."""
    return [
        Cell(
            f"{problem}/{choice}/{seed}",
            {"problem": problem, **choice._asdict(), "seed": seed, "seconds": seconds},
            expected=1.5 * seconds + 5,
            needs=PROBLEMS[problem].file,
        )
        for seed in seeds
        for problem in problems
        for choice in grid(PROBLEMS[problem])
    ]
