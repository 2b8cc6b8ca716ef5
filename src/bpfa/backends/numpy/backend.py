"""The backend of the specification: everything in NumPy, written to be read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.backends.groups import GroupKernels
from bpfa.backends.numpy.gibbs import Gibbs
from bpfa.backends.numpy.groups import NumpyGroups
from bpfa.backends.numpy.mean_field import MeanField
from bpfa.backends.numpy.row_groups import NumpyRowGroups
from bpfa.backends.numpy.spike_slab import SpikeSlab
from bpfa.backends.protocol import Backend
from bpfa.backends.row_groups import RowGroupKernels
from bpfa.data import Batch
from bpfa.model import marginals
from bpfa.model.local import MethodName
from bpfa.model.marginals import Signal

__all__ = ["NumpyBackend"]


class NumpyBackend(Backend):
    """The specification that the kernels of the other backends are tested against."""

    name: ClassVar[str] = "numpy"
    methods: ClassVar[Mapping[MethodName, Any]] = {m.kind: m for m in (Gibbs, MeanField, SpikeSlab)}
    groups: ClassVar[GroupKernels] = NumpyGroups()
    row_groups: ClassVar[RowGroupKernels] = NumpyRowGroups()

    def signal(self, on: NDArray[np.bool_], phi: Array, g_o: float, g_w: float, batch: Batch) -> Signal:
        """Return the entries of rows given which features are on."""
        return marginals.signal(on, phi, g_o, g_w, batch)
