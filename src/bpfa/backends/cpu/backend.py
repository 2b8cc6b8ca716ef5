"""The backend for the CPU: C++ kernels on all threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.backends.cpu.collapsed import add_draws
from bpfa.backends.cpu.groups import CpuGroups
from bpfa.backends.cpu.local import Gibbs, MeanField, SpikeSlab
from bpfa.backends.cpu.pictures import restore_patches
from bpfa.backends.cpu.row_groups import CpuRowGroups
from bpfa.backends.cpu.signal import signal
from bpfa.backends.groups import GroupKernels
from bpfa.backends.protocol import Backend
from bpfa.backends.row_groups import RowGroupKernels
from bpfa.data import Batch
from bpfa.data.overlap import Restored
from bpfa.data.patches import PatchRows
from bpfa.model.collapsed import MissingEntries
from bpfa.model.local import MethodName
from bpfa.model.marginals import Signal
from bpfa.model.posterior import Posterior
from bpfa.model.view import GlobalView

__all__ = ["CpuBackend"]


class CpuBackend(Backend):
    """Kernels compiled for several instruction sets, of which the widest that the processor has is used."""

    name: ClassVar[str] = "cpu"
    methods: ClassVar[Mapping[MethodName, Any]] = {m.kind: m for m in (Gibbs, MeanField, SpikeSlab)}
    groups: ClassVar[GroupKernels] = CpuGroups()
    row_groups: ClassVar[RowGroupKernels] = CpuRowGroups()
    uses_threads: ClassVar[bool] = True

    def signal(self, on: NDArray[np.bool_], phi: Array, g_o: float, g_w: float, batch: Batch) -> Signal:
        """Return the entries of rows given which features are on."""
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
        """Continue the chains of some rows under further draws of the globals."""
        add_draws(found, views, batch, stream, n_sweeps, n_jobs=n_jobs)

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
        """Predict and average all patches in compiled code, if z is drawn given a draw of the globals."""
        if not (isinstance(algorithm.local, Gibbs) and algorithm.view == "sampled"):
            return None
        return restore_patches(
            rows,
            posterior,
            algorithm.local,
            n_draws=n_draws,
            n_samples=n_samples,
            stream=stream,
            n_threads=n_threads,
            verbose=verbose,
        )

    def description(self) -> str:
        """Return, for people, which device would be used."""
        return "the CPU"
