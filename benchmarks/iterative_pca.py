"""Regularised iterative PCA, the algorithm of imputePCA in the R package missMDA.

Missing entries are refilled by a PCA of the filled matrix, whose eigenvalues are shrunk by the noise, until
the fit of the observed entries no longer changes (Josse and Husson 2012, 2016).
"""

from __future__ import annotations

import numpy as np

from benchmarks.factor_analysis import Array

CHOICES = 10
"""Numbers of components to choose from."""


def fit(
    data: Array, n_components: int, *, tolerance: float = 1e-6, max_iterations: int = 1000
) -> tuple[Array, int]:
    """The fitted matrix, and how many iterations it took; the defaults are missMDA's.

    Parameters
    ----------
    data : array, shape (rows, columns)
        NaN is missing. More rows than columns, fewer components than columns.
    n_components : int
        K.
    tolerance : float
        Stop when the squared error on the observed entries changes by less than this share of itself.
    max_iterations : int

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.normal(size=(500, 2)) @ rng.normal(size=(2, 8))
    >>> data = np.where(rng.random(truth.shape) < 0.1, np.nan, truth)
    >>> fitted, _ = fit(data, 2, tolerance=1e-10)
    >>> bool(np.abs(fitted - truth).max() < 0.01)
    True
    """
    n_rows, n_columns = data.shape
    observed = ~np.isnan(data)
    filled, before = np.where(observed, data, np.nanmean(data, axis=0)), np.inf
    # Of the noise variance; for many rows this is 1 / (columns - components).
    share = n_rows / ((n_rows - 1 - n_components) * (n_columns - n_components))
    for iteration in range(1, max_iterations + 1):
        mean, scale = filled.mean(axis=0), filled.std(axis=0)
        standard = (filled - mean) / scale
        eigenvalues, vectors = np.linalg.eigh(standard.T @ standard / n_rows)
        rest, kept = eigenvalues[:-n_components], eigenvalues[-n_components:]
        noise = min(share * rest.sum(), rest[-1])
        vectors = vectors[:, -n_components:]
        fitted = (standard @ (vectors * (1 - noise / kept))) @ vectors.T
        error = float((np.where(observed, standard - fitted, 0.0) ** 2).sum() / n_rows)
        fitted = fitted * scale + mean
        if iteration > 5 and (abs(1 - error / before) < tolerance or error < tolerance):
            break
        filled, before = np.where(observed, data, fitted), error
    return fitted, iteration


def validated(data: Array, seed: int, share: float = 0.05) -> tuple[int, Array]:
    """The number of components that best predicts observed entries, of which a share is hidden for this.

    With it the root mean squared error of every column there.
    """
    # Not the stream of the outer hidden entries: the same numbers would choose the entries that are gone.
    validation = ~np.isnan(data) & (np.random.default_rng([seed, 1]).random(data.shape) < share)
    inner = np.where(validation, np.nan, data)
    best, least = (0, np.zeros(0)), np.inf
    # Up to all but one: with the eigenvalues shrunk, many components can be best.
    for n in np.unique(np.geomspace(2, data.shape[1] - 1, CHOICES).round().astype(int)):
        fitted, _ = fit(inner, int(n))
        squares = np.where(validation, fitted - data, 0.0) ** 2
        if squares.sum() < least:
            best = int(n), np.sqrt(squares.sum(axis=0) / validation.sum(axis=0))
            least = squares.sum()
    return best
