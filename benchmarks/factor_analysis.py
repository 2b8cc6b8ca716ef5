"""Factor analysis of a matrix with missing entries by exact EM, with a noise variance for every column.

A row is mean + loadings z + noise, where z is standard normal; the likelihood is that of its observed
entries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments import Array

BLOCK_ROWS = 4096
"""The number of rows whose K x K posteriors are in memory at a time."""
LEAST_NOISE = 1e-3
"""The least noise variance; a column explained without noise (a Heywood case) would end the iteration."""


class FactorModel(NamedTuple):
    """The parameters of the model."""

    mean: Array
    """Shape (D,)"""
    loadings: Array
    """Shape (D, K)"""
    noise: Array
    """Variances, shape (D,)"""


class Block(NamedTuple):
    """Some rows; those in which the same entries are observed share a posterior covariance."""

    values: Array
    """Zero where missing."""
    observed: Array
    patterns: Array
    """The distinct rows of `observed`."""
    pattern: Array
    """The index of the pattern of each row."""


def fit(
    data: Array, n_factors: int, *, tolerance: float = 1e-6, max_iterations: int = 500
) -> tuple[FactorModel, int]:
    """Return the maximum-likelihood model, and how many iterations it took.

    Parameters
    ----------
    data : array, shape (rows, columns)
        NaN is missing; columns of mean near 0.
    n_factors : int
        K.
    tolerance : float
        Stop when the log-likelihood per observed entry grows by less in an iteration.
    max_iterations : int

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> data = rng.normal(size=(2000, 1)) @ [[1.0, 2.0, -1.0, 1.0]] + 0.1 * rng.normal(size=(2000, 4))
    >>> data[rng.random(data.shape) < 0.2] = np.nan
    >>> model, _ = fit(data, 1)
    >>> np.abs(model.loadings[:, 0]).round(1), np.sqrt(model.noise).round(2)
    (array([1., 2., 1., 1.]), array([0.1, 0.1, 0.1, 0.1]))
    """
    blocks = in_blocks(data)
    model, n_observed = principal_start(data, n_factors), (~np.isnan(data)).sum()
    iteration, before, growth = 0, -np.inf, np.inf
    while iteration < max_iterations and growth > tolerance * n_observed:
        model, log_likelihood = improved(model, blocks)
        iteration, before, growth = iteration + 1, log_likelihood, log_likelihood - before
    return model, iteration


def predict(model: FactorModel, data: Array) -> tuple[Array, Array]:
    """Return the mean and variance of every entry given the observed ones of its row, noise included."""
    means, variances = [], []
    products = outer(model.loadings).reshape(len(model.mean), -1)
    for block in in_blocks(data):
        z, covariance, _ = posterior(model, block)
        means.append(model.mean + z @ model.loadings.T)
        spread = covariance.reshape(len(covariance), -1) @ products.T
        variances.append(model.noise + spread[block.pattern])
    return np.concatenate(means), np.concatenate(variances)


def in_blocks(data: Array) -> list[Block]:
    blocks = []
    for first in range(0, len(data), BLOCK_ROWS):
        rows = data[first : first + BLOCK_ROWS]
        observed = ~np.isnan(rows)
        patterns, pattern = np.unique(observed, axis=0, return_inverse=True)
        blocks.append(Block(np.where(observed, rows, 0.0), observed, patterns, pattern.ravel()))
    return blocks


def principal_start(data: Array, n_factors: int) -> FactorModel:
    """Return a start from principal components of the covariances of columns that are observed together."""
    observed, values = ~np.isnan(data), np.nan_to_num(data)
    together = observed.T.astype(float) @ observed
    eigenvalues, vectors = np.linalg.eigh(values.T @ values / together)
    kept = slice(len(eigenvalues) - n_factors, None)
    rest = max(eigenvalues[: -n_factors or None].mean(), LEAST_NOISE)
    scales = np.sqrt(np.maximum(eigenvalues[kept] - rest, LEAST_NOISE))
    return FactorModel(np.zeros(data.shape[1]), vectors[:, kept] * scales, np.full(data.shape[1], rest))


def outer(vectors: Array) -> Array:
    """Return the product v v' for every row v."""
    return vectors[:, :, None] * vectors[:, None, :]


def posterior(model: FactorModel, block: Block) -> tuple[Array, Array, float]:
    """Return the means of z by row, its covariances by pattern, and the log-likelihood of the block."""
    n_columns, n_factors = model.loadings.shape
    products = outer(model.loadings).reshape(n_columns, -1)
    precision = ((block.patterns / model.noise) @ products).reshape(-1, n_factors, n_factors)
    precision += np.eye(n_factors)
    covariance = np.linalg.inv(precision)
    centred = np.where(block.observed, block.values - model.mean, 0.0)
    projected = (centred / model.noise) @ model.loadings
    z = (covariance[block.pattern] @ projected[:, :, None])[:, :, 0]
    log_likelihood = -0.5 * (
        (block.observed @ np.log(2 * np.pi * model.noise)).sum()
        + np.linalg.slogdet(precision)[1][block.pattern].sum()
        + (centred**2 / model.noise).sum()
        - (projected * z).sum()
    )
    return z, covariance, float(log_likelihood)


def improved(model: FactorModel, blocks: list[Block]) -> tuple[FactorModel, float]:
    """Return the model after one step of EM, and the log-likelihood before it."""
    n_columns, n_factors = model.loadings.shape
    # The mean is the loading of a factor that is always 1.
    moments = np.zeros((n_columns, (n_factors + 1) ** 2))
    cross = np.zeros((n_columns, n_factors + 1))
    squares, counts, total = np.zeros(n_columns), np.zeros(n_columns), 0.0
    second = np.zeros((n_factors, n_factors))
    for block in blocks:
        z, covariance, log_likelihood = posterior(model, block)
        with_one = np.column_stack([z, np.ones(len(z))])
        moment = outer(with_one)
        moment[:, :n_factors, :n_factors] += covariance[block.pattern]
        moments += block.observed.T.astype(float) @ moment.reshape(len(z), -1)
        second += moment[:, :n_factors, :n_factors].sum(axis=0)
        cross += block.values.T @ with_one
        squares += (block.values**2).sum(axis=0)
        counts += block.observed.sum(axis=0)
        total += log_likelihood
    solved = np.linalg.solve(moments.reshape(n_columns, n_factors + 1, n_factors + 1), cross[:, :, None])
    solved = solved[:, :, 0]
    noise = np.maximum((squares - (solved * cross).sum(axis=1)) / counts, LEAST_NOISE)
    # Parameter-expanded EM (Liu, Rubin and Wu 1998): z can have any covariance, which is then moved into the
    # loadings. This needs only a fraction of the iterations.
    n_rows = sum(len(block.values) for block in blocks)
    loadings = solved[:, :-1] @ np.linalg.cholesky(second / n_rows)
    return FactorModel(solved[:, -1], loadings, noise), total
