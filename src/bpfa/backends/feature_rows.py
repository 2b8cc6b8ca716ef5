"""Groups that use the features of the model, for many rows at a time (docs/math.md section 23).

What `bpfa.model.row_features` computes for one group after another is computed here for a block of rows at
once, by products and factorisations of stacked matrices. Their library may be NumPy or CuPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa.model.row_features import LEAST_VARIANCE, NOISE_ROWS, FeatureGroups, KeptWeights
from bpfa.model.row_groups import KeptRows, Queries, StudentRows

__all__ = ["FeatureRows", "predict_in_blocks"]


@dataclass(frozen=True)
class _Sums:
    """Sums over the rows of a group of every query."""

    values: Any
    """Queries x D."""
    weights: Any
    """Queries x K."""
    products: Any
    """Products of the weights, queries x K x K."""
    variance: Any
    """Variances of the entries that are missing, queries x D."""
    n_missing: Any
    squares: Any
    """Of what the features leave of the rows; one number for each query, as n_missing."""

    def __add__(self, more: _Sums) -> _Sums:
        return _Sums(*(mine + its for mine, its in zip(self.parts, more.parts, strict=True)))

    @property
    def parts(self) -> tuple[Any, ...]:
        return self.values, self.weights, self.products, self.variance, self.n_missing, self.squares


@dataclass(frozen=True)
class _Normal:
    """The normal distribution that the groups of all queries give to a row."""

    mean: Any
    """Queries x D."""
    precision: Any
    """Of the weights, queries x K x K."""
    noise: Any
    """Precision of the noise, one number for each query."""


@dataclass(frozen=True)
class _Given:
    """What is known of the queries, and m columns of each that contain all of its missing ones."""

    values: Any
    observed: Any
    scored: Any
    """Queries x D, as the two before."""
    columns: Any
    """Numbers of the columns, queries x m."""
    missing: Any
    """Whether these are missing, queries x m."""
    features: Any
    """The features in these columns, 0 where they are not missing, queries x K x m."""
    shown: Any
    """Products of the features over the observed columns, queries x K x K."""
    looked_at: Any
    """The same over the scored columns."""


class FeatureRows:
    """Predicts rows by groups that use the features of the model.

    Parameters
    ----------
    xp : module
        NumPy or its counterpart on a device, where the arrays of the group are placed once.
    kept : KeptRows
    weights : KeptWeights
    groups : FeatureGroups
    """

    def __init__(self, xp: ModuleType, kept: KeptRows, weights: KeptWeights, groups: FeatureGroups) -> None:
        self._xp, self._groups = xp, groups
        self._values, self._variance = xp.asarray(kept.values), xp.asarray(kept.variance)
        self._weights, self._squares = xp.asarray(weights.expected), xp.asarray(weights.squares)
        self._some_missing = bool(kept.variance.any())
        self._phi, self._regression = xp.asarray(groups.phi), xp.asarray(groups.regression)

    def __call__(self, queries: Queries, nearest: NDArray[np.int32]) -> tuple[Any, Any, Any]:
        """Return locations, squared scales and the three sums of densities, as kernels do.

        Parameters
        ----------
        queries : Queries
        nearest : int32 array, shape (queries, members)

        Returns
        -------
        mean, square_scale : arrays, shape (groups, queries, D)
        sums : array, shape (3, groups, queries)
        """
        xp, groups = self._xp, self._groups
        rows, given = xp.asarray(nearest), self._given(queries)
        shape = len(groups.members), *given.values.shape
        mean, square_scale = xp.zeros((2, *shape), dtype=np.float32)
        sums, total, before = xp.empty((3, *shape[:2])), None, 0
        mean[:] = given.values
        places = xp.arange(shape[1])[:, None], given.columns
        for size in np.unique(groups.members):
            # The rows of a small group are the first ones of a larger group.
            more = self._sums(rows[:, before:size])
            total, before = (more if total is None else total + more), int(size)
            scatter = self._scatter(total, int(size))
            for c in np.flatnonzero(groups.members == size):
                switched = bool(groups.switched) and groups.switched[c]
                group = self._normal(total, scatter, int(size), switched=switched)
                location, scale, sums[:, c] = self._predicted(group, given, int(size))
                mean[c][places] = xp.where(given.missing, location, mean[c][places])
                square_scale[c][places] = xp.where(given.missing, scale, 0.0)
        return mean, square_scale, sums

    def _given(self, queries: Queries) -> _Given:
        """Return what is known of the queries, with the columns that are missing in front."""
        xp, phi = self._xp, self._phi
        values = xp.asarray(queries.values).astype(np.float64)
        observed = xp.asarray(queries.observed) != 0
        scored = (xp.asarray(queries.scored) != 0) & ~observed
        columns = xp.argsort(observed, axis=1)[:, : int(_looked_at(queries).max())]
        missing = ~xp.take_along_axis(observed, columns, axis=1)
        features = phi[:, columns].swapaxes(0, 1) * missing[:, None, :]
        of_scored = features * xp.take_along_axis(scored, columns, axis=1)[:, None, :]
        unseen, looked_at = (part @ part.swapaxes(1, 2) for part in (features, of_scored))
        return _Given(values, observed, scored, columns, missing, features, phi @ phi.T - unseen, looked_at)

    def _sums(self, rows: Any) -> _Sums:
        """Return sums over some rows of every query, whose numbers are `rows`, queries x members."""
        weights, variance = self._weights[rows], self._variance[rows]
        return _Sums(
            self._values[rows].sum(axis=1, dtype=np.float64),
            weights.sum(axis=1),
            weights.swapaxes(1, 2) @ weights,
            variance.sum(axis=1, dtype=np.float64),
            (variance != 0).sum(axis=(1, 2)),
            self._squares[rows].sum(axis=1),
        )

    def _scatter(self, sums: _Sums, size: int) -> Any:
        """Return the sums of products of the deviations of the weights from their mean, queries x K x K."""
        center = sums.weights / size
        scatter = sums.products - size * center[:, :, None] * center[:, None, :]
        # The weights are known up to the entries that are missing.
        if self._some_missing:
            scatter += (self._regression * sums.variance[:, None, :]) @ self._regression.T
        return scatter

    def _normal(self, sums: _Sums, scatter: Any, size: int, *, switched: bool) -> _Normal:
        """Return what the groups of one size say of a row."""
        xp, groups = self._xp, self._groups
        n_columns, prior = self._phi.shape[1], xp.asarray(groups.weight_variance)
        known = xp.asarray(groups.weight_covariance)
        mean, center = sums.values / size, sums.weights / size
        squares = xp.diagonal(scatter, axis1=1, axis2=2)
        used = self._used(squares, size) if switched else None
        # The weights are also known up to noise.
        covariance = scatter + size * known + groups.prior_rows * xp.diag(prior)
        covariance /= size + groups.prior_rows
        if used is not None:
            covariance = xp.where(used[:, :, None] & used[:, None, :], covariance, 0.0)
            unused = xp.where(used, 0.0, LEAST_VARIANCE * prior)
            covariance += unused[:, :, None] * xp.eye(len(prior))
        # A product for each query: the rounding of a single one would depend on how many there are.
        left = mean - (center[:, None, :] @ self._phi)[:, 0]
        residual = sums.squares - size * (left**2).sum(axis=1) + sums.n_missing / groups.g_o
        residual += size * groups.signal_variance + NOISE_ROWS * n_columns / groups.g_o
        precision = xp.linalg.inv(covariance)
        symmetric = (precision + precision.swapaxes(1, 2)) / 2
        return _Normal(mean, symmetric, (size + NOISE_ROWS) * n_columns / residual)

    def _used(self, squares: Any, size: int) -> Any:
        """Return which features the groups use, queries x K; their evidence is computed on the host."""
        return self._xp.asarray(self._groups.uses(_on_host(squares), size) > 0)

    def _predicted(self, group: _Normal, given: _Given, size: int) -> tuple[Any, Any, Any]:
        """Return location and squared scale of the missing columns, and the three sums of densities."""
        xp, wider, freedom = self._xp, (size + 1) / size, self._groups.prior_rows + size + 2
        noise, deviation = group.noise, given.values - group.mean
        precision = self._precision(group, given.shown)
        root = xp.linalg.cholesky(precision)
        inverse = xp.linalg.inv(root)
        distance, expected = self._distance(precision, deviation * given.observed, noise)
        seen = freedom + distance / wider
        spread = ((inverse @ given.features) ** 2).sum(axis=1) + 1 / noise[:, None]
        location = xp.take_along_axis(group.mean, given.columns, axis=1)
        location = location + (expected[:, None, :] @ given.features)[:, 0]
        square_scale = wider * spread * (seen / (freedom + given.observed.sum(axis=1)))[:, None]
        both, log_diagonal = seen, xp.zeros(len(seen))
        if bool(given.scored.any()):
            precision = self._precision(group, given.shown + given.looked_at)
            distance, _ = self._distance(precision, deviation * (given.observed | given.scored), noise)
            both = freedom + distance / wider
            # Copied, because NumPy 1.26 has two ways to take logarithms of numbers that are apart in memory,
            # whose last bits differ, and chooses one by the addresses.
            logs = [
                xp.log(xp.diagonal(factor, axis1=1, axis2=2).copy()).sum(axis=1)
                for factor in (xp.linalg.cholesky(precision), root)
            ]
            log_diagonal = logs[0] - logs[1] + given.scored.sum(axis=1) / 2 * xp.log(wider / noise)
        return location, square_scale, xp.stack([seen, both, log_diagonal])

    def _precision(self, group: _Normal, shown: Any) -> Any:
        """Return the precisions of the weights given known entries, queries x K x K."""
        return group.precision + group.noise[:, None, None] * shown

    def _distance(self, precision: Any, deviation: Any, noise: Any) -> tuple[Any, Any]:
        """Return squared distances of known entries from the mean, and the expected weights given them."""
        pull = noise[:, None] * (deviation[:, None, :] @ self._phi.T)[:, 0]
        expected = self._xp.linalg.solve(precision, pull[:, :, None])[:, :, 0]
        return noise * (deviation**2).sum(axis=1) - (pull * expected).sum(axis=1), expected


def predict_in_blocks(
    predict: FeatureRows,
    queries: Queries,
    nearest: NDArray[np.int32],
    groups: FeatureGroups,
    block_numbers: int,
    run: Callable[[Callable[[Any], None], Iterable[Any]], Iterable[None]] = map,
) -> StudentRows:
    """Return what the groups of every query predict for it, computed for one block of queries after another.

    All queries of a block have the same number of columns looked at, whatever other queries there are. Some
    libraries round sums over more columns differently, even if what is added is 0.

    Parameters
    ----------
    predict : FeatureRows
    queries : Queries
    nearest : int32 array, shape (queries, members)
    groups : FeatureGroups
    block_numbers : int
        How many numbers the largest array of a block may have. Results do not depend on it.
    run : callable
        Applies a function to every block: `map`, or that of a pool of threads.
    """
    n_columns = queries.values.shape[1]
    step = max(1, block_numbers // (int(groups.members[-1]) * max(n_columns, len(groups.phi))))
    mean, square_scale = np.empty((2, len(groups.members), len(queries), n_columns), np.float32)
    sums = np.empty((3, len(groups.members), len(queries)))

    def fill(block: NDArray[np.intp]) -> None:
        found = map(_on_host, predict(queries.of_rows(block), nearest[block]))
        mean[:, block], square_scale[:, block], sums[:, :, block] = found

    looked_at = _looked_at(queries)
    alike = [np.flatnonzero(looked_at == number) for number in np.unique(looked_at)]
    blocks = [rows[start : start + step] for rows in alike for start in range(0, len(rows), step)]
    for _ in run(fill, blocks):
        pass
    return StudentRows.of_sums(groups.freedom, queries, mean, square_scale, sums)


def _looked_at(queries: Queries) -> NDArray[np.int64]:
    """Return how many columns of every query are looked at: its missing ones, rounded up to a power of 2."""
    n_missing = np.maximum(1, (queries.observed == 0).sum(axis=1))
    powers: NDArray[np.int64] = 2 ** np.ceil(np.log2(n_missing)).astype(np.int64)
    return np.minimum(powers, queries.observed.shape[1]).astype(np.int64)


def _on_host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else array
