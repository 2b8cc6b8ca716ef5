"""What all sources on disk have in common: chunks, rows in any order, and errors that name the file."""

from __future__ import annotations

import importlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.philox import MAX_ROW_ID
from bpfa.data.rows import Batch, refuse_infinity

__all__ = ["FileRows"]

# A chunk is about this many entries, 1 MiB in single precision: long enough that finding it costs little
# beside reading it, even on a spinning disk, and short enough that a window of the shuffle holds many of
# them.
CHUNK_ENTRIES = 2**18
# What a file stores together is never read apart, unless it is larger than this, 32 MiB in single precision:
# then memory counts for more than time.
MAX_CHUNK_ENTRIES = 2**23


class FileRows(ABC):
    """Rows of a matrix on disk, of which only what is asked for is in memory.

    An adapter gives its size to `__init__` and implements `_read`.

    Parameters
    ----------
    name : str
        What errors call the source: its path.
    shape : tuple of int
        Of the matrix.
    dtype : numpy.dtype
        As stored. Floating-point numbers of at most 32 bits are handed out in single precision, all others in
        double.
    stored_rows : int
        Rows that are stored together, such as those of a compressed block.
    column_names : list of str, optional

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
            raise ValueError(f"{name}: {shape[0]} rows; expected {MAX_ROW_ID} at most")
        self.name = name
        self.n_rows, self.n_columns = int(shape[0]), int(shape[1])
        self.chunk_edges = even_edges(self.n_rows, self.n_columns, stored_rows)
        self.column_names = column_names
        single = dtype.kind == "f" and dtype.itemsize <= 4
        self.dtype: np.dtype[Any] = np.dtype(np.float32 if single else np.float64)

    @abstractmethod
    def _read(self, start: int, stop: int) -> NDArray[Any]:
        """Return consecutive rows of the file, NaN where an entry is missing."""

    def read(self, start: int, stop: int) -> Batch:
        """Return consecutive rows."""
        return self._batch(self._checked(start, stop), np.arange(start, stop))

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the rows with these ids, in any order, each as often as it is asked for."""
        ids = np.asarray(ids, dtype=np.int64)
        outside = ids[(ids < 0) | (ids >= self.n_rows)]
        if outside.size:
            raise ValueError(f"ids: {outside[0]}; {self.name} has rows 0 to {self.n_rows - 1}")
        values = np.empty((len(ids), self.n_columns), dtype=self.dtype)
        order = np.argsort(ids, kind="stable")
        chunks = np.searchsorted(self.chunk_edges, ids[order], side="right")
        # Each chunk is read once, from the first row wanted to the last, and let go before the next.
        for places in np.split(order, np.flatnonzero(np.diff(chunks)) + 1):
            if places.size:
                first, last = int(ids[places[0]]), int(ids[places[-1]])
                values[places] = self._checked(first, last + 1)[ids[places] - first]
        return self._batch(values, ids)

    def _checked(self, start: int, stop: int) -> NDArray[Any]:
        with reading(self.name):
            values = self._read(start, stop)
        if values.shape != (stop - start, self.n_columns):
            raise ValueError(f"{self.name}: ends before row {stop}, of {self.n_rows}; expected a whole file")
        return values.astype(self.dtype, copy=False)

    def _batch(self, values: NDArray[Any], ids: NDArray[np.int64]) -> Batch:
        refuse_infinity(self.name, values, ids=ids)
        return Batch(values, ids=ids)


def even_edges(n_rows: int, n_columns: int, stored_rows: int = 1) -> NDArray[np.int64]:
    """Return the edges of chunks of a good size, of whole pieces of `stored_rows` rows where possible."""
    pieces = max(1, CHUNK_ENTRIES // (stored_rows * n_columns))
    step = min(pieces * stored_rows, max(1, MAX_CHUNK_ENTRIES // n_columns))
    return np.append(np.arange(0, n_rows, step), n_rows)


def existing(path: str | os.PathLike[str]) -> Path:
    """Return a path, refusing one where there is nothing."""
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file")
    return Path(path)


@contextmanager
def reading(name: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what a library raises about a damaged or foreign file into a ValueError that names the file."""
    try:
        yield
    except Exception as error:
        # What the system says is clear enough; a library may derive errors of its own from these.
        if type(error) in (ImportError, MemoryError, FileNotFoundError, PermissionError):
            raise
        lines = str(error).splitlines() or [type(error).__name__]
        reason = lines[0].strip().rstrip(".:;")
        raise ValueError(f"{name}: cannot be read ({reason}); expected a whole file of its kind") from error


def library(module: str, extra: str) -> ModuleType:
    """Import an optional library, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{error}; this source needs {module}: pip install 'bpfa[{extra}]'") from error


def only_key(name: str, key: str | None, shapes: dict[str, tuple[int, ...]]) -> str:
    """Return which of the arrays of a file is meant: the one asked for, or the only matrix there is."""
    matrices = [name for name, shape in shapes.items() if len(shape) == 2]
    if key is None and len(matrices) == 1:
        return matrices[0]
    if key in shapes:
        return key
    there = ", ".join(f"{name!r} {shape}" for name, shape in shapes.items()) or "none"
    raise ValueError(f"key={key!r}: {name} has these arrays: {there}; expected the name of one")
