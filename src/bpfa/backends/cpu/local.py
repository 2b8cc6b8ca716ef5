"""The local methods of the specification as CPU kernels, whose results are equal up to rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import check_choice
from bpfa._support.philox import RowDraws, threshold_word
from bpfa._support.threads import check_jobs
from bpfa.backends import numpy as specification
from bpfa.backends.cpu import _kernels
from bpfa.backends.kernel_methods import MEAN_FIELD, SPIKE_SLAB, KernelGibbs, check_precisions
from bpfa.backends.kernel_sums import sums_from_totals
from bpfa.data import Batch
from bpfa.model.local import LocalPosterior, LocalState, RowStart, checked_start
from bpfa.model.sums import LocalMoments, Sums
from bpfa.model.view import GlobalView

__all__ = ["Gibbs", "MeanField", "SpikeSlab", "instruction_sets", "view_arguments"]

# Rows of one call: a multiple of the kernels' own blocks of rows, so that sums do not depend on where calls
# end.
BLOCK_ROWS = 16_384
# In the arrays that the kernels fill, columns are padded to a multiple of this number.
COLUMN_PADDING = 16


def instruction_sets() -> list[str]:
    """Return the instruction sets that the kernels can use on this machine, widest first."""
    return _kernels.instruction_sets()


@dataclass(frozen=True)
class CpuKernel:
    """The precision, the threads and the instruction set that the kernels use.

    Parameters
    ----------
    dtype : str
        "float32" or "float64". Sums are accumulated in float64 either way.
    n_jobs : int, optional
        Number of threads, at most four for each processor; -1 means one for each processor. By default as
        many as OpenMP would use, which OMP_NUM_THREADS and threadpoolctl determine. A forked child process
        always uses one thread, because other threads do not survive the fork.
    instruction_set : str, optional
        One of `instruction_sets()`; the widest by default.
    """

    dtype: str = "float32"
    n_jobs: int | None = None
    instruction_set: str | None = None

    def __post_init__(self) -> None:
        check_choice("dtype", self.dtype, ("float32", "float64"))
        object.__setattr__(self, "n_jobs", check_jobs(self.n_jobs))
        if self.instruction_set is not None:
            check_choice("instruction_set", self.instruction_set, tuple(instruction_sets()))

    def _run(
        self,
        method: int,
        view: GlobalView,
        batch: Batch,
        draws: RowDraws | None = None,
        start: RowStart = None,
        *,
        sums: _kernels.SumArrays | None = None,
        posterior: bool = False,
        state: bool = False,
        first_sweep: int = 1,
        burn_in: int = 0,
        n_samples: int = 1,
        n_sweeps: int = 0,
        dropout: float = 0.0,
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Run a method over the rows, add to `sums`, and return their posterior and last state on request."""
        check_precisions(view, self.dtype)
        ids = _checked_ids(view, batch, draws)
        if start is not None:
            start = checked_start(start, batch, view.n_features)
        globals_of_view = view_arguments(view)
        run = _kernels.run_float32 if self.dtype == "float32" else _kernels.run_float64
        shape = len(batch), view.n_features
        planes = {
            "posterior": np.zeros((3, *shape), self.dtype) if posterior else None,
            "state": np.zeros((2, *shape), self.dtype) if state else None,
        }
        # Rows are passed in blocks, so that their converted copies stay small.
        for first in range(0, len(batch), BLOCK_ROWS):
            block = slice(first, min(first + BLOCK_ROWS, len(batch)))
            filled = {name: None if a is None else np.zeros_like(a[:, block]) for name, a in planes.items()}
            run(
                method=method,
                **globals_of_view,
                **self._row_arguments(batch, start, block),
                ids=np.ascontiguousarray(ids[block]),
                key=0 if draws is None else draws.key,
                step=0 if draws is None else draws.step & 0xFFFFFFFF,
                first_sweep=first_sweep,
                burn_in=burn_in,
                n_samples=n_samples,
                n_sweeps=n_sweeps,
                dropout=threshold_word(dropout),
                sums=sums,
                **filled,
                n_threads=self.n_jobs or 0,
                instruction_set=self.instruction_set or "",
            )
            for name, array in planes.items():
                if array is not None:
                    array[:, block] = filled[name]
        return planes["posterior"], planes["state"]

    def _row_arguments(self, batch: Batch, start: RowStart, block: slice) -> dict[str, NDArray[Any] | None]:
        """Return a block of rows, and where it starts, as arguments of the kernels."""
        observed = None if batch.complete else np.ascontiguousarray(batch.observed[block]).view(np.uint8)
        return {
            "values": np.ascontiguousarray(batch.values[block], self.dtype),
            "observed": observed,
            "start_z": None if start is None else np.ascontiguousarray(start.z[block], self.dtype),
            "start_w": None if start is None else np.ascontiguousarray(start.w[block], self.dtype),
        }


