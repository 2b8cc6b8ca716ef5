"""Labelled pandas frames, as the diagnostics of a model return them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.optional import library
from bpfa.estimator.transform import TransformMixin

__all__ = [
    "column_labels",
    "component_labels",
    "frame",
    "label_columns",
    "ratio",
    "rows_per_block",
    "shortened",
]

# Entries, or weights where a row has more of them, in a block of rows. Diagnostics work on one block at a
# time, which takes some tens of MiB of memory.
BLOCK_ENTRIES = 2**18


def frame(columns: dict[str, Any], index: Any = None, index_name: str | None = None) -> Any:
    """Return a pandas frame with the given columns and, optionally, a named index.

    Examples
    --------
    >>> frame({"usage": [0.5, 0.1]}, index=["bpfa0", "bpfa1"]).loc["bpfa1", "usage"]
    np.float64(0.1)
    """
    pandas = library("pandas", "tables", purpose="the frames of a model need pandas")
    return pandas.DataFrame(columns, index=None if index is None else pandas.Index(index, name=index_name))


def label_columns(name: str, values: Any, data_columns: NDArray[Any] | None) -> dict[str, Any]:
    """Return the columns that label the rows of a frame.

    Parameters
    ----------
    name : str
        Name of the first label.
    values : sequence
        Its values.
    data_columns : array of str or None
        If given, each value is combined with each of these columns of the data.

    Examples
    --------
    >>> labels = label_columns("level", [0.5, 0.8], np.array(["x0", "x1"], dtype=object))
    >>> labels["level"].tolist(), labels["column"].tolist()
    ([0.5, 0.5, 0.8, 0.8], ['x0', 'x1', 'x0', 'x1'])
    """
    if data_columns is None:
        return {name: values}
    return {name: np.repeat(values, len(data_columns)), "column": np.tile(data_columns, len(values))}


def column_labels(model: TransformMixin) -> NDArray[Any]:
    """Return the names of the columns of the data, or x0, x1, ... if they have no names."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = [f"x{d}" for d in range(len(model.scale_))]
    return np.asarray(names, dtype=object)


def component_labels(model: TransformMixin) -> NDArray[Any]:
    """Return the names of the components, which are also those of the columns that `transform` returns."""
    return np.asarray(model.get_feature_names_out(), dtype=object)


def shortened(name: object, most: int = 24) -> str:
    """Return a name without its middle, if it has too many characters; names often differ at their ends.

    Examples
    --------
    >>> shortened("a channel with a long name (CD4)", most=16)
    'a channe…e (CD4)'
    """
    text = str(name)
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\N{HORIZONTAL ELLIPSIS}{text[-(most - most // 2 - 1) :]}"


def rows_per_block(model: TransformMixin) -> int:
    """Return how many rows diagnostics work on at a time."""
    return int(max(1, BLOCK_ENTRIES // max(model.components_.shape)))


def ratio(part: Array, whole: Array) -> Array:
    """Return part / whole, or NaN where the whole is 0.

    Examples
    --------
    >>> ratio(np.array([1.0, 0.0]), np.array([2.0, 0.0]))
    array([0.5, nan])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole > 0, part / whole, np.nan)
