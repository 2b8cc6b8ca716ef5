"""Steps as graphs of kernels: recorded once, replayed by one launch.

A small step takes the host longer than the device, because the host has to queue some dozens of launches. A
graph queues all of them at once, but always with the arguments, and in the memory, that it was recorded with.
A replayed step therefore begins by copying the posterior, the ids of its rows, and its number and size
(`StepOnDevice`) to where the graph reads them. It ends by copying the new posterior from the memory of the
graph to memory of its own, which nothing changes afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from bpfa.backends.cuda.posterior import DevicePosterior
from bpfa.backends.cuda.rows import DeviceBatch
from bpfa.backends.cuda.runtime import available_memory, cupy_module, kernel, launch, on_device
from bpfa.backends.cuda.step_arguments import StepOnDevice, number_arguments
from bpfa.backends.protocol import MakeStep, Step

__all__ = ["Recording", "StepGraphs", "copied_posterior"]

# The largest number of bytes that a graph may keep, and the largest share of the available ones. A step that
# needs more keeps the device busy for longer than the host takes to queue it, and gains nothing from a graph.
MOST_BYTES, MOST_SHARE = 2**28, 1 / 16
# The largest number of thread blocks that copy.
MOST_BLOCKS = 512


class Recording:
    """Kernels that are recorded once and can be launched together any number of times.

    Parameters
    ----------
    queue_kernels : callable
        Queues the kernels; what it returns is `result`.
    most_bytes : int
        Largest number of bytes that may be allocated meanwhile.
    """

    def __init__(self, queue_kernels: Callable[[], Any], most_bytes: int) -> None:
        cupy = cupy_module()
        # Everything that is allocated during the recording belongs to the graph for as long as it exists.
        self.memory: list[Any] = []
        queue, allocate, n_left = cupy.cuda.get_current_stream(), cupy.cuda.get_allocator(), most_bytes

        def allocate_for_graph(n_bytes: int) -> Any:
            nonlocal n_left
            n_left -= n_bytes
            if n_left < 0:
                raise MemoryError("too many kernels for a graph")
            with queue:
                self.memory.append(allocate(n_bytes))
            return self.memory[-1]

        recorder = cupy.cuda.Stream(non_blocking=True)
        with cupy.cuda.using_allocator(allocate_for_graph), recorder:
            recorder.begin_capture()
            try:
                self.result = queue_kernels()
            except BaseException:
                # Ending the capture raises an error of its own, because the recording is not valid.
                with suppress(cupy.cuda.runtime.CUDARuntimeError):
                    recorder.end_capture()
                raise
            self.graph = recorder.end_capture()

    def launch(self) -> None:
        """Launch all kernels on the current stream, without waiting for them."""
        self.graph.launch()


class StepGraph:
    """A recorded step, for all batches of one size."""

    def __init__(
        self, make_step: MakeStep, posterior: DevicePosterior, batch: DeviceBatch, step: Step
    ) -> None:
        self.stored_step, self.before = StepOnDevice(), posterior.empty_like()
        self.batch = batch.with_ids(cupy_module().empty_like(batch.ids))
        recorded = replace(step, number=self.stored_step, rho=self.stored_step)
        self.recording = Recording(
            lambda: make_step(self.before, self.batch, recorded),
            min(MOST_BYTES, int(MOST_SHARE * available_memory()[0])),
        )
        self.after: DevicePosterior = self.recording.result

    def replay(
        self, posterior: DevicePosterior, batch: DeviceBatch, step: int, rho: float
    ) -> DevicePosterior:
        """Return the posterior after a step of this number and size."""
        number, _ = number_arguments(step)
        stored = self.stored_step.memory
        _copy(posterior, self.before, len(batch), batch.ids, self.batch.ids, rho, number, stored)
        self.recording.launch()
        return copied_posterior(self.after, self.after.empty_like())


def copied_posterior(source: DevicePosterior, target: DevicePosterior) -> DevicePosterior:
    """Copy a posterior into the memory of another one, which is returned."""
    _copy(source, target, 0, None, None, 0.0, np.uint32(0), None)
    return target


def _copy(source: DevicePosterior, target: DevicePosterior, n_ids: int, *ids_and_step: Any) -> None:
    """Copy a posterior and, before a replay, the ids of the rows and the number and size of the step."""
    pairs = list(zip(source.arrays, target.arrays, strict=True))
    arrays = [argument for here, there in pairs for argument in (np.int64(here.size), here, there)]
    n_blocks = min(MOST_BLOCKS, -(-max(n_ids, *(here.size for here, _ in pairs)) // 256))
    launch(kernel("graphs.cu", "copy_step"), n_blocks, 256, *arrays, np.int64(n_ids), *ids_and_step)


class StepGraphs:
    """The graphs of a run, all of whose steps have the same source of rows, algorithm and stream.

    The first step on a batch of a given size is made without a graph, which compiles the kernels that are not
    compiled yet. The second one is recorded; it and all later ones are replayed. No graph is used for rows
    that are not on the device, for large batches, or for steps that cannot be recorded, which is true of
    those that call some of the libraries behind CuPy.
    """

    def __init__(self) -> None:
        self._seen: set[Any] = set()
        self._graphs: dict[Any, StepGraph | None] = {}

    def step(self, make_step: MakeStep, posterior: DevicePosterior, batch: Any, step: Step) -> Any:
        """Return what `make_step` would return, to the bit."""
        with on_device(posterior.device):
            graph = self._graph(make_step, posterior, batch, step)
            if graph is not None:
                return graph.replay(posterior, batch, step.number, step.rho).checked(step.number)
        return make_step(posterior, batch, step)

    def _graph(
        self, make_step: MakeStep, posterior: DevicePosterior, batch: Any, step: Step
    ) -> StepGraph | None:
        """Return the graph for batches of this size, or None if there is none, or none yet."""
        if not isinstance(batch, DeviceBatch) or not batch.resident:
            return None
        shape = len(batch), posterior.precision.shape
        if shape in self._seen and shape not in self._graphs:
            try:
                self._graphs[shape] = StepGraph(make_step, posterior, batch, step)
            except Exception:
                # If the failure has another cause than the recording, the step itself will raise it again.
                self._graphs[shape] = None
        self._seen.add(shape)
        return self._graphs.get(shape)
