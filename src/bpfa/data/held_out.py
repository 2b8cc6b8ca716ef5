"""Rows of another source with some entries held out, to be scored."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array, check_instance, check_mask, check_number
from bpfa._support.philox import Stream
from bpfa.data.mapped import MappedRows
from bpfa.data.rows import Batch, Rows

__all__ = ["HeldOutRows", "MaskedRows"]

# Random numbers made at a time: each takes some forty bytes on its way.
DRAWS = 2**18


class HeldOutRows(MappedRows):
    """Rows of another source of which each observed entry is held out with the same probability.

    Whether an entry is held out is a function of the stream, its row id and its column, so the mask takes no
    memory and is the same whenever a row is read.

    Parameters
    ----------
    rows : Rows
    fraction : float
        Probability of being held out, from 0 to 1.
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
        """Return rows as the model sees them, their values as they are, and which entries are held out."""
        batch = self.rows.take(ids)
        held_out = self._mask(batch)
        return _without(batch, held_out), batch.values, held_out

    def of(self, batch: Batch) -> Batch:
        """Return the batch as this source has it."""
        return _without(batch, self._mask(batch))

    def _mask(self, batch: Batch) -> NDArray[np.bool_]:
        held_out = np.empty(batch.observed.shape, dtype=bool)
        # The generator makes numbers for 64 columns at a time.
        step = max(1, DRAWS // (-(-self.n_columns // 64) * 64))
        for start in range(0, len(batch), step):
            draws = self._stream.rows(batch.ids[start : start + step], step=0)
            held_out[start : start + step] = draws.uniform(1, self.n_columns) < self.fraction
        return held_out & batch.observed


class MaskedRows(MappedRows):
    """Rows of another source of which given entries are held out.

    Parameters
    ----------
    rows : Rows
    held_out : boolean array-like, shape (n_rows, n_columns)
        True where an entry is held out; what is not observed cannot be.

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
        """Return rows as the model sees them, their values as they are, and which entries are held out."""
        batch, held_out = self.rows.take(ids), self.held_out[ids]
        unknown = held_out & ~batch.observed
        if unknown.any():
            row, column = np.argwhere(unknown)[0]
            raise ValueError(
                f"held_out: the entry at row {batch.ids[row]}, column {column} is missing; expected its value"
            )
        return _without(batch, held_out), batch.values, held_out

    def of(self, batch: Batch) -> Batch:
        """Return the batch as this source has it."""
        return _without(batch, self.held_out[batch.ids])


def _without(batch: Batch, held_out: NDArray[np.bool_]) -> Batch:
    return Batch(batch.values, batch.observed & ~held_out, batch.ids)
