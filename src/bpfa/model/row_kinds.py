"""Kinds of rows: a mixture of Student t distributions for a whole table (docs/math.md section 23).

Where groups of like rows are found anew for every row, kinds are few, and shared by all rows. A kind has the
prior of a group, and its mean and covariance are integrated out in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from bpfa._support.checks import Array
from bpfa.model.row_groups import RowGroups

__all__ = ["RowKinds", "log_shares", "log_totals", "observed_log_density"]

# A row counts for a kind if its share in the kind is at least this.
LEAST_SHARE = 1e-4
# A kind has at least so many rows, or is given up.
FEWEST_ROWS = 2.0


@dataclass(frozen=True)
class RowKinds:
    """Kinds of rows.

    Parameters
    ----------
    log_weights : array, shape (R,)
        Logarithms of the shares of the kinds among all rows.
    mean : array, shape (R, D)
    scale : array, shape (R, D, D)
        Scale matrices.
    freedom : array, shape (R,)
        Degrees of freedom.

    Examples
    --------
    >>> scale = np.array([[[1.0]], [[4.0]]])
    >>> kinds = RowKinds(np.log([0.5, 0.5]), np.zeros((2, 1)), scale, np.array([5.0, 5.0]))
    >>> len(kinds), kinds.precision.ravel()
    (2, array([1.  , 0.25]))
    """

    log_weights: Array
    mean: Array
    scale: Array
    freedom: Array

    def __len__(self) -> int:
        return len(self.mean)

    @cached_property
    def precision(self) -> Array:
        """Inverses of the scale matrices."""
        return np.asarray(np.linalg.inv(self.scale), np.float64)

    @cached_property
    def log_root(self) -> Array:
        """Halves of the logarithms of the determinants of the scale matrices."""
        return np.asarray(np.linalg.slogdet(self.scale)[1] / 2)

    @classmethod
    def of_sums(
        cls,
        counts: Array,
        first: Array,
        second: Array,
        center: Array,
        prior_rows: float,
        groups: RowGroups,
        most_rows: Array | float = np.inf,
    ) -> RowKinds:
        """Return the kinds with these sums over their rows, with mean and covariance integrated out.

        Kinds with hardly any rows are left out.

        Parameters
        ----------
        counts : array, shape (R,)
            Sums of the shares of all rows.
        first : array, shape (R, D)
            Sums of the deviations of the rows from `center`.
        second : array, shape (R, D, D)
            Sums of the products of these deviations.
        center : array, shape (R, D)
        prior_rows : float
            nu, the number of rows that the prior covariance counts for.
        groups : RowGroups
            The prior; its sizes of groups are not used.
        most_rows : array, shape (D,), or float
            How many rows the spread of every column in the whole table rests on. The rows of a kind cannot
            tell more about it: where they are more, so many of them tell what they show, and the variance of
            the others is what so many rows and the prior make likely. What this adds to the variance of a
            column is noise of its own.

        Examples
        --------
        >>> prior = RowGroups(np.eye(1, dtype=np.float32), np.array([2]), np.array([2.0]), scale_rows=np.inf)
        >>> kinds = RowKinds.of_sums(np.array([2.0, 0.0]), np.array([[4.0], [0.0]]),
        ...                          np.array([[[10.0]], [[0.0]]]), np.zeros((2, 1)), 2.0, prior)
        >>> kinds.mean, kinds.scale, kinds.freedom
        (array([[2.]]), array([[[1.]]]), array([6.]))
        """
        kept = np.flatnonzero(counts >= FEWEST_ROWS)
        means, scales = [], []
        for k in kept:
            n = counts[k]
            scatter = second[k] - np.outer(first[k], first[k]) / n
            scatter = (scatter + scatter.T) / 2
            scale = (scatter + prior_rows * groups.prior_of(scatter, n)) / (prior_rows + n + 2)
            fewer = np.minimum(n, most_rows)
            squares = np.diag(scatter) * fewer / n
            unknown = groups.prior_variances(squares, fewer) - np.diag(scale)
            noise = (1 - fewer / n) * np.maximum(unknown, 0.0)
            means.append(center[k] + first[k] / n)
            scales.append((scale + np.diag(noise)) * (n + 1) / n)
        counts = counts[kept]
        weights = (counts + 1) / (counts.sum() + len(counts))
        return cls(np.log(weights), np.array(means), np.array(scales), prior_rows + counts + 2)


def observed_log_density(
    kinds: RowKinds, n_observed: NDArray[np.int64], seen: Array, log_root: Array
) -> Array:
    """Return the log density of the observed entries of rows together with their kinds, (kinds, rows).

    Parameters
    ----------
    kinds : RowKinds
    n_observed : int array, shape (rows,)
    seen : array, shape (kinds, rows)
        Degrees of freedom plus the squared distance of the observed entries.
    log_root : array, shape (kinds, rows)
        Half the logarithm of the determinant of the precision of the entries that are not observed.

    Examples
    --------
    >>> from scipy.stats import t
    >>> kinds = RowKinds(np.zeros(1), np.zeros((1, 1)), np.ones((1, 1, 1)), np.array([5.0]))
    >>> found = observed_log_density(kinds, np.array([1]), np.array([[5.0 + 0.7**2]]), np.zeros((1, 1)))
    >>> bool(np.isclose(found[0, 0], t(5).logpdf(0.7)))
    True
    """
    freedom = kinds.freedom[:, None]
    # The slow functions are evaluated once for every number of observed entries, of which there are few.
    counts = np.flatnonzero(np.bincount(n_observed))
    place = np.searchsorted(counts, n_observed)
    ends = gammaln((freedom + counts) / 2) - gammaln(freedom / 2)
    ends = (ends - counts / 2 * np.log(np.pi * freedom))[:, place]
    bodies = (freedom + n_observed) / 2 * np.log(seen / freedom)
    density: Array = kinds.log_weights[:, None] + ends - bodies - kinds.log_root[:, None] - log_root
    return density


def log_shares(log_density: Array) -> Array:
    """Return the logarithms of the probabilities of the kinds of every row, given its observed entries.

    Parameters
    ----------
    log_density : array, shape (kinds, rows)

    Examples
    --------
    >>> np.exp(log_shares(np.log([[1.0], [3.0]]))).ravel()
    array([0.25, 0.75])
    """
    shares: Array = log_density - log_totals(log_density)
    return shares


def log_totals(log_density: Array) -> Array:
    """Return the logarithms of the densities of rows, whatever their kinds.

    Parameters
    ----------
    log_density : array, shape (kinds, rows)

    Examples
    --------
    >>> np.exp(log_totals(np.log([[1.0], [3.0]])))
    array([4.])
    """
    # This is `numpy.logaddexp.reduce`, which takes several times as long. Kinds are added one after another,
    # so that the bits do not depend on the number of rows: NumPy adds those of a single row in another order.
    highest = log_density.max(axis=0)
    totals: Array = highest + np.log(sum(np.exp(log_density - highest)))
    return totals
