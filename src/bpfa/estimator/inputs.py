"""What users hand to the estimator, as rows; and what they get back, in the container they came with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from bpfa._support.checks import Array
from bpfa.backends.cuda.arrays import is_cuda_array, like_cuda_array
from bpfa.data import ArrayRows, Rows, RowSource, as_rows

__all__ = ["like_input", "rows_of_input"]


def rows_of_input(estimator: Any, X: Any, missing: Any = None, *, reset: bool) -> Rows:
    """Return the rows of what a user calls X, and check them against the columns of the fit.

    Parameters
    ----------
    estimator : BPFA
        Gets `n_features_in_` and `feature_names_in_` where `reset` is true, and is checked against else.
    X : array-like, frame, Rows, AnnData, ...
        Arrays and frames go through scikit-learn's own checks; what it does not know through `as_rows`.
    missing : boolean array-like, optional
    reset : bool
    """
    if _is_source(X):
        rows = as_rows(X, missing)
        _check_columns(estimator, rows, reset=reset)
        return rows
    array = validate_data(
        estimator,
        X,
        reset=reset,
        dtype=(np.float64, np.float32),
        ensure_all_finite=False,
        ensure_min_samples=1,
    )
    # Only a fit needs an observed entry: of rows to be transformed, all may be missing.
    return ArrayRows(array, missing, name="X", allow_all_missing=not reset)


def _is_source(X: Any) -> bool:
    """Return whether X is a source of rows or becomes one by another way than through an array."""
    if isinstance(X, (Rows, np.memmap, np.ma.MaskedArray)):
        return True
    library = type(X).__module__.split(".")[0]
    return library in ("anndata", "h5py", "zarr") or hasattr(X, "tocsr") or is_cuda_array(X)


def _check_columns(estimator: Any, rows: RowSource, *, reset: bool) -> None:
    names = rows.column_names
    if reset:
        estimator.n_features_in_ = rows.n_columns
        if names is not None:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return
    expected = estimator.n_features_in_
    if rows.n_columns != expected:
        raise ValueError(
            f"X has {rows.n_columns} features, but {type(estimator).__name__} is expecting {expected} "
            "features as input"
        )
    fitted = getattr(estimator, "feature_names_in_", None)
    if names is not None and fitted is not None and list(fitted) != list(names):
        first = next(i for i, (a, b) in enumerate(zip(fitted, names, strict=True)) if a != b)
        raise ValueError(
            f"X: column {first} is {names[first]!r}; expected {fitted[first]!r}, the columns of the fit in "
            "their order"
        )


def like_input(values: Array | NDArray[Any], X: Any) -> Any:
    """Return a rows x columns array as the frame that X is, on the device where X is, or as it is."""
    if is_cuda_array(X):
        return like_cuda_array(values, X)
    library = type(X).__module__.split(".")[0]
    if library == "pandas":
        return type(X)(values, index=X.index, columns=X.columns)
    if library == "polars":
        return type(X)(values, schema=X.columns)
    return values
