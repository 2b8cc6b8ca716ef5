"""Rows of a Parquet file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.optional import library
from bpfa.data.formats.files import (
    CHUNK_ENTRIES,
    MAX_CHUNK_ENTRIES,
    FileRows,
    existing_path,
    name_file_in_errors,
)
from bpfa.data.formats.tables import chosen_columns

__all__ = ["ParquetRows"]

# The number of rows decoded at a time, and the number of bytes of each column read at a time.
DECODED_ROWS, BUFFER_BYTES = 2**14, 2**16


class ParquetRows(FileRows):
    """Rows of a Parquet file; null means missing.

    Reading within a row group means decoding the group from its beginning. A row group of more than 32 MiB is
    read in parts, to save memory, and for each part everything before it in the group is decoded again. A
    file that will be read often is best written with row groups of a few MiB.

    Parameters
    ----------
    path : path
    columns : list of str, optional
        Columns to read, in this order. By default all columns are read, and all must hold numbers; an index
        that pandas stored in the file is not one of them.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pa.parquet.write_table(pa.table({"a": [1, None], "b": [0.5, 2.5]}), f"{folder}/data.parquet")
    ...     ParquetRows(f"{folder}/data.parquet").take(np.array([1])).observed
    array([[False,  True]])
    """

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> None:
        self._path = existing_path(path)
        pa, parquet = library("pyarrow", "parquet"), library("pyarrow.parquet", "parquet")
        with name_file_in_errors(self._path), parquet.ParquetFile(self._path) as file:
            schema, self._metadata = file.schema_arrow, file.metadata
        numeric = {
            field.name: pa.types.is_integer(field.type)
            or pa.types.is_floating(field.type)
            or pa.types.is_boolean(field.type)
            for field in schema
            if not field.name.startswith("__index_level_") or field.name in (columns or ())
        }
        names = chosen_columns(str(self._path), numeric, columns)
        dtypes = {schema.field(name).type.to_pandas_dtype() for name in names}
        groups = [self._metadata.row_group(i).num_rows for i in range(self._metadata.num_row_groups)]
        self._starts = np.cumsum([0, *groups])
        super().__init__(
            str(self._path),
            (self._metadata.num_rows, len(names)),
            np.result_type(*dtypes),
            column_names=names,
        )
        self.chunk_edges = _group_edges(self._starts, self.n_columns)

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        values = np.empty((stop - start, self.n_columns), dtype=self.dtype)
        for first, batch in self._decoded(start, stop):
            low, high = max(start, first), min(stop, first + batch.num_rows)
            if low < high:
                part = batch.slice(low - first, high - low)
                for column, name in enumerate(self.column_names or ()):
                    values[low - start : high - start, column] = _floats(part.column(name))
        return values

    def _decoded(self, start: int, stop: int) -> Iterator[tuple[int, Any]]:
        """Yield record batches, each with the row it begins at, from the row groups that hold these rows."""
        parquet = library("pyarrow.parquet", "parquet")
        first_group = int(np.searchsorted(self._starts, start, side="right")) - 1
        last_group = int(np.searchsorted(self._starts, stop, side="left"))
        at = int(self._starts[first_group])
        # The library must not read whole columns at once, read ahead, or start threads: the shuffle reads
        # ahead itself, within a known amount of memory.
        with parquet.ParquetFile(
            self._path, metadata=self._metadata, pre_buffer=False, buffer_size=BUFFER_BYTES
        ) as file:
            for batch in file.iter_batches(
                batch_size=DECODED_ROWS,
                row_groups=range(first_group, last_group),
                columns=self.column_names,
                use_threads=False,
            ):
                yield at, batch
                at += batch.num_rows
                if at >= stop:
                    return


def _group_edges(starts: NDArray[np.int64], n_columns: int) -> NDArray[np.int64]:
    """Return the edges of chunks: small row groups are put together, and large ones are divided."""
    edges = [0]
    for stop in starts[1:].tolist():
        entries = (stop - edges[-1]) * n_columns
        if entries >= CHUNK_ENTRIES or stop == starts[-1]:
            parts = max(1, -(-entries // MAX_CHUNK_ENTRIES))
            edges += [edges[-1] + (stop - edges[-1]) * part // parts for part in range(1, parts + 1)]
    # A row group may be empty.
    return np.unique(edges)


def _floats(column: Any) -> NDArray[Any]:
    """Return a column of Arrow as floating-point numbers, with NaN for null."""
    pa = library("pyarrow", "parquet")
    kind = column.type if pa.types.is_floating(column.type) else pa.float64()
    values: NDArray[Any] = column.cast(kind, safe=False).to_numpy(zero_copy_only=False)
    return values
