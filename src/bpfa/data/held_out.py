"""Rows of another source with some entries held out, so that predictions of them can be scored."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array, check_instance, check_mask, check_number
from bpfa._support.philox import Stream
from bpfa.data.mapped import MappedRows
from bpfa.data.rows import Batch, Rows

__all__ = ["HeldOutRows", "MaskedRows"]

# Random numbers drawn at a time: each takes about forty bytes of memory while it is computed.
DRAWS_AT_A_TIME = 2**18


class HeldOutRows(MappedRows):
    """Rows of another source, with each observed entry held out with the same probability.

    Whether an entry is held out depends only on the stream, its row id and its column. The mask therefore
    takes no memory, and is the same every time a row is read.

    Parameters
    ----------
    rows : Rows
    fraction : float
        Probability that an entry is held out, from 0 to 1.
    stream : Stream

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rows = HeldOutRows(ArrayRows(np.ones((1000, 10))), 0.2, Stream.from_seed(0))
    >>> batch, truth, held_out = rows.take_held_out(np.arange(1000))
    >>> round(float(held_out.mean()), 1), bool((batch.observed == ~held_out).all()), truth[0, 0]
    (0.2, True, np.float64(1.0))
    """

    def __init__(self, rows: Rows, fraction: float, stream: Stream) -> None:
        super().__init__(rows)
        self.fraction = check_number("fraction", fraction, low=0.0, high=1.0)
        check_instance("stream", stream, Stream)
        self._stream = stream.child("hidden")

    def take_held_out(self, ids: NDArray[np.int64]) -> tuple[Batch, Array, NDArray[np.bool_]]:
        """Return the rows without the held-out entries, all their values, and which entries are held out."""
        batch = self.rows.take(ids)
        held_out = self._mask(batch)
        return batch.without(held_out), batch.values, held_out

    def mapped(self, batch: Batch) -> Batch:
        """Return the batch without the held-out entries."""
        return batch.without(self._mask(batch))

    def _mask(self, batch: Batch) -> NDArray[np.bool_]:
        held_out = np.empty(batch.observed.shape, dtype=bool)
        # The generator draws numbers for 64 columns at a time.
        step = max(1, DRAWS_AT_A_TIME // (-(-self.n_columns // 64) * 64))
        for start in range(0, len(batch), step):
            draws = self._stream.rows(batch.ids[start : start + step], step=0)
            held_out[start : start + step] = draws.uniform(1, self.n_columns) < self.fraction
        return held_out & batch.observed


class MaskedRows(MappedRows):
    """Rows of another source, with the given entries held out.

    Parameters
    ----------
    rows : Rows
    held_out : boolean array-like, shape (n_rows, n_columns)
        True where an entry is held out. Such an entry must be observed, or it could not be scored.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rows = MaskedRows(ArrayRows([[1.0, 2.0]]), [[True, False]])
    >>> rows.take(np.array([0])).observed
    array([[False,  True]])
    """

    def __init__(self, rows: Rows, held_out: Any) -> None:
        super().__init__(rows)
        self.held_out = check_mask("held_out", held_out, (rows.n_rows, rows.n_columns))

    def take_held_out(self, ids: NDArray[np.int64]) -> tuple[Batch, Array, NDArray[np.bool_]]:
        """Return the rows without the held-out entries, all their values, and which entries are held out."""
        batch, held_out = self.rows.take(ids), self.held_out[ids]
        unknown = held_out & ~batch.observed
        if unknown.any():
            row, column = np.argwhere(unknown)[0]
            raise ValueError(
                f"held_out: the entry at row {batch.ids[row]}, column {column} is missing; expected its value"
            )
        return batch.without(held_out), batch.values, held_out

    def mapped(self, batch: Batch) -> Batch:
        """Return the batch without the held-out entries."""
        return batch.without(self.held_out[batch.ids])
