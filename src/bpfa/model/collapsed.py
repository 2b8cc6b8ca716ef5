"""Predictions of missing entries by Gibbs sampling of z alone, with the weights integrated out of the chain.

Given the globals, the weights of a row and its entries are jointly Gaussian, so that p(z | observed entries)
is known up to a constant and the chain need not draw weights at all (docs/math.md section 13). What each step
of the chain needs is kept in a matrix T and a vector r, in which the features that are on form the block A
and the others the block I::

    T_AA = -Lambda_AA^-1      r_A = Lambda_AA^-1 b_A
    T_IA = Lambda_IA Lambda_AA^-1
    T_II = Lambda_II - Lambda_IA Lambda_AA^-1 Lambda_AI      r_I = b_I - Lambda_IA Lambda_AA^-1 b_A

Here Lambda and b are those of `bpfa.model.marginals`, for all features. Switching a feature on or off is an
exchange of one pivot, which takes K^2 operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from bpfa._support.checks import Array
from bpfa._support.philox import RowDraws, Stream
from bpfa.data import Batch
from bpfa.model.view import GlobalView

__all__ = ["MissingEntries", "add_draws"]


@dataclass
class MissingEntries:
    """Chains of rows, and what they have found out about the missing entries; changed in place by draws.

    The arrays for entries are rows x columns, and are zero wherever an entry is observed.

    Examples
    --------
    >>> found = MissingEntries.before_draws(Batch([[3.0, np.nan]]), np.array([True]))
    >>> found.n_draws, found.on
    (0, array([[ True]]))
    """

    on: NDArray[np.bool_]
    """Which features are on in the last state of each chain, rows x K."""
    mean: Array
    """The mean over the draws of the mean of an entry."""
    squares: Array
    """The sum over the draws of the squared deviations from `mean`."""
    within: Array
    """The mean over the draws of the variance of an entry, noise included."""
    n_draws: int = 0

    @classmethod
    def before_draws(cls, batch: Batch, on: NDArray[np.bool_]) -> MissingEntries:
        """Return chains that all start with the features `on`, before the first draw."""
        shape = batch.values.shape
        chains = np.repeat(on[None, :], len(batch), axis=0)
        return cls(chains, np.zeros(shape), np.zeros(shape), np.zeros(shape))

    def chosen(self, rows: NDArray[np.int64]) -> MissingEntries:
        """Return a copy of some rows."""
        return replace(
            self, **{name: getattr(self, name)[rows] for name in ("on", "mean", "squares", "within")}
        )

    def is_settled(self, tolerance: float) -> NDArray[np.bool_]:
        """Return the rows in which the mean of every entry is known well enough.

        That is so if its squared standard error is at most `tolerance` times the variance of the entry.
        """
        between = self.squares / max(self.n_draws - 1, 1)
        settled = between / self.n_draws <= tolerance * self.variance
        return np.asarray(settled.all(axis=1))

    @property
    def variance(self) -> Array:
        """The variance of an entry: that between the draws and that within them."""
        variance: Array = self.squares / self.n_draws + self.within
        return variance


def add_draws(
    found: MissingEntries, views: Sequence[GlobalView], batch: Batch, stream: Stream, n_sweeps: int
) -> None:
    """Continue the chains of some rows under further draws of the globals, and add what they predict.

    Parameters
    ----------
    found : MissingEntries
        Changed in place.
    views : sequence of GlobalView
        Draws of the globals.
    batch : Batch
    stream : Stream
        The uniform numbers of the chains are those of its rows, where the step is the number of the draw.
    n_sweeps : int
        Sweeps over the features under each view; the state after the last of them predicts the entries.

    Examples
    --------
    >>> view = GlobalView(np.ones((1, 2)), np.zeros((1, 1)), np.array([50.0]), g_o=1.0, g_w=1.0)
    >>> batch = Batch([[3.0, np.nan]])
    >>> found = MissingEntries.before_draws(batch, np.array([True]))
    >>> add_draws(found, [view], batch, Stream.from_seed(0), n_sweeps=1)
    >>> found.mean, found.variance
    (array([[0. , 1.5]]), array([[0. , 1.5]]))
    """
    missing = ~batch.observed
    for view in views:
        chains = _Chains(view, batch, found.on)
        draws = stream.rows(batch.ids, found.n_draws)
        for sweep in range(1, n_sweeps + 1):
            chains.sweep(draws, sweep)
        mean, variance = (np.where(missing, moment, 0.0) for moment in chains.entries())
        found.n_draws += 1
        # Welford's update of the mean over draws and of the sum of squares about it.
        shift = mean - found.mean
        found.mean += shift / found.n_draws
        found.squares += shift * (mean - found.mean)
        found.within += (variance + missing / view.g_o - found.within) / found.n_draws


class _Chains:
    """The chains of some rows under one view: T and r of each row."""

    def __init__(self, view: GlobalView, batch: Batch, on: NDArray[np.bool_]) -> None:
        self.view = view
        self.on = on
        values = np.where(batch.observed, batch.values, 0.0).astype(np.float64)
        weighted = batch.observed[:, None, :] * view.phi
        self.T = view.g_o * weighted @ view.phi.T + view.g_w * np.eye(view.n_features)
        self.r = view.g_o * values @ view.phi.T
        for k in range(view.n_features):
            self._exchange(k, np.flatnonzero(on[:, k]), to_on=True)

    def sweep(self, draws: RowDraws, sweep: int) -> None:
        """Draw z of every feature in turn, given all the others."""
        uniform = draws.uniform(sweep, self.view.n_features)
        for k in range(self.view.n_features):
            drawn = uniform[:, k] < expit(self._log_odds(k))
            for to_on in (True, False):
                self._exchange(k, np.flatnonzero((drawn != self.on[:, k]) & (drawn == to_on)), to_on=to_on)
            self.on[:, k] = drawn

    def entries(self) -> tuple[Array, Array]:
        """Return the means and variances of all entries without noise, given which features are on."""
        phi, on = self.view.phi, self.on
        covariance = np.where(on[:, :, None] & on[:, None, :], -self.T, 0.0)
        return np.where(on, self.r, 0.0) @ phi, np.einsum(
            "kd,nkj,jd->nd", phi, covariance, phi, optimize=True
        )

    def _log_odds(self, k: int) -> Array:
        """Return log p(z_k = 1 | ...) - log p(z_k = 0 | ...) given z of the other features."""
        g_w, on = self.view.g_w, self.on[:, k]
        pivot = self.T[:, k, k]
        # Mean and variance of the weight if the feature is on. The variance is at most that of the prior.
        variance = np.minimum(np.where(on, -pivot, 1 / pivot), 1 / g_w)
        mean = np.where(on, self.r[:, k], self.r[:, k] * variance)
        odds: Array = self.view.logit[k] + (np.log(g_w * variance) + mean**2 / variance) / 2
        return odds

    def _exchange(self, k: int, rows: NDArray[np.int64], *, to_on: bool) -> None:
        """Switch feature k on, or off, in some rows."""
        sign = 1.0 if to_on else -1.0
        T, r = self.T[rows], self.r[rows]
        pivot, column, r_k = T[:, k, k].copy(), T[:, :, k].copy(), r[:, k].copy()
        factor = column / pivot[:, None]
        T -= factor[:, :, None] * column[:, None, :]
        r -= factor * r_k[:, None]
        T[:, :, k] = T[:, k, :] = sign * factor
        T[:, k, k] = -1 / pivot
        r[:, k] = sign * r_k / pivot
        self.T[rows], self.r[rows] = T, r
