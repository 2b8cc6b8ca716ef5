"""The backend for NVIDIA GPUs: kernels compiled by NVRTC, arrays of CuPy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.backends.cpu.collapsed import add_draws
from bpfa.backends.cpu.signal import signal
from bpfa.backends.cuda import arrays, pictures, runtime
from bpfa.backends.cuda.frames import PIXELS, CudaFrames
from bpfa.backends.cuda.graphs import StepGraphs
from bpfa.backends.cuda.groups import CudaGroups
from bpfa.backends.cuda.local import Gibbs, MeanField, SpikeSlab
from bpfa.backends.cuda.pictures import PatchSamples
from bpfa.backends.cuda.posterior import DevicePosterior
from bpfa.backends.cuda.row_groups import CudaRowGroups
from bpfa.backends.cuda.rows import rows_on_device
from bpfa.backends.frames import FrameDevice, FrameForm
from bpfa.backends.groups import GroupKernels
from bpfa.backends.protocol import Backend, MakeStep, Step, Workspace
from bpfa.backends.row_groups import RowGroupKernels
from bpfa.data import Batch, Rows, RowSource
from bpfa.data.overlap import Restored
from bpfa.data.patches import PatchRows
from bpfa.model.collapsed import MissingEntries
from bpfa.model.local import LocalMethod, MethodName
from bpfa.model.marginals import Signal
from bpfa.model.posterior import GlobalPosterior, Posterior
from bpfa.model.view import GlobalView

__all__ = ["CudaBackend", "CudaWorkspace"]


class CudaWorkspace(Workspace):
    """The memory of a GPU. Steps are queued without waiting for them, and small ones are replayed as graphs.

    Parameters
    ----------
    device : str
    dtype : str
        Precision of the kernels, "float32" or "float64".
    """

    def __init__(self, device: str, dtype: str) -> None:
        self.device, self.dtype = device, dtype
        self._graphs = StepGraphs()

    def place_posterior(self, posterior: GlobalPosterior) -> DevicePosterior:
        """Copy a posterior to the device."""
        return DevicePosterior.of(posterior, self.device, self.dtype)

    def place_rows(self, rows: Rows) -> Any:
        """Copy all rows to the device if they fit; otherwise every batch is copied when it is used."""
        return rows_on_device(rows)

    def step(self, make_step: MakeStep, posterior: Any, batch: Any, step: Step) -> Any:
        """Return the posterior after a step, which may be replayed from a recording."""
        return self._graphs.step(make_step, posterior, batch, step)


class CudaBackend(Backend):
    """A GPU, in whose memory the rows, the posterior and the sums stay during a whole run."""

    name: ClassVar[str] = "cuda"
    has_numbered_devices: ClassVar[bool] = True
    methods: ClassVar[Mapping[MethodName, Any]] = {m.kind: m for m in (Gibbs, MeanField, SpikeSlab)}
    groups: ClassVar[GroupKernels] = CudaGroups()
    row_groups: ClassVar[RowGroupKernels] = CudaRowGroups()
    carries_chains: ClassVar[bool] = False

    def local_method(self, kind: MethodName, device: str, **options: Any) -> LocalMethod:
        """Return a local method on a GPU."""
        method: LocalMethod = self.methods[kind](**options, device=device)
        return method

    def signal(self, on: NDArray[np.bool_], phi: Array, g_o: float, g_w: float, batch: Batch) -> Signal:
        """Return the entries of rows given which features are on, computed by the kernel of the CPU."""
        return signal(on, phi, g_o, g_w, batch)

    def add_draws(
        self,
        found: MissingEntries,
        views: Sequence[GlobalView],
        batch: Batch,
        stream: Stream,
        n_sweeps: int,
        *,
        n_jobs: int | None = None,
    ) -> None:
        """Continue the chains of some rows under further draws of the globals, by the kernel of the CPU."""
        add_draws(found, views, batch, stream, n_sweeps, n_jobs=n_jobs)

    def problem(self) -> str | None:
        """Return why no GPU can be used and what to do about it, or None if one can."""
        return runtime.cuda_problem()

    def description(self) -> str:
        """Return, for people, which GPU would be used, and with which software."""
        return f"{runtime.card()}; kernels are kept in {runtime.cache_folder()}"

    @contextmanager
    def workspace(self, device: str, local: Any) -> Iterator[Workspace]:
        """Open a workspace on a GPU for a run of one of its local methods, in the method's precision."""
        with runtime.on_device(device):
            yield CudaWorkspace(device, local.dtype)

    def owns(self, data: Any) -> bool:
        """Return whether data is an array in the memory of a GPU."""
        return arrays.is_cuda_array(data)

    def rows_of(self, data: Any) -> RowSource:
        """Return the rows of an array in the memory of a GPU."""
        return arrays.CudaArrayRows(data)

    def array_like(self, values: NDArray[Any], data: Any) -> Any:
        """Return values from the host as an array of the same library, and on the same device, as `data`."""
        return arrays.like_cuda_array(values, data)

    def restore_patches(
        self,
        rows: PatchRows,
        posterior: Posterior,
        algorithm: Any,
        *,
        n_draws: int,
        n_samples: int,
        stream: Stream,
        n_threads: int = 1,
        verbose: int = 0,
    ) -> Restored | None:
        """Predict all patches and average them on the GPU, if z is drawn given a draw of the globals."""
        if not (_draws_z(algorithm) and isinstance(posterior, GlobalPosterior)):
            return None
        draws = PatchSamples(n_draws, n_samples, stream)
        return pictures.restore_patches(rows, posterior, algorithm.local, draws)

    def frames(
        self,
        form: FrameForm,
        algorithm: Any,
        n_features: int,
        *,
        n_draws: int,
        n_samples: int,
        stream: Stream,
    ) -> FrameDevice | None:
        """Return memory and kernels for frames, if z is drawn given a draw of the globals."""
        if not _draws_z(algorithm) or form.dtype.newbyteorder("=").name not in PIXELS:
            return None
        return CudaFrames(form, algorithm.local, n_features, PatchSamples(n_draws, n_samples, stream))


def _draws_z(algorithm: Any) -> bool:
    """Return whether an algorithm draws z given a draw of the globals, as the kernels for pictures do."""
    return isinstance(algorithm.local, Gibbs) and algorithm.view == "sampled"
