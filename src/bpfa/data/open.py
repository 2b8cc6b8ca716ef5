"""The entrance for data: any file or object that holds a matrix, as a source of rows."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from bpfa.data.concat import ConcatRows
from bpfa.data.formats.anndata import AnnDataRows
from bpfa.data.formats.delimited import TextRows
from bpfa.data.formats.fcs import FCSRows
from bpfa.data.formats.files import FileRows, existing_path, key_of_matrix, name_file_in_errors
from bpfa.data.formats.hdf5 import HDF5Rows
from bpfa.data.formats.memmap import MemmapRows
from bpfa.data.formats.parquet import ParquetRows
from bpfa.data.formats.sparse import SparseRows
from bpfa.data.formats.tables import TableRows
from bpfa.data.formats.text import TEXT_SUFFIXES, text_suffix
from bpfa.data.formats.zarr import ZarrRows
from bpfa.data.panels import PanelRows
from bpfa.data.rows import ArrayRows, Rows, RowSource, as_source

__all__ = ["as_rows", "open_rows"]


def open_rows(source: Any, **options: Any) -> RowSource:
    """Open a file, several files or an object as a source of rows.

    Files are read while rows are needed, so that a large file needs no more memory than a small one; only
    .npz, .csv and .tsv files are read into memory as a whole. NaN, NA and null mean missing, and infinity is
    refused when it is read. Names of rows are not data; `row_names()` of the result returns them. What was
    found out about a file is in `reading` of the result, and the logger "bpfa" reports it.

    Parameters
    ----------
    source : path, list of paths, or object; with `columns="union"`, list or dict of paths and objects
        The suffix of a path gives the kind of file: .npy, .npz, .csv, .tsv, .csv.gz, .tsv.gz, .parquet, .h5,
        .hdf5, .h5ad, .zarr or .fcs. The rows of several files follow one another. An object may be an array,
        a `numpy.memmap`, a sparse matrix of SciPy, a data frame of pandas or polars, an `h5py.Dataset`, a
        `zarr.Array` or an `anndata.AnnData`.
    **options
        Depending on the kind of source:

        - `key`, the name of an array, for .npz, HDF5 and Zarr;
        - `columns="union"` for several sources with different columns: they become one table with all columns
          that any of them has. Columns are matched by name, and are missing in the sources that do not have
          them. The sources may be paths, data frames, AnnData objects or results of `open_rows`, also as a
          dict with a name for each.
          `overlap` of the result reports which source has which columns (see `PanelRows`). By default, and
          with `columns="exact"`, all sources must have the same columns;
        - `columns` and `exclude`, lists of names of columns to use and to leave out, and `index`, the columns
          with names of rows, for tables: .csv, .tsv, .parquet and data frames (see `TextRows`, `ParquetRows`
          and `TableRows`);
        - `separator`, `decimal` and `header` for .csv and .tsv, as far as they should not be found out (see
          `TextRows`);
        - `absent`, "missing" or "zero", what it means if a sparse matrix does not store an entry (see
          `SparseRows`);
        - `layer`, the name of a layer of AnnData;
        - `channels`, `exclude` and `cofactor` for FCS files (see `FCSRows`).

    Returns
    -------
    RowSource

    See Also
    --------
    bpfa.BPFA.fit : Learn from a whole table.
    bpfa.data.as_rows : Data of any kind as rows.
    bpfa.data.PanelRows : Several sources with different columns.

    Examples
    --------
    >>> matrix = sparse.csr_array([[0.0, 2.0], [3.0, 0.0]])
    >>> open_rows(matrix, absent="zero").take(np.array([0])).values
    array([[0., 2.]])
    >>> import pandas
    >>> blood, marrow = pandas.DataFrame({"CD3": [1.0], "CD4": [2.0]}), pandas.DataFrame({"CD4": [3.0]})
    >>> rows = open_rows({"blood": blood, "marrow": marrow}, columns="union")
    >>> rows.column_names, rows.read(0, 2).observed
    (['CD3', 'CD4'], array([[ True,  True],
           [False,  True]]))
    >>> open_rows("a.doc")
    Traceback (most recent call last):
    ...
    ValueError: a.doc: suffix '.doc'; expected one of .npy .npz .csv .tsv .csv.gz .tsv.gz .parquet .h5 .hdf5 \
