"""The local methods of the specification on a GPU: the same interface and random numbers, equal to rounding.

What comes from the host goes back to the host: a `GlobalView` gives `LocalSums`. Under a `DeviceView`
everything stays on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bpfa._support.checks import Array, check_choice
from bpfa._support.philox import RowDraws
from bpfa.backends import numpy as specification
from bpfa.backends.cuda.dropout import of_whole_rows, with_dropout
from bpfa.backends.cuda.gibbs import Chain, Kept
from bpfa.backends.cuda.rows import C_NAMES, DeviceBatch, uploaded
from bpfa.backends.cuda.runtime import cupy_module, device_index, kernel, launch, on_device, properties
from bpfa.backends.cuda.sums import DENSE_FEATURES, N_CHUNKS, DeviceSums
from bpfa.backends.cuda.view import DeviceView
from bpfa.backends.kernel_methods import MEAN_FIELD, SPIKE_SLAB, GibbsByStates, check_precisions
from bpfa.data import Batch
from bpfa.model.local import LocalPosterior, LocalState, checked_start
from bpfa.model.sums import LocalMoments
from bpfa.model.view import GlobalView

__all__ = ["Gibbs", "MeanField", "OnDevice", "SpikeSlab"]

# Bytes that the kept samples of a part of the rows, or the moments of one, may take.
PART_BYTES = 2**31


@dataclass(frozen=True)
class OnDevice:
    """How the kernels compute.

    Parameters
    ----------
    dtype : str
        "float32" or "float64", which is slow and for checking. Sums are added up in float64 either way.
    device : str
        "cuda", or "cuda:1" for the second GPU.
    """

    dtype: str = "float32"
    device: str = "cuda"

    def __post_init__(self) -> None:
        check_choice("dtype", self.dtype, ("float32", "float64"))
        device_index(self.device)

    def _seen(self, view: GlobalView | DeviceView) -> DeviceView:
        """Return the view on the device."""
        if isinstance(view, DeviceView):
            return view
        check_precisions(view, self.dtype)
        return DeviceView.of(view, self.dtype)

    def _rows(
        self, view: GlobalView | DeviceView, batch: Batch | DeviceBatch, draws: RowDraws | None
    ) -> DeviceBatch:
        """Return the rows on the device."""
        D = view.phi.shape[1]
        if batch.n_columns != D:
            raise ValueError(f"batch: {batch.n_columns} columns; expected {D}, as the view has")
        if draws is not None and len(draws.ids) != len(batch):
            raise ValueError(f"draws: for {len(draws.ids)} rows; expected {len(batch)}, as the batch has")
        if isinstance(batch, DeviceBatch):
            return batch
        return uploaded(batch, self.dtype, None if draws is None else draws.ids)

    def _start(self, start: LocalState | None, batch: Batch | DeviceBatch, K: int) -> tuple[Any, Any] | None:
        """Return a start on the device."""
        if start is None:
            return None
        assert isinstance(batch, Batch)
        checked = checked_start(start, batch, K)
        cupy = cupy_module()
        return cupy.asarray(checked.z.astype(self.dtype)), cupy.asarray(checked.w.astype(self.dtype))


def _part_rows(bytes_a_row: int) -> int:
    """Return how many rows are worked on at a time."""
    return max(1024, PART_BYTES // bytes_a_row // 1024 * 1024)


def fitting_rows(
    n_rows: int,
    K: int,
    D: int,
    *,
    n_samples: int,
    matrices: int,
    drops: bool,
    available: int,
    real_bytes: int = 4,
) -> str:
    """Say how many rows of a batch fit into so many bytes, for sums that have so many K x K matrices.

    Examples
    --------
    >>> fitting_rows(10**6, 256, 64, n_samples=3, matrices=0, drops=False, available=2**28)
    'Sums over 1,000,000 rows need 2.1 GiB; a batch_size of 30,720 fits. '
    >>> fitting_rows(4096, 1024, 512, n_samples=3, matrices=512, drops=False, available=2**32)
    'Sums over 4,096 rows need 4.63 GiB; no batch fits. '
    """
    row = n_samples * real_bytes * (2 * K + D) + real_bytes * D + 32
    # Rows with entries hidden are a copy, and say where something is seen.
    row += (real_bytes + 1) * D if drops else 0
    # Products of few features are added up beside their sums.
    for_all = 2 * K * D * (8 + real_bytes * N_CHUNKS) + 8 * K * K * matrices * (1 + (K <= DENSE_FEATURES))
    needed = for_all + min(n_rows, _part_rows(n_samples * real_bytes * (2 * K + D))) * row
    # Blocks of memory are larger than what is in them, and matrices that live on leave holes between them. A
    # multiple of 1024 where there are so many.
    rows = max(0, int((0.45 if matrices else 0.9) * available) - for_all) // row
    rows = rows // 1024 * 1024 if rows > 1024 else rows
    fits = f"a batch_size of {rows:,} fits" if rows else "no batch fits"
    return f"Sums over {n_rows:,} rows need {needed / 2**30:.3g} GiB; {fits}. "


def _part_of(start: tuple[Any, Any] | None, first: int, last: int) -> tuple[Any, Any] | None:
    return None if start is None else (start[0][first:last], start[1][first:last])


@dataclass(frozen=True)
class Gibbs(OnDevice, GibbsByStates):
    """`bpfa.backends.numpy.Gibbs` on a GPU.

    Examples
    --------
    >>> from bpfa._support.philox import Stream
    >>> view = GlobalView(np.eye(2), np.zeros((2, 1)), np.zeros(2), g_o=100.0, g_w=0.1)
    >>> batch = Batch([[3.0, 0.0]])
    >>> Gibbs().sums(view, batch, Stream.from_seed(0).rows(batch.ids, step=1)).n  # doctest: +SKIP
    array([1., 0.])
    """

    def __post_init__(self) -> None:
        OnDevice.__post_init__(self)
        specification.Gibbs.__post_init__(self)

    def _chain(self, view: DeviceView, draws: RowDraws, **sweeps: int) -> Chain:
        return Chain(view, not self.blocked, draws.key, draws.step, **sweeps)

    def sums(
        self, view: Any, batch: Any, draws: RowDraws, start: LocalState | None = None, *, joint: bool = False
    ) -> Any:
        """Return the sums over the rows of a batch, averaged over the kept sweeps.

        Those of a view and a batch of the host are copied to the host, others stay on the device.
        """

        def advice(available: int) -> str:
            matrices = (1 if batch.complete else view.phi.shape[1]) if joint else 0
            return fitting_rows(
                len(batch),
                *view.phi.shape,
                n_samples=self.n_samples,
                matrices=matrices,
                drops=self.dropout > 0,
                available=available,
            )

        with on_device(self.device, advice):
            seen, rows = self._seen(view), self._rows(view, batch, draws)
            started = self._start(start, batch, seen.n_features)
            chain = self._chain(seen, draws, burn_in=self.burn_in, n_samples=self.n_samples)
            K, D = seen.phi.shape
            real_bytes = np.dtype(seen.real).itemsize
            size = _part_rows(self.n_samples * real_bytes * (2 * K + D))
            sums = None
            for first in range(0, max(len(rows), 1), size):
                last = min(first + size, len(rows))
                part = rows.part(first, last)
                kept = self._kept_samples(chain, part, _part_of(started, first, last))
                # Once the chains are under way: the device need not wait for this.
                sums = sums or DeviceSums(
                    seen,
                    len(rows),
                    complete=rows.complete,
                    joint=joint,
                    method=self._method,
                    n_samples=self.n_samples,
                    step=draws.step,
                )
                sums.add_kept(kept, part)
            assert sums is not None
            return sums.host() if isinstance(view, GlobalView) else sums

    def _kept_samples(self, chain: Chain, rows: DeviceBatch, start: tuple[Any, Any] | None) -> Kept:
        """Return the kept samples of some rows, of whose entries chains may not have seen all."""
        if not self.dropout:
            return chain.kept(rows, start)
        seen = with_dropout(rows, chain.view.real, self.dropout, chain.key, chain.step)
        return of_whole_rows(chain.kept(seen, start), rows, chain.view)

    def row_moments(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: LocalState | None = None
    ) -> LocalMoments:
        """Return the rows' own posterior: moments averaged over the kept sweeps."""
        planes = self._planes(
            view, batch, draws, start, posterior=True, burn_in=self.burn_in, n_samples=self.n_samples
        )
        z, x, zw2 = planes / self.n_samples
        return LocalMoments(z, x, zw2, w2=zw2 + (1 - z) / view.g_w)

    def _planes(
        self,
        view: GlobalView,
        batch: Batch,
        draws: RowDraws,
        start: LocalState | None,
        *,
        posterior: bool = False,
        state: bool = False,
        **sweeps: int,
    ) -> Array:
        with on_device(self.device):
            seen, rows = self._seen(view), self._rows(view, batch, draws)
            started, K = self._start(start, batch, seen.n_features), seen.n_features
            chain = self._chain(seen, draws, **sweeps)
            planes = np.zeros((3 if posterior else 2, len(rows), K))
            size = _part_rows(12 * K)
            for first in range(0, len(rows), size):
                last = min(first + size, len(rows))
                part = rows.part(first, last), _part_of(started, first, last)
                planes[:, first:last] = chain.planes(*part, posterior=posterior, state=state).get()
            return planes

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
        planes = self._planes(view, batch, draws, start, state=True, first_sweep=first_sweep, burn_in=burn_in)
        return LocalState(*planes)


