"""What the local methods of compiled backends share, whatever their device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from bpfa._support.checks import Array
from bpfa._support.philox import RowDraws
from bpfa.backends import numpy as specification
from bpfa.data import Batch
from bpfa.model.local import LocalState
from bpfa.model.view import GlobalView

__all__ = [
    "GIBBS",
    "GIBBS_TWO_STEP",
    "MEAN_FIELD",
    "SPIKE_SLAB",
    "GibbsByStates",
    "check_precisions",
]

# The numbers of the methods, as the C++ and CUDA sources have them (problem.h).
GIBBS, GIBBS_TWO_STEP, SPIKE_SLAB, MEAN_FIELD = range(4)
# Precisions with which the kernels stay well inside the range of their numbers.
PRECISION_RANGE = {"float32": (1e-12, 1e12), "float64": (1e-100, 1e100)}


def check_precisions(view: GlobalView, dtype: str) -> None:
    """Refuse a view whose precisions the kernels cannot compute with in this precision."""
    low, high = PRECISION_RANGE[dtype]
    for name, precision in (("g_o", view.g_o), ("g_w", view.g_w)):
        if not low < precision < high:
            raise ValueError(
                f"view.{name}={precision:g}: expected a precision from {low:g} to {high:g} in {dtype}; "
                "scale the columns of the data to variance 1"
            )


class GibbsByStates(specification.Gibbs, ABC):
    """Gibbs sampling by a kernel, one call of which leads from a state of the chains to a later one."""

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
