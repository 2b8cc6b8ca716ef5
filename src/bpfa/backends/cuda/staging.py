"""Copies of arrays from the host to a device that run while the device computes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa.backends.cuda.runtime import cupy_module

__all__ = ["copied_to_device"]

# The size of a block is a multiple of GRAIN bytes. Once there are MOST_FREE free blocks, one of them is used
# again even if kernels still read it, and the copy waits for these kernels.
GRAIN, MOST_FREE = 2**16, 12


class Block:
    """A block of memory on the device, and one of the same size in page-locked memory of the host.

    The events `used` and `copied` mark the end of the last kernels that use the block, and of the last copy.
    """

    def __init__(self, n_bytes: int) -> None:
        cupy = cupy_module()
        self.n_bytes, self.leased = n_bytes, True
        self.on_device = cupy.cuda.alloc(n_bytes)
        self.on_host = np.frombuffer(cupy.cuda.alloc_pinned_memory(n_bytes), np.uint8, n_bytes)
        # Kernels that are queued already may still use this memory for what it held before.
        self.used = cupy.cuda.get_current_stream().record()
        self.copied = self.used


class Lease:
    """Returns a block when the last array in it is deleted; all kernels that use it are queued by then."""

    def __init__(self, block: Block, stream: Any) -> None:
        self.block, self.stream = block, stream

    def __del__(self) -> None:
        self.block.used = self.stream.record()
        self.block.leased = False


class Staging:
    """Copies through page-locked memory, on a stream of its own."""

    def __init__(self) -> None:
        self.stream = cupy_module().cuda.Stream(non_blocking=True)
        # All blocks, leased or not. A block that only its lease refers to might be collected with the lease.
        self.blocks: list[Block] = []

    def copy(self, array: NDArray[Any]) -> Any:
        """Return a copy on the device, for kernels of the current stream."""
        cupy = cupy_module()
        computing, block = cupy.cuda.get_current_stream(), self._block(array.nbytes)
        block.copied.synchronize()
        staged = block.on_host[: array.nbytes].view(array.dtype).reshape(array.shape)
        staged[...] = array
        memory = cupy.cuda.UnownedMemory(block.on_device.ptr, block.n_bytes, Lease(block, computing))
        copied = cupy.ndarray(array.shape, array.dtype, cupy.cuda.MemoryPointer(memory, 0))
        self.stream.wait_event(block.used)
        copied.set(staged, self.stream)
        block.copied = self.stream.record()
        computing.wait_event(block.copied)
        return copied

    def _block(self, n_bytes: int) -> Block:
        """Lease a block: if possible one that no kernel uses, else a new one, else one still in use."""
        free = [block for block in self.blocks if not block.leased]
        fitting = [block for block in free if n_bytes <= block.n_bytes <= max(4 * n_bytes, GRAIN)]
        chosen = next((block for block in fitting if block.used.done), None)
        if chosen is None and (len(free) < MOST_FREE or not fitting):
            if len(free) >= MOST_FREE:
                # None of the free blocks has a suitable size, so that one of them is given up for a new one.
                free[0].used.synchronize()
                self.blocks.remove(free[0])
            chosen = Block(-(-n_bytes // GRAIN) * GRAIN)
            self.blocks.append(chosen)
        chosen = chosen or fitting[0]
        chosen.leased = True
        return chosen


@cache
def _staging(device: int) -> Staging:
    return Staging()


def copied_to_device(array: NDArray[Any]) -> Any:
    """Return a copy on the current device. The host does not wait for it; kernels queued from now on do."""
    cupy, array = cupy_module(), np.ascontiguousarray(array)
    if array.size == 0:
        return cupy.empty(array.shape, array.dtype)
    return _staging(cupy.cuda.runtime.getDevice()).copy(array)
