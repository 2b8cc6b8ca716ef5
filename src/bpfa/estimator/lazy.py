"""Predictions for the rows of Dask collections: lazy collections with the same chunks."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.optional import library
from bpfa.cluster.collections import PURPOSE, mask_applied, open_collection, whole_rows
from bpfa.cluster.parts import ChunkKind
from bpfa.data import ArrayRows
from bpfa.estimator.hidden_entries import HiddenEntries, SeenInFitWarning, warn_of_seen_entries
from bpfa.prediction.scores import HeldOutScore

__all__ = ["imputed_lazily", "scored_lazily", "transformed_lazily"]


def transformed_lazily(model: Any, X: Any, missing: Any = None, *, double: bool = False) -> Any:
    """Return the weights of the rows of a Dask collection, as a collection with the same chunks.

    Parameters
    ----------
    model : BPFA
    X : dask.array.Array or dask.dataframe.DataFrame
    missing : boolean array-like, optional
    double : bool
        Return weights in double precision, even of rows in single precision.
    """
    if model.sparse_output:
        raise ValueError("sparse_output=True: not for Dask collections; expected False")
    names = list(model.get_feature_names_out())
    return _by_blocks(model, X, missing, _double_weights if double else _weights, names)


def imputed_lazily(model: Any, X: Any, missing: Any, *, return_std: bool, n_draws: int) -> Any:
    """Return a Dask collection with its missing entries filled in, and their deviations on request.

    Parameters
    ----------
    model : BPFA
    X : dask.array.Array or dask.dataframe.DataFrame
    missing : boolean array-like, optional
    return_std : bool
    n_draws : int
    """
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else list(range(X.shape[1]))
    if not return_std:
        return _by_blocks(model, X, missing, _imputed, names, n_draws=n_draws)
    # One task finds both, side by side, so that whoever computes both together waits once.
    width, labels = len(names), [*names, *(f"{name} (std)" for name in names)]
    both = _by_blocks(model, X, missing, _imputed_with_std, labels, n_draws=n_draws)
    if not hasattr(X, "columns"):
        return both[:, :width], both[:, width:]
    spread = both[labels[width:]].rename(columns=dict(zip(labels[width:], names, strict=True)))
    return both[names], spread


def _by_blocks(model: Any, X: Any, missing: Any, function: Any, names: list[Any], **options: Any) -> Any:
    """Apply a function to every chunk, when the result is computed."""
    dask = library("dask", "dask", purpose=PURPOSE)
    dask_array = library("dask.array", "dask", purpose=PURPOSE)
    own = copy.copy(model)
    # Every worker makes its calls side by side, each with a single thread.
    own.set_params(n_jobs=1)
    shared = dask.delayed(own, pure=True)
    if not isinstance(X, dask_array.Array):
        if missing is not None:
            raise ValueError("missing: a mask goes with a Dask array, not with a dataframe; expected None")
        _check_columns(model, [str(name) for name in X.columns])
        pandas = library("pandas", "tables")
        meta = pandas.DataFrame({name: np.empty(0) for name in names})
        meta.index = X._meta.index[:0]
        return X.map_partitions(_frame, shared, function, names, meta=meta, **options)
    X = mask_applied(whole_rows(X, "X"), missing)
    if X.shape[1] != model.n_features_in_:
        raise ValueError(f"X: {X.shape[1]} columns; expected {model.n_features_in_}, as in the fit")
    single = X.dtype == np.float32 and function is _weights
    dtype = np.dtype(np.float32 if single else np.float64)
    chunks = (X.chunks[0], (len(names),))
    return X.map_blocks(
        _block,
        shared,
        function,
        len(names),
        dtype=dtype,
        chunks=chunks,
        meta=np.empty((0, 0), dtype),
        **options,
    )


def _check_columns(model: Any, names: list[str]) -> None:
    fitted = getattr(model, "feature_names_in_", None)
    expected = names if fitted is None else [str(name) for name in fitted]
    if len(names) != model.n_features_in_ or names != expected:
        raise ValueError(
            f"X: the columns {names[:5]} ...; expected the {model.n_features_in_} columns of the fit"
        )


def _block(block: Any, model: Any, function: Any, n_columns: int, **options: Any) -> NDArray[Any]:
    """Return what a function finds in a chunk of an array, which may have no rows."""
    if not len(block):
        return np.empty((0, n_columns), dtype=np.float64)
    found: NDArray[Any] = function(model, np.asarray(block), **options)
    return found


def _frame(frame: Any, model: Any, function: Any, names: list[Any], **options: Any) -> Any:
    """Return what a function finds in a partition of a dataframe, as a frame with the same index."""
    values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    found = _block(values, model, function, len(names), **options)
    return type(frame)(found, index=frame.index, columns=names)


def _unnamed(model: Any) -> Any:
    """Return a model that does not ask for the names of columns, which have been checked."""
    own = copy.copy(model)
    if hasattr(own, "feature_names_in_"):
        del own.feature_names_in_
    return own


def _weights(model: Any, values: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = _unnamed(model).transform(values)
    return found


def _double_weights(model: Any, values: NDArray[Any]) -> NDArray[Any]:
    # Only arrays have a precision that the weights take on.
    found: NDArray[Any] = _unnamed(model).transform(ArrayRows(values, allow_all_missing=True))
    return found


def _imputed(model: Any, values: NDArray[Any], *, n_draws: int) -> NDArray[Any]:
    filled: NDArray[Any] = _unnamed(model).impute(values, n_draws=n_draws)
    return filled.astype(np.float64, copy=False)


def _imputed_with_std(model: Any, values: NDArray[Any], *, n_draws: int) -> NDArray[Any]:
    return np.hstack(_unnamed(model).impute(values, n_draws=n_draws, return_std=True))


def scored_lazily(model: Any, X: Any, n_draws: int) -> Any:
    """Return the score of a Dask collection as a Dask array without axes.

    Which entries are scored is decided now, for which 256 rows are read. Whether the fit has seen them is
    found out on the way, and said by a warning when the score is computed.

    Parameters
    ----------
    model : BPFA
    X : dask.array.Array or dask.dataframe.DataFrame
    n_draws : int
    """
    dask = library("dask", "dask", purpose=PURPOSE)
    dask_array = library("dask.array", "dask", purpose=PURPOSE)
    rows = open_collection(X, say_where=False)
    if rows.n_columns != model.n_features_in_:
        raise ValueError(f"X: {rows.n_columns} columns; expected {model.n_features_in_}, as in the fit")
    hidden = HiddenEntries(rows, model._outcome)
    own = copy.copy(model)
    own.set_params(n_jobs=1)
    shared = dask.delayed(own, pure=True)
    template = dask.delayed(hidden.moved_to(rows.nothing()), pure=False, traverse=False)
    part = dask.delayed(_part_score, pure=False)
    parts = [
        part(shared, template, rows.kind, chunk, number, n_draws) for number, chunk in enumerate(rows.chunks)
    ]
    whole = dask.delayed(_whole_score, pure=False)(parts)
    return dask_array.from_delayed(whole, shape=(), dtype=np.float64)


def _part_score(
    model: Any, template: HiddenEntries, kind: ChunkKind, chunk: Any, number: int, n_draws: int
) -> tuple[HeldOutScore | None, HiddenEntries]:
    """Return the score of a chunk, if any of its entries are scored, and the counts of its hidden entries."""
    hidden = template.moved_to(kind.rows(chunk, number))
    scores = [score for score in model._scores_of(hidden, n_draws) if score.n_entries]
    return (HeldOutScore.over(scores) if scores else None), hidden.moved_to(None)


def _whole_score(parts: list[tuple[HeldOutScore | None, HiddenEntries]]) -> NDArray[np.float64]:
    """Return the score of all chunks, and warn if the fit has seen the entries."""
    scores = [score for score, _ in parts if score is not None]
    hidden = parts[0][1]
    for _, more in parts[1:]:
        hidden = hidden.merged(more)
    hidden.check_some()
    with warnings.catch_warnings():
        warnings.simplefilter("always", SeenInFitWarning)
        warn_of_seen_entries(hidden.label)
    return np.asarray(HeldOutScore.over(scores).log_likelihood)
