"""GPUs of NVIDIA as a backend: kernels compiled by NVRTC, arrays of CuPy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.backends.cpu.signal import signal
from bpfa.backends.cuda import arrays, pictures, runtime
from bpfa.backends.cuda.graphs import StepGraphs
from bpfa.backends.cuda.local import Gibbs, MeanField, SpikeSlab
from bpfa.backends.cuda.posterior import DevicePosterior
from bpfa.backends.cuda.rows import rows_on_device
from bpfa.backends.protocol import Backend, Step, Workspace
from bpfa.data import Batch, Rows, RowSource
from bpfa.data.overlap import Restored
from bpfa.data.patches import PatchRows
from bpfa.model.local import LocalMethod, MethodName
from bpfa.model.marginals import Signal
from bpfa.model.posterior import GlobalPosterior, Posterior

__all__ = ["CudaBackend", "CudaWorkspace"]


class CudaWorkspace(Workspace):
    """The memory of a GPU. Steps are queued and not waited for; small ones are recorded and replayed.

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
        """Copy rows to the device if they fit; otherwise every batch is copied when it is used."""
        return rows_on_device(rows)

    def step(
        self,
        make_step: Step,
        posterior: Any,
        batch: Any,
        algorithm: Any,
        *,
        step: int,
        rho: float,
        stream: Stream,
    ) -> Any:
        """Return the posterior after a step, which may be replayed from a recording."""
        return self._graphs.step(make_step, posterior, batch, algorithm, step=step, rho=rho, stream=stream)


class CudaBackend(Backend):
    """A GPU in whose memory rows, posterior and sums stay for a whole run."""

    name: ClassVar[str] = "cuda"
    methods: ClassVar[Mapping[MethodName, Any]] = {
        "Gibbs": Gibbs,
        "MeanField": MeanField,
        "SpikeSlab": SpikeSlab,
    }
    carries_chains: ClassVar[bool] = False

    def local_method(self, kind: MethodName, device: str, **options: Any) -> LocalMethod:
        """Return a local method on a GPU."""
        method: LocalMethod = self.methods[kind](**options, device=device)
        return method

    def signal(self, on: NDArray[np.bool_], phi: Array, g_o: float, g_w: float, batch: Batch) -> Signal:
        """Return the entries of rows given which features are on, by the kernel of the CPU."""
        return signal(on, phi, g_o, g_w, batch)

    def problem(self) -> str | None:
        """Return why no GPU can be used, and what to do about it; None where one can."""
        return runtime.cuda_problem()

    def description(self) -> str:
        """Return which GPU would be used, and with which software."""
        return f"{runtime.card()}; kernels are kept in {runtime.cache_folder()}"

    @contextmanager
    def workspace(self, device: str, local: Any) -> Iterator[Workspace]:
        """Enter a GPU for a run of one of its local methods, in the precision of that method."""
        with runtime.on_device(device):
            yield CudaWorkspace(device, local.dtype)

    def owns(self, data: Any) -> bool:
        """Return whether data is an array in the memory of a GPU."""
        return arrays.is_cuda_array(data)

    def rows_of(self, data: Any) -> RowSource:
        """Return the rows of an array in the memory of a GPU."""
        return arrays.CudaArrayRows(data)

    def array_like(self, values: NDArray[Any], data: Any) -> Any:
        """Return values of the host as an array of the library and on the device that `data` is on."""
        return arrays.like_cuda_array(values, data)

    def restore_patches(
        self, rows: PatchRows, posterior: Posterior, algorithm: Any, *, n_draws: int, stream: Stream
    ) -> Restored | None:
        """Predict all patches and average them on the GPU, where z is drawn given a draw of the globals."""
        local = algorithm.local
        drawn = isinstance(local, Gibbs) and algorithm.view == "sampled"
        if not (drawn and isinstance(posterior, GlobalPosterior)):
            return None
        return pictures.restore_patches(rows, posterior, local, n_draws=n_draws, stream=stream)
