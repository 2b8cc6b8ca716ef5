"""The local methods of the specification on a GPU.

They have the same interface and use the same random numbers, and their results are equal up to rounding.
Under a `GlobalView`, which is on the host, the results are copied to the host. Under a `DeviceView`,
everything stays on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bpfa._support.checks import Array, check_choice
from bpfa._support.philox import RowDraws
from bpfa.backends import numpy as specification
from bpfa.backends.cuda.dropout import with_dropout, with_residuals_of_whole_rows
from bpfa.backends.cuda.gibbs import Chain, KeptSamples
from bpfa.backends.cuda.rows import C_TYPES, DeviceBatch, uploaded
from bpfa.backends.cuda.runtime import CurrentDevice, cupy_module, device_index, kernel, launch, on_device
from bpfa.backends.cuda.sums import DENSE_FEATURES, N_CHUNKS, DeviceSums
from bpfa.backends.cuda.view import DeviceView
from bpfa.backends.kernel_methods import MEAN_FIELD, SPIKE_SLAB, KernelGibbs, check_precisions
from bpfa.data import Batch
from bpfa.model.local import LocalPosterior, LocalState, RowStart, checked_start
from bpfa.model.sums import LocalMoments
from bpfa.model.view import GlobalView

__all__ = ["CudaKernel", "Gibbs", "MeanField", "SpikeSlab"]

# Rows are processed in parts: the largest number of bytes of the kept samples, or the moments, of a part.
PART_BYTES = 2**31


@dataclass(frozen=True)
class CudaKernel:
    """Which device the kernels run on, and in which precision.

    Parameters
    ----------
    dtype : str
        "float32", or "float64", which is slow and meant for checking. Sums are accumulated in float64 either
        way.
    device : str
        "cuda", or "cuda:1" for the second GPU.
    """

    dtype: str = "float32"
    device: str = "cuda"

    def __post_init__(self) -> None:
        check_choice("dtype", self.dtype, ("float32", "float64"))
        device_index(self.device)

    def _view_on_device(self, view: GlobalView | DeviceView) -> DeviceView:
        """Return a view on the device."""
        if isinstance(view, DeviceView):
            return view
        check_precisions(view, self.dtype)
        return DeviceView.of(view, self.dtype)

    def _rows_on_device(
        self, view: GlobalView | DeviceView, batch: Batch | DeviceBatch, draws: RowDraws | None
    ) -> DeviceBatch:
        """Return the rows of a batch on the device."""
        D = view.phi.shape[1]
        if batch.n_columns != D:
            raise ValueError(f"batch: {batch.n_columns} columns; expected {D}, as the view has")
        if draws is not None and len(draws.ids) != len(batch):
            raise ValueError(f"draws: for {len(draws.ids)} rows; expected {len(batch)}, as the batch has")
        if isinstance(batch, DeviceBatch):
            return batch
        return uploaded(batch, self.dtype, None if draws is None else draws.ids)

    def _start_on_device(self, start: RowStart, batch: Batch | DeviceBatch, K: int) -> tuple[Any, Any] | None:
        """Return z and w of a start on the device."""
        if start is None:
            return None
        assert isinstance(batch, Batch)
        checked = checked_start(start, batch, K)
        cupy = cupy_module()
        return cupy.asarray(checked.z.astype(self.dtype)), cupy.asarray(checked.w.astype(self.dtype))


def _part_rows(bytes_a_row: int) -> int:
    """Return how many rows a part has."""
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
    """Return a sentence that says how many rows of a batch fit into the available memory.

    Parameters
    ----------
    n_rows, K, D : int
    n_samples : int
        Samples that a chain keeps.
    matrices : int
        How many K x K matrices the sums have.
    drops : bool
        Whether entries are hidden from the chains.
    available : int
        Bytes of memory that are available.
    real_bytes : int
        Bytes of a number of the kernels.

    Examples
    --------
    >>> fitting_rows(10**6, 256, 64, n_samples=3, matrices=0, drops=False, available=2**28)
    'Sums over 1,000,000 rows need 2.1 GiB; a batch_size of 30,720 fits. '
    >>> fitting_rows(4096, 1024, 512, n_samples=3, matrices=512, drops=False, available=2**32)
    'Sums over 4,096 rows need 4.63 GiB; no batch fits. '
    """
    row = n_samples * real_bytes * (2 * K + D) + real_bytes * D + 32
    # Dropout needs a copy of the rows, and a byte for every entry that says whether it is visible.
    row += (real_bytes + 1) * D if drops else 0
    # The products of few features are added up in chunks, which take the memory of another K x K matrix each.
    for_all = 2 * K * D * (8 + real_bytes * N_CHUNKS) + 8 * K * K * matrices * (1 + (K <= DENSE_FEATURES))
    needed = for_all + min(n_rows, _part_rows(n_samples * real_bytes * (2 * K + D))) * row
    # Not all memory can be used: blocks of memory are larger than the arrays in them, and matrices that are
    # kept leave gaps. More than 1024 rows are rounded down to a multiple of 1024.
    rows = max(0, int((0.45 if matrices else 0.9) * available) - for_all) // row
    rows = rows // 1024 * 1024 if rows > 1024 else rows
    fits = f"a batch_size of {rows:,} fits" if rows else "no batch fits"
    return f"Sums over {n_rows:,} rows need {needed / 2**30:.3g} GiB; {fits}. "


def _part_of(start: tuple[Any, Any] | None, first: int, last: int) -> tuple[Any, Any] | None:
    """Return z and w of a start for the rows from `first` to before `last`."""
    return None if start is None else (start[0][first:last], start[1][first:last])


@dataclass(frozen=True)
class Gibbs(CudaKernel, KernelGibbs):
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
        CudaKernel.__post_init__(self)
        specification.Gibbs.__post_init__(self)

    def _chain(self, view: DeviceView, draws: RowDraws, **sweeps: int) -> Chain:
        return Chain(view, not self.blocked, draws.key, draws.step, **sweeps)

    def sums(
        self, view: Any, batch: Any, draws: RowDraws, start: RowStart = None, *, joint: bool = False
    ) -> Any:
        """Return the sums over the rows of a batch, averaged over the kept sweeps.

        They are copied to the host if the view is there; otherwise they stay on the device.
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
            device_view, rows = self._view_on_device(view), self._rows_on_device(view, batch, draws)
            started = self._start_on_device(start, batch, device_view.n_features)
            chain = self._chain(device_view, draws, burn_in=self.burn_in, n_samples=self.n_samples)
            K, D = device_view.phi.shape
            real_bytes = np.dtype(device_view.real).itemsize
            size = _part_rows(self.n_samples * real_bytes * (2 * K + D))
            sums = None
            for first in range(0, max(len(rows), 1), size):
                last = min(first + size, len(rows))
                part = rows.part(first, last)
                kept = self._kept_samples(chain, part, _part_of(started, first, last))
                # The sums are allocated after the chains are queued, so that the device need not wait.
                sums = sums or DeviceSums(
                    device_view,
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

    def _kept_samples(self, chain: Chain, rows: DeviceBatch, start: tuple[Any, Any] | None) -> KeptSamples:
        """Return the kept samples of some rows; with dropout, the chains do not see all of the entries."""
        if not self.dropout:
            return chain.kept_samples(rows, start)
        visible = with_dropout(rows, chain.view.real, self.dropout, chain.key, chain.step)
        return with_residuals_of_whole_rows(chain.kept_samples(visible, start), rows, chain.view)

    def row_moments(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: RowStart = None
    ) -> LocalMoments:
        """Return the moments of each row's local variables, averaged over the kept sweeps."""
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
        start: RowStart,
        *,
        posterior: bool = False,
        state: bool = False,
        **sweeps: int,
    ) -> Array:
        """Run the chains and return z, x and x^2 summed over samples, or the last z and w, on the host."""
        with on_device(self.device):
            device_view, rows = self._view_on_device(view), self._rows_on_device(view, batch, draws)
            K = device_view.n_features
            started = self._start_on_device(start, batch, K)
            chain = self._chain(device_view, draws, **sweeps)
            planes = np.zeros((3 if posterior else 2, len(rows), K))
            size = _part_rows(12 * K)
            for first in range(0, len(rows), size):
                last = min(first + size, len(rows))
                part = rows.part(first, last), _part_of(started, first, last)
                planes[:, first:last] = chain.planes(*part, posterior=posterior, state=state).get()
            return planes

    def _state_after(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: RowStart, sweeps: range
    ) -> LocalState:
        numbers: dict[str, Any] = {"first_sweep": sweeps.start, "burn_in": len(sweeps) - 1}
        return LocalState(*self._planes(view, batch, draws, start, state=True, **numbers))


