"""Regularised iterative PCA, the algorithm of imputePCA in the R package missMDA.

Missing entries are filled in by a PCA of the completed matrix whose eigenvalues are shrunk by the noise,
again and again until the fit of the observed entries no longer changes (Josse and Husson 2012, 2016).
"""

from __future__ import annotations

import numpy as np

from experiments import Array

CHOICES = 10
"""How many numbers of components there are to choose from."""


def fit(
    data: Array, n_components: int, *, tolerance: float = 1e-6, max_iterations: int = 1000
) -> tuple[Array, int]:
    """Return the fitted matrix, and how many iterations it took; the defaults are those of missMDA.

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
    # The factor from the sum of the other eigenvalues to the noise variance; with many rows it is close to
    # 1 / (columns - components).
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
    """Return the number of components that best predicts observed entries, and its error in every column.

    A share of the observed entries is hidden for this purpose. The error is the root mean squared one.
    """
    # Not the generator that hid the outer entries: the same numbers would choose entries that are missing.
    validation = ~np.isnan(data) & (np.random.default_rng([seed, 1]).random(data.shape) < share)
    inner = np.where(validation, np.nan, data)
    best, least = (0, np.zeros(0)), np.inf
    # Up to all components but one: as the eigenvalues are shrunk, a large number can be the best.
    for n in np.unique(np.geomspace(2, data.shape[1] - 1, CHOICES).round().astype(int)):
        fitted, _ = fit(inner, int(n))
        squares = np.where(validation, fitted - data, 0.0) ** 2
        if squares.sum() < least:
            best = int(n), np.sqrt(squares.sum(axis=0) / validation.sum(axis=0))
            least = squares.sum()
    return best
