"""Factor analysis of tables in which some columns are hardly ever observed in the same rows.

Such a table is made up of panels: each row has the columns of its panel, and whole blocks of entries are
missing. `FactorAnalysis` fills in missing entries and treats them nearly as if they were observed. That is
quick, and good enough where entries are missing here and there. Of whole blocks it would believe what it has
filled in, and find factors and columns without noise that are not there. Here the factors of every row are
inferred from its observed entries alone, together with their uncertainty (docs/math.md, "Panels").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.inference.factor_analysis import TOLERANCE, FactorAnalysis
from bpfa.inference.panel_covariance import linked_covariance, seldom_together

__all__ = ["MAX_FACTORS", "PanelFactorAnalysis", "factor_analysis", "factor_scores"]

# The covariance is estimated with half as many factors as columns, but at most this many, from at most so
# many rows by default, and so many entries.
MAX_FACTORS, MAX_ROWS, MAX_ENTRIES = 24, 4000, 2**20
# The steps of the EM algorithm. They end when no noise variance changes by more than this share of itself.
MAX_STEPS, STEP_TOLERANCE = 200, 5e-4
# The variance, in units of the noise, with which a factor starts if it is not visible yet.
LEAST_COMMON = 0.05


def factor_analysis(values: Array, observed: NDArray[np.bool_]) -> FactorAnalysis:
    """Return the factor analysis that suits the missing entries of a table.

    Parameters
    ----------
    values : array, shape (n_rows, n_columns)
        With columns of mean 0.
    observed : boolean array, shape (n_rows, n_columns)

    Examples
    --------
    >>> observed = np.ones((400, 3), dtype=bool)
    >>> type(factor_analysis(np.zeros((400, 3)), observed)).__name__
    'FactorAnalysis'
    >>> observed[:200, 0] = observed[200:, 2] = False
    >>> type(factor_analysis(np.zeros((400, 3)), observed)).__name__
    'PanelFactorAnalysis'
    """
    kind = PanelFactorAnalysis if seldom_together(observed).any() else FactorAnalysis
    return kind(values, observed)


class PanelFactorAnalysis(FactorAnalysis):
    """Factor analysis of the covariance of the columns, which is estimated by the EM algorithm.

    The attributes are those of `FactorAnalysis`.

    Parameters
    ----------
    values, observed : arrays, shape (n_rows, n_columns)
        As in `FactorAnalysis`.
    max_rows : int
        The most rows from which the covariance is estimated.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=(2000, 1)) + 0.5 * rng.normal(size=(2000, 6))
    >>> observed = np.ones(y.shape, dtype=bool)
    >>> observed[:1000, :2] = observed[1000:, 4:] = False
    >>> analysis = PanelFactorAnalysis(y, observed)
    >>> analysis.fit(1, max_iterations=20)
    >>> np.sqrt(analysis.noise).round(1)
    array([0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
    """

    def __init__(self, values: Array, observed: NDArray[np.bool_], max_rows: int = MAX_ROWS) -> None:
        super().__init__(values, observed)
        self._max_rows = max_rows
        # Rows with the same missing entries have the same uncertainty of their factors.
        self._patterns, pattern = np.unique(observed, axis=0, return_inverse=True)
        self._pattern = pattern.ravel()
        self._covariance: Array | None = None

    @property
    def loadings(self) -> Array:
        """Loadings of the factors, n_columns x n_factors, in the units of the values."""
        found: Array = self.directions * np.sqrt(self.common * self.noise[:, None])
        return found

    def fit(self, n_factors: int, max_iterations: int, tolerance: float = TOLERANCE) -> None:
        """Iterate until no noise variance changes by more than `tolerance` of itself, or so many times."""
        super().fit(n_factors, max_iterations, tolerance)
        loadings = self.loadings
        scores, _ = factor_scores(loadings, self.noise, self.values, self._patterns, self._pattern)
        self.filled = np.where(self.observed, self.values, scores @ loadings.T)

    def iterate(self, n_factors: int) -> float:
        """Update factors and noise once; missing entries are filled in by `fit`."""
        if self._covariance is None:
            self._covariance = self._estimated_covariance()
        noise, unit = self.noise, np.sqrt(self.noise)
        eigenvalues, vectors = np.linalg.eigh(self._covariance / np.outer(unit, unit))
        self.directions = vectors[:, -n_factors:]
        self.common = np.maximum(eigenvalues[-n_factors:] - 1, 0.0)
        explained = noise * (self.directions**2 @ self.common)
        self.noise = np.maximum(np.diag(self._covariance) - explained, self.least_noise)
        return float((np.abs(self.noise - noise) / noise).max())

    def _estimated_covariance(self) -> Array:
        """Return the covariance of the columns, as far as the rows show it."""
        n_rows, D = self.values.shape
        some = slice(None, None, -(-n_rows // max(1, min(self._max_rows, MAX_ENTRIES // D))))
        values, observed = self.values[some], self.observed[some]
        n_factors = max(1, min(MAX_FACTORS, D // 2))
        start = FactorAnalysis(values, observed)
        start.iterate(n_factors)
        common = np.maximum(start.common, LEAST_COMMON)
        loadings, noise = start.directions * np.sqrt(common * self.noise[:, None]), self.noise
        patterns, pattern = np.unique(observed, axis=0, return_inverse=True)
        n_rows_of_pattern = np.bincount(pattern.ravel())
        for _ in range(MAX_STEPS):
            scores, uncertain = factor_scores(loadings, noise, values, patterns, pattern.ravel())
            earlier = noise
            loadings, noise = _maximisation(
                scores, n_rows_of_pattern[:, None, None] * uncertain, patterns, values, observed
            )
            noise = np.maximum(noise, self.least_noise)
            if (np.abs(noise - earlier) / earlier).max() <= STEP_TOLERANCE:
                break
        return linked_covariance(loadings, noise, seldom_together(self.observed))


def factor_scores(
    loadings: Array, noise: Array, values: Array, patterns: NDArray[np.bool_], pattern: NDArray[np.int64]
) -> tuple[Array, Array]:
    """Return the mean of the factors of every row, and their covariance for every pattern.

    Parameters
    ----------
    loadings : array, shape (n_columns, n_factors)
    noise : array, shape (n_columns,)
        Noise variance of every column.
    values : array, shape (n_rows, n_columns)
        Zero at missing entries.
    patterns : boolean array, shape (n_patterns, n_columns)
        Which entries are observed, for every pattern of observed entries that occurs.
    pattern : integer array, shape (n_rows,)
        The pattern of every row.

    Examples
    --------
    >>> scores, covariance = factor_scores(
    ...     np.ones((2, 1)), np.ones(2), np.array([[1.0, 0.0]]), np.array([[True, False]]), np.array([0])
    ... )
    >>> scores, covariance
    (array([[0.5]]), array([[[0.5]]]))
    """
    K = loadings.shape[1]
    weighted = loadings / noise[:, None]
    outer = (weighted[:, :, None] * loadings[:, None, :]).reshape(-1, K * K)
    precision = (patterns @ outer).reshape(-1, K, K) + np.eye(K)
    covariance: Array = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    scores: Array = np.einsum("nk,nkl->nl", values @ weighted, covariance[pattern])
    return scores, covariance


def _maximisation(
    scores: Array, uncertain: Array, patterns: NDArray[np.bool_], values: Array, observed: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Return the loadings and the noise that the factors of all rows imply."""
    (n_rows, K), D = scores.shape, values.shape[1]
    squares = (scores[:, :, None] * scores[:, None, :]).reshape(-1, K * K)
    spread = uncertain.reshape(-1, K * K)
    moments = (observed.T @ squares + patterns.T @ spread).reshape(D, K, K)
    # A column without an observed entry has no loadings.
    moments += 1e-9 * np.eye(K) * (1 + np.trace(moments, axis1=1, axis2=2))[:, None, None]
    products = values.T @ scores
    loadings: Array = np.asarray(np.linalg.solve(moments, products[:, :, None])[:, :, 0], dtype=np.float64)
    unexplained = (values**2).sum(axis=0) - (loadings * products).sum(axis=1)
    # Factors have variance 1. Where those that were found have another covariance, the loadings take it up,
    # which speeds up convergence (parameter-expanded EM, Liu, Rubin and Wu, 1998).
    covariance = (squares.sum(axis=0) + spread.sum(axis=0)).reshape(K, K) / n_rows
    noise: Array = unexplained / np.maximum(observed.sum(axis=0), 1)
    turned: Array = loadings @ np.linalg.cholesky(covariance)
    return turned, noise
