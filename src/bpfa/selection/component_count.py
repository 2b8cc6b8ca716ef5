"""How many features a table wants, before the fit.

The fit leaves features unused that it does not need, but it starts from as many principal components as there
are features, and those that only the noise has made are slow to go. Factor analysis with ever more factors
tells from where on hidden entries are no longer predicted better.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bpfa._support.philox import Stream
from bpfa.data import Batch, Rows
from bpfa.inference.factor_analysis import Factoring, some_rows

__all__ = ["component_count"]

# Share of the entries that is hidden, and how many are wanted in all: from small tables entries are hidden
# several times, each time others.
HIDDEN, MANY_ENTRIES, MAX_TRIALS = 0.1, 20_000, 5
# Numbers of factors grow by this factor, each has so many turns, until so many in a row have been worse.
GROWTH, TURNS, PATIENCE = 2**0.5, 5, 2
# The smallest number is taken whose error is nearly the least one: within this share of it, and of what is
# explained. The time of a fit grows faster than its features.
NEARLY = 0.005
# A turn takes D^3 operations: with more columns than this, fewer numbers are tried, with fewer turns.
WIDE, WIDE_GROWTH, WIDE_TURNS = 512, 2.0, 3


class _Trial:
    """Factor analysis of rows of which some entries are hidden."""

    def __init__(self, batch: Batch, hidden: NDArray[np.bool_]) -> None:
        self.hidden = hidden & batch.observed
        self.truth = batch.values[self.hidden]
        self.factoring = Factoring(batch.values, batch.observed & ~hidden)

    def error(self, n_factors: int) -> float:
        """Go on with so many factors, and return the squared error of the hidden entries."""
        n_columns = self.hidden.shape[1]
        for _ in range(WIDE_TURNS if n_columns > WIDE else TURNS):
            self.factoring.turn(n_factors)
        return float(((self.truth - self.factoring.filled[self.hidden]) ** 2).sum())


def component_count(rows: Rows, largest: int, stream: Stream) -> int:
    """Return how many factors predict hidden entries nearly as well as any number, from 1 to `largest`.

    Parameters
    ----------
    rows : Rows
        With columns of mean 0 and variance 1.
    largest : int
        At most the number of columns.
    stream : Stream
        Chooses the rows that are looked at, and the entries that are hidden.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=(1000, 4)) @ rng.normal(size=(4, 20)) + rng.normal(size=(1000, 20))
    >>> component_count(ArrayRows(y / y.std(axis=0)), 13, Stream.from_seed(0))
    4
    """
    batch = some_rows(rows, stream)
    rng = stream.child("hidden").generator(0)
    n_trials = int(np.clip(MANY_ENTRIES / max(1.0, HIDDEN * batch.observed.sum()), 1, MAX_TRIALS))
    trials = [_Trial(batch, rng.random(batch.observed.shape) < HIDDEN) for _ in range(n_trials)]
    nothing = sum(float((trial.truth**2).sum()) for trial in trials)
    errors: dict[int, float] = {}
    for n_factors in _growing(largest, WIDE_GROWTH if rows.n_columns > WIDE else GROWTH):
        errors[n_factors] = sum(trial.error(n_factors) for trial in trials)
        if len(errors) > PATIENCE and min(errors.values()) < min(list(errors.values())[-PATIENCE:]):
            break
    least = min(nothing, *errors.values())
    enough = least + NEARLY * min(least, nothing - least)
    return next((n for n, error in errors.items() if error <= enough), 1)


def _growing(largest: int, growth: float) -> Iterator[int]:
    """Yield 1, 2, 3, 4, 6, 8, 11, 16 and so on, and the largest at the end.

    Examples
    --------
    >>> list(_growing(20, 2**0.5)), list(_growing(20, 2.0))
    ([1, 2, 3, 4, 6, 8, 11, 16, 20], [1, 2, 4, 8, 16, 20])
    """
    n = 1
    while n < largest:
        yield n
        n = max(n + 1, round(n * growth))
    yield largest