.h5ad .zarr .fcs
    """
    if isinstance(columns := options.get("columns"), str):
        if columns not in JOINS:
            raise ValueError(f"columns={columns!r}: expected 'union' or 'exact', or a list of names")
        join = JOINS[options.pop("columns")]
        return join(*_several(source, options))
    if _is_path(source):
        rows = _open(*_path_opener(source), source, options)
        if rows.reading is not None:
            logging.getLogger("bpfa").info("reading %s: %s", source, rows.reading)
        return rows
    if isinstance(source, (list, tuple)) and (not source or any(map(_is_path, source))):
        if not all(map(_is_path, source)):
            raise TypeError("source: a list of paths and other objects; expected only paths")
        return ConcatRows([open_rows(path, **options) for path in source])
    parts = (
        source.values() if isinstance(source, dict) else source if isinstance(source, (list, tuple)) else ()
    )
    if any(isinstance(part, Rows) or _class_opener(part) for part in parts):
        raise ValueError(
            f"source: a {type(source).__name__} of tables; expected columns='union', or columns='exact' if "
            "all have the same"
        )
    if isinstance(source, Rows):
        return _open("a source of rows", lambda rows: as_source("source", rows), source, options)
    return _open(*_object_opener(source), source, options)


def _several(source: Any, options: dict[str, Any]) -> tuple[list[RowSource], list[str]]:
    """Open several sources; return them and what errors and reports call them."""
    named = source if isinstance(source, dict) else {}
    sources = list(named.values()) if named else source if isinstance(source, (list, tuple)) else [source]
    names = [str(name) for name in named] or [_name_of(each, i) for i, each in enumerate(sources)]
    opened = []
    for name, each in zip(names, sources, strict=True):
        try:
            opened.append(open_rows(each, **options))
        except (ValueError, TypeError) as error:
            if _is_path(each):
                raise
            # The error calls an object by what it is, and does not say which one of several it is.
            raise type(error)(f"{name}: {error}") from error
    return opened, _told_apart(names)


def _name_of(source: Any, place: int) -> str:
    if isinstance(source, FileRows | TextRows):
        return source.name
    return str(source) if _is_path(source) else f"panel {place}"


def _told_apart(names: list[str]) -> list[str]:
    """Return names of which no two are equal.

    Examples
    --------
    >>> _told_apart(["a.csv", "b.csv", "a.csv"])
    ['a.csv (1)', 'b.csv', 'a.csv (3)']
    """
    return [name if names.count(name) == 1 else f"{name} ({i})" for i, name in enumerate(names, start=1)]


def _joined_exactly(sources: list[RowSource], names: list[str]) -> RowSource:
    return ConcatRows(sources)


def as_rows(data: Any, missing: Any = None) -> RowSource:
    """Return `data`, which is most often an array, as a source of rows.

    Parameters
    ----------
    data : Rows, or an object that `open_rows` accepts
        A `RowSource` is returned unchanged.
    missing : boolean array-like of the same shape, optional
        True where an entry is missing; entries that are NaN are missing in any case. Only for data in memory.

    Returns
    -------
    RowSource

    See Also
    --------
    bpfa.open_rows : Open a file, a frame or several of them.
    bpfa.data.as_source : Rows with windows and names.

    Examples
    --------
    >>> as_rows([[1.0, 2.0], [np.nan, 4.0]]).n_rows
    2
    """
    if _is_path(data):
        raise TypeError(f"data={str(data)!r}: a path; expected numbers, or a file opened by bpfa.open_rows")
    if isinstance(data, Rows):
        if missing is not None:
            raise ValueError("missing: a mask goes with an array, not with a source of rows; expected None")
        return as_source("data", data)
    kind, opener = _object_opener(data)
    if missing is None:
        return _open(kind, opener, data, {})
    if opener is TableRows:
        return TableRows(data, missing=missing)
    if opener in (ArrayRows, MemmapRows):
        return ArrayRows(data, missing)
    raise ValueError(f"missing: a mask goes with an array or a table, not with {kind}; expected None")


def _is_path(source: Any) -> bool:
    return isinstance(source, (str, os.PathLike))


def _open(kind: str, opener: Callable[..., RowSource], source: Any, options: dict[str, Any]) -> RowSource:
    """Call an opener, after checking that it knows all options, and that none is missing."""
    parameters = list(inspect.signature(opener).parameters.values())[1:]
    known = [parameter.name for parameter in parameters if parameter.name in OPTIONS]
    for name in options:
        if name not in known:
            raise TypeError(f"{name}: not an option of {kind}; expected {', '.join(known) or 'no options'}")
    if opener is SparseRows and "absent" not in options:
        raise ValueError(
            "data: a sparse matrix, which does not say what absent entries mean; "
            'expected bpfa.open_rows(X, absent="missing") or bpfa.open_rows(X, absent="zero")'
        )
    return opener(source, **options)


def open_npz(path: str | os.PathLike[str], key: str | None = None, absent: str | None = None) -> RowSource:
    """Read into memory an array of an .npz file, or the sparse matrix that `scipy.sparse.save_npz` wrote.

    Other arrays of the file are not read.
    """
    path = existing_path(path)
    with name_file_in_errors(path), open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
        shapes = _shapes_in_npz(file)
    if {"format", "shape", "data"} <= set(shapes):
        if key is not None:
            raise ValueError(f"key={key!r}: {path} is one sparse matrix; expected None")
        with name_file_in_errors(path):
            matrix = sparse.load_npz(path)
        return _open(f"{path}", SparseRows, matrix, {} if absent is None else {"absent": absent})
    if absent is not None:
        raise ValueError(f"absent={absent!r}: {path} is not a sparse matrix; expected None")
    key = key_of_matrix(str(path), key, shapes)
    with name_file_in_errors(path), open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
        array = file[key]
    return ArrayRows(array, name=str(path))


def _shapes_in_npz(file: Any) -> dict[str, tuple[int, ...]]:
    """Return the shape of every array of an open .npz file, of which only the headers are read."""
    shapes, members = {}, set(file.zip.namelist())
    for name in file.files:
        if f"{name}.npy" in members:
            with file.zip.open(f"{name}.npy") as stream:
                version = np.lib.format.read_magic(stream)
                # Later versions differ from 2.0 only in the encoding of the names of fields.
                one = version == (1, 0)
                read = np.lib.format.read_array_header_1_0 if one else np.lib.format.read_array_header_2_0
                shapes[name] = read(stream)[0]
    return shapes


JOINS: dict[str, Callable[[list[RowSource], list[str]], RowSource]] = {
    "union": PanelRows,
    "exact": _joined_exactly,
}
BY_SUFFIX: dict[str, Callable[..., RowSource]] = {
    ".npy": MemmapRows,
    ".npz": open_npz,
    **dict.fromkeys(TEXT_SUFFIXES, TextRows),
    ".parquet": ParquetRows,
    ".h5": HDF5Rows,
    ".hdf5": HDF5Rows,
    ".h5ad": AnnDataRows,
    ".zarr": ZarrRows,
    ".fcs": FCSRows,
}
# Objects are recognised by the names of their library and class, so that no library needs to be imported.
BY_CLASS: dict[tuple[str, str], Callable[..., RowSource]] = {
    ("pandas", "DataFrame"): TableRows,
    ("polars", "DataFrame"): TableRows,
    ("h5py", "Dataset"): HDF5Rows,
    ("zarr", "Array"): ZarrRows,
    ("zarr", "Group"): ZarrRows,
    ("anndata", "AnnData"): AnnDataRows,
}
OPTIONS = (
    *("key", "columns", "index", "exclude", "separator", "decimal", "header"),
    *("absent", "layer", "channels", "cofactor"),
)


def _path_opener(path: str | os.PathLike[str]) -> tuple[str, Callable[..., RowSource]]:
    suffix = text_suffix(path)
    if suffix not in BY_SUFFIX:
        raise ValueError(f"{os.fspath(path)}: suffix {suffix!r}; expected one of {' '.join(BY_SUFFIX)}")
    if existing_path(path).is_dir() and suffix != ".zarr":
        raise ValueError(f"{os.fspath(path)}: a directory; expected a file, or a list of files")
    return f"{suffix} files", BY_SUFFIX[suffix]


def _class_opener(source: Any) -> tuple[str, Callable[..., RowSource]] | None:
    """Return what opens an object of another library, and what errors call it; None if it is none of them."""
    for kind in type(source).__mro__:
        found = BY_CLASS.get((kind.__module__.partition(".")[0], kind.__name__))
        if found is not None:
            return f"{kind.__module__.partition('.')[0]}.{kind.__name__}", found
    return None


def _object_opener(source: Any) -> tuple[str, Callable[..., RowSource]]:
    found = _class_opener(source)
    if found is not None:
        return found
    if sparse.issparse(source):
        return "a sparse matrix", SparseRows
    # Changes to an array that is mapped privately (mode "c") are in memory only, not in the file.
    if isinstance(source, np.memmap) and source.filename is not None and source.mode != "c":
        return "numpy.memmap", MemmapRows
    return "an array", ArrayRows
