"""Mean and scale of the columns, in one pass, and rows with mean 0 and scale 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array, check_array, check_instance
from bpfa.data.blocks import BLOCK_ENTRIES, sequential
from bpfa.data.mapped import MappedRows
from bpfa.data.rows import Batch, Rows

__all__ = ["ColumnMoments", "Scale", "StandardisedRows", "column_moments"]

# A standard deviation of fewer roundings of the mean than this is that of a constant column.
ROUNDINGS = 8


@dataclass(frozen=True)
class ColumnMoments:
    """Moments of the observed entries of every column."""

    n_observed: NDArray[np.int64]
    mean: Array
    """0 where nothing is observed."""
    std: Array
    """Of the entries, not of their population (divided by n, not n - 1); 0 where nothing is observed."""

    @property
    def scale(self) -> Array:
        """The standard deviation, or 1 where the column is constant or all missing."""
        varies = self.std > ROUNDINGS * np.finfo(np.float64).eps * np.abs(self.mean)
        return np.where(varies, self.std, 1.0)


def column_moments(rows: Rows) -> ColumnMoments:
    """Return the moments of the columns of a source, in one pass over it.

    Blocks of rows are merged by the formula of Chan, Golub & LeVeque (1983), in double precision, so that a
    mean far larger than the standard deviation does no harm.

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
    check_instance("rows", rows, Rows)
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
    """Return number, mean and sum of squares about the mean of the observed entries of each column."""
    n = batch.observed.sum(axis=0)
    mean = batch.values.sum(axis=0, dtype=np.float64) / np.maximum(n, 1)
    residual = np.where(batch.observed, batch.values - mean, 0.0)
    # What is left of a sum that should be zero is the rounding of the mean; it is taken out of both.
    rounding = residual.sum(axis=0) / np.maximum(n, 1)
    return n, mean + rounding, (residual**2).sum(axis=0) - n * rounding**2


class Scale(NamedTuple):
    """The units of the model, column by column."""

    mean: Array
    scale: Array
    noise_ratio: Array
    """Noise relative to that of the other columns, in units of `scale`; the mean of the squares is 1."""

    @property
    def unit(self) -> Array:
        """How large 1 of the model is in the units of the data."""
        unit: Array = self.scale * self.noise_ratio
        return unit


class StandardisedRows(MappedRows):
    """Rows of another source as (x - mean) / scale, column by column.

    Parameters
    ----------
    rows : Rows
    mean, scale : arrays, shape (n_columns,)
        Such as those of `column_moments`.

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

    def of(self, batch: Batch) -> Batch:
        """Return the batch as this source has it."""
        values = np.empty_like(batch.values)
        # In double precision, as the difference of two large single-precision numbers has few digits left;
        # and a block at a time, as a batch may be a large chunk of a file.
        step = max(1, BLOCK_ENTRIES // self.n_columns)
        with np.errstate(over="ignore"):
            for start in range(0, len(values), step):
                block = slice(start, start + step)
                values[block] = (batch.values[block] - self.mean) / self.scale
        return Batch(values, batch.observed, batch.ids)
