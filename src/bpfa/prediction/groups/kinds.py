"""Kinds of rows, fitted to the rows that a model keeps (docs/math.md section 23)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.backends.row_groups import RowGroupKernels
from bpfa.model.row_groups import KeptRows, Queries, RowGroups
from bpfa.model.row_kinds import LEAST_SHARE, RowKinds, log_totals

__all__ = ["fit_kinds"]

# The rows among which kinds are found, and the most entries that these have; the most iterations of EM with
# them; and the most entries of the rows that are used in the end.
FIRST_ROWS, FIRST_ENTRIES, N_ITERATIONS, LAST_ENTRIES = 4096, 200_000, 30, 500_000
# The fewest rows of a kind, on average.
ROWS_PER_KIND = 30
# Iterations with more of the kept rows afterwards.
N_LAST = 2
# EM ends when the log-likelihood per entry rises by less.
LEAST_RISE = 1e-3


def fit_kinds(
    kept: KeptRows,
    covariance: NDArray[np.float32],
    n_kinds: int,
    prior_rows: Sequence[float],
    kernels: RowGroupKernels,
    rng: np.random.Generator,
    n_threads: int = 1,
) -> list[RowKinds]:
    """Return divisions of the rows into kinds, one for each strength of the prior.

    They differ in the last step alone: the kinds are found with the geometric mean of the strengths.

    Parameters
    ----------
    kept : KeptRows
        The entries whose variance is 0 are observed. The others only help to find a start.
    covariance : array, shape (D, D)
        Covariance of a row under the model of the whole table.
    n_kinds : int
        There may be fewer in the end.
    prior_rows : sequence of float
    kernels : RowGroupKernels
    rng : numpy.random.Generator
    n_threads : int

    Examples
    --------
    >>> from bpfa.backends.registry import backend_of
    >>> rng = np.random.default_rng(0)
    >>> values = (rng.normal(size=(200, 2)) + np.where(rng.random((200, 1)) < 0.5, -5, 5)).astype(np.float32)
    >>> kept = KeptRows(values, np.zeros_like(values))
    >>> covariance = np.cov(values.T).astype(np.float32)
    >>> kinds, = fit_kinds(kept, covariance, 2, [1.0], backend_of("cpu").row_groups, rng)
    >>> np.sort(kinds.mean.round()[:, 0])
    array([-5.,  5.])
    """
    prior = RowGroups(covariance, np.zeros(0, np.int32), np.zeros(0, np.float32))
    most_rows = kept.rows_of_spread
    between = float(np.exp(np.log(prior_rows).mean()))
    n_columns = covariance.shape[0]
    n_rows = max(min(FIRST_ROWS, FIRST_ENTRIES // n_columns), ROWS_PER_KIND * n_kinds)
    order = rng.permutation(len(kept))[: max(n_rows, LAST_ENTRIES // n_columns)]
    some = np.sort(order[:n_rows])
    few = Queries.of(kept.values[some], kept.variance[some] == 0)
    shares = _first_shares(kept.values[some].astype(np.float64), n_kinds, rng)
    center = np.zeros((n_kinds, n_columns))
    wide = RowKinds(
        np.zeros(n_kinds),
        center,
        np.repeat(covariance[None].astype(np.float64), n_kinds, axis=0),
        np.full(n_kinds, between + n_rows),
    )
    kinds, before = _next_kinds(wide, few, shares, between, prior, most_rows, kernels, n_threads), -np.inf
    for _ in range(N_ITERATIONS):
        shares, height = _shares(kinds, few, kernels, n_threads)
        if height - before < LEAST_RISE:
            break
        before = height
        kinds = _next_kinds(kinds, few, shares, between, prior, most_rows, kernels, n_threads)
    more = np.sort(order)
    rows = few if len(some) == len(more) else Queries.of(kept.values[more], kept.variance[more] == 0)
    for _ in range(N_LAST if rows is not few else 0):
        shares, _ = _shares(kinds, rows, kernels, n_threads)
        kinds = _next_kinds(kinds, rows, shares, between, prior, most_rows, kernels, n_threads)
    shares, _ = _shares(kinds, rows, kernels, n_threads)
    sums = kernels.kind_sums(kinds, rows, shares, n_threads)
    counts = shares.sum(axis=1)
    return [RowKinds.of_sums(counts, *sums, kinds.mean, nu, prior, most_rows) for nu in prior_rows]


def _first_shares(values: Array, n_kinds: int, rng: np.random.Generator) -> Array:
    """Return the division of rows by the nearest of some of them, which are chosen as in k-means++."""
    chosen = int(rng.integers(len(values)))
    nearest, kind = np.full(len(values), np.inf), np.zeros(len(values), np.int64)
    for k in range(n_kinds):
        distance = ((values - values[chosen]) ** 2).sum(axis=1)
        kind[distance < nearest] = k
        nearest = np.minimum(nearest, distance)
        if not (total := nearest.sum()):
            break
        chosen = int(rng.choice(len(values), p=nearest / total))
    return np.asarray(np.arange(n_kinds)[:, None] == kind, np.float64)


def _shares(kinds: RowKinds, rows: Queries, kernels: RowGroupKernels, n_threads: int) -> tuple[Array, float]:
    """Return the shares of the kinds in every row, and the log-likelihood per entry."""
    density = kernels.kind_densities(kinds, rows, n_threads)
    total = log_totals(density)
    shares = np.exp(density - total)
    shares = np.where(shares < LEAST_SHARE, 0.0, shares)
    height = total.sum() / max(1, int(rows.n_observed.sum()))
    return shares / shares.sum(axis=0), float(height)


def _next_kinds(
    kinds: RowKinds,
    rows: Queries,
    shares: Array,
    prior_rows: float,
    prior: RowGroups,
    most_rows: Array,
    kernels: RowGroupKernels,
    n_threads: int,
) -> RowKinds:
    sums = kernels.kind_sums(kinds, rows, shares, n_threads)
    return RowKinds.of_sums(shares.sum(axis=1), *sums, kinds.mean, prior_rows, prior, most_rows)
