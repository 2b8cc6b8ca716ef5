"""A table with its rows and columns exchanged, which has to be in memory."""

from __future__ import annotations

import numpy as np

from bpfa.data.blocks import sequential
from bpfa.data.rows import ArrayRows, Rows

__all__ = ["MOST_ENTRIES", "transposed"]

MOST_ENTRIES = 2**28
"""The largest number of entries of a table that is transposed: 1 GiB in single precision."""


def transposed(rows: Rows) -> ArrayRows:
    """Return the table whose rows are the columns of a source, in memory and in single precision.

    Parameters
    ----------
    rows : Rows
        On a common scale near 1, so that single precision suffices. The source is read once.

    Examples
    --------
    >>> transposed(ArrayRows([[1.0, 2.0], [3.0, np.nan]])).values
    array([[ 1.,  3.],
           [ 2., nan]], dtype=float32)
    """
    n_entries = rows.n_rows * rows.n_columns
    if n_entries > MOST_ENTRIES:
        raise ValueError(
            f"X: {rows.n_rows} x {rows.n_columns} entries are too many to transpose the table in memory; "
            f"expected at most {MOST_ENTRIES}, or sparse='rows'"
        )
    values = np.empty((rows.n_columns, rows.n_rows), dtype=np.float32)
    for batch in sequential(rows):
        values[:, batch.ids] = np.where(batch.observed, batch.values, np.nan).T
    return ArrayRows(values, name="X")
