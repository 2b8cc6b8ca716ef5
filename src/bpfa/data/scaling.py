"""What the columns of a table hold, and their mean and scale."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.data.blocks import sequential
from bpfa.data.rows import Batch, Rows, as_source

__all__ = [
    "ColumnContents",
    "ColumnMoments",
    "MomentSums",
    "Scale",
    "column_contents",
    "column_moments",
    "moment_sums",
]

# A column is constant if its standard deviation is at most this many times the rounding error of its mean.
ROUNDINGS = 8


class MomentSums(NamedTuple):
    """Number, mean and sum of squares about the mean of the observed entries of every column of some rows."""

    n: NDArray[np.int64]
    mean: Array
    squares: Array

    @classmethod
    def none(cls, n_columns: int) -> MomentSums:
        """Return the sums of no rows."""
        return cls(np.zeros(n_columns, dtype=np.int64), np.zeros(n_columns), np.zeros(n_columns))

    def merged(self, more: MomentSums) -> MomentSums:
        """Return the sums of these rows and of more, by the formula of Chan, Golub & LeVeque (1983)."""
        n = self.n + more.n
        share, shift = more.n / np.maximum(n, 1), more.mean - self.mean
        squares = self.squares + (more.squares + shift**2 * (n - more.n) * share)
        return MomentSums(n, self.mean + shift * share, squares)


@dataclass(frozen=True)
class ColumnMoments:
    """Number, mean and standard deviation of the observed entries of every column.

    See Also
    --------
    bpfa.data.column_moments : Compute the moments of columns.
    bpfa.data.Scale : Means and scales of columns.

    Examples
    --------
    >>> ColumnMoments(np.array([9, 9]), np.array([1.0, 5.0]), np.array([2.0, 0.0])).scale
    array([2., 1.])
    """

    n_observed: NDArray[np.int64]
    """Number of observed entries."""
    mean: Array
    """0 where nothing is observed."""
    std: Array
    """The sum of squares is divided by n, not by n - 1; 0 where nothing is observed."""

    @classmethod
    def of_parts(cls, parts: Iterable[MomentSums]) -> ColumnMoments:
        """Return the moments of the columns of a source from the sums of its parts.

        Parameters
        ----------
        parts : iterable of MomentSums

        Returns
        -------
        ColumnMoments

        See Also
        --------
        bpfa.data.column_moments : The moments of the columns of a whole source.

        Examples
        --------
        >>> from bpfa.data import ArrayRows
        >>> parts = [moment_sums(ArrayRows([[1.0, 5.0]])), moment_sums(ArrayRows([[3.0, 5.0]]))]
        >>> ColumnMoments.of_parts(parts).mean
        array([2., 5.])
        """
        with np.errstate(over="ignore", invalid="ignore"):
            n, mean, squares = reduce(MomentSums.merged, parts)
            std = np.sqrt(squares / np.maximum(n, 1))
        if not np.isfinite(std).all():
            column = int(np.flatnonzero(~np.isfinite(std))[0])
            raise ValueError(f"rows: the squares of column {column} overflow; expected a scale nearer to 1")
        if not n.any():
            raise ValueError("rows: every entry is missing; expected at least one observed entry")
        return cls(n, mean, std)

    @property
    def scale(self) -> Array:
        """The standard deviation, or 1 where a column is constant or entirely missing."""
        varies = self.std > ROUNDINGS * np.finfo(np.float64).eps * np.abs(self.mean)
        return np.where(varies, self.std, 1.0)


class Scale(NamedTuple):
    """The units of a model, column by column.

    See Also
    --------
    bpfa.data.column_moments : Compute the moments of columns.
    bpfa.data.StandardisedRows : Rows in units of their columns' deviations.

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
    constant: Array | None = None
    """The value of every column that is constant in the fit, and NaN for all other columns."""
    empty: NDArray[np.bool_] | None = None
    """True for columns that have no observed entry in the fit. Models saved by early versions have neither
    this field nor `constant`, and treat these columns like any other."""

    @property
    def unit(self) -> Array:
        """The amount, in the units of the data, that is 1 in the model."""
        unit: Array = self.scale * self.noise_ratio
        return unit

    def corrected(self, values: Array, std: Array) -> tuple[Array, Array]:
        """Return predictions and their deviations, corrected in the columns for which no model is needed.

        A constant column has its constant with deviation 0. A column of which nothing is known has NaN.

        Parameters
        ----------
        values, std : arrays whose last axis is that of the columns

        Returns
        -------
        tuple of two arrays

        See Also
        --------
        bpfa.BPFA.impute : Predictions that are corrected in this way.

        Examples
        --------
        >>> nothing, ones = np.array([False, False, True]), np.ones(3)
        >>> scale = Scale(0 * ones, ones, ones, np.array([np.nan, 7.0, np.nan]), nothing)
        >>> scale.corrected(ones, ones)
        (array([ 1.,  7., nan]), array([ 1.,  0., nan]))
        """
        if self.constant is None or self.empty is None:
            return values, std
        known = self.empty | ~np.isnan(self.constant)
        if not known.any():
            return values, std
        certainty = np.where(self.empty, np.nan, 0.0)
        return np.where(known, self.constant, values), np.where(known, certainty, std)

    def with_contents(self, contents: ColumnContents) -> Scale:
        """Return the scale with the constant and empty columns that were found.

        Parameters
        ----------
        contents : ColumnContents

        Returns
        -------
        Scale

        See Also
        --------
        bpfa.data.Scale.corrected : What constant and empty columns are predicted to be.

        Examples
        --------
        >>> from bpfa.data import ArrayRows
        >>> ones = np.ones(2)
        >>> contents = column_contents(ArrayRows([[1.0, 5.0], [3.0, 5.0]]))
        >>> Scale(0 * ones, ones, ones).with_contents(contents).constant
        array([nan,  5.])
        """
        return self._replace(constant=contents.constant, empty=contents.empty)

    def after_more(self, rows: Rows) -> Scale:
        """Return the scale after more rows, which may show that a column is neither constant nor empty.

        Parameters
        ----------
        rows : Rows

        Returns
        -------
        Scale

        See Also
        --------
        bpfa.BPFA.partial_fit : Learn from one part after the other.

        Examples
        --------
        >>> from bpfa.data import ArrayRows
        >>> ones = np.ones(2)
        >>> contents = column_contents(ArrayRows([[1.0, 5.0], [3.0, 5.0]]))
        >>> scale = Scale(0 * ones, ones, ones).with_contents(contents)
        >>> scale.after_more(ArrayRows([[1.0, 6.0]])).constant
        array([nan, nan])
        """
        if self.constant is None or self.empty is None:
            return self
        if not self.empty.any() and np.isnan(self.constant).all():
            return self
        contents = column_contents(rows, first=self.constant)
        constant = np.where(contents.varies, np.nan, self.constant)
        return self._replace(constant=constant, empty=self.empty & contents.empty)


