"""Mean and scale of the columns, computed in one pass, and rows scaled to mean 0 and scale 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array, check_array
from bpfa.data.blocks import BLOCK_ENTRIES, sequential
from bpfa.data.mapped import MappedRows
from bpfa.data.rows import Batch, Rows, as_source

__all__ = ["ColumnMoments", "Scale", "StandardisedRows", "column_moments"]

# A column is constant if its standard deviation is at most this many times the rounding error of its mean.
ROUNDINGS = 8


@dataclass(frozen=True)
class ColumnMoments:
    """Number, mean and standard deviation of the observed entries of every column."""

    n_observed: NDArray[np.int64]
    mean: Array
    """0 where nothing is observed."""
    std: Array
    """The sum of squares is divided by n, not by n - 1; 0 where nothing is observed."""

    @property
    def scale(self) -> Array:
        """The standard deviation, or 1 where a column is constant or entirely missing."""
        varies = self.std > ROUNDINGS * np.finfo(np.float64).eps * np.abs(self.mean)
        return np.where(varies, self.std, 1.0)


class Scale(NamedTuple):
    """The units of a model, column by column.

    Examples
    --------
    >>> Scale(np.zeros(2), np.array([1.0, 10.0]), np.array([1.0, 0.5])).unit
    array([1., 5.])
    """

    mean: Array
    """Subtracted from a column before it enters the model."""
    scale: Array
    """By which a column is divided when it is standardised."""
    noise_ratio: Array
    """Noise of a column relative to that of the other columns, both in units of `scale`."""

    @property
    def unit(self) -> Array:
        """The amount, in the units of the data, that is 1 in the model."""
        unit: Array = self.scale * self.noise_ratio
        return unit


def column_moments(rows: Rows) -> ColumnMoments:
    """Return the moments of the columns of a source, which is read once.

    Blocks of rows are merged by the formula of Chan, Golub & LeVeque (1983), in double precision, so that the
    result is accurate even if the mean is far larger than the standard deviation.

    Parameters
    ----------
    rows : Rows

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> moments = column_moments(ArrayRows([[1.0, 5.0, np.nan], [3.0, 5.0, np.nan]]))
    >>> moments.n_observed, moments.mean, moments.scale
    (array([2, 2, 0]), array([2., 5., 0.]), array([1., 1., 1.]))
    """
    rows = as_source("rows", rows)
    n, mean, squares = (
        np.zeros(rows.n_columns, dtype=np.int64),
        np.zeros(rows.n_columns),
        np.zeros(rows.n_columns),
    )
    with np.errstate(over="ignore", invalid="ignore"):
        for batch in sequential(rows):
            n_batch, mean_batch, squares_batch = _moments(batch)
            n = n + n_batch
            share, shift = n_batch / np.maximum(n, 1), mean_batch - mean
            squares += squares_batch + shift**2 * (n - n_batch) * share
            mean += shift * share
        std = np.sqrt(squares / np.maximum(n, 1))
    if not np.isfinite(std).all():
        column = int(np.flatnonzero(~np.isfinite(std))[0])
        raise ValueError(f"rows: the squares of column {column} overflow; expected a scale nearer to 1")
    if not n.any():
        raise ValueError("rows: every entry is missing; expected at least one observed entry")
    return ColumnMoments(n, mean, std)


def _moments(batch: Batch) -> tuple[NDArray[np.int64], Array, Array]:
    """Return, for each column, number, mean and sum of squares about the mean of the observed entries."""
    n = batch.observed.sum(axis=0)
    mean = batch.values.sum(axis=0, dtype=np.float64) / np.maximum(n, 1)
    residual = np.where(batch.observed, batch.values - mean, 0.0)
    # The residuals should sum to zero. What they do sum to is the rounding error of the mean, which is
    # removed from both results.
    rounding = residual.sum(axis=0) / np.maximum(n, 1)
    return n, mean + rounding, (residual**2).sum(axis=0) - n * rounding**2


class StandardisedRows(MappedRows):
    """Rows of another source, with every column replaced by (column - mean) / scale.

    Parameters
    ----------
    rows : Rows
    mean, scale : arrays, shape (n_columns,)
        For example those of `column_moments`.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rows = ArrayRows([[1.0, 10.0], [3.0, np.nan]])
    >>> StandardisedRows(rows, [2.0, 10.0], [1.0, 2.0]).take(np.array([1])).values
    array([[1., 0.]])
    """

    def __init__(self, rows: Rows, mean: Any, scale: Any) -> None:
        super().__init__(rows)
        self.mean = check_array("mean", mean, (self.n_columns,))
        self.scale = check_array("scale", scale, (self.n_columns,))
        if not (self.scale > 0).all():
            raise ValueError(f"scale: {self.scale.min():g} is the smallest; expected positive numbers")

    def mapped(self, batch: Batch) -> Batch:
        """Return the batch with its columns shifted and scaled."""
        values = np.empty_like(batch.values)
        # In double precision, because the difference of two large numbers of single precision has few correct
        # digits; and block by block, because a batch may be a large chunk of a file.
        step = max(1, BLOCK_ENTRIES // self.n_columns)
        with np.errstate(over="ignore"):
            for start in range(0, len(values), step):
                block = slice(start, start + step)
                values[block] = (batch.values[block] - self.mean) / self.scale
        return Batch(values, batch.observed, batch.ids)
