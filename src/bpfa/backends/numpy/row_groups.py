"""Groups of like rows of a table in NumPy: the specification (docs/math.md section 23)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.backends.row_groups import TWIN_ROWS, TWIN_TOLERANCE, RowGroupKernels
from bpfa.model.row_features import FeatureGroups, KeptWeights, feature_rows
from bpfa.model.row_groups import KeptRows, Queries, RowGroups, StudentRows, student_log_density
from bpfa.model.row_kinds import RowKinds, log_shares

__all__ = ["NumpyRowGroups", "StudentGroup", "group_posterior", "nearest_to", "student_given_observed"]


class StudentGroup(NamedTuple):
    """The Student t distribution of a new row of a group."""

    mean: Array
    """D."""
    scale: Array
    """Scale matrix, D x D."""
    freedom: float
    """Degrees of freedom."""


class StudentEntries(NamedTuple):
    """The entries of a row that are not observed, given those that are."""

    mean: Array
    """D; the entry itself where it is observed."""
    square_scale: Array
    """D; 0 where an entry is observed."""
    freedom: float
    log_density: float
    """Joint density of the scored entries."""


class NumpyRowGroups(RowGroupKernels):
    """Groups on the host, one row after another."""

    def nearest_rows(
        self, kept: KeptRows, queries: Queries, sizes: NDArray[np.int32], n_threads: int = 1
    ) -> NDArray[np.int32]:
        """Return the kept rows that are most like each query; see `RowGroupKernels`."""
        found = [
            nearest_to(kept, values, observed.astype(bool), int(sizes[-1]))
            for values, observed in zip(queries.values, queries.observed, strict=True)
        ]
        return np.array(found, np.int32).reshape(len(queries), int(sizes[-1]))

    def student_rows(
        self,
        kept: KeptRows,
        queries: Queries,
        nearest: NDArray[np.int32],
        groups: RowGroups,
        n_threads: int = 1,
    ) -> StudentRows:
        """Return what the groups of every query predict for it; see `RowGroupKernels`."""
        shape = len(groups), len(queries)
        mean, square_scale = np.zeros((2, *shape, queries.values.shape[1]), np.float32)
        freedom, log_density = np.zeros((2, *shape))
        for c, (size, prior_rows) in enumerate(zip(groups.members, groups.prior_rows, strict=True)):
            for q, rows in enumerate(nearest[:, :size]):
                group = group_posterior(
                    kept.values[rows].astype(np.float64), kept.variance[rows], float(prior_rows), groups
                )
                mean[c, q], square_scale[c, q], freedom[c, q], log_density[c, q] = student_given_observed(
                    group,
                    queries.values[q].astype(np.float64),
                    queries.observed[q].astype(bool),
                    queries.scored[q].astype(bool),
                )
        return StudentRows(mean, square_scale, freedom, log_density)

    def feature_rows(
        self,
        kept: KeptRows,
        weights: KeptWeights,
        queries: Queries,
        nearest: NDArray[np.int32],
        groups: FeatureGroups,
        n_threads: int = 1,
    ) -> StudentRows:
        """Return what the groups that use the features of the model predict; see `RowGroupKernels`."""
        return feature_rows(kept, weights, queries, nearest, groups)

    def kind_rows(self, kinds: RowKinds, queries: Queries, n_threads: int = 1) -> StudentRows:
        """Return what every kind of rows predicts for every query; see `RowGroupKernels`."""
        shape = len(kinds), len(queries)
        mean, square_scale = np.zeros((2, *shape, queries.values.shape[1]), np.float32)
        freedom, log_density = np.zeros((2, *shape))
        for k, q in np.ndindex(shape):
            mean[k, q], square_scale[k, q], freedom[k, q], log_density[k, q] = student_given_observed(
                StudentGroup(kinds.mean[k], kinds.scale[k], float(kinds.freedom[k])),
                queries.values[q].astype(np.float64),
                queries.observed[q].astype(bool),
                queries.scored[q].astype(bool),
            )
        shares = log_shares(self.kind_densities(kinds, queries))
        return StudentRows(mean, square_scale, freedom, log_density, shares)

    def kind_densities(self, kinds: RowKinds, queries: Queries, n_threads: int = 1) -> Array:
        """Return the log density of observed entries and kinds; see `RowGroupKernels`."""
        found = np.zeros((len(kinds), len(queries)))
        for k, q in np.ndindex(found.shape):
            o = queries.observed[q].astype(bool)
            found[k, q] = kinds.log_weights[k]
            if o.any():
                # All observed entries are scored, and none is given.
                group = StudentGroup(kinds.mean[k], kinds.scale[k], float(kinds.freedom[k]))
                values = queries.values[q].astype(np.float64)
                found[k, q] += student_given_observed(group, values, np.zeros_like(o), o).log_density
        return found

    def kind_sums(
        self, kinds: RowKinds, queries: Queries, shares: Array, n_threads: int = 1
    ) -> tuple[Array, Array]:
        """Return sums over the rows of every kind; see `RowGroupKernels`."""
        first, second = np.zeros_like(kinds.mean), np.zeros_like(kinds.scale)
        for k, q in np.ndindex(shares.shape):
            o = queries.observed[q].astype(bool)
            deviation, scale = np.zeros(len(o)), kinds.scale[k]
            deviation[o] = queries.values[q][o] - kinds.mean[k][o]
            gain = np.linalg.solve(scale[np.ix_(o, o)], scale[o][:, ~o]).T
            square = deviation[o] @ np.linalg.solve(scale[np.ix_(o, o)], deviation[o])
            deviation[~o] = gain @ deviation[o]
            wider = (kinds.freedom[k] + square) / (kinds.freedom[k] + o.sum())
            first[k] += shares[k, q] * deviation
            second[k] += shares[k, q] * np.outer(deviation, deviation)
            second[k][np.ix_(~o, ~o)] += shares[k, q] * wider * (scale[~o][:, ~o] - gain @ scale[o][:, ~o])
        return first, second


def nearest_to(
    kept: KeptRows, values: NDArray[np.float32], observed: NDArray[np.bool_], n_members: int
) -> NDArray[np.int32]:
    """Return the kept rows that are most like one row, the nearest first, without the row itself.

    Parameters
    ----------
    kept : KeptRows
    values, observed : arrays, shape (D,)
    n_members : int

    Examples
    --------
    >>> kept = KeptRows(np.array([[0, 5], [1, 5], [3, 1]], np.float32), np.zeros((3, 2), np.float32))
    >>> nearest_to(kept, np.array([1, 5], np.float32), np.array([True, True]), 2)
    array([0, 2], dtype=int32)
    >>> nearest_to(kept, np.array([1.1, 0.0], np.float32), np.array([True, False]), 2)
    array([1, 0], dtype=int32)
    """
    difference = np.where(observed, kept.values - values, np.float32(0.0))
    distance = (difference**2).sum(axis=1)
    nearest = np.argsort(distance, kind="stable")[: n_members + 1]
    first = nearest[:TWIN_ROWS]
    common = observed & (kept.variance[first] == 0)
    close = np.abs(difference[first]) <= TWIN_TOLERANCE * (1 + np.abs(values))
    twins = (close | ~common).all(axis=1) & (2 * common.sum(axis=1) >= max(1, observed.sum()))
    left_out = int(twins.argmax()) if twins.any() else n_members
    return np.delete(nearest, left_out).astype(np.int32)


def group_posterior(rows: Array, variance: Array, prior_rows: float, groups: RowGroups) -> StudentGroup:
    """Return the distribution of a new row of a group, with mean and covariance integrated out.

    Parameters
    ----------
    rows, variance : arrays, shape (M, D)
        Completed rows, and the variances of the entries that are missing.
    prior_rows : float
    groups : RowGroups

    Examples
    --------
    >>> groups = RowGroups(np.eye(1, dtype=np.float32), np.array([2]), np.array([2.0]), scale_rows=np.inf)
    >>> group_posterior(np.array([[1.0], [3.0]]), np.zeros((2, 1)), 2.0, groups)
    StudentGroup(mean=array([2.]), scale=array([[1.]]), freedom=6.0)
    """
    n, center = len(rows), rows.mean(axis=0)
    scatter = (rows - center).T @ (rows - center) + np.diag(variance.sum(axis=0, dtype=np.float64))
    prior, kappa = groups.prior_of(scatter, n), groups.mean_rows
    psi = scatter + prior_rows * prior + kappa * n / (kappa + n) * np.outer(center, center)
    freedom = prior_rows + n + 2
    return StudentGroup(
        n / (kappa + n) * center, psi * (kappa + n + 1) / ((kappa + n) * freedom), float(freedom)
    )


def student_given_observed(
    group: StudentGroup, values: Array, observed: NDArray[np.bool_], scored: NDArray[np.bool_]
) -> StudentEntries:
    """Return the entries of a row that are not observed, given those that are.

    Parameters
    ----------
    group : StudentGroup
    values : array, shape (D,)
        Known where an entry is observed or scored.
    observed, scored : boolean arrays, shape (D,)

    Examples
    --------
    >>> group = StudentGroup(np.zeros(2), np.array([[1.0, 0.5], [0.5, 1.0]]), 4.0)
    >>> seen, scored = np.array([True, False]), np.zeros(2, bool)
    >>> found = student_given_observed(group, np.array([2.0, 0.0]), seen, scored)
    >>> found.mean, found.square_scale, found.freedom
    (array([2., 1.]), array([0. , 1.2]), 5.0)
    """
    o, s = np.flatnonzero(observed), np.flatnonzero(scored)
    rest = np.flatnonzero(~observed & ~scored)
    order = np.concatenate([o, s, rest])
    factor = np.linalg.cholesky(group.scale[np.ix_(order, order)])
    known = np.concatenate([o, s])
    whitened = np.linalg.solve(factor[: len(known), : len(known)], (values - group.mean)[known])
    seen = group.freedom + (whitened[: len(o)] ** 2).sum()
    both = seen + (whitened[len(o) :] ** 2).sum()
    freedom = group.freedom + len(o)
    mean, square_scale = values.copy(), np.zeros_like(values)
    missing = order[len(o) :]
    mean[missing] = group.mean[missing] + factor[len(o) :, : len(o)] @ whitened[: len(o)]
    square_scale[missing] = (factor[len(o) :, len(o) :] ** 2).sum(axis=1) * seen / freedom
    log_diagonal = np.log(np.diag(factor)[len(o) : len(known)]).sum()
    log_density = student_log_density(
        *(np.asarray(number, np.float64) for number in (freedom, len(s), seen, both, log_diagonal))
    )
    return StudentEntries(mean, square_scale, freedom, float(log_density))
