"""Rows of panels with the columns that their panel lacks filled in by draws (docs/math.md, "Panels").

What a fit learns about the covariance of two columns that are never observed in the same row is arbitrary:
any value that leaves the covariance matrix positive definite explains the data equally well. Training would
take whichever value helps it to save features. Draws from the linked covariance, in which nothing is claimed
that no row has shown, decide the matter: they are a prior that is written as data.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import Batch, Rows, Scale, StandardisedRows
from bpfa.data.mapped import MappedRows
from bpfa.inference.factor_analysis import row_sample
from bpfa.inference.panel_covariance import seldom_together
from bpfa.inference.panel_factors import MAX_FACTORS, PanelFactorAnalysis, factor_scores

__all__ = ["LinkedRows", "linked_rows"]

# The most iterations of the factor analysis.
MAX_ITERATIONS = 100
# Rows that are filled in at a time, which bounds the memory that it takes.
BLOCK_ROWS = 2048


class LinkedRows(MappedRows):
    """Rows of another source, with entries that the panel of a row lacks drawn from their distribution.

    An entry is drawn if it is missing, and its column is seldom observed together with a column that is
    observed in the row. Draws depend on the number of the row alone. Other missing entries stay missing.

    Parameters
    ----------
    rows : Rows
    mean : array, shape (n_columns,)
        The distribution of a row is normal with this mean.
    loadings : array, shape (n_columns, n_factors)
        Its covariance is `loadings @ loadings.T + diag(noise)`.
    noise : array, shape (n_columns,)
    seldom : boolean array, shape (n_columns, n_columns)
        Whether two columns are seldom observed together.
    stream : Stream

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> seldom = np.array([[False, True], [True, False]])
    >>> rows = ArrayRows([[1.0, np.nan], [np.nan, 2.0]])
    >>> ones = np.ones((2, 1))
    >>> linked = LinkedRows(rows, np.zeros(2), ones, np.full(2, 1e-12), seldom, Stream.from_seed(0))
    >>> linked.read(0, 2).values.round(3)
    array([[1., 1.],
           [2., 2.]])
    """

    def __init__(
        self,
        rows: Rows,
        mean: Array,
        loadings: Array,
        noise: Array,
        seldom: NDArray[np.bool_],
        stream: Stream,
    ) -> None:
        super().__init__(rows)
        self._mean, self._loadings, self._noise = mean, loadings, noise
        self._seldom, self._stream = seldom.astype(np.float32), stream

    def mapped(self, batch: Batch) -> Batch:
        """Return the batch with the entries that its panels lack drawn."""
        values, observed = batch.values.copy(), batch.observed.copy()
        for start in range(0, len(batch), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            lacking = ~observed[block] & (observed[block] @ self._seldom > 0)
            if lacking.any():
                values[block] = np.where(lacking, self._drawn(batch, block), values[block])
                observed[block] |= lacking
        return Batch(values, observed, batch.ids)

    def _drawn(self, batch: Batch, block: slice) -> Array:
        """Draw all entries of some rows, given those that are observed."""
        observed = batch.observed[block]
        values = np.where(observed, batch.values[block] - self._mean, 0.0)
        patterns, pattern = np.unique(observed, axis=0, return_inverse=True)
        scores, covariance = factor_scores(self._loadings, self._noise, values, patterns, pattern.ravel())
        draws = self._stream.rows(batch.ids[block], step=0)
        spread = np.linalg.cholesky(covariance)[pattern.ravel()]
        scores += np.einsum("nkl,nl->nk", spread, draws.normal(1, scores.shape[1]))
        noise = np.sqrt(self._noise) * draws.normal(2, values.shape[1])
        drawn: Array = self._mean + scores @ self._loadings.T + noise
        return drawn


def linked_rows(rows: Rows, scale: Scale, stream: Stream) -> Rows:
    """Return rows with what their panels lack drawn, or the rows themselves if they are not from panels.

    Parameters
    ----------
    rows : Rows
    scale : Scale
        Mean and scale of the columns.
    stream : Stream
        Chooses the rows from which the covariance is estimated, and draws entries.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rows = ArrayRows(np.random.default_rng(0).normal(size=(500, 4)))
    >>> scale = Scale(np.zeros(4), np.ones(4), np.ones(4))
    >>> linked_rows(rows, scale, Stream.from_seed(0)) is rows
    True
    """
    sample = row_sample(StandardisedRows(rows, scale.mean, scale.scale), stream)
    seldom = seldom_together(sample.observed)
    if not seldom.any():
        return rows
    analysis = PanelFactorAnalysis(sample.values, sample.observed, max_rows=len(sample))
    analysis.fit(max(1, min(MAX_FACTORS, rows.n_columns // 2)), MAX_ITERATIONS)
    loadings, noise = analysis.loadings * scale.scale[:, None], analysis.noise * scale.scale**2
    return LinkedRows(rows, scale.mean, loadings, noise, seldom, stream.child("lacking"))