@dataclass(frozen=True)
class Variational(OnDevice, specification.variational.Variational):
    """What the two variational methods share."""

    _method = -1

    def __post_init__(self) -> None:
        OnDevice.__post_init__(self)
        specification.variational.Variational.__post_init__(self)

    def fit(self, view: GlobalView, batch: Batch, start: LocalState | None = None) -> LocalPosterior:
        """Return the local posterior after `n_sweeps` sweeps."""
        with on_device(self.device):
            seen, rows = self._seen(view), self._rows(view, batch, None)
            started, K = self._start(start, batch, seen.n_features), seen.n_features
            planes = np.empty((3, len(rows), K))
            size = _part_rows(48 * K)
            for first in range(0, len(rows), size):
                last = min(first + size, len(rows))
                found = self._fitted(seen, rows.part(first, last), _part_of(started, first, last))
                for plane, array in zip(planes, found[:3], strict=True):
                    plane[first:last] = array.get()
            return LocalPosterior(*planes)

    def sums(
        self, view: Any, batch: Any, draws: RowDraws, start: LocalState | None = None, *, joint: bool = False
    ) -> Any:
        """Return the sums over the rows of a batch; nothing is drawn."""
        with on_device(self.device):
            seen, rows = self._seen(view), self._rows(view, batch, None)
            started = self._start(start, batch, seen.n_features)
            sums = DeviceSums(
                seen,
                len(rows),
                complete=rows.complete,
                joint=joint,
                method=self._method,
                n_samples=1,
                step=draws.step,
            )
            size = _part_rows(48 * seen.n_features)
            for first in range(0, max(len(rows), 1), size):
                last = min(first + size, len(rows))
                part = rows.part(first, last)
                sums.add_moments(*self._fitted(seen, part, _part_of(started, first, last)))
            return sums.host() if isinstance(view, GlobalView) else sums

    def _fitted(self, view: DeviceView, rows: DeviceBatch, start: tuple[Any, Any] | None) -> tuple[Any, ...]:
        """Return theta, m, kappa, the residuals, the rows, and where they are observed (None: everywhere)."""
        cupy, real, n_rows = cupy_module(), view.real, len(rows)
        K, D = view.phi.shape
        dense, shown = rows.dense(real, shown=not rows.complete)
        if shown is None:
            phi2, s, stride = view.phi2_all, view.s_all, 0
        else:
            squares = view.rows[:K] ** 2
            phi2, stride = cupy.matmul(shown, squares.T), K
            s = phi2 if view.v is None else phi2 + cupy.matmul(shown, view.v_rows[:K].T)
        if start is None:
            theta, m = cupy.ones((n_rows, K), real), cupy.zeros((n_rows, K), real)
        else:
            theta, m = (array.copy() for array in start)
        kappa, residuals = cupy.empty((n_rows, K), real), cupy.empty((n_rows, D), real)
        function = kernel(
            "variational.cu",
            "variational",
            f"REAL={C_NAMES[real]}",
            f"MEAN_FIELD={int(self._method == MEAN_FIELD)}",
            f"COLUMNS={-(-D // 32)}",
        )
        if n_rows:
            launch(
                function, min(-(-n_rows // 8), 16 * properties.multiprocessors()), 256,
                dense, shown, np.int64(n_rows), K, D, view.rows, phi2, s, np.int64(stride), view.logit2,
                view.precisions, self.n_sweeps, theta, m, kappa, residuals,
            )  # fmt: skip
        return theta, m, kappa, residuals, dense, shown


class MeanField(Variational, specification.MeanField):
    """`bpfa.backends.numpy.MeanField` on a GPU."""

    _method = MEAN_FIELD


class SpikeSlab(Variational, specification.SpikeSlab):
    """`bpfa.backends.numpy.SpikeSlab` on a GPU."""

    _method = SPIKE_SLAB
