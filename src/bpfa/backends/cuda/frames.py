"""Frames of a stream on a GPU: memory, page-locked memory and graphs of kernels that are kept between frames.

A frame takes three steps. Its pixels and its mask are copied to the device, which standardises them and
counts what is observed; the host waits for these few numbers, because they decide whether the frame can be
restored and which kernels suit it. Then the model may learn from it. Last, all patches are predicted and
averaged by one graph of kernels, and what is asked for is copied to page-locked memory that belongs to the
result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.backends.cuda.arrays import is_cuda_array
from bpfa.backends.cuda.graphs import Recording, StepGraphs, copied_posterior
from bpfa.backends.cuda.launch_shapes import MOSTLY_OBSERVED_SHARE, ROWS_OBSERVED
from bpfa.backends.cuda.local import Gibbs
from bpfa.backends.cuda.pictures import PatchAverage, PatchSamples
from bpfa.backends.cuda.posterior import FAILED, NOISE_STD, STATE_LENGTH, DevicePosterior
from bpfa.backends.cuda.rows import DeviceRows
from bpfa.backends.cuda.runtime import available_memory, cupy_module, kernel, launch, on_device
from bpfa.backends.cuda.view import blocks_of
from bpfa.backends.frames import FrameArrays, FrameFacts, FrameForm
from bpfa.backends.protocol import MakeStep, Step, Workspace
from bpfa.data.patches import PatchRows
from bpfa.model.posterior import GlobalPosterior

__all__ = ["PIXELS", "CudaFrames"]

# The types of pixels that the kernels know, as they are called in C.
PIXELS = {
    "uint8": "unsigned char",
    "int8": "signed char",
    "uint16": "unsigned short",
    "int16": "short",
    "uint32": "unsigned",
    "int32": "int",
    "float32": "float",
    "float64": "double",
}
# The share of the available memory that the recording of a restoration may allocate.
MOST_SHARE = 0.5
# The largest number of thread blocks that standardise pixels.
MOST_BLOCKS = 1024


class CudaFrames:
    """A `FrameDevice` on a GPU.

    Parameters
    ----------
    form : FrameForm
    local : Gibbs
        How the chains of the restoration run.
    K : int
    samples : PatchSamples
        How the patches are predicted.
    """

    def __init__(self, form: FrameForm, local: Gibbs, K: int, samples: PatchSamples) -> None:
        self.form, self.device, self.real = form, local.device, local.dtype
        with on_device(self.device):
            cupy, shape = cupy_module(), form.restored.shape
            self.pixels, self.hidden = cupy.empty(shape, form.dtype), cupy.empty(shape, cupy.uint8)
            self.on_host = _page_locked(shape, form.dtype), _page_locked(shape, np.dtype(np.uint8))
            self.values, self.observed = cupy.empty(shape, cupy.float32), cupy.empty(shape, cupy.uint8)
            self.n_channels = shape[3]
            # Graphs of kernels keep the addresses of these.
            self.mean, self.scale = cupy.empty(self.n_channels), cupy.empty(self.n_channels)
            self._units: Any = None
            # Sums over the pixels of each channel, the number of infinite ones, and two counts over patches.
            self.facts = cupy.empty(3 * self.n_channels + 3)
            self.n_hidden = 0
            n = self.pixels.size
            self.places, self.errors = cupy.empty(n, cupy.int64), cupy.empty(n, cupy.float32)
            self.places_on_host, self.errors_on_host = (
                _page_locked((n,), a.dtype) for a in (self.places, self.errors)
            )
            self.facts_on_host = _page_locked(self.facts.shape, self.facts.dtype)
            self.state_on_host = _page_locked((STATE_LENGTH,), np.dtype(float))
            self.learned, self.restored = (_FrameRows(self, rows) for rows in (form.learned, form.restored))
            self.average = PatchAverage(form.restored, local, K, samples)
            deviation = np.dtype(np.float64 if form.dtype == np.float64 else np.float32)
            self.image, self.std = cupy.empty(shape, form.dtype), cupy.empty(shape, deviation)
            self.missing, self.from_prior = cupy.empty(shape, cupy.uint8), cupy.empty(shape, cupy.uint8)
            self.macros = f"PIXEL={PIXELS[form.dtype.name]}", f"DEVIATION={PIXELS[deviation.name]}"
        self._kind: tuple[Any, ...] = ()
        self._workspaces: dict[tuple[Any, ...], _FrameWorkspace] = {}
        self._restorations: dict[tuple[Any, ...], _Restoration] = {}

    @property
    def rows(self) -> Any:
        """The patches of the present frame that the model learns from."""
        return self.learned

    @property
    def workspace(self) -> Workspace:
        """Where steps take place; recorded steps are replayed for frames of the same kind only."""
        return self._workspaces.setdefault(self._kind, _FrameWorkspace())

    def place_posterior(self, posterior: GlobalPosterior) -> DevicePosterior:
        """Copy a posterior to the device."""
        return DevicePosterior.of(posterior, self.device, self.real)

    def load(
        self,
        frame: Any,
        missing: NDArray[np.bool_] | None,
        hidden: NDArray[np.int64],
        *,
        mean: Array,
        scale: Array,
    ) -> FrameFacts:
        """Copy a frame to the device and return what is known of it.

        Parameters
        ----------
        frame : array, shape (slices, height, width, channels)
        missing : boolean array of this shape, or None
        hidden : array of int64
        mean, scale : array, shape (channels,)
        """
        with on_device(self.device):
            cupy = cupy_module()
            if self._units is None or self._units[0] is not mean or self._units[1] is not scale:
                self.mean.set(np.asarray(mean, dtype=float))
                self.scale.set(np.asarray(scale, dtype=float))
                self._units = mean, scale
            if is_cuda_array(frame):
                self.pixels[...] = cupy.asarray(frame)
            else:
                _copy_in(frame, self.on_host[0], self.pixels)
            staged = self.on_host[1]
            np.copyto(staged, 0 if missing is None else missing, casting="unsafe")
            staged.ravel()[hidden] = 2
            self.hidden.data.copy_from_host_async(staged.ctypes.data, staged.nbytes)
            self.n_hidden = len(hidden)
            _copy_in(hidden, self.places_on_host[: self.n_hidden], self.places)
            self.facts.fill(0)
            n = self.pixels.size
            launch(
                kernel("frames.cu", "load_frame", *self.macros),
                min(MOST_BLOCKS, blocks_of(n // self.n_channels)), 256,
                self.pixels, self.hidden, np.int64(n), self.n_channels, self.mean, self.scale,
                self.values, self.observed, self.facts,
            )  # fmt: skip
            self.learned.queue_count(self.facts[-2:])
            self.restored.queue_count(None)
            _copy_out(self.facts, self.facts_on_host)
            cupy.cuda.get_current_stream().synchronize()
            return self._facts()

    def _facts(self) -> FrameFacts:
        """Return what the device has found out, and choose kernels that suit the frame."""
        found = self.facts_on_host
        most, total = (int(number) for number in found[-2:].view(np.uint64))
        rows, D = self.learned, self.learned.n_columns
        complete = total == rows.n_rows * D
        rooms = ROWS_OBSERVED[self.real]
        room = next((n for n in rooms if n >= most), min(-(-most // 32) * 32, D))
        mostly = total / rows.n_rows > MOSTLY_OBSERVED_SHARE * room
        self._kind = ("complete",) if complete else (room, mostly)
        for source in (self.learned, self.restored):
            source.suit(complete, room, float(room) if mostly else 0.0)
        count, first, second = found[: 3 * self.n_channels].reshape(self.n_channels, 3).T
        n_observed = np.maximum(count, 1)
        mean = first / n_observed
        std = np.sqrt(np.maximum(second / n_observed - mean**2, 0.0))
        return FrameFacts(count.copy(), mean, std, int(found[-3]), complete)

    def restore(
        self, posterior: DevicePosterior, wanted: tuple[str, ...], *, to_host: bool = True
    ) -> FrameArrays:
        """Restore the present frame by the posterior, and return what is wanted.

        Parameters
        ----------
        posterior : DevicePosterior
        wanted : tuple of str
        to_host : bool
        """
        with on_device(self.device):
            kind = *self._kind, posterior.precision.shape
            if kind not in self._restorations:
                self._restorations[kind] = _Restoration(self, posterior)
            self._restorations[kind].run(posterior)
            _copy_out(posterior.state, self.state_on_host)
            found = {name: getattr(self, name) for name in (*wanted, "missing", "from_prior")}
            arrays = {name: _fetched(array) if to_host else array.copy() for name, array in found.items()}
            self._queue_errors()
            cupy_module().cuda.get_current_stream().synchronize()
            flags = {name: arrays[name].view(bool) for name in ("missing", "from_prior")}
            state = self.state_on_host
            return FrameArrays(
                arrays.get("image"),
                arrays.get("std"),
                **flags,
                errors=self.errors_on_host[: self.n_hidden].astype(np.float64),
                noise=float(state[NOISE_STD]) ** 2,
                failed=int(state[FAILED]),
            )

    def _queue_errors(self) -> None:
        """Queue what tells the errors of hidden pixels."""
        if not self.n_hidden:
            return
        average = self.average
        launch(
            kernel("frames.cu", "score_hidden", *self.macros), blocks_of(self.n_hidden), 256,
            average.weight, average.first, average.second, self.pixels, self.places, self.n_hidden,
            self.n_channels, self.mean, self.scale, self.errors,
        )  # fmt: skip
        self.errors.data.copy_to_host_async(self.errors_on_host.ctypes.data, 4 * self.n_hidden)

    def queue_restoration(self, posterior: DevicePosterior) -> None:
        """Queue all kernels of a restoration."""
        complete, average = self._kind[0] == "complete", self.average
        average.run(posterior, self.restored, None if complete else self.restored.counts)
        n = self.pixels.size
        launch(
            kernel("frames.cu", "finish_frame", *self.macros), blocks_of(n), 256,
            average.weight, average.first, average.second, average.informed, self.pixels, self.observed,
            self.hidden, np.int64(n), self.n_channels, self.mean, self.scale, self.form.keep_observed,
            self.image, self.std, self.missing, self.from_prior,
        )  # fmt: skip


class _Restoration:
    """The restoration of frames of one kind: made without a graph once, then recorded, then replayed."""

    def __init__(self, frames: CudaFrames, posterior: DevicePosterior) -> None:
        self.frames, self.before = frames, posterior.empty_like()
        self.n_runs = 0
        self.recording: Recording | None = None

    def run(self, posterior: DevicePosterior) -> None:
        """Queue the restoration of the present frame."""
        copied_posterior(posterior, self.before)
        # The first run compiles all kernels, which cannot happen during a recording.
        if self.n_runs == 1:
            self.recording = self._recorded()
        self.n_runs += 1
        if self.recording is None:
            self.frames.queue_restoration(self.before)
        else:
            self.recording.launch()

    def _recorded(self) -> Recording | None:
        """Return a recording, or None if some kernels cannot be recorded, as those of some libraries."""
        most = int(MOST_SHARE * available_memory()[0])
        try:
            return Recording(lambda: self.frames.queue_restoration(self.before), most)
        except Exception:
            # If the failure has another cause than the recording, the kernels themselves will raise it again.
            return None


class _FrameWorkspace(Workspace):
    """A workspace whose recorded steps are kept from frame to frame."""

    def __init__(self) -> None:
        self._graphs = StepGraphs()

    def step(self, make_step: MakeStep, posterior: Any, batch: Any, step: Step) -> Any:
        """Return the posterior after a step, which may be replayed from a recording."""
        return self._graphs.step(make_step, posterior, batch, step)


class _FrameRows(DeviceRows):
    """Patches of whichever frame is in the buffers."""

    def __init__(self, frames: CudaFrames, rows: PatchRows) -> None:
        cupy = cupy_module()
        self._observed = frames.observed
        bases = cupy.asarray(rows.first_entries())
        offsets = cupy.asarray(rows.offsets.astype(np.int32))
        super().__init__(frames.values.ravel(), None, bases, offsets, rows.n_rows)
        self.counts = cupy.empty(rows.n_rows, cupy.int32)

    def queue_count(self, totals: Any) -> None:
        """Count the observed entries of all patches, their largest number and their sum, without waiting."""
        launch(
            kernel("frames.cu", "count_patches"), blocks_of(self.n_rows), 256,
            self._observed, self.bases, self.offsets, np.int64(self.n_rows), self.n_columns, self.counts,
            totals,
        )  # fmt: skip

    def suit(self, complete: bool, most_observed: int, mean_observed: float) -> None:
        """Describe the present frame to those who choose kernels."""
        self.observed = None if complete else self._observed.ravel()
        self.most_observed = None if complete else most_observed
        self.mean_observed = mean_observed


def _page_locked(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array in page-locked memory."""
    n = int(np.prod(shape))
    memory = cupy_module().cuda.alloc_pinned_memory(n * dtype.itemsize)
    return np.frombuffer(memory, dtype, n).reshape(shape)


def _copy_in(array: NDArray[Any], staged: NDArray[Any], target: Any) -> None:
    """Queue a copy of an array of the host through page-locked memory of its shape."""
    np.copyto(staged, array, casting="unsafe")
    target.data.copy_from_host_async(staged.ctypes.data, staged.nbytes)


def _copy_out(array: Any, target: NDArray[Any]) -> None:
    """Queue a copy of an array of the device to page-locked memory of its shape."""
    array.data.copy_to_host_async(target.ctypes.data, target.nbytes)


def _fetched(array: Any) -> NDArray[Any]:
    """Queue a copy to new page-locked memory; when the result is deleted, CuPy uses that memory again."""
    target = _page_locked(array.shape, array.dtype)
    _copy_out(array, target)
    return target
