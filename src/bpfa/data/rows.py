"""Rows of a matrix with missing entries, and the batches taken from it."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array, as_real_array, check_mask
from bpfa._support.philox import MAX_ROW_ID

__all__ = ["ArrayRows", "Batch", "Rows", "chunk_edges", "column_names", "read"]


class Batch:
    """Some rows: their values, which entries are observed, and their ids in the whole data set.

    Parameters
    ----------
    values : array, shape (rows, columns)
        What stands at missing entries is ignored, NaN included.
    observed : boolean array of the same shape, optional
        Everything that is not NaN by default.
    ids : integer array, optional
        Row ids, which key the random numbers; 0, 1, 2... by default.

    Examples
    --------
    >>> batch = Batch([[1.0, np.nan]])
    >>> batch.values, batch.complete
    (array([[1., 0.]]), False)
    """

    values: Array
    """Zero at missing entries, so that sums need no second mask."""
    observed: NDArray[np.bool_]
    ids: NDArray[np.int64]
    complete: bool
    """Whether nothing is missing."""

    def __init__(
        self,
        values: Any,
        observed: Any = None,
        ids: Any = None,
    ) -> None:
        values = as_real_array("values", values, keep_single=True)
        if values.ndim != 2 or values.shape[1] == 0:
            raise ValueError(f"values: shape {values.shape}; expected rows x columns, at least one column")
        if observed is None:
            observed = ~np.isnan(values)
        self.observed = check_mask("observed", observed, values.shape)
        self.complete = bool(self.observed.all())
        self.values = values if self.complete else np.where(self.observed, values, values.dtype.type(0))
        ids = np.arange(len(values)) if ids is None else np.asarray(ids)
        fits = ids.shape == (len(values),) and ids.dtype.kind in "iu"
        if not fits or ((ids < 0) | (ids > MAX_ROW_ID)).any():
            raise ValueError(
                f"ids: {ids.dtype} of shape {ids.shape}; "
                f"expected {len(values)} integers from 0 to {MAX_ROW_ID}, one a row"
            )
        self.ids = ids.astype(np.int64, copy=False)
        if not np.isfinite(self.values).all():
            row, column = np.argwhere(~np.isfinite(self.values))[0]
            raise ValueError(
                f"values: {self.values[row, column]} at row {self.ids[row]}, column {column}, which is "
                "observed; expected finite numbers"
            )

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_columns(self) -> int:
        """Number of columns D."""
        return int(self.values.shape[1])

    def without(self, hidden: NDArray[np.bool_]) -> Batch:
        """Return the same rows with more entries missing."""
        return Batch(self.values, self.observed & ~hidden, self.ids)

    def padded_to(self, n_columns: int) -> Batch:
        """Return the same rows with columns of observed zeros up to this number of columns."""
        n_extra = n_columns - self.n_columns
        if n_extra <= 0:
            return self
        values = np.pad(self.values, ((0, 0), (0, n_extra)))
        return Batch(values, np.pad(self.observed, ((0, 0), (0, n_extra)), constant_values=True), self.ids)


@runtime_checkable
class Rows(Protocol):
    """A source of rows: anything that can say its size and hand out rows by id.

    A source may also have any of these, which `chunk_edges`, `read` and `column_names` look for:

    - `chunk_edges`, integers 0 = e_0 < e_1 < ... = N: rows from one edge to the next are cheap to read
      together and dear to read one by one, as in a file. None, or no such attribute: any row is cheap, as in
      memory.
    - `read(start, stop)`: the batch of consecutive rows.
    - `column_names`, a list of str, or None.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows N."""

    @property
    def n_columns(self) -> int:
        """Number of columns D."""

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the rows with these ids."""


class ArrayRows:
    """Rows of an array in memory; NaN is missing.

    Parameters
    ----------
    data : array-like of real numbers, shape (n_rows, n_columns)
        What a masked array masks is missing too.
    missing : boolean array-like of the same shape, optional
        True where an entry is missing, beside those that are NaN.
    name : str
        What errors call the data.
    allow_all_missing : bool
        Accept data without any observed entry: nothing can be learned from it, but it can be filled in.

    Examples
    --------
    >>> rows = ArrayRows([[1.0, 2.0], [np.nan, 4.0]])
    >>> rows.n_rows, rows.n_columns, int(rows.take(np.array([1])).observed.sum())
    (2, 2, 1)
    >>> ArrayRows([[1.0, np.inf]])
    Traceback (most recent call last):
    ...
    ValueError: data: inf at row 0, column 1; expected finite numbers, or NaN where an entry is missing
    """

    def __init__(
        self, data: Any, missing: Any = None, *, name: str = "data", allow_all_missing: bool = False
    ) -> None:
        if isinstance(data, np.ma.MaskedArray):
            hidden = np.ma.getmaskarray(data)
            missing = hidden if missing is None else hidden | check_mask("missing", missing, hidden.shape)
        array = as_real_array(name, data, keep_single=True)
        if array.ndim != 2 or 0 in array.shape:
            raise ValueError(f"{name}: shape {array.shape}; expected rows x columns, at least one of each")
        observed = ~np.isnan(array)
        if missing is not None:
            observed &= ~check_mask("missing", missing, array.shape)
        refuse_infinity(name, array, observed)
        if not (allow_all_missing or observed.any()):
            raise ValueError(f"{name}: every entry is missing; expected at least one observed entry")
        self.values = array
        self.observed = observed
        self.n_rows, self.n_columns = array.shape

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the rows with these ids."""
        return Batch(self.values[ids], self.observed[ids], ids)


def refuse_infinity(name: str, values: Array, observed: Any = True, ids: Any = None) -> None:
    """Refuse observed values that are infinite, with the position of the first one in the whole data set."""
    infinite = np.isinf(values) & observed
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise ValueError(
            f"{name}: {values[row, column]} at row {row if ids is None else ids[row]}, column {column}; "
            "expected finite numbers, or NaN where an entry is missing"
        )


def chunk_edges(rows: Rows) -> NDArray[np.int64] | None:
    """Return where the chunks of a source begin, and N; None when any row is cheap to read.

    Examples
    --------
    >>> chunk_edges(ArrayRows([[1.0]])) is None
    True
    """
    edges: NDArray[np.int64] | None = getattr(rows, "chunk_edges", None)
    return edges


def column_names(rows: Rows) -> list[str] | None:
    """Return the names of the columns of a source, None when it has none.

    Examples
    --------
    >>> column_names(ArrayRows([[1.0]])) is None
    True
    """
    names: list[str] | None = getattr(rows, "column_names", None)
    return names


def read(rows: Rows, start: int, stop: int) -> Batch:
    """Return consecutive rows.

    Examples
    --------
    >>> read(ArrayRows([[1.0], [2.0], [3.0]]), 1, 3).values.ravel()
    array([2., 3.])
    """
    if hasattr(rows, "read"):
        batch: Batch = rows.read(start, stop)
        return batch
    return rows.take(np.arange(start, stop))
