"""Rows of a matrix with missing entries: where they come from, and the batches taken from there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array, as_real_array, check_instance, check_mask
from bpfa.data.batch import Batch
from bpfa.data.row_names import RowNames

__all__ = ["ArrayRows", "Batch", "RowSource", "Rows", "as_source"]


@runtime_checkable
class Rows(Protocol):
    """What an object must have to serve as a source of rows: its size, and rows by their ids.

    Every function that takes rows accepts such an object. A source that can offer more, such as names of
    columns or chunks that are cheap to read together, derives from `bpfa.data.RowSource`, like the
    sources of this package.

    See Also
    --------
    bpfa.open_rows : Open a file, a frame or several of them.
    bpfa.data.RowSource : The base of all sources.
    """

    @property
    def n_rows(self) -> int:
        """Number of rows N."""

    @property
    def n_columns(self) -> int:
        """Number of columns D."""

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the rows with these ids.

        Parameters
        ----------
        ids : integer array
            Numbers of the rows, from 0 on, in any order.

        Returns
        -------
        Batch

        See Also
        --------
        bpfa.data.RowSource.take : The same of the sources of this package.

        Examples
        --------
        >>> class Ones:
        ...     n_rows, n_columns = 1000, 2
        ...     def take(self, ids):
        ...         return Batch(np.ones((len(ids), self.n_columns)), ids=ids)
        >>> isinstance(Ones(), Rows), Ones().take(np.array([5])).values
        (True, array([[1., 1.]]))
        """


