"""Rows of another source, changed on their way."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import check_instance
from bpfa.data.rows import Batch, Rows, chunk_edges, column_names, read

__all__ = ["MappedRows"]


class MappedRows(ABC):
    """Rows of another source, each batch passed through `of`, which keeps rows, columns and ids.

    Parameters
    ----------
    rows : Rows

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> class Doubled(MappedRows):
    ...     def of(self, batch):
    ...         return Batch(2 * batch.values, batch.observed, batch.ids)
    >>> Doubled(ArrayRows([[1.0, 2.0]])).take(np.array([0])).values
    array([[2., 4.]])
    """

    def __init__(self, rows: Rows) -> None:
        check_instance("rows", rows, Rows)
        self.rows = rows
        self.name: str = getattr(rows, "name", type(rows).__name__)
        self.n_rows, self.n_columns = rows.n_rows, rows.n_columns
        self.chunk_edges = chunk_edges(rows)
        self.column_names = column_names(rows)

    @abstractmethod
    def of(self, batch: Batch) -> Batch:
        """Return the batch as this source has it."""

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the rows with these ids."""
        return self.of(self.rows.take(ids))

    def read(self, start: int, stop: int) -> Batch:
        """Return consecutive rows."""
        return self.of(read(self.rows, start, stop))
