"""Predictions by a model in which every row uses every feature, without draws (docs/math.md section 13).

Models with sparse columns are of this kind. With many features, draws of the features and a factorisation for
every row and every draw would take longer than the fit. But if nothing has to be said about z, the weights
are Gaussian given the expectations of the features, and a single factorisation for every row suffices.
"""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular

from bpfa._support.checks import Array
from bpfa.data import Batch
from bpfa.model.features import FactorisedFeatures, JointFeatures
from bpfa.model.posterior import GlobalPosterior, Posterior
from bpfa.prediction.predictions import Prediction

__all__ = ["predict_dense_rows", "uses_all_features"]

# A row uses every feature if each is idle with at most this probability.
MOST_IDLE = 1e-3
# How many numbers the covariances of a block of rows may take; this many take 32 MiB.
BLOCK_NUMBERS = 2**22


def uses_all_features(posterior: Posterior) -> TypeGuard[GlobalPosterior]:
    """Return whether nearly every row uses every feature of a posterior."""
    return isinstance(posterior, GlobalPosterior) and bool((posterior.pi > 1 - MOST_IDLE).all())


def predict_dense_rows(posterior: GlobalPosterior, batch: Batch) -> Prediction:
    """Return the means and standard deviations of the missing entries; those of others mean nothing.

    Under q, features and weights of a row are independent. With m_d and V_d the mean and the covariance of
    the features at column d, and O the observed columns of the row, the weights are N(w, S), where::

        S^-1 = E[g_w] I + E[g_o] sum_{d in O} (m_d m_d^T + V_d)        w = S E[g_o] sum_{d in O} m_d y_d

    and a missing entry has the mean m_d^T w and the variance
    m_d^T S m_d + w^T V_d w + tr(V_d S) + E[1 / g_o].

    Examples
    --------
    >>> from bpfa import ArrayRows
    >>> from bpfa.inference.starts import random_posterior
    >>> rows = ArrayRows(np.random.default_rng(0).normal(size=(50, 4)))
    >>> found = predict_dense_rows(random_posterior(rows, 3, seed=0), Batch([[1.0, np.nan, 0.5, -1.0]]))
    >>> bool(found.std[0, 1] > 0), found.mean.shape
    (True, (1, 4))
    """
    features = posterior.features
    assert isinstance(features, FactorisedFeatures | JointFeatures)
    solver = _RowSolver(posterior, _Spread(features))
    mean, variance = np.zeros(batch.values.shape), np.zeros(batch.values.shape)
    size = max(1, BLOCK_NUMBERS // posterior.n_features**2)
    for first in range(0, len(batch), size):
        some = slice(first, first + size)
        mean[some], variance[some] = solver.moments(batch.values[some], batch.observed[some])
    noise = posterior.d / max(posterior.c - 1.0, 1e-300)
    return Prediction(mean, np.sqrt(variance + noise))


class _RowSolver:
    """Finds the weights of rows and the moments of their entries."""

    def __init__(self, posterior: GlobalPosterior, spread: _Spread) -> None:
        self.phi, self.spread = posterior.features.mean, spread
        self.gram = self.phi @ self.phi.T
        self.g_o, self.g_w = posterior.c / posterior.d, posterior.e / posterior.f

    def moments(self, values: Array, observed: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Return the means of all entries and the variances of the missing ones, without noise."""
        products = self.g_o * (np.where(observed, values, 0.0) @ self.phi.T)
        weights, second = np.zeros(products.shape), np.zeros((len(values), self.spread.size))
        variance, identity = np.zeros(values.shape), np.eye(len(self.phi))
        for i, extra in enumerate(self.spread.sums(observed)):
            factor = self._factor(observed[i], extra)
            weights[i] = cho_solve(factor, products[i])
            moments = cho_solve(factor, identity) + np.outer(weights[i], weights[i])
            second[i] = self.spread.packed(moments)
            scaled = solve_triangular(factor[0], self.phi[:, ~observed[i]], lower=True)
            variance[i, ~observed[i]] = (scaled**2).sum(axis=0)
        return weights @ self.phi, variance + second @ self.spread.matrix.T

    def _factor(self, observed: NDArray[np.bool_], extra: Array) -> tuple[Array, bool]:
        """Return the Cholesky factor of the precision of the weights of a row."""
        prior = self.g_w * np.eye(len(self.phi)) + self.g_o * extra
        if 2 * np.count_nonzero(observed) > len(observed):
            missing = self.phi[:, ~observed]
            try:
                return cho_factor(prior + self.g_o * (self.gram - missing @ missing.T), lower=True)
            except LinAlgError:
                # The difference has lost too many digits; the sum over the observed columns has not.
                pass
        seen = self.phi[:, observed]
        return cho_factor(prior + self.g_o * (seen @ seen.T), lower=True)


class _Spread:
    """The covariances of the features at all columns, as the rows of a matrix of numbers."""

    def __init__(self, features: FactorisedFeatures | JointFeatures) -> None:
        self.joint = isinstance(features, JointFeatures)
        n_features, n_columns = features.shape
        if isinstance(features, JointFeatures):
            matrix = np.linalg.inv(features.P).reshape(len(features.P), -1)
        else:
            matrix = features.variance.T
        # A single covariance may serve all columns.
        self.matrix: Array = np.broadcast_to(matrix, (n_columns, matrix.shape[1]))
        self._identity = np.eye(n_features)

    @property
    def size(self) -> int:
        """How many numbers a covariance has: all of it if features are joint, or its diagonal."""
        return int(self.matrix.shape[1])

    def packed(self, A: Array) -> Array:
        """Return the numbers of a K x K matrix by which those of a covariance are multiplied in a trace."""
        return A.ravel() if self.joint else np.diagonal(A)

    def sums(self, observed: NDArray[np.bool_]) -> Array:
        """Return the sum of the covariances over the observed columns of every row, rows x K x K."""
        sums: Array = observed.astype(np.float64) @ self.matrix
        if self.joint:
            return sums.reshape(-1, *self._identity.shape)
        return sums[:, :, None] * self._identity
