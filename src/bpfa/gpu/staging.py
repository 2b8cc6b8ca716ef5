"""Arrays of the host on their way to a device, while the device computes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa.gpu.runtime import cupy_module

__all__ = ["on_its_way"]

# Bytes that blocks come in multiples of, and the most blocks before one must be waited for.
GRAIN, MOST_BLOCKS = 2**16, 12


class Block:
    """Memory on the device, and as much page-locked memory of the host that is copied from."""

    def __init__(self, n_bytes: int) -> None:
        cupy = cupy_module()
        self.there, self.here = cupy.cuda.alloc(n_bytes), cupy.cuda.alloc_pinned_memory(n_bytes)
        self.n_bytes = n_bytes
        # What the memory was used for before may still be going on.
        self.used = cupy.cuda.get_current_stream().record()
        self.copied = self.used


class Lease:
    """Gives a block back when the last array in it is gone: the kernels that use it are queued by then."""

    def __init__(self, block: Block, free: list[Block], stream: Any) -> None:
        self.block, self.free, self.stream = block, free, stream

    def __del__(self) -> None:
        self.block.used = self.stream.record()
        self.free.append(self.block)


class Staging:
    """Copies through page-locked memory, on a stream of their own."""

    def __init__(self) -> None:
        self.stream = cupy_module().cuda.Stream(non_blocking=True)
        self.free: list[Block] = []
        self.n_blocks = 0

    def copy(self, array: NDArray[Any]) -> Any:
        """Return an array of the device for kernels of the current stream."""
        cupy = cupy_module()
        computing, block = cupy.cuda.get_current_stream(), self._block(array.nbytes)
        block.copied.synchronize()
        staged = np.frombuffer(block.here, array.dtype, array.size).reshape(array.shape)
        staged[...] = array
        lease = Lease(block, self.free, computing)
        memory = cupy.cuda.UnownedMemory(block.there.ptr, block.n_bytes, lease)
        there = cupy.ndarray(array.shape, array.dtype, cupy.cuda.MemoryPointer(memory, 0))
        self.stream.wait_event(block.used)
        there.set(staged, self.stream)
        block.copied = self.stream.record()
        computing.wait_event(block.copied)
        return there

    def _block(self, n_bytes: int) -> Block:
        """Return a free block: one that nobody computes with, a new one, or the one free for longest."""
        fitting = [block for block in self.free if n_bytes <= block.n_bytes <= max(4 * n_bytes, GRAIN)]
        idle = next((block for block in fitting if block.used.done), None)
        if idle is None and (self.n_blocks < MOST_BLOCKS or not fitting):
            if len(self.free) >= MOST_BLOCKS:
                # None of them is of this size.
                self.free.pop(0)
                self.n_blocks -= 1
            self.n_blocks += 1
            return Block(-(-n_bytes // GRAIN) * GRAIN)
        chosen = fitting[0] if idle is None else idle
        self.free.remove(chosen)
        return chosen


@cache
def _staging(device: int) -> Staging:
    return Staging()


def on_its_way(array: NDArray[Any]) -> Any:
    """Return a copy on the current device; the host does not wait for it, kernels queued from now on do."""
    cupy, array = cupy_module(), np.ascontiguousarray(array)
    if array.size == 0:
        return cupy.empty(array.shape, array.dtype)
    return _staging(cupy.cuda.runtime.getDevice()).copy(array)
