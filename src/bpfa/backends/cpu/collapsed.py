"""`bpfa.model.collapsed.add_draws`, which predicts missing entries, on all threads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bpfa._support.philox import Stream
from bpfa.backends.cpu import _kernels
from bpfa.data import Batch
from bpfa.model.collapsed import MissingEntries
from bpfa.model.view import GlobalView

__all__ = ["add_draws"]


def add_draws(
    found: MissingEntries,
    views: Sequence[GlobalView],
    batch: Batch,
    stream: Stream,
    n_sweeps: int,
    *,
    n_jobs: int | None = None,
    instruction_set: str | None = None,
) -> None:
    """Continue the chains of some rows and add what they predict, as `bpfa.model.collapsed.add_draws` does.

    Examples
    --------
    >>> view = GlobalView(np.ones((1, 2)), np.zeros((1, 1)), np.array([50.0]), g_o=1.0, g_w=1.0)
    >>> batch = Batch([[3.0, np.nan]])
    >>> found = MissingEntries.before_draws(batch, np.array([True]))
    >>> add_draws(found, [view], batch, Stream.from_seed(0), n_sweeps=1)
    >>> found.mean, found.variance
    (array([[0. , 1.5]]), array([[0. , 1.5]]))
    """
    if not len(views):
        return
    order, starts = _rows_by_pattern(batch.observed)
    _kernels.add_draws(
        np.stack([view.phi for view in views]).astype(np.float64, copy=False),
        np.stack([view.logit for view in views]).astype(np.float64, copy=False),
        np.array([view.g_o for view in views], dtype=np.float64),
        np.array([view.g_w for view in views], dtype=np.float64),
        np.ascontiguousarray(batch.values, np.float64),
        np.ascontiguousarray(batch.observed).view(np.uint8),
        np.ascontiguousarray(batch.ids),
        order,
        starts,
        found.on.view(np.uint8),
        found.mean,
        found.squares,
        found.within,
        stream.key,
        found.n_draws,
        n_sweeps,
        n_jobs or 0,
        instruction_set or "",
    )
    found.n_draws += len(views)


def _rows_by_pattern(observed: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows in an order in which those with the same missing entries follow one another.

    The second array says where the rows of each pattern begin in that order, and where the last ones end.

    Examples
    --------
    >>> _rows_by_pattern(np.array([[True, False], [False, True], [True, False]]))
    (array([1, 0, 2]), array([0, 1, 3]))
    """
    bits = np.packbits(observed, axis=1)
    order = np.lexsort(bits.T[::-1]).astype(np.int64, copy=False)
    ordered = bits[order]
    begins = np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1
    ends = [len(order)] if len(order) else []
    return order, np.concatenate([[0], begins, ends]).astype(np.int64)
