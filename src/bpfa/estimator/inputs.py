"""Conversion of the user's data to rows, and of results back to the kind of container that the user has."""

from __future__ import annotations

import os
import warnings
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import validate_data

from bpfa._support.checks import Array
from bpfa._support.optional import library
from bpfa.backends.registry import array_like, as_rows, on_device
from bpfa.cluster.collections import is_collection, on_workers, open_collection
from bpfa.data import ArrayRows, PanelRows, Rows, RowSource, open_rows
from bpfa.data.formats.tables import entries_that_are_no_numbers
from bpfa.data.scaling import Scale
from bpfa.estimator.batching import labelled_batches
from bpfa.estimator.remote import refuse_batches

__all__ = ["Table", "like_input", "new_table", "rows_like_those_of_the_fit", "warn_of_empty_columns"]

# Columns that a warning lists by name.
MOST_NAMES = 10


class Table(NamedTuple):
    """A data set that has been checked: its rows, and the names of its columns if they have any."""

    rows: RowSource
    names: NDArray[Any] | None
    batches: tuple[tuple[Hashable, ...], NDArray[np.int64]] | None = None
    """The labels of batches, and for each row the number of its batch."""


def new_table(
    estimator: Any,
    X: Any,
    missing: Any = None,
    batch: Any = None,
    client: Any = None,
    n_jobs: int | None = None,
) -> Table:
    """Check the data of a new fit, and return it. The estimator is not changed.

    Parameters
    ----------
    estimator : BPFA
        Only its class is used, for the name in error messages.
    X : array-like, frame, Rows, AnnData, ...
        Arrays and frames are checked by scikit-learn, all other sources by `as_rows`.
    missing : boolean array-like, optional
        True at entries that are missing, in addition to those that are NaN.
    batch : sequence, or str, optional
        The batch of every row, or the name of a column of obs.
    client : distributed.Client, optional
        Whose workers hold the rows.
    n_jobs : int, optional
        Number of threads of this process.
    """
    if is_collection(X) or client is not None:
        refuse_batches(batch)
        return _table(_rows_on_dask(X, missing, client, n_jobs))
    table = _unlabelled_table(estimator, X, missing)
    if batch is None:
        return table
    return table._replace(batches=labelled_batches(X, batch, table.rows.n_rows))


def _table(rows: RowSource) -> Table:
    names = rows.column_names
    return Table(rows, None if names is None else np.asarray(names, dtype=object))


def _rows_on_dask(X: Any, missing: Any, client: Any, n_jobs: int | None = None) -> RowSource:
    """Return rows that the workers of a client hold, or that this process reads window by window."""
    if is_collection(X):
        return open_collection(X, missing=missing, client=client, n_jobs=n_jobs)
    if missing is not None:
        raise ValueError("missing: a mask goes with an array, not with files; expected None")
    is_path = isinstance(X, (str, os.PathLike))
    are_paths = isinstance(X, (list, tuple)) and all(isinstance(path, (str, os.PathLike)) for path in X)
    return on_workers(open_rows(X) if is_path or are_paths else as_rows(X), client)


def _unlabelled_table(estimator: Any, X: Any, missing: Any) -> Table:
    if _is_source(X):
        return _table(as_rows(X, missing))
    # The checks of scikit-learn store attributes on an estimator. They get a temporary one, so that a fit
    # that fails later leaves an earlier model unchanged.
    temporary = type(estimator)()
    rows = ArrayRows(_checked_array(temporary, X, reset=True), missing, name="X")
    return Table(rows, getattr(temporary, "feature_names_in_", None))


def warn_of_empty_columns(scale: Scale, names: NDArray[Any] | None) -> None:
    """Warn that nothing can be said about columns without an observed entry, if there are any."""
    if scale.empty is None or not scale.empty.any():
        return
    places = np.flatnonzero(scale.empty)
    listed = [f"x{d}" if names is None else str(names[d]) for d in places[:MOST_NAMES]]
    more = "" if len(places) <= MOST_NAMES else f" and {len(places) - MOST_NAMES} more"
    warnings.warn(
        f"X: no entry of column{'s' * (len(places) > 1)} {', '.join(listed)}{more} is observed; "
        "impute leaves NaN there",
        # The line that called `fit` or `partial_fit`.
        stacklevel=3,
    )


