"""The weights of rows integrated out: what the features that are on say of the entries of a row.

Given z and the globals, the weights in use and the entries of a row are jointly Gaussian::

    Lambda_S = g_w I + g_o Phi_S Phi_S^T        b_S = g_o Phi_S y_S

for the features that are on and a set S of entries. So a draw of z gives the exact mean, variance and density
of entries, where a draw of z and w gives a point: predictions need fewer draws, and densities do not hang on
the luck of a draw coming close.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._checks import Array
from bpfa.data import Batch

__all__ = ["Signal", "log_predictive", "signal"]

# Numbers in the features of a group of rows: some tens of MiB.
GROUP_NUMBERS = 2**22


class Signal(NamedTuple):
    """Distribution of the entries of rows, without noise, given which features are on; rows x columns."""

    mean: Array
    variance: Array


def signal(on: NDArray[np.bool_], phi: Array, g_o: float, g_w: float, batch: Batch) -> Signal:
    """Return mean and variance of every entry given the observed ones.

    Parameters
    ----------
    on : boolean array, rows x K
    phi : array, K x D
    g_o, g_w : float
    batch : Batch

    Examples
    --------
    >>> found = signal(np.array([[True]]), np.ones((1, 2)), 1.0, 1.0, Batch([[3.0, np.nan]]))
    >>> found.mean, found.variance
    (array([[1.5, 1.5]]), array([[0.5, 0.5]]))
    """
    mean, variance = np.zeros(batch.values.shape), np.zeros(batch.values.shape)
    for rows, features in _groups(on, phi):
        precision, b = _normal_equations(features, batch.values[rows], batch.observed[rows], g_o, g_w)
        weights = np.linalg.solve(precision, b[:, :, None])[:, :, 0]
        mean[rows] = np.einsum("ra,rad->rd", weights, features)
        variance[rows] = np.einsum("rad,rad->rd", features, np.linalg.solve(precision, features))
    return Signal(mean, variance)


def log_predictive(
    on: NDArray[np.bool_],
    phi: Array,
    g_o: float,
    g_w: float,
    batch: Batch,
    truth: Array,
    hidden: NDArray[np.bool_],
) -> Array:
    """Return log p(hidden entries | observed entries, z, globals) of every row, jointly over its entries.

    Parameters
    ----------
    on, phi, g_o, g_w, batch
        As in `signal`.
    truth : array, rows x columns
        With the values of the hidden entries.
    hidden : boolean array, rows x columns

    Examples
    --------
    >>> hidden = np.array([[False, True]])
    >>> args = np.array([[True]]), np.ones((1, 2)), 1.0, 1.0, Batch([[3.0, np.nan]])
    >>> log_predictive(*args, np.array([[3.0, 1.5]]), hidden).round(4)
    array([-1.1217])
    """
    values = np.where(hidden, truth, batch.values)
    squares = np.where(hidden, values**2, 0.0).sum(axis=1)
    density: Array = hidden.sum(axis=1) / 2 * np.log(g_o / (2 * np.pi)) - g_o / 2 * squares
    for rows, features in _groups(on, phi):
        for sign, seen in ((1, batch.observed[rows] | hidden[rows]), (-1, batch.observed[rows])):
            precision, b = _normal_equations(features, values[rows], seen, g_o, g_w)
            explained = (b * np.linalg.solve(precision, b[:, :, None])[:, :, 0]).sum(axis=1)
            density[rows] += sign * (explained - np.linalg.slogdet(precision).logabsdet) / 2
    return density


def _normal_equations(
    features: Array, values: Array, seen: NDArray[np.bool_], g_o: float, g_w: float
) -> tuple[Array, Array]:
    """Return Lambda_S and b_S of every row for its own S."""
    over_seen = features * seen[:, None, :]
    precision = g_o * over_seen @ features.transpose(0, 2, 1)
    diagonal = np.arange(features.shape[1])
    precision[:, diagonal, diagonal] += g_w
    return precision, g_o * (over_seen @ values[:, :, None])[:, :, 0]


def _groups(on: NDArray[np.bool_], phi: Array) -> Iterator[tuple[NDArray[np.int64], Array]]:
    """Yield rows with the same number of features on, and these features, rows x features x columns."""
    counts = on.sum(axis=1)
    for count in np.unique(counts[counts > 0]):
        rows = np.flatnonzero(counts == count)
        size = max(1, GROUP_NUMBERS // (int(count) * phi.shape[1]))
        for first in range(0, len(rows), size):
            some = rows[first : first + size]
            yield some, phi[np.nonzero(on[some])[1].reshape(len(some), count)]
