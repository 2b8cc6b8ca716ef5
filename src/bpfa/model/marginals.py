"""The distribution of the entries of a row given which features are on, with the weights integrated out.

Given z and the globals, the active weights and the entries of a row are jointly Gaussian::

    Lambda_S = g_w I + g_o Phi_S Phi_S^T        b_S = g_o Phi_S y_S

for the features that are on and a set S of entries. A draw of z therefore gives the exact mean, variance and
density of entries, whereas a draw of z and w gives only a point. Predictions need fewer draws, and densities
do not depend on whether one of the draws happens to come close.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.data import Batch

__all__ = ["Signal", "log_predictive", "signal", "weight_moments"]

# How many numbers the features of a group of rows may take; this many take 32 MiB.
GROUP_NUMBERS = 2**22


class Signal(NamedTuple):
    """The distribution of the noiseless entries of rows given which features are on; rows x columns."""

    mean: Array
    variance: Array
    """The variance of the entries that are not observed; 0 where an entry is observed."""


def signal(on: NDArray[np.bool_], phi: Array, g_o: float, g_w: float, batch: Batch) -> Signal:
    """Return the mean and variance of entries given the observed ones and which features are on.

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
    (array([[1.5, 1.5]]), array([[0. , 0.5]]))
    """
    weights, variance = np.zeros(on.shape), np.zeros(batch.values.shape)
    for group in _groups(on, phi, g_o, g_w, batch):
        columns, chosen = _packed(~batch.observed[group.rows])
        missing = _entries(phi, group.features, columns, chosen)
        # Lambda^-1 b, and Lambda^-1 times the features at the missing entries, in one call.
        solved = np.linalg.solve(group.precision, np.concatenate([group.b[:, :, None], missing], axis=2))
        weights[group.rows[:, None], group.features] = solved[:, :, 0]
        spread = np.einsum("ram,ram->rm", missing, solved[:, :, 1:])
        np.add.at(variance, (group.rows[:, None], columns), spread)
    return Signal(weights @ phi, variance)


def weight_moments(
    on: NDArray[np.bool_], phi: Array, g_o: float, g_w: float, batch: Batch
) -> tuple[Array, Array]:
    """Return the mean and the second moments of z w in every row, given which features are on.

    Parameters
    ----------
    on, phi, g_o, g_w, batch
        As in `signal`.

    Returns
    -------
    mean : array, rows x K
    second : array, rows x K x K
        E[x x^T], which is 0 for features that are off.

    Examples
    --------
    >>> weight_moments(np.array([[True]]), np.ones((1, 2)), 1.0, 1.0, Batch([[3.0, np.nan]]))
    (array([[1.5]]), array([[[2.75]]]))
    """
    n_rows, K = on.shape
    mean, second = np.zeros((n_rows, K)), np.zeros((n_rows, K, K))
    for group in _groups(on, phi, g_o, g_w, batch):
        covariance = np.linalg.inv(group.precision)
        found = (covariance @ group.b[:, :, None])[:, :, 0]
        mean[group.rows[:, None], group.features] = found
        places = group.rows[:, None, None], group.features[:, :, None], group.features[:, None, :]
        second[places] = covariance + found[:, :, None] * found[:, None, :]
    return mean, second


def log_predictive(
    on: NDArray[np.bool_],
    phi: Array,
    g_o: float,
    g_w: float,
    batch: Batch,
    truth: Array,
    held_out: NDArray[np.bool_],
) -> tuple[Array, Array]:
    """Return log p(held-out entries | observed entries, z, globals) of every row, jointly over its entries.

    Parameters
    ----------
    on, phi, g_o, g_w, batch
        As in `signal`.
    truth : array, rows x columns
        The values of the held-out entries; all other entries are ignored.
    held_out : boolean array, rows x columns

    Returns
    -------
    density : array, one number for each row
    mean : array, rows x columns
        The mean of `signal`.

    Examples
    --------
    >>> held_out = np.array([[False, True]])
    >>> args = np.array([[True]]), np.ones((1, 2)), 1.0, 1.0, Batch([[3.0, np.nan]])
    >>> density, mean = log_predictive(*args, np.array([[3.0, 1.5]]), held_out)
    >>> density.round(4), mean
    (array([-1.1217]), array([[1.5, 1.5]]))
    """
    values = np.where(held_out, truth, 0.0)
    density: Array = held_out.sum(axis=1) / 2 * np.log(g_o / (2 * np.pi)) - g_o / 2 * (values**2).sum(axis=1)
    weights = np.zeros(on.shape)
    for group in _groups(on, phi, g_o, g_w, batch):
        mean = _solved(group.precision, group.b)
        weights[group.rows[:, None], group.features] = mean
        columns, chosen = _packed(held_out[group.rows])
        entries = _entries(phi, group.features, columns, chosen)
        # Lambda and b again, now with the held-out entries among the observed ones.
        precision = group.precision + g_o * entries @ entries.transpose(0, 2, 1)
        b = group.b + g_o * (entries @ (values[group.rows[:, None], columns])[:, :, None])[:, :, 0]
        density[group.rows] += _evidence(precision, b, _solved(precision, b))
        density[group.rows] -= _evidence(group.precision, group.b, mean)
    return density, weights @ phi


def _solved(precision: Array, b: Array) -> Array:
    """Return Lambda^-1 b of every row."""
    return np.asarray(np.linalg.solve(precision, b[:, :, None])[:, :, 0], dtype=np.float64)


def _evidence(precision: Array, b: Array, weights: Array) -> Array:
    """Return (b' Lambda^-1 b - log |Lambda|) / 2 of every row."""
    evidence: Array = ((b * weights).sum(axis=1) - np.linalg.slogdet(precision).logabsdet) / 2
    return evidence


class _Group(NamedTuple):
    """Rows that have the same number of features on."""

    rows: NDArray[np.int64]
    features: NDArray[np.int64]
    """The features that are on, rows x their number."""
    precision: Array
    """Lambda of the observed entries."""
    b: Array


def _groups(on: NDArray[np.bool_], phi: Array, g_o: float, g_w: float, batch: Batch) -> Iterator[_Group]:
    """Yield Lambda and b of all rows that have features on, in groups with the same number of them."""
    counts = on.sum(axis=1)
    products = g_o * (np.where(batch.observed, batch.values, 0.0) @ phi.T)
    gram = phi @ phi.T
    for count in np.unique(counts[counts > 0]):
        rows = np.flatnonzero(counts == count)
        size = max(1, GROUP_NUMBERS // (int(count) * (int(count) + phi.shape[1])))
        for first in range(0, len(rows), size):
            some = rows[first : first + size]
            features = np.nonzero(on[some])[1].reshape(len(some), count)
            overlap = _overlap(phi, gram, features, batch.observed[some])
            precision = g_o * overlap + g_w * np.eye(count)
            b = np.take_along_axis(products[some], features, axis=1)
            yield _Group(some, features, precision, b)


def _overlap(phi: Array, gram: Array, features: NDArray[np.int64], seen: NDArray[np.bool_]) -> Array:
    """Return Phi_S Phi_S^T of every row, from the observed or the missing entries, whichever are fewer."""
    few_missing = seen.mean() > 0.5
    entries = _entries(phi, features, *_packed(~seen if few_missing else seen))
    over = entries @ entries.transpose(0, 2, 1)
    return gram[features[:, :, None], features[:, None, :]] - over if few_missing else over


def _packed(chosen: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the chosen columns of every row, padded to the same length, and a mask of those that count."""
    n = chosen.sum(axis=1)
    columns = np.argsort(~chosen, axis=1, kind="stable")[:, : max(1, n.max())]
    return columns, np.arange(columns.shape[1]) < n[:, None]


def _entries(
    phi: Array, features: NDArray[np.int64], columns: NDArray[np.int64], chosen: NDArray[np.bool_]
) -> Array:
    """Return the features that are on at some columns of each row, and 0 where a column does not count."""
    entries: Array = phi[features[:, :, None], columns[:, None, :]] * chosen[:, None, :]
    return entries
