"""The number and the size of a step, which kernels are given as arguments or read from memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpfa.backends.cuda.runtime import cupy_module

__all__ = ["StepOnDevice", "number_arguments", "size_arguments"]


class StepOnDevice:
    """The number and the size of a step in the memory of the device, as in common.cuh.

    It takes the place of both while a step is recorded. A graph is always replayed with the arguments that it
    was recorded with, so that only what is read from memory can differ between steps.
    """

    def __init__(self) -> None:
        self.memory: Any = cupy_module().empty(2)


def number_arguments(step: int | StepOnDevice) -> tuple[np.uint32, Any]:
    """Return the number of a step as the arguments of a kernel that draws random numbers."""
    if isinstance(step, StepOnDevice):
        return np.uint32(0), step.memory
    return np.uint32(step & 0xFFFFFFFF), None


def size_arguments(rho: float | StepOnDevice) -> tuple[float, Any]:
    """Return the size of a step as the arguments of a kernel that makes the step."""
    return (0.0, rho.memory) if isinstance(rho, StepOnDevice) else (rho, None)
