"""What the local methods of all compiled backends share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from bpfa._support.checks import Array
from bpfa._support.philox import RowDraws
from bpfa.backends import numpy as specification
from bpfa.data import Batch
from bpfa.model.local import LocalState, RowStart
from bpfa.model.view import GlobalView

__all__ = [
    "GIBBS",
    "GIBBS_TWO_STEP",
    "MEAN_FIELD",
    "SPIKE_SLAB",
    "KernelGibbs",
    "check_precisions",
]

# The numbers of the methods, as in problem.h of the C++ sources.
GIBBS, GIBBS_TWO_STEP, SPIKE_SLAB, MEAN_FIELD = range(4)
# The values of g_o and g_w with which the kernels stay well inside the range of their floating-point type.
PRECISION_RANGE = {"float32": (1e-12, 1e12), "float64": (1e-100, 1e100)}


def check_precisions(view: GlobalView, dtype: str) -> None:
    """Refuse a view whose g_o or g_w is too small or too large for the kernels in this type."""
    low, high = PRECISION_RANGE[dtype]
    for name, precision in (("g_o", view.g_o), ("g_w", view.g_w)):
        if not low < precision < high:
            raise ValueError(
                f"view.{name}={precision:g}: expected a precision from {low:g} to {high:g} in {dtype}; "
                "scale the columns of the data to variance 1"
            )


class KernelGibbs(specification.Gibbs, ABC):
    """Gibbs sampling by a kernel, each call of which takes the chains from one state to a later one."""

    @property
    def _method(self) -> int:
        return GIBBS if self.blocked else GIBBS_TWO_STEP

    @abstractmethod
    def _state_after(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: RowStart, sweeps: range
    ) -> LocalState:
        """Return the state after the sweeps with these numbers."""

    def chain(
        self, view: GlobalView, batch: Batch, draws: RowDraws, n_sweeps: int, start: RowStart = None
    ) -> Iterator[LocalState]:
        """Yield the state after every sweep."""
        state = start
        for sweep in range(1, n_sweeps + 1):
            state = self._state_after(view, batch, draws, state, range(sweep, sweep + 1))
            yield state

    def samples(
        self, view: GlobalView, batch: Batch, draws: RowDraws, n_samples: int, start: RowStart = None
    ) -> Iterator[Array]:
        """Yield draws of x = z w: `n_samples` successive states after the burn-in."""
        first = self.burn_in + 1
        state = self._state_after(view, batch, draws, start, range(1, first + 1))
        yield state.x
        for sweep in range(first + 1, first + n_samples):
            state = self._state_after(view, batch, draws, state, range(sweep, sweep + 1))
            yield state.x
