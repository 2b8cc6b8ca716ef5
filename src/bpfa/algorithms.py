"""The algorithms of the paper as one grid: a view of the globals x a local method (MATH.md section 3)."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from bpfa._checks import check_choice
from bpfa.local import Gibbs, LocalMethod, MeanField, SpikeSlab
from bpfa.posterior import GlobalPosterior
from bpfa.view import GlobalView

__all__ = ["ALGORITHMS", "Algorithm", "algorithm"]


class Algorithm(NamedTuple):
    """One cell of the grid, its local method's options included."""

    name: str
    view: Literal["expected", "sampled"]
    local: LocalMethod

    def view_of(self, posterior: GlobalPosterior, rng: np.random.Generator) -> GlobalView:
        """Return what the local method is to see of the posterior."""
        return posterior.expected() if self.view == "expected" else posterior.sampled(rng)


class Cell(NamedTuple):
    """A row of the table of algorithms."""

    view: Literal["expected", "sampled"]
    method: type[Gibbs] | type[MeanField] | type[SpikeSlab]


ALGORITHMS: dict[str, Cell] = {
    "mf-svi": Cell("expected", MeanField),
    "mf-ssvi": Cell("sampled", MeanField),
    "titsias-svi": Cell("expected", SpikeSlab),
    "titsias-ssvi": Cell("sampled", SpikeSlab),
    "mimno-svi": Cell("expected", Gibbs),
    "gibbs-ssvi": Cell("sampled", Gibbs),
    # The uncollapsed sampler: no variational posterior, but the same view and local method.
    "gibbs": Cell("sampled", Gibbs),
}
"""Name -> (view, local method)."""


def algorithm(name: str, **options: Any) -> Algorithm:
    """Return an algorithm by name, with options for its local method.

    Parameters
    ----------
    name : str
        "mf-svi", "mf-ssvi", "titsias-svi", "titsias-ssvi", "mimno-svi", "gibbs-ssvi" or "gibbs".
    **options
        `burn_in`, `n_samples` and `blocked` for the Gibbs kinds, `n_sweeps` for the others.

    Examples
    --------
    >>> algorithm("gibbs-ssvi", burn_in=5).local
    Gibbs(burn_in=5, n_samples=3, blocked=True)
    >>> algorithm("gibs")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: algorithm='gibs': expected one of 'mf-svi', 'mf-ssvi', 'titsias-svi', ... 'gibbs'
    """
    cell = ALGORITHMS[check_choice("algorithm", name, tuple(ALGORITHMS))]
    accepted = tuple(cell.method.__dataclass_fields__)
    for option in options:
        check_choice(f"option of {name!r}", option, accepted)
    return Algorithm(name, cell.view, cell.method(**options))
