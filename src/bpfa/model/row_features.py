"""Groups of like rows that use the features of the model (docs/math.md section 23).

In a table with many columns the covariance of a group is far larger than what its rows can tell. Here a group
learns how much its rows use each feature of the model, and how the uses go together: a covariance of the
weights instead of one of the columns, with the noise of the columns beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular

from bpfa._support.checks import Array
from bpfa.model.priors import Priors
from bpfa.model.row_groups import KeptRows, Queries, StudentRows
from bpfa.model.row_switches import use_evidence

__all__ = ["LEAST_VARIANCE", "NOISE_ROWS", "FeatureGroups", "KeptWeights", "feature_rows"]

NOISE_ROWS = 5.0
"""For how many rows the noise of the model counts when the noise of a group is estimated."""
LEAST_VARIANCE = 1e-8
"""The variance, relative to that over all rows, of a feature that a group does not use. It keeps covariances
positive definite."""


@dataclass(frozen=True)
class FeatureGroups:
    """The sizes of the groups of every row, and the features that they use.

    Parameters
    ----------
    phi : array, shape (K, D)
        Features of the model.
    weight_variance : array, shape (K,)
        Variance of the weight of every feature over all rows, pi / g_w; all greater than 0.
    g_o : float
        Precision of the noise.
    members : int32 array, shape (C,)
        Number of rows M of every group, in ascending order.
    prior_rows : float
        nu, the number of rows that the variances of the model count for.
    switched : tuple of bool
        For every group, whether its rows may use some of the features only; by default none of them.
    log_odds : array, shape (K,), optional
        Log odds with which groups use the features; 0 by default.
    priors : Priors
        The prior of the beta process, from which the log odds are learned.
    """

    phi: Array
    weight_variance: Array
    g_o: float
    members: NDArray[np.int32]
    prior_rows: float = 5.0
    switched: tuple[bool, ...] = ()
    log_odds: Array | None = None
    priors: Priors = Priors()

    def uses(self, squares: Array, n_rows: Array | float) -> Array:
        """Return the log odds, given their rows, that groups use the features.

        Parameters
        ----------
        squares : array, shape (..., K)
            Sums over the rows of the squared deviations of the expected weights from their mean.
        n_rows : array, shape (..., 1), or float
        """
        known = np.diag(self.weight_covariance)
        found = use_evidence(squares, n_rows, self.weight_variance, known)
        return found if self.log_odds is None else found + self.log_odds

    @property
    def freedom(self) -> Array:
        """Degrees of freedom of a whole row, for every group."""
        return self.prior_rows + self.members.astype(np.float64) + 2

    @cached_property
    def weight_covariance(self) -> Array:
        """Covariance of the weights of a row, given all of its entries."""
        precision = self.g_o * self.phi @ self.phi.T + np.diag(1 / self.weight_variance)
        return np.asarray(np.linalg.inv(precision), np.float64)

    @cached_property
    def signal_variance(self) -> float:
        """Variance that the weights of a complete row leave to its signal, over all columns."""
        return float(((self.weight_covariance @ self.phi) * self.phi).sum())

    @cached_property
    def regression(self) -> Array:
        """The matrix, K x D, that gives the expected weights of a complete row."""
        return self.g_o * self.weight_covariance @ self.phi


@dataclass(frozen=True)
class KeptWeights:
    """What the features of the model say of the kept rows.

    Parameters
    ----------
    expected : array, shape (rows, K)
        Expected weights.
    squares : array, shape (rows,)
        Sums of the squares of what the features leave of the rows.
    """

    expected: Array
    squares: Array

    @classmethod
    def of(cls, kept: KeptRows, groups: FeatureGroups) -> KeptWeights:
        """Return what the features say of some rows."""
        expected = kept.values @ groups.regression.T
        residuals = kept.values - expected @ groups.phi
        return cls(expected, np.einsum("nd,nd->n", residuals, residuals))


@dataclass(frozen=True)
class _GroupOfWeights:
    """What the rows of a group say of their weights: the mean of a row, and its covariance in parts."""

    mean: Array
    precision: Array
    """Inverse of the covariance of the weights, K x K."""
    noise_precision: float


def feature_rows(
    kept: KeptRows,
    weights: KeptWeights,
    queries: Queries,
    nearest: NDArray[np.int32],
    groups: FeatureGroups,
) -> StudentRows:
    """Return what the groups of every query, the first rows of `nearest`, predict for it.

    Parameters
    ----------
    kept : KeptRows
    weights : KeptWeights
    queries : Queries
    nearest : int32 array, shape (queries, members)
    groups : FeatureGroups

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> values = (rng.normal(size=(60, 1)) + 0.1 * rng.normal(size=(60, 5))).astype(np.float32)
    >>> groups = FeatureGroups(np.ones((1, 5)), np.ones(1), 100.0, np.array([50], np.int32))
    >>> kept = KeptRows(values, np.zeros_like(values))
    >>> queries = Queries.of(np.array([[1.0, 1.0, 1.0, 0.0, 0.0]]), np.array([[True] * 3 + [False] * 2]))
    >>> weights = KeptWeights.of(kept, groups)
    >>> found = feature_rows(kept, weights, queries, np.arange(50)[None], groups)
    >>> found.mean.round()[0, 0].tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """
    shape = len(groups.members), len(queries)
    mean, square_scale = np.zeros((2, *shape, queries.values.shape[1]), np.float32)
    sums = np.zeros((3, *shape))
    for q in range(len(queries)):
        values, observed = queries.values[q].astype(np.float64), queries.observed[q].astype(bool)
        scored = queries.scored[q].astype(bool) & ~observed
        products = [groups.phi[:, o] @ groups.phi[:, o].T for o in (observed, scored)]
        rows = nearest[q]
        like, variance, own, left = (
            kept.values[rows],
            kept.variance[rows],
            weights.expected[rows],
            weights.squares[rows],
        )
        for c, size in enumerate(groups.members):
            switched = bool(groups.switched) and groups.switched[c]
            group = _group_of(
                like[:size], variance[:size], own[:size], left[:size], groups, switched=switched
            )
            mean[c, q] = values
            mean[c, q, ~observed], square_scale[c, q, ~observed], sums[:, c, q] = _predicted(
                group, values - group.mean, observed, scored, products, groups, int(size)
            )
    return StudentRows.of_sums(groups.freedom, queries, mean, square_scale, sums)


def _predicted(
    group: _GroupOfWeights,
    deviation: Array,
    observed: NDArray[np.bool_],
    scored: NDArray[np.bool_],
    products: list[Array],
    groups: FeatureGroups,
    size: int,
) -> tuple[Array, Array, Array]:
    """Return location and squared scale of the missing entries, and the three sums of a density."""
    noise, wider, freedom = group.noise_precision, (size + 1) / size, groups.prior_rows + size + 2
    root: Array = np.linalg.cholesky(group.precision + noise * products[0]).astype(np.float64)
    seen, expected = _distance(root, deviation, observed, noise, groups.phi)
    seen = freedom + seen / wider
    features = groups.phi[:, ~observed]
    spread = (solve_triangular(root, features, lower=True, check_finite=False) ** 2).sum(axis=0) + 1 / noise
    location = group.mean[~observed] + expected @ features
    square_scale = wider * spread * seen / (freedom + observed.sum())
    both, log_diagonal = seen, 0.0
    if scored.any():
        whole: Array = np.linalg.cholesky(group.precision + noise * (products[0] + products[1])).astype(float)
        both = freedom + _distance(whole, deviation, observed | scored, noise, groups.phi)[0] / wider
        log_diagonal = np.log(np.diag(whole)).sum() - np.log(np.diag(root)).sum()
        log_diagonal += scored.sum() / 2 * np.log(wider / noise)
    return location, square_scale, np.array([seen, both, log_diagonal])


def _distance(
    root: Array, deviation: Array, known: NDArray[np.bool_], noise_precision: float, phi: Array
) -> tuple[float, Array]:
    """Return the squared distance of known entries from the mean, and the expected weights given them."""
    pull = noise_precision * phi[:, known] @ deviation[known]
    expected = np.asarray(cho_solve((root, True), pull, check_finite=False))
    return float(noise_precision * (deviation[known] ** 2).sum() - pull @ expected), expected


def _group_of(
    values: NDArray[np.float32],
    variance: NDArray[np.float32],
    weights: Array,
    squares: Array,
    groups: FeatureGroups,
    *,
    switched: bool,
) -> _GroupOfWeights:
    """Return what the rows of a group say of their weights.

    Parameters
    ----------
    values, variance : arrays, shape (members, D)
        The rows, and the variances of their entries.
    weights : array, shape (members, K)
        Expected weights of the rows.
    squares : array, shape (members,)
        Sums of the squares of what the features leave of the rows.
    groups : FeatureGroups
    switched : bool
        Whether features that the rows do not use are left out.
    """
    size, n_columns = values.shape
    mean = values.mean(axis=0, dtype=np.float64)
    center = weights.mean(axis=0)
    deviations = weights - center
    scatter = deviations.T @ deviations
    # The weights are known up to the entries that are missing, and up to noise.
    scatter += (groups.regression * variance.sum(axis=0, dtype=np.float64)) @ groups.regression.T
    used = groups.uses(np.diag(scatter), size) > 0 if switched else None
    scatter += size * groups.weight_covariance
    covariance = (scatter + groups.prior_rows * np.diag(groups.weight_variance)) / (size + groups.prior_rows)
    if used is not None:
        covariance = np.where(np.outer(used, used), covariance, 0.0)
        covariance += np.diag(np.where(used, 0.0, LEAST_VARIANCE * groups.weight_variance))
    left = mean - center @ groups.phi
    n_missing = np.count_nonzero(variance)
    residual = squares.sum() - size * (left**2).sum() + n_missing / groups.g_o
    residual += size * groups.signal_variance
    noise = residual + NOISE_ROWS * n_columns / groups.g_o
    noise_precision = (size + NOISE_ROWS) * n_columns / noise
    precision = np.linalg.inv(covariance)
    return _GroupOfWeights(mean, (precision + precision.T) / 2, float(noise_precision))
