"""Which features of the model a group of like rows uses (docs/math.md section 23, "Switches").

The rows of a group say, for every feature, whether its weights vary among them or not. Features that they do
not use have no part in the covariance of the group. How often groups use a feature is learned from all of
them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from bpfa._support.checks import Array
from bpfa.model.priors import Priors

__all__ = ["log_odds_of_use", "sums_of_squares", "use_evidence"]

# Rounds in which the probabilities of the features and the switches of the groups are found in turn.
N_ROUNDS = 5
# The least precision with which a row shows a weight, relative to that of the weights over all rows.
LEAST_PRECISION = 1e-9


def use_evidence(
    squares: Array, n_rows: Array | float, weight_variance: Array, known_variance: Array
) -> Array:
    """Return the log evidence that the rows of groups use a feature, relative to that they do not.

    The other features are taken to vary as in the whole table, and all weights are integrated out.

    Parameters
    ----------
    squares : array, shape (..., K)
        Sums over the rows of a group of the squared deviations of the expected weights from their mean.
    n_rows : array, shape (..., 1), or float
        Number of rows of the group, above 2.
    weight_variance : array, shape (K,)
        Variance of the weights over all rows.
    known_variance : array, shape (K,)
        Variance that the weights of a complete row still have, given its entries.

    Returns
    -------
    array, shape (..., K)

    Examples
    --------
    >>> use_evidence(np.array([0.8, 0.5]), 50, np.ones(2), np.full(2, 0.01)).round(1)
    array([ 1.7, -1.9])
    """
    # What a row says of a weight, the others integrated out, is a normal likelihood with this precision. Its
    # mean is the expected weight without what the prior shrinks it by.
    precision = np.maximum(1 / known_variance - 1 / weight_variance, LEAST_PRECISION / weight_variance)
    free = n_rows - 1.0
    # The mean square of the weights, relative to that of a feature that is not used.
    ratio = np.maximum(squares / (known_variance**2 * precision) / free, 1.0)
    # The variance in the group is estimated from its rows, for which the last term is the usual price.
    return np.asarray(free * (ratio - 1 - np.log(ratio)) / 2 - np.log(free) / 2, np.float64)


def log_odds_of_use(evidence: Array, priors: Priors) -> Array:
    """Return the log odds with which groups use the features of the model, learned from many groups.

    Parameters
    ----------
    evidence : array, shape (groups, K)
    priors : Priors
        Of the beta process.

    Examples
    --------
    >>> evidence = np.array([[5.0, -5.0], [6.0, -4.0], [5.0, 0.1]])
    >>> log_odds_of_use(evidence, Priors(a=1.0, b=1.0)).round(1)
    array([ 3.1, -3.1])
    """
    n_groups, n_features = evidence.shape
    a, b = priors.beta(n_features)
    log_odds = np.zeros(n_features)
    for _ in range(N_ROUNDS):
        n_used = (evidence + log_odds > 0).sum(axis=0)
        log_odds = digamma(a + n_used) - digamma(b + n_groups - n_used)
    return np.asarray(log_odds, np.float64)


def sums_of_squares(
    weights: Array, added: Array, nearest: NDArray[np.int32], sizes: NDArray[np.int32]
) -> Array:
    """Return the sums of the squared deviations of expected weights in groups of several sizes.

    Parameters
    ----------
    weights : array, shape (rows, K)
        Expected weights of all kept rows.
    added : array, shape (rows, K)
        What the missing entries of a row add to the squares.
    nearest : int32 array, shape (groups, members)
    sizes : int32 array, shape (sizes,)

    Returns
    -------
    array, shape (sizes, groups, K)

    Examples
    --------
    >>> weights = np.array([[1.0], [3.0], [5.0]])
    >>> sums_of_squares(weights, np.zeros((3, 1)), np.array([[0, 1, 2]]), np.array([2, 3])).ravel()
    array([2., 8.])
    """
    found = []
    for size in sizes:
        rows = nearest[:, :size]
        of_rows = weights[rows]
        deviations = of_rows - of_rows.mean(axis=1, keepdims=True)
        found.append(np.einsum("gmk,gmk->gk", deviations, deviations) + added[rows].sum(axis=1))
    return np.array(found)
