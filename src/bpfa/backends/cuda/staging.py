"""Arrays of the host on their way to a device, while the device computes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa.backends.cuda.runtime import cupy_module

__all__ = ["on_its_way"]

# Bytes that blocks come in multiples of, and the most free ones before kernels are waited for.
GRAIN, MOST_FREE = 2**16, 12


class Block:
    """Memory on the device, and as much page-locked memory of the host that is copied from."""

    def __init__(self, n_bytes: int) -> None:
        cupy = cupy_module()
        self.n_bytes, self.leased = n_bytes, True
        self.there = cupy.cuda.alloc(n_bytes)
        self.here = np.frombuffer(cupy.cuda.alloc_pinned_memory(n_bytes), np.uint8, n_bytes)
        # What the memory was used for before may still be going on.
        self.used = cupy.cuda.get_current_stream().record()
        self.copied = self.used


class Lease:
    """Gives a block back when the last array in it is gone: the kernels that use it are queued by then."""

    def __init__(self, block: Block, stream: Any) -> None:
        self.block, self.stream = block, stream

    def __del__(self) -> None:
        self.block.used = self.stream.record()
        self.block.leased = False


class Staging:
    """Copies through page-locked memory, on a stream of their own."""

    def __init__(self) -> None:
        self.stream = cupy_module().cuda.Stream(non_blocking=True)
        # All of them, leased or not: a block that only its lease knew could be collected together with it.
        self.blocks: list[Block] = []

    def copy(self, array: NDArray[Any]) -> Any:
        """Return an array of the device for kernels of the current stream."""
        cupy = cupy_module()
        computing, block = cupy.cuda.get_current_stream(), self._block(array.nbytes)
        block.copied.synchronize()
        staged = block.here[: array.nbytes].view(array.dtype).reshape(array.shape)
        staged[...] = array
        memory = cupy.cuda.UnownedMemory(block.there.ptr, block.n_bytes, Lease(block, computing))
        there = cupy.ndarray(array.shape, array.dtype, cupy.cuda.MemoryPointer(memory, 0))
        self.stream.wait_event(block.used)
        there.set(staged, self.stream)
        block.copied = self.stream.record()
        computing.wait_event(block.copied)
        return there

    def _block(self, n_bytes: int) -> Block:
        """Lease a block: one that nobody computes with, a new one, or one that kernels must be done with."""
        free = [block for block in self.blocks if not block.leased]
        fitting = [block for block in free if n_bytes <= block.n_bytes <= max(4 * n_bytes, GRAIN)]
        chosen = next((block for block in fitting if block.used.done), None)
        if chosen is None and (len(free) < MOST_FREE or not fitting):
            if len(free) >= MOST_FREE:
                # None of them is of this size.
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


def on_its_way(array: NDArray[Any]) -> Any:
    """Return a copy on the current device; the host does not wait for it, kernels queued from now on do."""
    cupy, array = cupy_module(), np.ascontiguousarray(array)
    if array.size == 0:
        return cupy.empty(array.shape, array.dtype)
    return _staging(cupy.cuda.runtime.getDevice()).copy(array)
