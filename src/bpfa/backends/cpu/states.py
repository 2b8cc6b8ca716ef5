"""Chains as kernels run them: some sweeps at a call, from one state to another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from bpfa._support.checks import Array
from bpfa._support.philox import RowDraws
from bpfa.backends import numpy as specification
from bpfa.backends.cpu.finish import GIBBS, GIBBS_TWO_STEP
from bpfa.backends.numpy import LocalState
from bpfa.data import Batch
from bpfa.model.view import GlobalView

__all__ = ["GibbsByStates"]


class GibbsByStates(specification.Gibbs, ABC):
    """`bpfa.backends.numpy.Gibbs` where a call of a kernel leads from a state to a later one."""

    @property
    def _method(self) -> int:
        return GIBBS if self.blocked else GIBBS_TWO_STEP

    @abstractmethod
    def _state_after(
        self,
        view: GlobalView,
        batch: Batch,
        draws: RowDraws,
        start: LocalState | None,
        *,
        first_sweep: int,
        burn_in: int = 0,
    ) -> LocalState:
        """Return the state after `burn_in` sweeps and one more, the first of which has this number."""

    def chain(
        self,
        view: GlobalView,
        batch: Batch,
        draws: RowDraws,
        n_sweeps: int,
        start: LocalState | None = None,
    ) -> Iterator[LocalState]:
        """Yield the state after every sweep."""
        state = start
        for sweep in range(1, n_sweeps + 1):
            state = self._state_after(view, batch, draws, state, first_sweep=sweep)
            yield state

    def samples(
        self, view: GlobalView, batch: Batch, draws: RowDraws, n_samples: int, start: LocalState | None = None
    ) -> Iterator[Array]:
        """Yield draws of x = z w: `n_samples` successive states after the burn-in."""
        state = self._state_after(view, batch, draws, start, first_sweep=1, burn_in=self.burn_in)
        yield state.x
        for sample in range(1, n_samples):
            state = self._state_after(view, batch, draws, state, first_sweep=self.burn_in + 1 + sample)
            yield state.x
