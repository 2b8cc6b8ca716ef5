"""How many features a table needs, estimated before the fit (docs/math.md section 12).

A fit leaves features unused that the data does not need. But it starts from as many principal components as
there are features, and components that consist of noise alone take long to disappear. Therefore factor
analysis is run with more and more factors, until hidden entries are no longer predicted better.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bpfa._support.philox import Stream
from bpfa.data import Batch, Rows
from bpfa.inference.factor_analysis import FactorAnalysis, row_sample

__all__ = ["component_count"]

# The share of the entries that is hidden in a trial. Small tables get several trials, each with other hidden
# entries, until about ENOUGH_ENTRIES have been hidden in all.
HIDDEN_SHARE, ENOUGH_ENTRIES, MAX_TRIALS = 0.1, 20_000, 5
# The number of factors grows by GROWTH from one attempt to the next. Each attempt has N_ITERATIONS, and the
# search ends after PATIENCE attempts in a row that are worse than the best.
GROWTH, N_ITERATIONS, PATIENCE = 2**0.5, 5, 2
# An iteration takes about D^3 operations: with more than WIDE columns there are fewer attempts, with fewer
# iterations each.
WIDE, WIDE_GROWTH, WIDE_ITERATIONS = 512, 2.0, 3
# The smallest number of factors is chosen whose error is nearly the least: the difference is at most this
# share of the least error, and of what the factors explain. More features would take disproportionately more
# time.
TOLERANCE = 0.005


class _Trial:
    """Factor analysis of rows of which some entries are hidden."""

    def __init__(self, batch: Batch, hidden: NDArray[np.bool_]) -> None:
        self.hidden = hidden & batch.observed
        self.truth = batch.values[self.hidden]
        self.analysis = FactorAnalysis(batch.values, batch.observed & ~hidden)

    def error(self, n_factors: int) -> float:
        """Continue with this number of factors, and return the squared error of the hidden entries."""
        n_columns = self.hidden.shape[1]
        for _ in range(WIDE_ITERATIONS if n_columns > WIDE else N_ITERATIONS):
            self.analysis.iterate(n_factors)
        return float(((self.truth - self.analysis.filled[self.hidden]) ** 2).sum())


def component_count(rows: Rows, largest: int, stream: Stream) -> int:
    """Return the smallest number of factors that predicts hidden entries nearly as well as any other number.

    Parameters
    ----------
    rows : Rows
        With columns of mean 0 and variance 1.
    largest : int
        The largest number to consider, at most the number of columns.
    stream : Stream
        Chooses the rows that are analysed, and the entries that are hidden.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=(1000, 4)) @ rng.normal(size=(4, 20)) + rng.normal(size=(1000, 20))
    >>> component_count(ArrayRows(y / y.std(axis=0)), 13, Stream.from_seed(0))
    4
    """
    batch = row_sample(rows, stream)
    rng = stream.child("hidden").generator(0)
    n_trials = int(np.clip(ENOUGH_ENTRIES / max(1.0, HIDDEN_SHARE * batch.observed.sum()), 1, MAX_TRIALS))
    trials = [_Trial(batch, rng.random(batch.observed.shape) < HIDDEN_SHARE) for _ in range(n_trials)]
    error_without_factors = sum(float((trial.truth**2).sum()) for trial in trials)
    errors: dict[int, float] = {}
    for n_factors in _growing(largest, WIDE_GROWTH if rows.n_columns > WIDE else GROWTH):
        errors[n_factors] = sum(trial.error(n_factors) for trial in trials)
        if len(errors) > PATIENCE and min(errors.values()) < min(list(errors.values())[-PATIENCE:]):
            break
    least = min(error_without_factors, *errors.values())
    acceptable = least + TOLERANCE * min(least, error_without_factors - least)
    return next((n for n, error in errors.items() if error <= acceptable), 1)


def _growing(largest: int, growth: float) -> Iterator[int]:
    """Yield numbers from 1 that grow by a factor, and the largest at the end.

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
