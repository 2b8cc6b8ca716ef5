"""Rows in memory that are visited many times, prepared once instead of at every visit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa.data.batches import BatchedRows
from bpfa.data.held_out import FewHeldOutRows, HeldOutRows, MaskedRows
from bpfa.data.rows import ArrayRows, Batch, Rows, RowSource
from bpfa.data.standardised import StandardisedRows

__all__ = ["PreparedRows", "prepared"]

# The most entries of a table that is prepared; in double precision they take 32 MiB.
MOST_ENTRIES = 2**22


class PreparedRows(RowSource):
    """All rows of a source, as the source hands them out. They have been checked, and are not checked again.

    Parameters
    ----------
    whole : Batch
        All rows, with the ids 0, 1, 2, ...
    rows : RowSource
        Where they come from.

    Examples
    --------
    >>> rows = ArrayRows([[1.0, np.nan], [3.0, 4.0]])
    >>> PreparedRows(rows.read(0, 2), rows).take(np.array([1, 0])).values
    array([[3., 4.],
           [1., 0.]])
    """

    def __init__(self, whole: Batch, rows: RowSource) -> None:
        super().__init__(rows.n_rows, rows.n_columns, name=rows.name, column_names=rows.column_names)
        self._whole = whole

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the rows with these ids."""
        # `ndarray.take` copies whole rows, and is faster than an index.
        values, observed = self._whole.values.take(ids, axis=0), self._whole.observed.take(ids, axis=0)
        return Batch.unchecked(values, observed, ids)


def prepared(rows: Rows) -> Rows:
    """Return the rows of an array with all that is done to them done once, if the array is small enough.

    What is done is to standardise the columns, to remove the effects of batches, and to hide some entries.
    Any other source is returned unchanged.

    Examples
    --------
    >>> rows = ArrayRows([[1.0, np.nan], [3.0, 4.0]])
    >>> type(prepared(rows)).__name__
    'PreparedRows'
    """
    origin: Any = rows
    while type(origin) in (StandardisedRows, FewHeldOutRows, HeldOutRows, MaskedRows, BatchedRows):
        origin = origin.rows
    # Classes that are derived from these may return something else at every visit.
    if type(origin) is not ArrayRows or rows.n_rows * rows.n_columns > MOST_ENTRIES:
        return rows
    assert isinstance(rows, RowSource)
    return PreparedRows(rows.take(np.arange(rows.n_rows)), rows)