@dataclass(frozen=True)
class Variational(CudaKernel, specification.variational.Variational):
    """What the two variational methods share."""

    _method = -1

    def __post_init__(self) -> None:
        CudaKernel.__post_init__(self)
        specification.variational.Variational.__post_init__(self)

    def fit(self, view: GlobalView, batch: Batch, start: RowStart = None) -> LocalPosterior:
        """Return the local posterior after `n_sweeps` sweeps."""
        with on_device(self.device):
            device_view, rows = self._view_on_device(view), self._rows_on_device(view, batch, None)
            K = device_view.n_features
            started = self._start_on_device(start, batch, K)
            planes = np.empty((3, len(rows), K))
            size = _part_rows(48 * K)
            for first in range(0, len(rows), size):
                last = min(first + size, len(rows))
                found = self._fitted(device_view, rows.part(first, last), _part_of(started, first, last))
                for plane, array in zip(planes, found[:3], strict=True):
                    plane[first:last] = array.get()
            return LocalPosterior(*planes)

    def sums(
        self, view: Any, batch: Any, draws: RowDraws, start: RowStart = None, *, joint: bool = False
    ) -> Any:
        """Return the sums over the rows of a batch; no random numbers are drawn."""
        with on_device(self.device):
            device_view, rows = self._view_on_device(view), self._rows_on_device(view, batch, None)
            started = self._start_on_device(start, batch, device_view.n_features)
            sums = DeviceSums(
                device_view,
                len(rows),
                complete=rows.complete,
                joint=joint,
                method=self._method,
                n_samples=1,
                step=draws.step,
            )
            size = _part_rows(48 * device_view.n_features)
            for first in range(0, max(len(rows), 1), size):
                last = min(first + size, len(rows))
                part = rows.part(first, last)
                sums.add_moments(*self._fitted(device_view, part, _part_of(started, first, last)))
            return sums.host() if isinstance(view, GlobalView) else sums

    def _fitted(self, view: DeviceView, rows: DeviceBatch, start: tuple[Any, Any] | None) -> tuple[Any, ...]:
        """Return theta, m, kappa, the residuals, the rows as a matrix, and its mask or None."""
        cupy, real, n_rows = cupy_module(), view.real, len(rows)
        K, D = view.phi.shape
        dense, mask = rows.dense(real, with_mask=not rows.complete)
        if mask is None:
            phi2, s, stride = view.phi2_all, view.s_all, 0
        else:
            squares = view.rows[:K] ** 2
            phi2, stride = cupy.matmul(mask, squares.T), K
            s = phi2 if view.v is None else phi2 + cupy.matmul(mask, view.v_rows[:K].T)
        if start is None:
            theta, m = cupy.ones((n_rows, K), real), cupy.zeros((n_rows, K), real)
        else:
            theta, m = (array.copy() for array in start)
        kappa, residuals = cupy.empty((n_rows, K), real), cupy.empty((n_rows, D), real)
        function = kernel(
            "variational.cu",
            "variational",
            f"REAL={C_TYPES[real]}",
            f"MEAN_FIELD={int(self._method == MEAN_FIELD)}",
            f"COLUMNS={-(-D // 32)}",
        )
        if n_rows:
            launch(
                function, min(-(-n_rows // 8), 16 * CurrentDevice.multiprocessors()), 256,
                dense, mask, np.int64(n_rows), K, D, view.rows, phi2, s, np.int64(stride), view.logit2,
                view.precisions, self.n_sweeps, theta, m, kappa, residuals,
            )  # fmt: skip
        return theta, m, kappa, residuals, dense, mask


class MeanField(Variational, specification.MeanField):
    """`bpfa.backends.numpy.MeanField` on a GPU."""

    _method = MEAN_FIELD


class SpikeSlab(Variational, specification.SpikeSlab):
    """`bpfa.backends.numpy.SpikeSlab` on a GPU."""

    _method = SPIKE_SLAB
