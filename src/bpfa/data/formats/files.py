"""What all sources on disk have in common: chunks, rows in any order, and errors that name the file."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.philox import MAX_ROW_ID
from bpfa.data.rows import Batch, RowSource, refuse_infinity

__all__ = ["FileRows"]

# A chunk has about this many entries (1 MiB in single precision). It is long enough that finding it takes
# little time compared with reading it, even on a spinning disk, and short enough that a window of the shuffle
# holds many chunks.
CHUNK_ENTRIES = 2**18
# Rows that a file stores together are always read together, unless they have more entries than this (32 MiB
# in single precision): then saving memory matters more than saving time.
MAX_CHUNK_ENTRIES = 2**23


class FileRows(RowSource):
    """Rows of a matrix on disk; only the rows that are requested are read into memory.

    The adapter of a file format passes the size of its matrix to `__init__`, and implements `_read`.

    Parameters
    ----------
    name : str
        What error messages call the source: its path.
    shape : tuple of int
        Shape of the matrix.
    dtype : numpy.dtype
        Type of the stored numbers. Floating-point numbers of at most 32 bits are handed out in single
        precision, all others in double precision.
    stored_rows : int
        Number of rows that are stored together, for example in a compressed block.
    column_names : list of str, optional

    See Also
    --------
    bpfa.data.RowSource : The base of all sources.
    bpfa.open_rows : Open a file, a frame or several of them.

    Examples
    --------
    >>> class Ones(FileRows):
    ...     def _read(self, start, stop):
    ...         return np.ones((stop - start, self.n_columns))
    >>> rows = Ones("ones", (10**9, 4), np.dtype(np.float32))
    >>> rows.take(np.array([123456789, 5])).ids
    array([123456789,         5])
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        stored_rows: int = 1,
        column_names: list[str] | None = None,
    ) -> None:
        if len(shape) != 2 or 0 in shape:
            raise ValueError(f"{name}: shape {shape}; expected rows x columns, at least one of each")
        if dtype.kind not in "fiub":
            raise TypeError(f"{name}: dtype {dtype}; expected real numbers")
        if shape[0] > MAX_ROW_ID:
            raise ValueError(f"{name}: {shape[0]} rows; expected at most {MAX_ROW_ID}")
        n_rows, n_columns = (int(n) for n in shape)
        super().__init__(n_rows, n_columns, name=name, column_names=column_names)
        self.chunk_edges: NDArray[np.int64] = even_chunk_edges(n_rows, n_columns, stored_rows)
        single = dtype.kind == "f" and dtype.itemsize <= 4
        self.dtype: np.dtype[Any] = np.dtype(np.float32 if single else np.float64)

    @abstractmethod
    def _read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the rows from `start` up to `stop` of the file, with NaN where an entry is missing."""

    def read(self, start: int, stop: int) -> Batch:
        """Return the rows from `start` up to `stop`, which is not included."""
        return self._batch(self._read_checked(start, stop), np.arange(start, stop))

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the rows with these ids, in any order; an id may come more than once."""
        ids = np.asarray(ids, dtype=np.int64)
        outside = ids[(ids < 0) | (ids >= self.n_rows)]
        if outside.size:
            raise ValueError(f"ids: {outside[0]}; {self.name} has rows 0 to {self.n_rows - 1}")
        values = np.empty((len(ids), self.n_columns), dtype=self.dtype)
        order = np.argsort(ids, kind="stable")
        chunks = np.searchsorted(self.chunk_edges, ids[order], side="right")
        # Each chunk is read once, from the first requested row to the last, and released before the next.
        for places in np.split(order, np.flatnonzero(np.diff(chunks)) + 1):
            if places.size:
                first, last = int(ids[places[0]]), int(ids[places[-1]])
                values[places] = self._read_checked(first, last + 1)[ids[places] - first]
        return self._batch(values, ids)

    def _read_checked(self, start: int, stop: int) -> NDArray[Any]:
        """Read rows, and check that the file was long enough."""
        with name_file_in_errors(self.name):
            values = self._read(start, stop)
        if values.shape != (stop - start, self.n_columns):
            raise ValueError(f"{self.name}: ends before row {stop}, of {self.n_rows}; expected a whole file")
        return values.astype(self.dtype, copy=False)

    def _batch(self, values: NDArray[Any], ids: NDArray[np.int64]) -> Batch:
        refuse_infinity(self.name, values, ids=ids, column_names=self.column_names)
        return Batch(values, ids=ids)


def even_chunk_edges(n_rows: int, n_columns: int, stored_rows: int = 1) -> NDArray[np.int64]:
    """Return the edges of chunks of about `CHUNK_ENTRIES` entries.

    Rows that are stored together, `stored_rows` of them each time, stay in one chunk, unless it would be too
    large.
    """
    pieces = max(1, CHUNK_ENTRIES // (stored_rows * n_columns))
    step = min(pieces * stored_rows, max(1, MAX_CHUNK_ENTRIES // n_columns))
    return np.append(np.arange(0, n_rows, step), n_rows)


def existing_path(path: str | os.PathLike[str]) -> Path:
    """Return a path, after checking that there is something at it."""
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file")
    return Path(path)


@contextmanager
def name_file_in_errors(name: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what a library raises about a damaged or foreign file into a ValueError that names the file.

    Examples
    --------
    >>> with name_file_in_errors("cells.h5"):
    ...     raise RuntimeError("bad magic number")
    Traceback (most recent call last):
    ...
    ValueError: cells.h5: cannot be read (bad magic number); expected a whole file of its kind
    """
    try:
        yield
    except Exception as error:
        # The messages of these are clear as they are. The type must be exactly one of them, because libraries
        # derive errors of their own from them.
        if type(error) in (ImportError, MemoryError, FileNotFoundError, PermissionError):
            raise
        lines = str(error).splitlines() or [type(error).__name__]
        reason = lines[0].strip().rstrip(".:;")
        raise ValueError(f"{name}: cannot be read ({reason}); expected a whole file of its kind") from error


def key_of_matrix(name: str, key: str | None, shapes: dict[str, tuple[int, ...]]) -> str:
    """Return the name of the array to read: `key` if it is given, and else the only matrix of the file."""
    matrices = [name for name, shape in shapes.items() if len(shape) == 2]
    if key is None and len(matrices) == 1:
        return matrices[0]
    if key in shapes:
        return key
    there = ", ".join(f"{name!r} {shape}" for name, shape in shapes.items()) or "none"
    raise ValueError(f"key={key!r}: {name} has these arrays: {there}; expected the name of one")
