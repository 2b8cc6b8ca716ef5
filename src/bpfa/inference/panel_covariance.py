"""The covariance of columns of which some are never observed in the same rows (docs/math.md, "Panels").

The rows of a table of panels say nothing about the covariance of two columns that are in different panels,
except for what further columns have in common with both. Factor analysis claims to know it nevertheless. A
factor that the linking columns hardly show may be one factor of the first panel and another one of the
second, and nothing in the data tells whether they are the same. The covariance is therefore taken from
factors by as much as the linking columns show them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array

__all__ = ["column_classes", "linked_covariance", "seldom_together"]

# Two columns are seldom together if fewer than this share of the rows has both that would have both if they
# were missing independently of each other, provided that this would be at least so many rows.
LEAST_TOGETHER, ENOUGH_EXPECTED = 0.5, 50
# Wider tables are not looked at.
MAX_COLUMNS = 1024
# What the belief that factors of different panels are unrelated counts for, in units of the information of
# linking columns: that of a column whose noise is ten times the variance which the factor gives it.
DOUBT = 0.1


def seldom_together(observed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which pairs of columns are observed in the same rows far less often than chance would have it.

    Parameters
    ----------
    observed : boolean array, shape (n_rows, n_columns)

    Returns
    -------
    boolean array, shape (n_columns, n_columns)

    Examples
    --------
    >>> observed = np.ones((400, 3), dtype=bool)
    >>> observed[:200, 0] = observed[200:, 2] = False
    >>> seldom_together(observed)[0]
    array([False, False,  True])
    """
    n_rows, n_columns = observed.shape
    if n_columns > MAX_COLUMNS or observed.all():
        return np.zeros((n_columns, n_columns), dtype=bool)
    seen = observed.astype(np.float32)
    together = (seen.T @ seen).astype(np.float64)
    n_observed = np.diag(together)
    expected = np.outer(n_observed, n_observed) / n_rows
    seldom: NDArray[np.bool_] = (expected >= ENOUGH_EXPECTED) & (together < LEAST_TOGETHER * expected)
    return seldom


def column_classes(seldom: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Return the columns in classes: those that are seldom together with the same others.

    Parameters
    ----------
    seldom : boolean array, shape (n_columns, n_columns)
        As returned by `seldom_together`.

    Examples
    --------
    >>> seldom = np.zeros((4, 4), dtype=bool)
    >>> seldom[0, 2:] = seldom[2:, 0] = True
    >>> [members.tolist() for members in column_classes(seldom)]
    [[1], [2, 3], [0]]
    """
    _, number = np.unique(seldom[:, ::-1], axis=0, return_inverse=True)
    return [np.flatnonzero(number.ravel() == each) for each in range(int(number.max()) + 1)]


def linked_covariance(loadings: Array, noise: Array, seldom: NDArray[np.bool_]) -> Array:
    """Return the covariance of the columns, without what no row has shown.

    Parameters
    ----------
    loadings : array, shape (n_columns, n_factors)
    noise : array, shape (n_columns,)
        Noise variance of every column.
    seldom : boolean array, shape (n_columns, n_columns)
        As returned by `seldom_together`.

    Examples
    --------
    >>> seldom = np.zeros((3, 3), dtype=bool)
    >>> seldom[0, 2] = seldom[2, 0] = True
    >>> linked_covariance(np.array([[1.0], [0.0], [1.0]]), np.ones(3), seldom)[0]
    array([2., 0., 0.])
    >>> linked_covariance(np.array([[1.0], [1.0], [1.0]]), np.ones(3), seldom)[0].round(2)
    array([2.  , 1.  , 0.95])
    """
    covariance: Array = loadings @ loadings.T + np.diag(noise)
    classes = column_classes(seldom)
    for i, first in enumerate(classes):
        for second in classes[:i]:
            if not seldom[first[0], second[0]]:
                continue
            linking = _linking(first, second, seldom)
            shown, turn = np.linalg.eigh((loadings[linking] / noise[linking, None]).T @ loadings[linking])
            # A share shown / (1 + shown) of a factor is known from the linking columns. The rest is common to
            # both classes by as much as the linking columns outweigh the doubt.
            shown = np.maximum(shown, 0.0)
            known = (shown + shown / (shown + DOUBT)) / (1 + shown)
            between = (loadings[first] @ turn * known) @ (loadings[second] @ turn).T
            covariance[np.ix_(first, second)] = between
            covariance[np.ix_(second, first)] = between.T
    return covariance


def _linking(
    first: NDArray[np.int64], second: NDArray[np.int64], seldom: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return the columns that link two classes: those observed together with both, or else with one."""
    with_first, with_second = ~seldom[first[0]], ~seldom[second[0]]
    both: NDArray[np.bool_] = with_first & with_second
    linking = both if both.any() else with_first | with_second
    linking[first] = linking[second] = False
    return linking
