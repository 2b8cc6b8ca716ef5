"""Rows of another source, each batch changed on its way out."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from bpfa.data.row_names import RowNames
from bpfa.data.rows import Batch, Rows, RowSource, as_source

__all__ = ["MappedRows"]


class MappedRows(RowSource):
    """Rows of another source, with every batch passed through `mapped`.

    The rows, columns, ids, chunks and names stay those of the other source.

    Parameters
    ----------
    rows : Rows

    See Also
    --------
    bpfa.data.StandardisedRows : Rows in units of their columns' deviations.
    bpfa.data.HeldOutRows : Rows of which some entries are kept from the fit.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> class Doubled(MappedRows):
    ...     def mapped(self, batch):
    ...         return Batch(2 * batch.values, batch.observed, batch.ids)
    >>> Doubled(ArrayRows([[1.0, 2.0]])).take(np.array([0])).values
    array([[2., 4.]])
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = as_source("rows", rows)
        super().__init__(
            self.rows.n_rows,
            self.rows.n_columns,
            name=self.rows.name,
            chunk_edges=self.rows.chunk_edges,
            column_names=self.rows.column_names,
        )
        self.reading = self.rows.reading

    @abstractmethod
    def mapped(self, batch: Batch) -> Batch:
        """Return a batch of the other source as this source hands it out, with the same shape and ids.

        Parameters
        ----------
        batch : Batch

        Returns
        -------
        Batch

        See Also
        --------
        bpfa.data.StandardisedRows : Rows in units of their columns' deviations.
        bpfa.data.HeldOutRows : Rows of which some entries are kept from the fit.

        Examples
        --------
        >>> from bpfa.data import ArrayRows, StandardisedRows
        >>> rows = StandardisedRows(ArrayRows([[1.0, 2.0]]), mean=[1.0, 0.0], scale=[1.0, 2.0])
        >>> rows.mapped(Batch([[3.0, 4.0]])).values
        array([[2., 2.]])
        """

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the rows with these ids."""
        return self.mapped(self.rows.take(ids))

    def read(self, start: int, stop: int) -> Batch:
        """Return the rows from `start` up to `stop`, which is not included."""
        return self.mapped(self.rows.read(start, stop))

    def row_names(self) -> RowNames | None:
        """Return the names of the rows of the other source."""
        return self.rows.row_names()