class RowSource(ABC):
    """A source of rows; derived classes implement `take`, and `read` where there is a faster way.

    Parameters
    ----------
    n_rows, n_columns : int
    name : str, optional
        What error messages call the source; the name of its class by default.
    chunk_edges : integer array, optional
        Integers 0 = e_0 < e_1 < ... = N. Rows between two consecutive edges are cheap to read together and
        expensive to read one by one, as in a file. None, the default, means that every row is cheap to read,
        as in memory.
    column_names : list of str, optional

    Attributes
    ----------
    reading : str or None
        What was found out about a file when it was opened, in words, if there is anything to say.

    See Also
    --------
    bpfa.open_rows, bpfa.data.FileRows

    Examples
    --------
    >>> class Ones(RowSource):
    ...     def take(self, ids):
    ...         return Batch(np.ones((len(ids), self.n_columns)), ids=ids)
    >>> rows = Ones(1000, 2)
    >>> rows.read(5, 8).ids, rows.chunk_edges is None, rows.name
    (array([5, 6, 7]), True, 'Ones')
    """

    def __init__(
        self,
        n_rows: int,
        n_columns: int,
        *,
        name: str | None = None,
        chunk_edges: NDArray[np.int64] | None = None,
        column_names: list[str] | None = None,
    ) -> None:
        self.n_rows, self.n_columns = n_rows, n_columns
        self.name = type(self).__name__ if name is None else name
        self.chunk_edges, self.column_names = chunk_edges, column_names
        self.reading: str | None = None

    @abstractmethod
    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the rows with these ids.

        Parameters
        ----------
        ids : integer array
            Numbers of the rows, from 0 on, in any order.

        Returns
        -------
        Batch

        See Also
        --------
        bpfa.data.RowSource.read : Rows that follow one another.
        bpfa.Batch : What is returned.

        Examples
        --------
        >>> ArrayRows([[1.0], [2.0], [3.0]]).take(np.array([2, 0])).values.ravel()
        array([3., 1.])
        """

    def read(self, start: int, stop: int) -> Batch:
        """Return the rows from `start` up to `stop`, which is not included.

        Parameters
        ----------
        start, stop : int
            Numbers of the first row, and of the row after the last.

        Returns
        -------
        Batch

        See Also
        --------
        bpfa.data.RowSource.take : Any rows, in any order.
        bpfa.data.sequential : All rows, a block at a time.

        Examples
        --------
        >>> ArrayRows([[1.0], [2.0], [3.0]]).read(1, 3).values.ravel()
        array([2., 3.])
        """
        return self.take(np.arange(start, stop))

    def row_names(self) -> RowNames | None:
        """Return the names of the rows, which are read now, or None if they have none.

        Returns
        -------
        RowNames or None

        See Also
        --------
        bpfa.data.RowNames : Names of rows.
        bpfa.open_rows : Which columns hold names.

        Examples
        --------
        >>> import pandas as pd
        >>> from bpfa import open_rows
        >>> list(open_rows(pd.DataFrame({"a": [1.0, 2.0]}, index=["x", "y"])).row_names().to_pandas())
        ['x', 'y']
        >>> ArrayRows([[1.0], [2.0]]).row_names() is None
        True
        """
        return None


class _WrappedRows(RowSource):
    """An object that has no more than `Rows` demands, as a `RowSource`."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows.n_rows, rows.n_columns, name=type(rows).__name__)
        self._rows = rows

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the rows with these ids."""
        return self._rows.take(ids)


def as_source(argument: str, rows: Rows) -> RowSource:
    """Return rows as a `RowSource`: unchanged if they are one, and wrapped if they only satisfy `Rows`.

    Parameters
    ----------
    argument : str
        Name of the argument, for the error if `rows` is something else.
    rows : Rows

    Returns
    -------
    RowSource

    See Also
    --------
    bpfa.data.as_rows, bpfa.data.RowSource

    Examples
    --------
    >>> as_source("rows", ArrayRows([[1.0], [2.0], [3.0]])).read(1, 3).values.ravel()
    array([2., 3.])
    >>> as_source("rows", 5)
    Traceback (most recent call last):
    ...
    TypeError: rows: int; expected Rows
    """
    check_instance(argument, rows, Rows)
    return rows if isinstance(rows, RowSource) else _WrappedRows(rows)


class ArrayRows(RowSource):
    """Rows of an array in memory; NaN means missing.

    Parameters
    ----------
    data : array-like of real numbers, shape (n_rows, n_columns)
        The masked entries of a masked array are missing too.
    missing : boolean array-like of the same shape, optional
        True where an entry is missing; entries that are NaN are missing in any case.
    name : str
        What error messages call the data.
    allow_all_missing : bool
        Accept data without any observed entry: nothing can be learned from them, but they can be filled in.
    column_names : list of str, optional

    See Also
    --------
    bpfa.open_rows, bpfa.data.RowSource

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
        self,
        data: Any,
        missing: Any = None,
        *,
        name: str = "data",
        allow_all_missing: bool = False,
        column_names: list[str] | None = None,
    ) -> None:
        if isinstance(data, np.ma.MaskedArray):
            masked = np.ma.getmaskarray(data)
            missing = masked if missing is None else masked | check_mask("missing", missing, masked.shape)
        array = as_real_array(name, data, keep_single=True)
        if array.ndim != 2 or 0 in array.shape:
            raise ValueError(f"{name}: shape {array.shape}; expected rows x columns, at least one of each")
        observed = ~np.isnan(array)
        if missing is not None:
            observed &= ~check_mask("missing", missing, array.shape)
        refuse_infinity(name, array, observed, column_names=column_names)
        if not (allow_all_missing or observed.any()):
            raise ValueError(f"{name}: every entry is missing; expected at least one observed entry")
        super().__init__(*array.shape, column_names=column_names)
        self.values = array
        self.observed = observed

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the rows with these ids."""
        # `ndarray.take` copies whole rows, and is faster than an index.
        return Batch(self.values.take(ids, axis=0), self.observed.take(ids, axis=0), ids)


def refuse_infinity(
    name: str, values: Array, observed: Any = True, ids: Any = None, column_names: list[str] | None = None
) -> None:
    """Refuse infinite values among the observed ones; the error gives the row id and column of the first."""
    infinite = np.isinf(values) & observed
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        called = f"column {column}" if column_names is None else f"column {column_names[column]!r}"
        raise ValueError(
            f"{name}: {values[row, column]} at row {row if ids is None else ids[row]}, {called}; "
            "expected finite numbers, or NaN where an entry is missing"
        )
