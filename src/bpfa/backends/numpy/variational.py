"""Coordinate ascent over the local variables of each row, shared by mean field and spike and slab."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import entr

from bpfa._support.checks import Array, check_integer
from bpfa._support.philox import MAX_SWEEP, RowDraws
from bpfa.backends.numpy.base import Residual
from bpfa.data import Batch
from bpfa.model.local import LocalPosterior, LocalState, MethodName, RowStart, checked_start
from bpfa.model.sums import LocalMoments, Sums, sums_of
from bpfa.model.view import GlobalView

__all__ = ["Variational"]


@dataclass(frozen=True)
class Variational(ABC):
    """A factorised q(z_ik, w_ik), whose factors are set to their optima in turn; the bound never falls.

    Parameters
    ----------
    n_sweeps : int
        Number of sweeps over the features. It is fixed, so that the result for a row does not depend on the
        other rows of its batch.
    """

    kind: ClassVar[MethodName]
    has_idle_weights: ClassVar[bool]
    n_sweeps: int = 10

    @property
    def continues_from_x(self) -> bool:
        """Whether a draw can start from an earlier one; these are independent."""
        return False

    def __post_init__(self) -> None:
        check_integer("n_sweeps", self.n_sweeps, low=1, high=MAX_SWEEP)

    @abstractmethod
    def update(
        self, view: GlobalView, k: int, s: Array, c: Array, theta: Array
    ) -> tuple[Array, Array, Array]:
        """Return the optimal theta, m and kappa of feature k, given s, c and the old theta."""

    @abstractmethod
    def w2(self, view: GlobalView, q: LocalPosterior) -> Array:
        """Return E[w^2], rows x features."""

    @abstractmethod
    def weight_terms(self, view: GlobalView, q: LocalPosterior) -> Array:
        """Return E[log p(w) - log q(w)], rows x features."""

    def fit(self, view: GlobalView, batch: Batch, start: RowStart = None) -> LocalPosterior:
        """Return the local posterior after `n_sweeps` sweeps.

        By default they start from x = 0 and theta = 1, so that each feature is first judged as if it were on.
        """
        shape = (len(batch), view.n_features)
        if start is None:
            start = LocalState(np.ones(shape), np.zeros(shape))
        else:
            start = checked_start(start, batch, view.n_features)
        q = LocalPosterior(start.z, start.w, np.full(shape, view.g_w))
        residual = Residual(view, batch, q.x)
        for _ in range(self.n_sweeps):
            for k in range(view.n_features):
                updated = self.update(view, k, residual.s[:, k], residual.c(k), q.theta[:, k])
                q.theta[:, k], q.m[:, k], q.kappa[:, k] = updated
                residual.set(k, q.theta[:, k] * q.m[:, k])
        return q

    def moments(self, view: GlobalView, q: LocalPosterior) -> LocalMoments:
        """Return the moments of the local posterior."""
        return LocalMoments(z=q.theta, x=q.x, zw2=q.theta * (q.m**2 + 1 / q.kappa), w2=self.w2(view, q))

    def sums(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: RowStart = None, *, joint: bool = False
    ) -> Sums:
        """Return the sums over the rows of a batch; no random numbers are drawn."""
        return sums_of(view, batch, self.row_moments(view, batch, draws, start), joint=joint)

    def row_moments(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: RowStart = None
    ) -> LocalMoments:
        """Return the moments of each row's local variables; no random numbers are drawn."""
        return self.moments(view, self.fit(view, batch, start))

    def samples(
        self, view: GlobalView, batch: Batch, draws: RowDraws, n_samples: int, start: RowStart = None
    ) -> Iterator[Array]:
        """Yield independent draws of x = z w from the local posterior."""
        q = self.fit(view, batch, start)
        for sample in range(1, n_samples + 1):
            z = draws.uniform(sample, view.n_features) < q.theta
            yield np.where(z, q.m + draws.normal(sample, view.n_features) / np.sqrt(q.kappa), 0.0)

    def bound(self, view: GlobalView, batch: Batch, q: LocalPosterior) -> Array:
        """Return the local bound of each row: E_q[log p(y, z, w | globals) - log q(z, w)].

        Under a sampled view it is a lower bound of log p(y | globals). Under an expected view it is the same
        expression at the view's g_o, g_w and logit, with the uncertainty of phi taken into account.
        """
        phi2, s = batch.observed @ (view.phi**2).T, batch.observed @ (view.phi**2 + view.v).T
        x, zw2 = q.x, q.theta * (q.m**2 + 1 / q.kappa)
        residual = batch.values - (x @ view.phi) * batch.observed
        squared_error = (residual**2).sum(axis=1) + (zw2 * s - x**2 * phi2).sum(axis=1)
        n_observed = batch.observed.sum(axis=1)
        likelihood = n_observed / 2 * np.log(view.g_o / (2 * np.pi)) - view.g_o / 2 * squared_error
        # log pi = logit - log(1 + e^logit) and log(1 - pi) = -log(1 + e^logit)
        prior_z = q.theta @ view.logit - np.logaddexp(0.0, view.logit).sum()
        entropy_z = (entr(q.theta) + entr(1 - q.theta)).sum(axis=1)
        bound: Array = likelihood + prior_z + entropy_z + self.weight_terms(view, q).sum(axis=1)
        return bound
