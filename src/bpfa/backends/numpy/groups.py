"""Factor models of groups of like rows in NumPy: the specification (docs/math.md section 19)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.backends.groups import GroupKernels, PatchSearch
from bpfa.model.groups import GroupAverage, GroupModel, Members, Windows

__all__ = [
    "Completed",
    "NumpyGroups",
    "best_rank",
    "complete_rows",
    "fit_group",
    "group_covariance",
    "parameter_variance",
]


class Completed(NamedTuple):
    """The rows of a group given its model."""

    mean: Array
    """Mean of every entry without noise, members x D."""
    variance: Array
    """Variance of every entry given the mean and the features of the group, members x D."""
    covariance: Array
    """Sum of the covariances C_n of all rows, D x D."""


class NumpyGroups(GroupKernels):
    """Groups on the host, one after another."""

    def find_members(
        self, values: NDArray[np.float32], search: PatchSearch, n_threads: int = 1
    ) -> NDArray[np.int64]:
        """Return where the members of each group begin in the flattened picture; see `GroupKernels`."""
        first = np.full((len(search.y), len(search.x), search.n_members), -1, np.int64)
        for i, (z, y) in enumerate(zip(search.slices, search.y, strict=True)):
            for j, x in enumerate(search.x):
                nearest = sorted(_candidates(values, search, (int(z), int(y), int(x))))[: search.n_members]
                first[i, j, : len(nearest)] = [place for _, place in nearest]
        return first

    def add_groups(
        self,
        windows: Windows,
        first: NDArray[np.int64],
        blocks: NDArray[np.int64],
        model: GroupModel,
        average: GroupAverage,
        part: int = 0,
        n_threads: int = 1,
    ) -> None:
        """Fit one part of all groups and add what they say of their members; see `GroupKernels`."""
        ranks = np.empty(len(first), np.int32)
        for group, begins in enumerate(first):
            entries = begins[begins >= 0][:, None] + windows.offsets[part]
            mean, variance, weight, ranks[group], residuals = fit_group(windows, entries, model)
            shift = mean - windows.current[entries]
            for sums, term in zip(
                average.sums, (weight, weight * shift, weight * shift**2, weight * variance), strict=True
            ):
                np.add.at(sums, entries, term)
            average.residuals[part] += residuals
        average.count(ranks)

    def fit_members(
        self, windows: Windows, first: NDArray[np.int64], n_kept: int, model: GroupModel, n_threads: int = 1
    ) -> Members:
        """Fit the first part of all groups and return what they say; see `GroupKernels`."""
        n_columns = windows.offsets.shape[1]
        means, variances = np.zeros((2, len(first), n_kept, n_columns), np.float32)
        ranks, residuals = np.empty(len(first), np.int32), np.zeros((2, n_columns))
        for group, begins in enumerate(first):
            entries = begins[begins >= 0][:, None] + windows.offsets[0]
            mean, variance, _, ranks[group], own = fit_group(windows, entries, model)
            n = min(n_kept, len(mean))
            means[group, :n], variances[group, :n] = mean[:n], variance[:n]
            residuals += own
        return Members(means, variances, ranks, residuals)


def _candidates(
    values: NDArray[np.float32], search: PatchSearch, reference: tuple[int, int, int]
) -> Iterator[tuple[float, int]]:
    """Yield how different each candidate is from a reference, and where it begins in the picture."""
    (height, width), reaches = search.size, (search.slice_reach, search.reach, search.reach)
    last = values.shape[0] - 1, values.shape[1] - height, values.shape[2] - width
    ranges = (
        range(max(here - reach, 0), min(here + reach, end) + 1)
        for here, reach, end in zip(reference, reaches, last, strict=True)
    )
    z, y, x = reference
    patch = values[z, y : y + height, x : x + width].astype(np.float64)
    for other in product(*ranges):
        z, y, x = other
        apart = sum((a - b) ** 2 for a, b in zip(reference, other, strict=True))
        difference = float(np.mean((patch - values[z, y : y + height, x : x + width]) ** 2))
        # The reference itself comes first even if another patch is equal to it.
        score = difference + search.distance_weight * apart if apart else -1.0
        yield score, int(np.ravel_multi_index((*other, 0), values.shape))


def fit_group(
    windows: Windows, entries: NDArray[np.int64], model: GroupModel
) -> tuple[Array, Array, Array, int, Array]:
    """Fit the factor model of one group by EM, started from the completed rows.

    Parameters
    ----------
    windows : Windows
    entries : array, shape (members, D)
        Position of every entry in the flat arrays.
    model : GroupModel

    Returns
    -------
    mean, variance, weight : arrays, shape (members, D)
    rank : int
        Number of features; -1 where the covariance is full.
    residuals : array, shape (2, D)
    """
    rows = windows.current[entries].astype(np.float64)
    seen, observed = windows.seen[entries].astype(np.float64), windows.observed[entries].astype(bool)
    noise = model.noise.astype(np.float64)
    unknown, features = np.zeros((rows.shape[1], rows.shape[1])), None
    for _ in range(model.n_iterations):
        center = rows.mean(axis=0)
        scatter = (rows - center).T @ (rows - center) + unknown
        covariance, features = group_covariance(scatter, len(rows), model, features)
        rows, variance, unknown = complete_rows(center, covariance, seen, observed, noise)
    extra, residuals = parameter_variance(rows, variance, covariance, seen, observed, noise)
    rank = -1 if features is None else len(features)
    return rows, variance + extra, 1 / (variance + model.weight_share * noise), rank, residuals


def group_covariance(
    scatter: Array, n_rows: int, model: GroupModel, features: Array | None
) -> tuple[Array, Array | None]:
    """Return the covariance S of a group's rows, and its features as orthonormal rows.

    The features of the first iteration are leading eigenvectors, as many as have the best odds. Later ones
    follow from those of the iteration before by one step of orthogonal iteration.

    Parameters
    ----------
    scatter : array, shape (D, D)
        Sum over the rows of (X_n - mu)(X_n - mu)^T + C_n.
    n_rows : int
    model : GroupModel
    features : array, shape (q, D), or None
        Features of the iteration before.

    Examples
    --------
    >>> model = GroupModel(np.ones(2, np.float32), 0.5, 1, log_prior=np.zeros(3))
    >>> group_covariance(np.diag([400.0, 20.0]), 20, model, None)[0]
    array([[20.5,  0. ],
           [ 0. ,  1.5]])
    """
    n_columns = len(scatter)
    if model.prior is not None:
        scale = np.trace(scatter) / n_rows / np.trace(model.prior)
        scatter = scatter + model.prior_rows * scale * model.prior
    covariance = scatter / (n_rows + (0.0 if model.prior is None else model.prior_rows))
    if model.log_prior is None:
        return covariance + model.floor * np.eye(n_columns), None
    if features is None:
        values, vectors = np.linalg.eigh(covariance)
        values = np.maximum(values[::-1], 0) + model.floor
        features = vectors.T[::-1][: best_rank(values, n_rows, model.log_prior, model.floor)]
    else:
        features = np.linalg.qr((features @ covariance).T)[0].T
    own = features @ covariance @ features.T
    rest = max(np.trace(covariance) - np.trace(own), 0.0) / (n_columns - len(features))
    signal = features.T @ (own - rest * np.eye(len(features))) @ features
    return signal + (rest + model.floor) * np.eye(n_columns), features


def best_rank(values: Array, n_rows: int, log_prior: Array, floor: float) -> int:
    """Return the number of features with the best odds, given the eigenvalues in descending order.

    Examples
    --------
    >>> best_rank(np.array([9.0, 5.0, 1.0, 1.0, 1.0]), 100, np.zeros(6), 0.01)
    2
    """
    n_columns, n_rows = len(values), max(n_rows, 2)
    scores = []
    for q in range(n_columns):
        rest = max(values[q:].mean(), floor)
        fit = np.log(values[:q]).sum() + (n_columns - q) * np.log(rest)
        n_parameters = n_columns * q - q * (q + 1) / 2
        scores.append(-n_rows / 2 * fit - n_parameters * np.log(n_rows) / 2 + log_prior[q])
    return int(np.argmax(scores))


def complete_rows(
    center: Array, covariance: Array, seen: Array, observed: NDArray[np.bool_], noise: Array
) -> Completed:
    """Return every row given its observed entries: Gaussian conditionals of N(center, covariance).

    Parameters
    ----------
    center : array, shape (D,)
    covariance : array, shape (D, D)
    seen, observed : arrays, shape (members, D)
    noise : array, shape (D,)

    Examples
    --------
    >>> complete_rows(np.zeros(2), np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([[4.0, 0.0]]),
    ...               np.array([[True, False]]), np.full(2, 2.0)).mean
    array([[2., 1.]])
    """
    mean, variance = np.empty(seen.shape), np.empty(seen.shape)
    unknown = np.zeros_like(covariance)
    for n, o in enumerate(observed):
        gain = np.linalg.solve(covariance[np.ix_(o, o)] + np.diag(noise[o]), covariance[o]).T
        mean[n] = center + gain @ (seen[n, o] - center[o])
        own = covariance - gain @ covariance[o]
        variance[n] = np.diag(own)
        unknown += own
    return Completed(mean, variance, unknown)


def parameter_variance(
    rows: Array, variance: Array, covariance: Array, seen: Array, observed: NDArray[np.bool_], noise: Array
) -> tuple[Array, Array]:
    """Return the variance that stems from what is not known of a group's mean and features.

    Also returns the squared residuals of the observed entries by column, and their expectation in units of
    the noise. `variance` is brought into its range in place.

    Parameters
    ----------
    rows, variance, seen, observed : arrays, shape (members, D)
    covariance : array, shape (D, D)
    noise : array, shape (D,)
    """
    np.clip(variance, 0.0, np.where(observed, noise, np.inf), out=variance)
    ratio = np.where(observed, variance / noise, 0.0)
    freedom = 1 + ratio.sum(axis=1, keepdims=True)
    left = 1 - ratio
    n_seen = observed.sum(axis=0)
    spread = np.where(observed, noise / np.maximum(left, 1e-6), noise + variance)
    extra = left**2 / (n_seen / (spread * freedom) + 1 / np.diag(covariance))
    squares = np.where(observed, (seen - rows) ** 2, 0.0).sum(axis=0)
    expected = np.where(observed, left * (1 - freedom / (n_seen + freedom)), 0.0).sum(axis=0)
    return extra, np.stack([squares, expected])
