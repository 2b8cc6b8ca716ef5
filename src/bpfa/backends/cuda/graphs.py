"""Steps as graphs of kernels: recorded once, replayed by one launch.

A small step keeps the host busier than the device, because the host has to queue some dozens of launches. A
graph queues all of them at once, but always with the arguments, and in the memory, that it was recorded with.
A replayed step therefore begins by copying the posterior, the ids of its rows, and its number and size
(`StepOnDevice`) to where the graph looks for them. It ends by copying the posterior that the graph leaves to
memory of its own, which nothing changes afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from bpfa.backends.cuda.posterior import DevicePosterior
from bpfa.backends.cuda.rows import DeviceBatch
from bpfa.backends.cuda.runtime import available_memory, cupy_module, kernel, launch, on_device
from bpfa.backends.cuda.step_arguments import StepOnDevice, number_arguments

__all__ = ["StepGraphs"]

# Bytes that a graph may keep, and the share of what is available: a step that needs more keeps the device
# busy for longer than the host takes to queue it.
MOST_BYTES, MOST_SHARE = 2**28, 1 / 16
# Blocks of threads that copy.
MOST_BLOCKS = 512

Step = Callable[..., DevicePosterior]
"""Returns the posterior after a step, given one, a batch, the algorithm, `step`, `rho` and `stream`."""


class StepGraph:
    """A step on batches of one size, recorded."""

    def __init__(
        self, make_step: Step, posterior: DevicePosterior, batch: DeviceBatch, algorithm: Any, stream: Any
    ) -> None:
        cupy = cupy_module()
        self.step_there, self.before = StepOnDevice(), posterior.empty_like()
        self.batch = batch.with_ids(cupy.empty_like(batch.ids))
        # What is allocated meanwhile belongs to the graph for as long as there is one.
        self.memory: list[Any] = []
        queue, allocate = cupy.cuda.get_current_stream(), cupy.cuda.get_allocator()
        n_left = min(MOST_BYTES, int(MOST_SHARE * available_memory()[0]))

        def lasting(n_bytes: int) -> Any:
            nonlocal n_left
            n_left -= n_bytes
            if n_left < 0:
                raise MemoryError("too large a step for a graph")
            with queue:
                self.memory.append(allocate(n_bytes))
            return self.memory[-1]

        recorder = cupy.cuda.Stream(non_blocking=True)
        with cupy.cuda.using_allocator(lasting), recorder:
            recorder.begin_capture()
            try:
                self.after = make_step(
                    self.before,
                    self.batch,
                    algorithm,
                    step=self.step_there,
                    rho=self.step_there,
                    stream=stream,
                )
            except BaseException:
                # Which says that the recording is spoilt; why is known already.
                with suppress(cupy.cuda.runtime.CUDARuntimeError):
                    recorder.end_capture()
                raise
            self.graph = recorder.end_capture()

    def replay(
        self, posterior: DevicePosterior, batch: DeviceBatch, step: int, rho: float
    ) -> DevicePosterior:
        """Return the posterior after a step."""
        number, _ = number_arguments(step)
        _copy(
            posterior, self.before, len(batch), batch.ids, self.batch.ids, rho, number, self.step_there.there
        )
        self.graph.launch()
        moved = self.after.empty_like()
        _copy(self.after, moved, 0, None, None, 0.0, np.uint32(0), None)
        return moved


def _copy(source: DevicePosterior, target: DevicePosterior, n_ids: int, *beside: Any) -> None:
    pairs = list(zip(source.arrays, target.arrays, strict=True))
    arrays = [argument for here, there in pairs for argument in (np.int64(here.size), here, there)]
    n_blocks = min(MOST_BLOCKS, -(-max(n_ids, *(here.size for here, _ in pairs)) // 256))
    launch(kernel("graphs.cu", "copy_step"), n_blocks, 256, *arrays, np.int64(n_ids), *beside)


class StepGraphs:
    """The steps of a run, all of which have the same source, algorithm and stream.

    The first step on a batch of some size is made as it is, which compiles what is not compiled yet; the
    second is recorded, and it and all others are replayed. What cannot be recorded, as some of CuPy's
    libraries cannot, rows that are not on the device, and large batches are made as they are, always.
    """

    def __init__(self) -> None:
        self._seen: set[Any] = set()
        self._graphs: dict[Any, StepGraph | None] = {}

    def step(
        self,
        make_step: Step,
        posterior: DevicePosterior,
        batch: Any,
        algorithm: Any,
        *,
        step: int,
        rho: float,
        stream: Any,
    ) -> DevicePosterior:
        """Return what `make_step` would return, to the bit."""
        with on_device(posterior.device):
            graph = self._graph(make_step, posterior, batch, algorithm, stream)
            if graph is not None:
                return graph.replay(posterior, batch, step, rho).checked(step)
        return make_step(posterior, batch, algorithm, step=step, rho=rho, stream=stream)

    def _graph(self, make_step: Step, posterior: DevicePosterior, batch: Any, *how: Any) -> StepGraph | None:
        """Return the graph of the steps on such a batch; None where there is none, or not yet."""
        if not isinstance(batch, DeviceBatch) or not batch.resident:
            return None
        shape = len(batch), posterior.precision.shape
        if shape in self._seen and shape not in self._graphs:
            try:
                self._graphs[shape] = StepGraph(make_step, posterior, batch, *how)
            except Exception:
                # If it is not the recording that failed, the step will, and say why.
                self._graphs[shape] = None
        self._seen.add(shape)
        return self._graphs.get(shape)