@dataclass(frozen=True)
class ColumnContents:
    """What is known about every column after its entries have been compared with one another."""

    n_observed: NDArray[np.int64]
    """Number of observed entries, in columns that do not vary. In the others some may not have been read."""
    first: Array
    """The first observed entry, or NaN."""
    varies: NDArray[np.bool_]
    """Whether two observed entries differ."""

    @property
    def constant(self) -> Array:
        """The value of every constant column, and NaN for the others.

        A column with a single observed entry does not count as constant.
        """
        return np.where(~self.varies & (self.n_observed > 1), self.first, np.nan)

    def merged(self, more: ColumnContents) -> ColumnContents:
        """Return what is known about every column after these rows and more."""
        differ = ~np.isnan(self.first) & ~np.isnan(more.first) & (self.first != more.first)
        return ColumnContents(
            self.n_observed + more.n_observed,
            np.where(np.isnan(self.first), more.first, self.first),
            self.varies | more.varies | differ,
        )

    @property
    def empty(self) -> NDArray[np.bool_]:
        """Which columns have no observed entry."""
        nothing: NDArray[np.bool_] = self.n_observed == 0
        return nothing


def column_contents(rows: Rows, first: Array | None = None) -> ColumnContents:
    """Find the columns of a source that are constant, and those without an observed entry.

    Rows are read until two entries of every column are known to differ. For most tables this is the case
    after the first block.

    Parameters
    ----------
    rows : Rows
    first : array, shape (n_columns,), optional
        An earlier entry of every column, with which its entries are compared, or NaN.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> contents = column_contents(ArrayRows([[1.0, 5.0, np.nan], [3.0, 5.0, np.nan]]))
    >>> contents.constant, contents.empty
    (array([nan,  5., nan]), array([False, False,  True]))
    """
    source = as_source("rows", rows)
    n_observed = np.zeros(source.n_columns, dtype=np.int64)
    first = np.full(source.n_columns, np.nan) if first is None else first.copy()
    varies = np.zeros(source.n_columns, dtype=bool)
    for batch in sequential(source):
        n_observed += batch.observed.sum(axis=0)
        top = batch.values[batch.observed.argmax(axis=0), np.arange(source.n_columns)]
        first = np.where(np.isnan(first) & batch.observed.any(axis=0), top, first)
        varies |= (batch.observed & (batch.values != first)).any(axis=0)
        if varies.all():
            break
    return ColumnContents(n_observed, first, varies)


def column_moments(rows: Rows) -> ColumnMoments:
    """Return the moments of the columns of a source, which is read once.

    Blocks of rows are merged in double precision, so that the result is accurate even if the mean is far
    larger than the standard deviation.

    Parameters
    ----------
    rows : Rows

    Returns
    -------
    ColumnMoments

    See Also
    --------
    bpfa.data.ColumnMoments : Counts, means and variances of columns.
    bpfa.data.Scale : Means and scales of columns.

    References
    ----------
    .. [1] T. F. Chan, G. H. Golub and R. J. LeVeque, "Algorithms for Computing the Sample Variance: Analysis
       and Recommendations", The American Statistician 37 (1983).

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> moments = column_moments(ArrayRows([[1.0, 5.0, np.nan], [3.0, 5.0, np.nan]]))
    >>> moments.n_observed, moments.mean, moments.scale
    (array([2, 2, 0]), array([2., 5., 0.]), array([1., 1., 1.]))
    """
    return ColumnMoments.of_parts([moment_sums(rows)])


def moment_sums(rows: Rows) -> MomentSums:
    """Return number, mean and sum of squares about the mean of every column, of rows that are read once.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> moment_sums(ArrayRows([[1.0, 5.0], [3.0, 5.0]])).squares
    array([2., 0.])
    """
    rows = as_source("rows", rows)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = MomentSums.none(rows.n_columns)
        for batch in sequential(rows):
            sums = sums.merged(_moments(batch))
    return sums


def _moments(batch: Batch) -> MomentSums:
    """Return, for each column, number, mean and sum of squares about the mean of the observed entries."""
    n = batch.observed.sum(axis=0)
    mean = batch.values.sum(axis=0, dtype=np.float64) / np.maximum(n, 1)
    residual = np.where(batch.observed, batch.values - mean, 0.0)
    # The residuals should sum to zero. What they do sum to is the rounding error of the mean, which is
    # removed from both results.
    rounding = residual.sum(axis=0) / np.maximum(n, 1)
    return MomentSums(n, mean + rounding, (residual**2).sum(axis=0) - n * rounding**2)
