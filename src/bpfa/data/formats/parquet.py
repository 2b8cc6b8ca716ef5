"""Rows of a Parquet file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.optional import library
from bpfa.data.formats.columns import Choice, choose_columns, refuse_text
from bpfa.data.formats.files import (
    CHUNK_ENTRIES,
    MAX_CHUNK_ENTRIES,
    FileRows,
    existing_path,
    name_file_in_errors,
)
from bpfa.data.row_names import RowNames

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
        Columns to read, in this order. By default all columns are read, and all must hold numbers.
    index : str, int, list of them, or False, optional
        Columns with names of rows, by name or position; False means that there are none. By default they are
        the index that pandas stored in the file, or the first column if it holds text.
    exclude : list of str, optional
        Columns to leave out.

    See Also
    --------
    bpfa.open_rows : Open a file, a frame or several of them.
    bpfa.data.FileRows : The base of sources that are files.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pa.parquet.write_table(pa.table({"a": [1, None], "b": [0.5, 2.5]}), f"{folder}/data.parquet")
    ...     ParquetRows(f"{folder}/data.parquet").take(np.array([1])).observed
    array([[False,  True]])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        columns: Sequence[str] | None = None,
        index: Any = None,
        exclude: Sequence[str] | None = None,
    ) -> None:
        self._path = existing_path(path)
        parquet = library("pyarrow.parquet", "parquet")
        with name_file_in_errors(self._path), parquet.ParquetFile(self._path) as file:
            schema, self._metadata = file.schema_arrow, file.metadata
        given = Choice(columns, index, exclude)
        wanted, of_rows = _chosen(str(self._path), schema, given)
        names, self._name_columns = ([schema.names[at] for at in places] for places in (wanted, of_rows))
        self._range = None if of_rows or given.index is not None else _stored_range(schema)
        self._refuse_text([name for name in names if not _is_number(schema.field(name).type)])
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
        if self._name_columns and given.index is None:
            called = ", ".join(map(repr, self._name_columns))
            unnamed = any(name.startswith("__index_level_") for name in self._name_columns)
            where = "the index" if unnamed else f"column{'s' * (len(of_rows) > 1)} {called}"
            self.reading = f"row names from {where}"

    def row_names(self) -> RowNames | None:
        """Return the names of the rows, which are read from the file now."""
        if self._range is not None:
            return RowNames(("",), (self._range,))
        if not self._name_columns:
            return None
        with name_file_in_errors(self._path), self._open() as file:
            table = file.read(columns=self._name_columns, use_threads=False)
            columns = tuple(table[name].to_pandas().to_numpy() for name in self._name_columns)
        labels = ("" if name.startswith("__index_level_") else name for name in self._name_columns)
        return RowNames(tuple(labels), columns)

    def _refuse_text(self, columns: list[str]) -> None:
        """Refuse columns that do not hold numbers; the error shows the first entry of each."""
        if columns:
            with name_file_in_errors(self._path), self._open() as file:
                batches = file.iter_batches(batch_size=DECODED_ROWS, columns=columns, use_threads=False)
                places: dict[str, str | None] = dict.fromkeys(columns)
                for batch in islice(batches, 1):
                    places = {name: _first_entry(batch.column(name)) for name in columns}
            refuse_text(str(self._path), places)

    def _open(self) -> Any:
        # The library must not read whole columns at once, read ahead, or start threads: the shuffle reads
        # ahead itself, within a known amount of memory.
        return library("pyarrow.parquet", "parquet").ParquetFile(
            self._path, metadata=self._metadata, pre_buffer=False, buffer_size=BUFFER_BYTES
        )

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
        first_group = int(np.searchsorted(self._starts, start, side="right")) - 1
        last_group = int(np.searchsorted(self._starts, stop, side="left"))
        at = int(self._starts[first_group])
        with self._open() as file:
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


def _chosen(name: str, schema: Any, given: Choice) -> tuple[list[int], list[int]]:
    """Return the positions of the columns that are data, and of those that name rows."""
    twice = [label for label, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise ValueError(f"{name}: two columns are called {twice[0]!r}; expected different names")
    stored = (schema.pandas_metadata or {}).get("index_columns", ())
    places = {label: at for at, label in enumerate(schema.names)}
    likely = [places[label] for label in stored if isinstance(label, str) and label in places]
    likely += [at for label, at in places.items() if label.startswith("__index_level_") and at not in likely]
    if not likely and _can_name(schema.types[0]):
        likely = [0]
    mentioned = {*(given.columns or ()), *(given.exclude or ())}
    likely = [at for at in likely if schema.names[at] not in mentioned]
    wanted, index = choose_columns(name, schema.names, given, tuple(likely))
    # An index that pandas did not name is no data, even if it is not used for names.
    hidden = {
        at for label, at in places.items() if label.startswith("__index_level_") and label not in mentioned
    }
    return [at for at in wanted if at not in hidden], index


def _stored_range(schema: Any) -> NDArray[np.int64] | None:
    """Return the index of a frame of pandas that is a range, unless it counts 0, 1, 2, ..."""
    for index in (schema.pandas_metadata or {}).get("index_columns", ()):
        is_range = isinstance(index, dict) and index.get("kind") == "range"
        if is_range and (index["start"], index["step"]) != (0, 1):
            return np.arange(index["start"], index["stop"], index["step"])
    return None


def _is_number(kind: Any) -> bool:
    types = library("pyarrow", "parquet").types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _can_name(kind: Any) -> bool:
    """Return whether a column of this type names rows if it is the first: text, dates and times."""
    types = library("pyarrow", "parquet").types
    if types.is_dictionary(kind):
        return _can_name(kind.value_type)
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return bool(text or types.is_temporal(kind))


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


def _first_entry(column: Any) -> str | None:
    """Return the first entry of a column of Arrow that is not null, and where it is."""
    known = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    return f"{str(column[int(known[0])].as_py())!r} in row {known[0]}" if len(known) else None


def _floats(column: Any) -> NDArray[Any]:
    """Return a column of Arrow as floating-point numbers, with NaN for null."""
    pa = library("pyarrow", "parquet")
    kind = column.type if pa.types.is_floating(column.type) else pa.float64()
    values: NDArray[Any] = column.cast(kind, safe=False).to_numpy(zero_copy_only=False)
    return values
