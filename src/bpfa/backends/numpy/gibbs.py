"""Gibbs sampling of the local variables (docs/math.md section 4), for Gibbs-SSVI and Mimno-SVI."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from bpfa._support.checks import Array, check_integer, check_number
from bpfa._support.philox import MAX_SWEEP, RowDraws
from bpfa.backends.numpy.base import Residual, slab
from bpfa.data import Batch
from bpfa.model.local import LocalState, MethodName, RowStart, checked_start
from bpfa.model.sums import JointSums, LocalMoments, LocalSums, Sums
from bpfa.model.view import GlobalView

__all__ = ["MOST_DROPOUT", "Gibbs"]

# The largest share of the entries of a row that may be hidden from its chain.
MOST_DROPOUT = 0.9


@dataclass(frozen=True)
class Gibbs:
    """A Gibbs chain for every row: `burn_in` sweeps over the features, then `n_samples` sweeps that are kept.

    Parameters
    ----------
    burn_in : int
        Number of sweeps that are discarded first; the paper uses 3.
    n_samples : int
        Number of sweeps whose states are averaged; the paper uses 3.
    blocked : bool
        If true, z and w are drawn together, with w integrated out of the odds of z, which mixes better. If
        false, z is drawn given w and then w given z, as the paper describes it.
    dropout : float
        The share of a row's observed entries, at most 0.9, that are hidden from its chain while sums are
        taken; every step hides different ones. The sums still include all entries. The features must
        therefore predict entries that the chain has not seen, and cannot fit the values that single entries
        happen to have; and the noise that is learned is the error of these predictions.

    Examples
    --------
    >>> from bpfa._support.philox import Stream
    >>> view = GlobalView(np.eye(2), np.zeros((2, 1)), np.zeros(2), g_o=100.0, g_w=0.1)
    >>> batch = Batch(np.array([[3.0, 0.0]]))
    >>> Gibbs().sums(view, batch, Stream.from_seed(0).rows(batch.ids, step=1)).n
    array([1., 0.])
    """

    kind: ClassVar[MethodName] = "Gibbs"
    burn_in: int = 3
    n_samples: int = 3
    blocked: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_integer("burn_in", self.burn_in, low=0, high=MAX_SWEEP // 2)
        check_integer("n_samples", self.n_samples, low=1, high=MAX_SWEEP // 2)
        if not isinstance(self.blocked, bool):
            raise TypeError(f"blocked={self.blocked!r}: expected True or False")
        check_number("dropout", self.dropout, low=0.0, high=MOST_DROPOUT)

    @property
    def continues_from_x(self) -> bool:
        """Whether a chain can continue from x; z given w would also need the weights of idle features."""
        return self.blocked

    def chain(
        self, view: GlobalView, batch: Batch, draws: RowDraws, n_sweeps: int, start: RowStart = None
    ) -> Iterator[LocalState]:
        """Yield the state after every sweep; the next sweep overwrites the arrays.

        The chain starts from `start`, or from z = 0 by default.
        """
        shape = (len(batch), view.n_features)
        if start is None:
            state = LocalState(np.zeros(shape), np.zeros(shape))
        else:
            state = checked_start(start, batch, view.n_features)
        if not self.blocked:
            # The odds of z are computed given w, for which idle weights are needed: draw them from the prior.
            idle = draws.normal(0, view.n_features) / np.sqrt(view.g_w)
            np.copyto(state.w, idle, where=state.z == 0)
        residual = Residual(view, batch, state.x)
        for sweep in range(1, n_sweeps + 1):
            self._sweep(view, residual, state, draws, sweep)
            yield state

    def _sweep(
        self, view: GlobalView, residual: Residual, state: LocalState, draws: RowDraws, sweep: int
    ) -> None:
        """Draw z and w of every feature in turn."""
        uniform = draws.uniform(sweep, view.n_features)
        normal = draws.normal(sweep, view.n_features)
        for k in range(view.n_features):
            s, c = residual.s[:, k], residual.c(k)
            kappa, m, log_odds = slab(view, k, s, c)
            if not self.blocked:
                w = state.w[:, k]
                log_odds = view.logit[k] + view.g_o * (w * c - w**2 * s / 2)
            z = uniform[:, k] < expit(log_odds)
            idle = 0.0 if self.blocked else normal[:, k] / np.sqrt(view.g_w)
            state.z[:, k] = z
            state.w[:, k] = np.where(z, m + normal[:, k] / np.sqrt(kappa), idle)
            residual.set(k, np.where(z, state.w[:, k], 0.0))

    def sums(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: RowStart = None, *, joint: bool = False
    ) -> Sums:
        """Return the sums over the rows of a batch, averaged over the kept sweeps."""
        return self.sums_and_state(view, batch, draws, start, joint=joint)[0]

    def sums_and_state(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: RowStart, *, joint: bool
    ) -> tuple[Sums, LocalState]:
        """Return the sums and the last state, from which the chains can continue."""
        form: type[JointSums] | type[LocalSums] = JointSums if joint else LocalSums
        kept: list[Any] = []
        seen = batch.without(draws.dropped(self.dropout, batch.n_columns)) if self.dropout else batch
        for state in self._kept(view, seen, draws, self.n_samples, start):
            kept.append(form.of(view, batch, moments(view, state)))
        return form.average(kept), state

    def row_moments(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: RowStart = None
    ) -> LocalMoments:
        """Return the moments of each row's local variables, averaged over the kept sweeps."""
        states = self._kept(view, batch, draws, self.n_samples, start)
        kept = [moments(view, state) for state in states]
        return LocalMoments(*(sum(moment) / len(kept) for moment in zip(*kept, strict=True)))

    def _kept(
        self, view: GlobalView, batch: Batch, draws: RowDraws, n_samples: int, start: RowStart
    ) -> Iterator[LocalState]:
        """Yield the states after the burn-in; the next sweep overwrites the arrays."""
        yield from islice(self.chain(view, batch, draws, self.burn_in + n_samples, start), self.burn_in, None)

    def samples(
        self, view: GlobalView, batch: Batch, draws: RowDraws, n_samples: int, start: RowStart = None
    ) -> Iterator[Array]:
        """Yield draws of x = z w: `n_samples` successive states after the burn-in."""
        for state in self._kept(view, batch, draws, n_samples, start):
            yield state.x


def moments(view: GlobalView, state: LocalState) -> LocalMoments:
    """Return the moments of a state, with idle weights integrated out: E[w^2 | z = 0] = 1/g_w."""
    x2 = state.x**2
    return LocalMoments(z=state.z.copy(), x=state.x, zw2=x2, w2=x2 + (1 - state.z) / view.g_w)
