"""Rows of a table: a data frame of pandas or polars, or a CSV file that one of them reads."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bpfa.data.formats.files import existing_path, name_file_in_errors
from bpfa.data.rows import ArrayRows

__all__ = ["TableRows", "read_csv"]


class TableRows(ArrayRows):
    """Rows of a data frame of pandas or polars, kept as an array in memory; NA and null mean missing.

    Parameters
    ----------
    frame : pandas.DataFrame or polars.DataFrame
    columns : list of str, optional
        Columns to use, in this order. By default all columns are used, and all must hold numbers.
    missing : boolean array-like, optional
        True where an entry is missing; entries that are missing in the frame are missing in any case.
    name : str
        What error messages call the table.

    Examples
    --------
    >>> import pandas
    >>> rows = TableRows(pandas.DataFrame({"a": [1, 2], "b": [0.5, None]}))
    >>> rows.column_names, rows.take(np.array([1])).observed
    (['a', 'b'], array([[ True, False]]))
    >>> TableRows(pandas.DataFrame({"a": [1], "donor": ["p7"]}))
    Traceback (most recent call last):
    ...
    TypeError: data: column 'donor' is not numbers; expected numbers, or a choice such as columns=['a']
    """

    def __init__(
        self, frame: Any, columns: Sequence[str] | None = None, missing: Any = None, name: str = "data"
    ) -> None:
        convert = _from_polars if type(frame).__module__.startswith("polars") else _from_pandas
        array, chosen = convert(frame, columns, name)
        super().__init__(array, missing, name=name)
        self.column_names = [str(column) for column in chosen]


def read_csv(
    path: str | os.PathLike[str], columns: Sequence[str] | None = None, *, separator: str = ","
) -> TableRows:
    r"""Read a CSV file with a header into memory, through pandas or polars, whichever is installed.

    A file that is too large for memory is best converted to Parquet once.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "data.csv")
    ...     _ = path.write_text("a,b\n1,2\n3,\n")
    ...     read_csv(path).take(np.array([1])).observed
    array([[ True, False]])
    """
    path = existing_path(path)
    for module, option in (("pandas", "sep"), ("polars", "separator")):
        if importlib.util.find_spec(module):
            with name_file_in_errors(path):
                frame = importlib.import_module(module).read_csv(path, **{option: separator})
            return TableRows(frame, columns, name=str(path))
    raise ImportError("reading CSV files needs pandas or polars: pip install pandas")


def _from_pandas(frame: Any, columns: Sequence[str] | None, name: str) -> tuple[Any, list[str]]:
    types = importlib.import_module("pandas").api.types
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"{name}: two columns are called {twice!r}; expected different names")
    numeric = {
        column: types.is_numeric_dtype(kind) and not types.is_complex_dtype(kind)
        for column, kind in frame.dtypes.items()
    }
    chosen = chosen_columns(name, numeric, columns)
    single = all(str(frame[column].dtype).lower() == "float32" for column in chosen)
    return frame[chosen].to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan), chosen


def _from_polars(frame: Any, columns: Sequence[str] | None, name: str) -> tuple[Any, list[str]]:
    polars = importlib.import_module("polars")
    numeric = {column: kind.is_numeric() or kind == polars.Boolean for column, kind in frame.schema.items()}
    chosen = chosen_columns(name, numeric, columns)
    single = all(frame.schema[column] == polars.Float32 for column in chosen)
    kind = polars.Float32 if single else polars.Float64
    return frame.select(polars.col(chosen).cast(kind)).to_numpy(), chosen


def chosen_columns(name: str, numeric: Mapping[str, bool], columns: Sequence[str] | None) -> list[str]:
    """Return the requested columns, or all by default; refuse columns that do not exist or hold no numbers.

    `numeric` tells for each column of the table whether it holds numbers.
    """
    if isinstance(columns, str):
        raise TypeError(f"columns={columns!r}: expected a list of names")
    chosen = list(numeric) if columns is None else list(columns)
    for column in chosen:
        if column not in numeric:
            known = ", ".join(map(repr, numeric))
            raise ValueError(
                f"columns: {column!r} is not in {name}, which has {known}; expected some of these"
            )
        if not numeric[column]:
            numbers = [other for other in numeric if numeric[other]]
            raise TypeError(
                f"{name}: column {column!r} is not numbers; "
                f"expected numbers, or a choice such as columns={numbers[:3]}"
            )
    if not chosen:
        raise ValueError(f"columns: none of {name}; expected at least one")
    return chosen
