"""Rows scaled to mean 0 and scale 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpfa._support.checks import check_array
from bpfa.data.blocks import BLOCK_ENTRIES
from bpfa.data.mapped import MappedRows
from bpfa.data.rows import Batch, Rows

__all__ = ["StandardisedRows"]


class StandardisedRows(MappedRows):
    """Rows of another source, with every column replaced by (column - mean) / scale.

    Parameters
    ----------
    rows : Rows
    mean, scale : arrays, shape (n_columns,)
        For example those of `column_moments`.

    See Also
    --------
    bpfa.data.Scale : Means and scales of columns.
    bpfa.data.MappedRows : The base of rows that change other rows.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rows = ArrayRows([[1.0, 10.0], [3.0, np.nan]])
    >>> StandardisedRows(rows, [2.0, 10.0], [1.0, 2.0]).take(np.array([1])).values
    array([[1., 0.]])
    """

    def __init__(self, rows: Rows, mean: Any, scale: Any) -> None:
        super().__init__(rows)
        self.mean = check_array("mean", mean, (self.n_columns,))
        self.scale = check_array("scale", scale, (self.n_columns,))
        if not (self.scale > 0).all():
            raise ValueError(f"scale: {self.scale.min():g} is the smallest; expected positive numbers")
        # Patches of a picture, for example, have been standardised already.
        self._unchanged = not self.mean.any() and bool((self.scale == 1).all())

    def mapped(self, batch: Batch) -> Batch:
        """Return the batch with its columns shifted and scaled."""
        if self._unchanged:
            return batch
        values = np.empty_like(batch.values)
        # In double precision, because the difference of two large numbers of single precision has few correct
        # digits; and block by block, because a batch may be a large chunk of a file.
        step = max(1, BLOCK_ENTRIES // self.n_columns)
        with np.errstate(over="ignore"):
            for start in range(0, len(values), step):
                block = slice(start, start + step)
                values[block] = (batch.values[block] - self.mean) / self.scale
                np.copyto(values[block], 0, where=~batch.observed[block])
        if not np.isfinite(values).all():
            return Batch(values, batch.observed, batch.ids)  # raises an error that names the entry
        return Batch.unchecked(values, batch.observed, batch.ids)
