"""Rows of a data frame of pandas or polars."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from bpfa.data.formats.columns import Choice, choose_columns, refuse_text
from bpfa.data.row_names import RowNames
from bpfa.data.rows import ArrayRows

__all__ = ["TableRows"]


class TableRows(ArrayRows):
    """Rows of a data frame of pandas or polars, kept as an array in memory; NA and null mean missing.

    Parameters
    ----------
    frame : pandas.DataFrame or polars.DataFrame
        The names of the rows are the index of a frame of pandas, unless it only numbers them.
    columns : list of str, optional
        Columns to use, in this order. By default all columns are used, and all must hold numbers.
    missing : boolean array-like, optional
        True where an entry is missing; entries that are missing in the frame are missing in any case.
    name : str
        What error messages call the table.
    index : str, int, list of them, or False, optional
        Columns with names of rows, by name or position, instead of the index; False means that rows have no
        names.
    exclude : list of str, optional
        Columns to leave out.

    See Also
    --------
    bpfa.open_rows : Open a file, a frame or several of them.
    bpfa.data.RowSource : The base of all sources.

    Examples
    --------
    >>> import pandas
    >>> rows = TableRows(pandas.DataFrame({"a": [1, 2], "b": [0.5, None]}))
    >>> rows.column_names, rows.take(np.array([1])).observed
    (['a', 'b'], array([[ True, False]]))
    >>> frame = pandas.DataFrame({"a": [1], "donor": ["p7"]})
    >>> TableRows(frame)
    Traceback (most recent call last):
    ...
    TypeError: data: column 'donor' is not numbers ('p7' in row 0); expected numbers, index=['donor'] if it \
names the rows, or exclude=['donor']
    >>> TableRows(frame, index="donor").row_names().values
    (array(['p7'], dtype=object),)
    """

    def __init__(
        self,
        frame: Any,
        columns: Sequence[str] | None = None,
        missing: Any = None,
        name: str = "data",
        index: Any = None,
        exclude: Sequence[str] | None = None,
    ) -> None:
        convert = _from_polars if type(frame).__module__.startswith("polars") else _from_pandas
        array, labels, self._names = convert(frame, Choice(columns, index, exclude), name)
        super().__init__(array, missing, name=name, column_names=[str(label) for label in labels])

    def row_names(self) -> RowNames | None:
        """Return the names of the rows."""
        return self._names


def _from_pandas(frame: Any, given: Choice, name: str) -> tuple[Any, list[Any], RowNames | None]:
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"{name}: two columns are called {twice!r}; expected different names")
    labels = list(frame.columns)
    wanted, names = choose_columns(name, labels, given)
    chosen = [labels[at] for at in wanted]
    if other := entries_that_are_no_numbers(frame, chosen):
        refuse_text(name, other)
    single = all(str(frame[label].dtype).lower() == "float32" for label in chosen)
    array = frame[chosen].to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
    if given.index is None:
        return array, chosen, RowNames.from_pandas(frame.index)
    columns = tuple(frame[labels[at]].to_numpy(dtype=object) for at in names)
    return array, chosen, RowNames(tuple(str(labels[at]) for at in names), columns) if names else None


def _from_polars(frame: Any, given: Choice, name: str) -> tuple[Any, list[Any], RowNames | None]:
    polars = importlib.import_module("polars")
    labels = list(frame.columns)
    wanted, names = choose_columns(name, labels, given)
    chosen, schema = [labels[at] for at in wanted], frame.schema
    if other := entries_that_are_no_numbers(frame, chosen):
        refuse_text(name, other)
    single = all(schema[label] == polars.Float32 for label in chosen)
    array = frame.select(polars.col(chosen).cast(polars.Float32 if single else polars.Float64)).to_numpy()
    columns = tuple(np.array(frame[labels[at]].to_list(), dtype=object) for at in names)
    return array, chosen, RowNames(tuple(labels[at] for at in names), columns) if names else None


def entries_that_are_no_numbers(frame: Any, labels: Sequence[Any]) -> dict[Any, str | None]:
    """Return the columns of a frame whose type is not one of numbers, each with its first such entry.

    Examples
    --------
    >>> import pandas
    >>> entries_that_are_no_numbers(pandas.DataFrame({"a": [1], "donor": ["p7"]}), ["a", "donor"])
    {'donor': "'p7' in row 0"}
    """
    if type(frame).__module__.startswith("polars"):
        boolean = importlib.import_module("polars").Boolean
        other = [at for at in labels if not frame.schema[at].is_numeric() and frame.schema[at] != boolean]
    else:
        types = importlib.import_module("pandas").api.types
        kinds = frame.dtypes
        other = [
            at for at in labels if not types.is_numeric_dtype(kinds[at]) or types.is_complex_dtype(kinds[at])
        ]
    return {label: _first_text(frame[label]) for label in other}


def _first_text(column: Any) -> str | None:
    """Return the first entry of a column that is neither a number nor missing, and where it is."""
    for row, value in enumerate(column):
        number = isinstance(value, (float, int, np.floating, np.integer))
        if not number and value is not None and str(value) not in ("NaT", "<NA>"):
            return f"{str(value)!r} in row {row}"
    return None