def rows_like_those_of_the_fit(estimator: Any, X: Any, missing: Any = None) -> RowSource:
    """Check data for a fitted estimator, which must have the columns of the fit, and return its rows."""
    if is_collection(X):
        rows = _rows_on_dask(X, missing, None)
        _check_columns(estimator, rows)
        return rows
    if _is_source(X):
        rows = as_rows(X, missing)
        names = getattr(estimator, "feature_names_in_", None)
        if isinstance(rows, PanelRows) and names is not None:
            rows = rows.with_columns([str(name) for name in names])
        _check_columns(estimator, rows)
        return rows
    # Only a fit needs an observed entry: rows whose missing entries are to be filled in may have none.
    return ArrayRows(_checked_array(estimator, X, reset=False), missing, name="X", allow_all_missing=True)


def _checked_array(estimator: Any, X: Any, *, reset: bool) -> Any:
    try:
        return validate_data(
            estimator,
            X,
            reset=reset,
            dtype=(np.float64, np.float32),
            ensure_all_finite=False,
            ensure_min_samples=1,
        )
    except (ValueError, TypeError) as error:
        if hasattr(X, "columns") or "could not convert" in str(error):
            _refuse_text(X)
        raise


def _refuse_text(X: Any) -> None:
    """Refuse data with a column that does not hold numbers; scikit-learn does not say which column it is."""
    kind = type(X).__module__.split(".")[0]
    if kind in ("pandas", "polars"):
        for label, place in entries_that_are_no_numbers(X, list(X.columns)).items():
            without = f"X.drop(columns={[label]!r}) or X.set_index({label!r})"
            without = without if kind == "pandas" else f"X.drop({label!r})"
            shown = "" if place is None else f" ({place})"
            raise ValueError(
                f"X: column {label!r} is not numbers{shown}; expected numbers, such as {without}"
            )
    elif np.ndim(X) == 2:
        for (row, column), entry in np.ndenumerate(np.asarray(X, dtype=object)):
            if isinstance(entry, str) and not _is_number(entry):
                raise ValueError(
                    f"X: column {column} is not numbers ({entry!r} in row {row}); expected numbers"
                )


def _is_number(entry: str) -> bool:
    try:
        float(entry)
    except ValueError:
        return False
    return True


def _is_source(X: Any) -> bool:
    """Return whether X is a source of rows, or is turned into one without becoming an array first."""
    if isinstance(X, (Rows, np.memmap, np.ma.MaskedArray)):
        return True
    kind = type(X).__module__.split(".")[0]
    return kind in ("anndata", "h5py", "zarr") or sparse.issparse(X) or on_device(X) is not None


def _check_columns(estimator: Any, rows: RowSource) -> None:
    """Raise an error if the columns of the rows are not those of the fit."""
    expected = estimator.n_features_in_
    if rows.n_columns != expected:
        raise ValueError(
            f"X has {rows.n_columns} features, but {type(estimator).__name__} is expecting {expected} "
            "features as input"
        )
    names, fitted = rows.column_names, getattr(estimator, "feature_names_in_", None)
    if names is not None and fitted is not None and list(fitted) != list(names):
        first = next(i for i, (a, b) in enumerate(zip(fitted, names, strict=True)) if a != b)
        raise ValueError(
            f"X: column {first} is {names[first]!r}; expected {fitted[first]!r}, as the columns of the fit "
            "in the same order"
        )


def like_input(values: Array | NDArray[Any], X: Any, rows: RowSource) -> Any:
    """Return a rows x columns array as a frame if X is one, and otherwise as an array where X is stored.

    Panels, whose columns are matched by name, become a frame of pandas with all columns.

    Parameters
    ----------
    values : array
    X : array-like, frame, Rows, AnnData, ...
    rows : RowSource
        The rows of X, with the columns of the fit.
    """
    if isinstance(rows, PanelRows):
        pandas = library("pandas", "tables", purpose="a frame of several panels needs pandas")
        names = rows.row_names()
        index = None if names is None else names.to_pandas()
        return pandas.DataFrame(values, index=index, columns=rows.column_names)
    kind = type(X).__module__.split(".")[0]
    if kind == "pandas":
        return type(X)(values, index=X.index, columns=X.columns)
    if kind == "polars":
        return type(X)(values, schema=X.columns)
    return array_like(values, X)
