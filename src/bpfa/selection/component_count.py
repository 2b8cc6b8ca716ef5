"""How many features a table needs, estimated before the fit (docs/math.md section 12).

The number is that of the common factors that stand out from the noise. Where more factors than that predict
hidden entries better, as they may in real tables, there are more.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bpfa._support.philox import Stream
from bpfa.data import Batch, Rows
from bpfa.inference.factor_analysis import row_sample
from bpfa.inference.panel_factors import factor_analysis
from bpfa.selection.significant_factors import significant_factors

__all__ = ["component_count"]

# The share of the entries that is hidden in a trial. Small tables get several trials, each with other hidden
# entries, until about ENOUGH_ENTRIES have been hidden in all.
HIDDEN_SHARE, ENOUGH_ENTRIES, MAX_TRIALS = 0.1, 20_000, 5
# From the number of significant factors, the number grows by GROWTH from one attempt to the next, as long as
# this lowers the squared error of the hidden entries by a share of at least LEAST_GAIN. More features would
# take disproportionately more time.
GROWTH, LEAST_GAIN = 2**0.5, 0.0005
# Errors count as at most this many standard deviations of a column, so that single entries which nothing
# could predict do not decide.
LARGEST_ERROR = 5.0
# The most iterations of the factor analysis in an attempt, and the change of the noise at which they end.
MAX_ITERATIONS, TOLERANCE = 50, 0.001
# Wide tables are judged by a sample of this many columns.
MAX_COLUMNS = 2048


class _Trial:
    """Factor analysis of rows of which some entries are hidden."""

    def __init__(self, batch: Batch, hidden: NDArray[np.bool_]) -> None:
        self.hidden = hidden & batch.observed
        self.truth = batch.values[self.hidden]
        self.analysis = factor_analysis(batch.values, batch.observed & ~hidden)

    def error(self, n_factors: int) -> float:
        """Continue with this number of factors, and return the squared error of the hidden entries."""
        self.analysis.fit(n_factors, MAX_ITERATIONS, TOLERANCE)
        errors = np.clip(self.truth - self.analysis.filled[self.hidden], -LARGEST_ERROR, LARGEST_ERROR)
        return float((errors**2).sum())


def component_count(rows: Rows, largest: int, stream: Stream) -> int:
    """Return the number of factors that stand out from the noise, or more if these predict clearly better.

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
    batch = _column_sample(row_sample(rows, stream), stream)
    rng = stream.child("signs").generator(0)
    n_factors = max(1, significant_factors(batch.values, batch.observed, largest, rng))
    if n_factors >= largest:
        return largest
    rng = stream.child("hidden").generator(0)
    n_trials = int(np.clip(ENOUGH_ENTRIES / max(1.0, HIDDEN_SHARE * batch.observed.sum()), 1, MAX_TRIALS))
    trials = [_Trial(batch, rng.random(batch.observed.shape) < HIDDEN_SHARE) for _ in range(n_trials)]
    n_better = _more_if_better(n_factors, largest, lambda n: sum(trial.error(n) for trial in trials))
    # Where more factors than the significant ones predict better, some of them can be seen only if nothing is
    # hidden.
    return n_better if n_better == n_factors else max(n_better, _visible_factors(batch, n_better, largest))


def _visible_factors(batch: Batch, n_factors: int, largest: int) -> int:
    """Return how many of a slightly larger number of factors are above the level of noise."""
    analysis = factor_analysis(batch.values, batch.observed)
    analysis.fit(min(largest, round(n_factors * GROWTH)), MAX_ITERATIONS, TOLERANCE)
    return int((analysis.common > 0).sum())


def _more_if_better(n_factors: int, largest: int, error: Callable[[int], float]) -> int:
    """Return a number of factors, or the smallest larger one whose error is clearly smaller.

    Examples
    --------
    >>> _more_if_better(5, 20, lambda n: max(9 - n, 0) + 10)
    9
    >>> _more_if_better(5, 20, lambda n: 10)
    5
    """
    too_few, enough, least = n_factors - 1, n_factors, error(n_factors)
    while enough < largest:
        n_more = min(largest, max(enough + 1, round(enough * GROWTH)))
        error_of_more = error(n_more)
        if error_of_more > (1 - LEAST_GAIN) * least:
            break
        too_few, enough, least = enough, n_more, error_of_more
    if enough == n_factors:
        return n_factors
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if error(middle) <= (1 + LEAST_GAIN) * least:
            enough = middle
        else:
            too_few = middle
    return enough


def _column_sample(batch: Batch, stream: Stream) -> Batch:
    """Return the batch with a random sample of its columns if there are very many."""
    n_columns = batch.values.shape[1]
    if n_columns <= MAX_COLUMNS:
        return batch
    chosen = np.sort(stream.child("columns").generator(0).permutation(n_columns)[:MAX_COLUMNS])
    return Batch(batch.values[:, chosen], batch.observed[:, chosen])
