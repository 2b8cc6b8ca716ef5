"""Groups of like rows of a table, with mean and covariance integrated out (docs/math.md section 23).

A row is predicted by the rows that are most like it. They are taken as draws from a normal distribution whose
mean and covariance have a normal-inverse-Wishart prior around the model of the whole table, so that the row
itself has a Student t distribution. This module holds what every backend must know of these groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from bpfa._support.checks import Array

__all__ = ["KeptRows", "Queries", "RowGroups", "StudentMixture", "StudentRows", "student_log_density"]


@dataclass(frozen=True)
class KeptRows:
    """A sample of the rows of a fit, completed by the model of the whole table.

    Parameters
    ----------
    values : float32 array, shape (rows, D)
        Observed entries, and the means of those that are missing.
    variance : float32 array, shape (rows, D)
        Predictive variance of the entries that are missing, and 0 for those that are observed.
    """

    values: NDArray[np.float32]
    variance: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def columns(self) -> NDArray[np.float32]:
        """The values with the columns as rows, D x rows, in which a search reads them."""
        return np.ascontiguousarray(self.values.T)

    @cached_property
    def rows_of_spread(self) -> Array:
        """For every column, how many rows with normal entries would tell as much about its spread.

        The variance of n numbers with kurtosis k has a relative standard error of sqrt((k - 1) / n), and k is
        3 for normal numbers. A column that is constant but for a few rows has a kurtosis of nearly n: its
        spread rests on these few rows.

        Examples
        --------
        >>> values = np.random.default_rng(0).normal(size=(1000, 2)).astype(np.float32)
        >>> values[1:, 1] = 0.0
        >>> KeptRows(values, np.zeros_like(values)).rows_of_spread.round()
        array([999.,   2.])
        """
        observed = self.variance == 0
        n = np.maximum(observed.sum(axis=0), 1)
        means = self.values.sum(axis=0, where=observed, dtype=np.float64) / n
        squares = np.where(observed, self.values - means, 0.0) ** 2
        square, fourth = squares.sum(axis=0) / n, (squares**2).sum(axis=0) / n
        kurtosis = fourth / np.where(square > 0, square, 1.0) ** 2
        return np.asarray(n * 2 / np.maximum(kurtosis - 1, 2.0), np.float64)


@dataclass(frozen=True)
class Queries:
    """Rows that are to be predicted.

    Parameters
    ----------
    values : float32 array, shape (rows, D)
    observed : uint8 array, shape (rows, D)
        1 where an entry is observed. All others are predicted.
    scored : uint8 array, shape (rows, D)
        1 where an entry is not observed, but `values` holds the truth, whose density is wanted.
    """

    values: NDArray[np.float32]
    observed: NDArray[np.uint8]
    scored: NDArray[np.uint8]

    @classmethod
    def of(
        cls,
        values: Array | NDArray[np.float32],
        observed: NDArray[np.bool_],
        scored: NDArray[np.bool_] | None = None,
    ) -> Queries:
        """Return rows as kernels read them."""
        if scored is None:
            scored = np.zeros_like(observed)
        known = observed | scored
        plain = np.ascontiguousarray(np.where(known, values, 0.0), np.float32)
        return cls(plain, observed.astype(np.uint8), scored.astype(np.uint8))

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def n_observed(self) -> NDArray[np.int64]:
        """Number of observed entries of every row."""
        return np.asarray(self.observed.sum(axis=1, dtype=np.int64))

    def part(self, start: int, stop: int) -> Queries:
        """Return rows that follow one another."""
        return self.of_rows(slice(start, stop))

    def of_rows(self, rows: slice | NDArray[np.intp]) -> Queries:
        """Return some of the rows."""
        return Queries(self.values[rows], self.observed[rows], self.scored[rows])


@dataclass(frozen=True)
class RowGroups:
    """The sizes of the groups of every row, and the prior that all of them share.

    Every row has C groups, which differ in how many rows they have and in how many rows the prior counts for.

    Parameters
    ----------
    covariance : float32 array, shape (D, D)
        Covariance of a row under the model of the whole table, including noise. The mean is 0.
    members : int32 array, shape (C,)
        Number of rows M of every group, in ascending order.
    prior_rows : float32 array, shape (C,)
        nu, the number of rows that the prior covariance counts for.
    mean_rows : float
        kappa, the number of rows that the prior mean counts for.
    scale_rows : float
        a, the number of rows that the variances of the whole table count for when the prior covariance is
        scaled to the variances of the group. With infinity it keeps its own variances.
    correlation_share : float
        The share of the correlations between columns that the prior keeps: rows that are alike differ less
        in what columns have in common. With 1, and `scale_rows` infinite, the prior is the covariance as it
        is.
    """

    covariance: NDArray[np.float32]
    members: NDArray[np.int32]
    prior_rows: NDArray[np.float32]
    mean_rows: float = 0.0
    scale_rows: float = 2.0
    correlation_share: float = 0.7

    def __len__(self) -> int:
        return len(self.members)

    def prior_of(self, scatter: Array, n_rows: float) -> Array:
        """Return the prior covariance of a group, scaled to the variances that the group shows.

        Parameters
        ----------
        scatter : array, shape (D, D)
            Sum of the products of the deviations of the rows from their mean.
        n_rows : float
            Number of rows in this sum.

        Examples
        --------
        >>> groups = RowGroups(np.eye(1, dtype=np.float32), np.array([2]), np.array([2.0]), scale_rows=2.0)
        >>> groups.prior_of(np.array([[6.0]]), 2)
        array([[2.]])
        """
        prior = self.correlation_share * self.covariance.astype(np.float64)
        np.fill_diagonal(prior, np.diag(self.covariance))
        ratio = self.prior_variances(np.diag(scatter), n_rows) / np.diag(prior)
        return np.asarray(prior * np.sqrt(np.outer(ratio, ratio)))

    def prior_variances(self, squares: Array, n_rows: Array | float) -> Array:
        """Return the diagonal of the prior covariance of a group.

        Parameters
        ----------
        squares : array, shape (D,)
            Sums of the squares of the deviations of the rows from their mean.
        n_rows : float, or array, shape (D,)
            Number of rows in these sums.
        """
        table = np.diag(self.covariance).astype(np.float64)
        if np.isinf(self.scale_rows):
            return table
        return np.asarray((squares + self.scale_rows * table) / (n_rows + self.scale_rows))


@dataclass(frozen=True)
class StudentRows:
    """The Student t distributions that C groups, or kinds of rows, predict for some rows.

    Parameters
    ----------
    mean, square_scale : float32 arrays, shape (C, rows, D)
        Location and squared scale of every entry that is not observed; the entry itself where it is observed,
        and 0.
    freedom : array, shape (C, rows)
        Degrees of freedom of the entries.
    log_density : array, shape (C, rows)
        Logarithm of the joint density of the scored entries of a row, given those that are observed.
    log_share : array, shape (C, rows), optional
        Logarithm of the probability with which a row is of a kind, given its observed entries; None for
        groups, each of which is a prediction of its own.
    """

    mean: NDArray[np.float32]
    square_scale: NDArray[np.float32]
    freedom: Array
    log_density: Array
    log_share: Array | None = None

    @classmethod
    def of_sums(
        cls,
        own_freedom: Array,
        queries: Queries,
        mean: NDArray[np.float32],
        square_scale: NDArray[np.float32],
        sums: Array,
        log_share: Array | None = None,
    ) -> StudentRows:
        """Return the distributions of which a kernel has computed the sums of their densities.

        Parameters
        ----------
        own_freedom : array, shape (C,)
            Degrees of freedom of a whole row.
        queries : Queries
        mean, square_scale : arrays
        sums : array, shape (3, C, rows)
            The last three arguments of `student_log_density`.
        log_share : array, optional
        """
        freedom = own_freedom[:, None] + queries.n_observed
        n_scored = (queries.scored & ~queries.observed & 1).sum(axis=1)
        log_density = student_log_density(freedom, n_scored, *sums)
        return cls(mean, square_scale, freedom, log_density, log_share)

    @property
    def variance(self) -> Array:
        """Variances of the entries."""
        freedom = self.freedom[:, :, None]
        return np.asarray(self.square_scale * freedom / (freedom - 2), np.float64)


@dataclass(frozen=True)
class StudentMixture:
    """What several parts of a mixture say of some rows: groups, and divisions of all rows into kinds.

    Parameters
    ----------
    parts : tuple of StudentRows
        Each part is one group or several groups, or the kinds of one division.
    """

    parts: tuple[StudentRows, ...]

    @cached_property
    def rows(self) -> StudentRows:
        """All distributions one after another; the share of a group is 1."""
        shares = [np.zeros_like(p.freedom) if p.log_share is None else p.log_share for p in self.parts]
        return StudentRows(
            np.concatenate([part.mean for part in self.parts]),
            np.concatenate([part.square_scale for part in self.parts]),
            np.concatenate([part.freedom for part in self.parts]),
            np.concatenate([part.log_density for part in self.parts]),
            np.concatenate(shares),
        )

    @cached_property
    def member(self) -> NDArray[np.int64]:
        """For every distribution, to which member of the mixture it belongs: a group, or a division."""
        numbers: list[int] = []
        for part in self.parts:
            first, n = (numbers[-1] + 1 if numbers else 0), len(part.mean)
            numbers += range(first, first + n) if part.log_share is None else [first] * n
        return np.array(numbers, np.int64)

    def log_weights(self, weights: Array) -> Array:
        """Return the logarithms of the weights of all distributions in every row, shape (C, rows).

        Parameters
        ----------
        weights : array
            Weights of the groups and divisions.
        """
        share = self.rows.log_share
        assert share is not None
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(weights)[self.member, None] + share)


def student_log_density(
    freedom: Array, n_scored: Array, seen: Array, both: Array, log_diagonal: Array
) -> Array:
    """Return the joint log density of entries of a Student t distribution given others, from distances.

    Parameters
    ----------
    freedom : array
        Degrees of freedom of the entries, given n observed ones: those of the whole row plus n.
    n_scored : array
        Number of entries.
    seen, both : arrays
        Degrees of freedom of the whole row plus the squared distance of the observed entries, and of these
        together with the scored ones, from the mean, in units of the scale matrix.
    log_diagonal : array
        Sum of the logarithms of the diagonal of the Cholesky factor of the scale matrix, over the scored
        entries, which come after the observed ones.

    Examples
    --------
    >>> from scipy.stats import t
    >>> found = student_log_density(np.array(5.0), np.array(1), np.array(5.0), np.array(5.0 + 0.7**2),
    ...                             np.array(0.0))
    >>> bool(np.isclose(found, t(5).logpdf(0.7)))
    True
    """
    ends = gammaln((freedom + n_scored) / 2) - gammaln(freedom / 2) - n_scored / 2 * np.log(np.pi)
    bodies = freedom / 2 * np.log(seen) - (freedom + n_scored) / 2 * np.log(both)
    density: Array = ends + bodies - log_diagonal
    return density
