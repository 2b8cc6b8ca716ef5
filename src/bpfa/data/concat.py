"""Rows of several sources, one after another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bpfa.data.formats.files import even_chunk_edges
from bpfa.data.row_names import RowNames
from bpfa.data.rows import Batch, Rows, RowSource, as_source

__all__ = ["ConcatRows"]


class ConcatRows(RowSource):
    """Rows of several sources, one after another; nothing is read until rows are asked for.

    Parameters
    ----------
    sources : list of Rows
        All with the same number of columns, and with the same names where the columns have names.

    See Also
    --------
    bpfa.data.PanelRows : Several sources with different columns.
    bpfa.open_rows : Open a file, a frame or several of them.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rows = ConcatRows([ArrayRows([[1.0], [2.0]]), ArrayRows([[3.0]])])
    >>> rows.n_rows, rows.take(np.array([2, 0])).values.ravel()
    (3, array([3., 1.]))
    """

    def __init__(self, sources: Sequence[Rows]) -> None:
        self._sources = [as_source(f"sources[{i}]", source) for i, source in enumerate(sources)]
        if not self._sources:
            raise ValueError("sources: an empty list; expected at least one source")
        for i, source in enumerate(self._sources):
            _check_columns(i, source, self._sources[0])
        self._starts = np.cumsum([0, *(source.n_rows for source in self._sources)])
        names = (source.column_names for source in self._sources if source.column_names is not None)
        super().__init__(
            int(self._starts[-1]),
            self._sources[0].n_columns,
            chunk_edges=self._joined_chunk_edges(),
            column_names=next(names, None),
        )

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the rows with these ids."""
        ids = np.asarray(ids, dtype=np.int64)
        outside = ids[(ids < 0) | (ids >= self.n_rows)]
        if outside.size:
            raise ValueError(f"ids: {outside[0]}; expected 0 to {self.n_rows - 1}")
        owners = np.searchsorted(self._starts, ids, side="right") - 1
        order = np.argsort(owners, kind="stable")
        batches = [
            self._sources[owner].take(ids[owners == owner] - self._starts[owner])
            for owner in np.unique(owners)
        ]
        return _joined(batches, self.n_columns, ids, np.argsort(order))

    def read(self, start: int, stop: int) -> Batch:
        """Return the rows from `start` up to `stop`, which is not included."""
        batches = [
            source.read(max(start - first, 0), min(stop - first, source.n_rows))
            for source, first in zip(self._sources, self._starts.tolist(), strict=False)
            if max(start - first, 0) < min(stop - first, source.n_rows)
        ]
        return _joined(batches, self.n_columns, np.arange(start, stop), np.arange(stop - start))

    def row_names(self) -> RowNames | None:
        """Return the names of all rows, or None if those of some source have none."""
        return RowNames.joined([source.row_names() for source in self._sources])

    def _joined_chunk_edges(self) -> NDArray[np.int64] | None:
        """Return the edges of all sources, or None if all of them are in memory.

        Where only some are in memory, their rows are divided into even chunks.
        """
        if all(source.chunk_edges is None for source in self._sources):
            return None
        parts = [np.zeros(1, dtype=np.int64)]
        for source, first in zip(self._sources, self._starts, strict=False):
            edges = source.chunk_edges
            if edges is None:
                edges = even_chunk_edges(source.n_rows, source.n_columns)
            parts.append(first + edges[1:])
        return np.concatenate(parts)


def _check_columns(i: int, source: RowSource, first: RowSource) -> None:
    """Refuse a source whose columns are not those of the first one."""
    name = f"sources[{i}] ({source.name})"
    if source.n_columns != first.n_columns:
        raise ValueError(
            f"{name}: {source.n_columns} columns; expected {first.n_columns}, as the first source has, "
            'or columns="union"'
        )
    names = zip(source.column_names or (), first.column_names or (), strict=False)
    for column, (ours, theirs) in enumerate(names):
        if ours != theirs:
            raise ValueError(
                f"{name}: column {column} is {ours!r}; expected {theirs!r}, as in the first source; "
                'choose the columns of each source in the same order, or columns="union"'
            )


def _joined(batches: list[Batch], n_columns: int, ids: NDArray[np.int64], order: NDArray[np.int64]) -> Batch:
    """Return the rows of several batches, in this order and with new ids."""
    # The empty arrays give a result where there is no batch at all. Single precision is kept unless some
    # batch has double precision.
    values = np.concatenate([np.empty((0, n_columns), np.float32), *(batch.values for batch in batches)])
    observed = np.concatenate([np.empty((0, n_columns), bool), *(batch.observed for batch in batches)])
    return Batch(values[order], observed[order], ids)
