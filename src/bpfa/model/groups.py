"""Groups of like rows, each with a factor model of its own (docs/math.md section 19).

This module holds what every backend must know of such a model; nothing in it depends on where the rows come
from. A member of a group is a window into flat arrays: entry d is at `first + offsets[d]`. Rows of a
table and overlapping patches of a picture are therefore the same thing to the backends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from bpfa._support.checks import Array
from bpfa.model.priors import Priors

__all__ = ["GroupAverage", "GroupModel", "Members", "Windows", "rank_log_prior"]


@dataclass(frozen=True)
class GroupModel:
    """What all groups of a round have in common.

    Parameters
    ----------
    noise : array, shape (D,)
        Variance of the noise of each column.
    floor : float
        eps_0, the least variance of what the features of a group do not explain.
    n_iterations : int
        Number of EM iterations for each group.
    log_prior : array, shape (D + 1,), or None
        Log probability of a group having q features, for q = 0 to D, up to a constant; `rank_log_prior`
        computes it. With None every group has a full covariance.
    prior : array, shape (D, D), optional
        Covariance that the covariance of a group is shrunk towards, up to its scale.
    prior_rows : float
        Number of rows that `prior` counts for.
    weight_share : float
        Share of the noise variance that is added to the variance of a prediction when it is weighted.
    """

    noise: NDArray[np.float32]
    floor: float
    n_iterations: int
    log_prior: Array | None = None
    prior: NDArray[np.float32] | None = None
    prior_rows: float = 0.0
    weight_share: float = 0.02


@dataclass(frozen=True)
class Windows:
    """Rows as windows into flat arrays.

    Parameters
    ----------
    current : float32 array
        All entries as they are completed at present.
    seen : float32 array of the same size
        The observed entries; other entries are ignored.
    observed : uint8 array of the same size
        1 where an entry is observed, and 0 elsewhere.
    offsets : int64 array, shape (parts, D)
        Entry d of part p of a row that begins at `first` is at `first + offsets[p, d]`. Each part of the rows
        of a group has a factor model of its own; usually there is one part.
    """

    current: NDArray[np.float32]
    seen: NDArray[np.float32]
    observed: NDArray[np.uint8]
    offsets: NDArray[np.int64]


@dataclass(frozen=True)
class Members:
    """What groups say of their first members.

    Parameters
    ----------
    mean, variance : float32 arrays, shape (groups, members, D)
        Estimate of every entry without noise, and the variance of its error.
    ranks : int32 array, shape (groups,)
        Number of features of each group; -1 where the covariance is full.
    residuals : array, shape (2, D)
        Squared residuals of the observed entries, and their expectation in units of the noise variance.
    """

    mean: NDArray[np.float32]
    variance: NDArray[np.float32]
    ranks: NDArray[np.int32]
    residuals: Array


class GroupAverage:
    """Average of what all groups say of every entry: sums that groups are added to one after another.

    Parameters
    ----------
    size : int
        Number of entries of the flat arrays.
    n_columns : int
    n_parts : int

    Examples
    --------
    >>> average = GroupAverage(3, 2)
    >>> average.sums[:] = [[2, 4, 0], [1, 0, 0], [1, 4, 0], [2, 4, 0]]
    >>> average.value(np.zeros(3, np.float32)).tolist()
    [0.5, 0.0, 0.0]
    >>> average.variance.tolist(), average.disagreement.tolist()
    ([1.0, 1.0, 0.0], [0.25, 1.0, 0.0])
    """

    def __init__(self, size: int, n_columns: int, n_parts: int = 1) -> None:
        self.sums = np.zeros((4, size), np.float32)
        """Weights, weighted differences from the current value, their squares, and weighted variances."""
        self.residuals = np.zeros((n_parts, 2, n_columns))
        """Squared residuals of the observed entries, and what is expected of them in units of the noise
        variance, for each part and column."""
        self.rank_counts = np.zeros(n_columns + 1, np.int64)
        """Number of groups with q features, for q = 0 to D."""

    def count(self, ranks: NDArray[np.int32]) -> None:
        """Add the numbers of features of some groups; groups with a full covariance are not counted."""
        self.rank_counts += np.bincount(ranks[ranks >= 0], minlength=len(self.rank_counts))

    def value(self, current: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the weighted mean of all estimates of every entry; entries without one stay as they are."""
        return np.asarray(current.ravel() + self._mean(1), np.float32)

    @property
    def variance(self) -> NDArray[np.float32]:
        """Weighted mean of the variances of the estimates of every entry."""
        return self._mean(3)

    @property
    def disagreement(self) -> NDArray[np.float32]:
        """Variance of the estimates of an entry around their weighted mean."""
        spread: NDArray[np.float32] = np.maximum(self._mean(2) - self._mean(1) ** 2, np.float32(0.0))
        return spread

    def _mean(self, which: int) -> NDArray[np.float32]:
        weight = self.sums[0]
        mean: NDArray[np.float32] = np.divide(
            self.sums[which], weight, out=np.zeros_like(weight), where=weight > 0
        )
        return mean


def rank_log_prior(rank_counts: NDArray[np.int64], priors: Priors) -> Array:
    """Return the log probability of a group having q features, for q = 0 to D, up to a constant.

    The k-th feature of a group is used with a probability pi_k that all groups share and whose posterior is a
    beta distribution: pi_k ~ Beta(a/D + n_k, b (D-1)/D + G - n_k), where n_k of G groups have at least k
    features. The odds of its use are digamma(a_k) - digamma(b_k).

    Parameters
    ----------
    rank_counts : array, shape (D + 1,)
        Number of groups with q features. If no group has been counted yet, all numbers are equally probable.
    priors : Priors

    Examples
    --------
    >>> rank_log_prior(np.array([0, 0, 0]), Priors())
    array([0., 0., 0.])
    >>> rank_log_prior(np.array([0, 90, 10]), Priors(a=1.0, b=1.0)).round(1)
    array([0. , 6.6, 4.4])
    """
    n_columns, n_groups = len(rank_counts) - 1, int(rank_counts.sum())
    if n_groups == 0:
        return np.zeros(n_columns + 1)
    at_least = np.cumsum(rank_counts[::-1])[::-1][1:]
    a = priors.a / n_columns + at_least
    b = priors.b * max(n_columns - 1, 1) / n_columns + n_groups - at_least
    return np.concatenate([[0.0], np.cumsum(digamma(a) - digamma(b))])