def _checked_ids(view: GlobalView, batch: Batch, draws: RowDraws | None) -> NDArray[np.int64]:
    """Return the ids of the rows, after checking that the view, the batch and the draws fit one another."""
    D = view.phi.shape[1]
    if batch.n_columns != D:
        raise ValueError(f"batch: {batch.n_columns} columns; expected {D}, as the view has")
    ids = batch.ids if draws is None else draws.ids
    if len(ids) != len(batch):
        raise ValueError(f"draws: for {len(ids)} rows; expected {len(batch)}, as the batch has")
    return ids


def view_arguments(view: GlobalView) -> dict[str, Any]:
    """Return a view as arguments of the kernels."""
    return {
        "phi": np.ascontiguousarray(view.phi, np.float64),
        "v": np.ascontiguousarray(view.v, np.float64),
        "logit": np.ascontiguousarray(view.logit, np.float64),
        "g_o": view.g_o,
        "g_w": view.g_w,
    }


class KernelTotals:
    """The arrays that the kernels add to, and the sums that are made from them."""

    def __init__(self, view: GlobalView, batch: Batch, *, joint: bool) -> None:
        self.view, self.batch = view, batch
        K, D = view.phi.shape
        padded = -(-D // COLUMN_PADDING) * COLUMN_PADDING
        self.n, self.total_zw2 = np.zeros(K), np.zeros(K)
        self.x2 = np.zeros(K if batch.complete else (K, padded))
        self.w2, self.rr = np.zeros(1), np.zeros(padded // COLUMN_PADDING)
        # Totals of x times the residual, or times the data for joint features.
        self.xd = np.zeros((K, padded))
        self.zw2 = None if batch.complete else np.zeros((K, padded))
        self.xx = np.zeros((1 if batch.complete else D, K, K)) if joint else None
        self.arrays = _kernels.SumArrays(
            n=self.n,
            zw2=self.zw2,
            x2=self.x2,
            xr=None if joint else self.xd,
            xy=self.xd if joint else None,
            xx=self.xx,
            total_zw2=self.total_zw2,
            w2=self.w2,
            rr=self.rr,
        )

    def sums(self, method: int, n_samples: int) -> Sums:
        """Return the sums of the batch, averaged over the kept samples."""
        D = self.view.phi.shape[1]
        return sums_from_totals(
            method,
            n_samples,
            self.view,
            n_rows=len(self.batch),
            n_observed=float(self.batch.n_observed),
            n=self.n,
            total_zw2=self.total_zw2,
            zw2=None if self.zw2 is None else self.zw2[:, :D],
            x2=self.x2[:, None] if self.batch.complete else self.x2[:, :D],
            w2=float(self.w2[0]),
            rr=float(self.rr.sum()),
            xd=self.xd[:, :D],
            xx=self.xx,
        )


@dataclass(frozen=True)
class Gibbs(CpuKernel, KernelGibbs):
    """`bpfa.backends.numpy.Gibbs` as a compiled kernel.

    Examples
    --------
    >>> from bpfa._support.philox import Stream
    >>> view = GlobalView(np.eye(2), np.zeros((2, 1)), np.zeros(2), g_o=100.0, g_w=0.1)
    >>> batch = Batch([[3.0, 0.0]])
    >>> Gibbs(n_jobs=1).sums(view, batch, Stream.from_seed(0).rows(batch.ids, step=1)).n
    array([1., 0.])
    """

    def __post_init__(self) -> None:
        CpuKernel.__post_init__(self)
        specification.Gibbs.__post_init__(self)

    def sums(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: RowStart = None, *, joint: bool = False
    ) -> Sums:
        """Return the sums over the rows of a batch, averaged over the kept sweeps."""
        totals = KernelTotals(view, batch, joint=joint)
        self._swept(view, batch, draws, start, sums=totals.arrays, dropout=self.dropout)
        return totals.sums(self._method, self.n_samples)

    def sums_and_state(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: RowStart, *, joint: bool
    ) -> tuple[Sums, LocalState]:
        """Return the sums and the last state, from which the chains can continue."""
        totals = KernelTotals(view, batch, joint=joint)
        planes = self._swept(view, batch, draws, start, sums=totals.arrays, state=True, dropout=self.dropout)[
            1
        ]
        assert planes is not None
        return totals.sums(self._method, self.n_samples), LocalState(*planes.astype(np.float64))

    def _swept(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: RowStart, **wanted: Any
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Run the chains over all their sweeps, and return or add up what is wanted."""
        wanted |= {"burn_in": self.burn_in, "n_samples": self.n_samples}
        return self._run(self._method, view, batch, draws, start, **wanted)

    def row_moments(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: RowStart = None
    ) -> LocalMoments:
        """Return the moments of each row's local variables, averaged over the kept sweeps."""
        planes, _ = self._swept(view, batch, draws, start, posterior=True)
        assert planes is not None
        z, x, zw2 = planes.astype(np.float64) / self.n_samples
        return LocalMoments(z, x, zw2, w2=zw2 + (1 - z) / view.g_w)

    def _state_after(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: RowStart, sweeps: range
    ) -> LocalState:
        numbers: dict[str, Any] = {"first_sweep": sweeps.start, "burn_in": len(sweeps) - 1}
        _, planes = self._run(self._method, view, batch, draws, start, state=True, **numbers)
        assert planes is not None
        z, w = planes.astype(np.float64)
        return LocalState(z, w)


@dataclass(frozen=True)
class Variational(CpuKernel, specification.variational.Variational):
    """What the two variational methods share."""

    _method = -1

    def __post_init__(self) -> None:
        CpuKernel.__post_init__(self)
        specification.variational.Variational.__post_init__(self)

    def fit(self, view: GlobalView, batch: Batch, start: RowStart = None) -> LocalPosterior:
        """Return the local posterior after `n_sweeps` sweeps."""
        planes, _ = self._run(self._method, view, batch, None, start, posterior=True, n_sweeps=self.n_sweeps)
        assert planes is not None
        return LocalPosterior(*planes.astype(np.float64))

    def sums(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: RowStart = None, *, joint: bool = False
    ) -> Sums:
        """Return the sums over the rows of a batch; no random numbers are drawn."""
        totals = KernelTotals(view, batch, joint=joint)
        self._run(self._method, view, batch, None, start, sums=totals.arrays, n_sweeps=self.n_sweeps)
        return totals.sums(self._method, 1)


class MeanField(Variational, specification.MeanField):
    """`bpfa.backends.numpy.MeanField` as a compiled kernel.

    Examples
    --------
    >>> view = GlobalView(np.eye(2), np.zeros((2, 1)), np.zeros(2), g_o=100.0, g_w=0.1)
    >>> MeanField().fit(view, Batch([[3.0, 0.0]])).theta.round(2)
    array([[1., 0.]])
    """

    _method = MEAN_FIELD


class SpikeSlab(Variational, specification.SpikeSlab):
    """`bpfa.backends.numpy.SpikeSlab` as a compiled kernel.

    Examples
    --------
    >>> view = GlobalView(np.eye(2), np.zeros((2, 1)), np.zeros(2), g_o=100.0, g_w=0.1)
    >>> SpikeSlab().fit(view, Batch([[3.0, 0.0]])).theta.round(2)
    array([[1.  , 0.03]])
    """

    _method = SPIKE_SLAB
