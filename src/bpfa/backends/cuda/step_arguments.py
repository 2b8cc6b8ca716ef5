"""The number and the size of a step as kernels are told them: as arguments, or where to look for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpfa.backends.cuda.runtime import cupy_module

__all__ = ["StepOnDevice", "number_arguments", "size_arguments"]


class StepOnDevice:
    """The number and the size of a step in the memory of the device.

    Stands for both where a step is recorded: the graph is replayed with the arguments that it was recorded
    with, and only what is in memory can be another step's.
    """

    def __init__(self) -> None:
        self.there: Any = cupy_module().empty(2)


def number_arguments(step: int | StepOnDevice) -> tuple[np.uint32, Any]:
    """Return the number of a step as kernels take it that draw random numbers."""
    return (
        (np.uint32(0), step.there) if isinstance(step, StepOnDevice) else (np.uint32(step & 0xFFFFFFFF), None)
    )


def size_arguments(rho: float | StepOnDevice) -> tuple[float, Any]:
    """Return the size of a step as kernels take it that make it."""
    return (0.0, rho.there) if isinstance(rho, StepOnDevice) else (rho, None)
