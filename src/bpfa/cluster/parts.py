"""From a chunk of a user's collection, in the process that holds it, to rows that have been checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import as_real_array
from bpfa.data import Batch, RowSource
from bpfa.data.remote import PartRows, rebased
from bpfa.data.rows import refuse_infinity

__all__ = ["ChunkKind", "read_chunk", "surveyed", "taken"]

Result = TypeVar("Result")


@dataclass(frozen=True)
class ChunkKind:
    """What every chunk of a collection is expected to be.

    Parameters
    ----------
    name : str
        What errors call the collection.
    edges : integer array
        The id of the first row of every chunk, and the number of rows.
    n_columns : int
    column_names : list of str, optional
    called : str
        What errors call a chunk.

    Examples
    --------
    >>> kind = ChunkKind("X", np.array([0, 2, 3]), 2)
    >>> kind.rows(np.array([[1.0, np.nan]]), 1).read(0, 1).ids
    array([2])
    >>> kind.rows(np.ones((2, 2)), 1)
    Traceback (most recent call last):
    ...
    ValueError: X: chunk 1 has 2 rows; expected 1, as its sizes of chunks say
    """

    name: str
    edges: NDArray[np.int64]
    n_columns: int
    column_names: list[str] | None = None
    called: str = "chunk"

    def rows(self, chunk: Any, number: int) -> RowSource:
        """Return the rows of a chunk: an array, a frame of pandas, or a batch that a file was read into."""
        first, stop = int(self.edges[number]), int(self.edges[number + 1])
        which = f"{self.name}: {self.called} {number}"
        observed = None
        if isinstance(chunk, Batch):
            values, observed = chunk.values, chunk.observed
        elif hasattr(chunk, "columns"):
            values = self._values_of_frame(chunk, which)
        else:
            # Arrays of CuPy are copied to the host by `get`.
            values = as_real_array(which, chunk.get() if hasattr(chunk, "get") else chunk, keep_single=True)
        if values.ndim != 2 or values.shape[1] != self.n_columns:
            raise ValueError(f"{which} has the shape {values.shape}; expected {self.n_columns} columns")
        if len(values) != stop - first:
            raise ValueError(
                f"{which} has {len(values)} rows; expected {stop - first}, as its sizes of chunks say"
            )
        if observed is None:
            observed = ~np.isnan(values)
            ids = np.arange(first, stop)
            refuse_infinity(self.name, values, observed, ids, self.column_names)
        return PartRows(values, observed, first, self.column_names)

    def _values_of_frame(self, frame: Any, which: str) -> NDArray[Any]:
        """Return the numbers of a frame of pandas, after checking its columns."""
        names = [str(name) for name in frame.columns]
        if self.column_names is not None and names != self.column_names:
            differing = sorted(set(names) ^ set(self.column_names))
            found = f"differs in {', '.join(differing[:5])}" if differing else "has another order"
            raise ValueError(f"{which}: its columns are not those of the first ({found}); expected the same")
        for label in frame.columns:
            if frame[label].dtype.kind not in "fiub":
                raise ValueError(
                    f"{which}: column {str(label)!r} has the dtype {frame[label].dtype}; expected numbers"
                )
        single = all(frame[label].dtype == np.float32 for label in frame.columns)
        values: NDArray[Any] = frame.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
        return values


def read_chunk(source: RowSource, start: int, stop: int) -> Batch:
    """Read some rows of a file, on the machine where this is called."""
    return source.read(start, stop)


def taken(
    kind: ChunkKind, chunk: Any, number: int, places: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the values of some rows of a chunk, and which of them are observed."""
    batch = kind.rows(chunk, number).take(places)
    return batch.values, batch.observed


def surveyed(
    kind: ChunkKind,
    chunk: Any,
    number: int,
    rows: RowSource,
    function: Callable[[RowSource], Result],
    places: NDArray[np.int64],
) -> tuple[Result, tuple[NDArray[Any], NDArray[np.bool_]]]:
    """Return what a function says of the rows of a chunk, and a sample of these rows as they are.

    Parameters
    ----------
    kind : ChunkKind
    chunk : array, frame or Batch
    number : int
        Number of the chunk.
    rows : RowSource
        How rows are changed on their way out; see `bpfa.data.remote.rebased`.
    function : callable
    places : integer array
        Which rows of the chunk are in the sample.
    """
    part = kind.rows(chunk, number)
    batch = part.take(places)
    return function(rebased(rows, part)), (batch.values, batch.observed)
