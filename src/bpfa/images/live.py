"""Frames that are restored on a device which keeps its memory, its kernels and the model between frames."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.backends.frames import FrameArrays, FrameDevice, FrameFacts, FrameForm
from bpfa.backends.registry import backend_of
from bpfa.data.patches import PatchRows
from bpfa.data.shuffle import batch_ids
from bpfa.estimator import BPFA
from bpfa.estimator.kept import at_step, on_device
from bpfa.images import defaults
from bpfa.images.canvas import Canvas, axis_positions, missing_pixels, with_four_axes
from bpfa.images.hidden_pixels import Hidden, HiddenPixels
from bpfa.images.kept import PictureForm
from bpfa.images.new_scene import begun_with
from bpfa.images.options import RestorationOptions
from bpfa.images.restore import patch_algorithm
from bpfa.images.result import ImageResult
from bpfa.images.scene import FrameSteps, NewStart
from bpfa.inference.svi import svi_step
from bpfa.model.posterior import GlobalPosterior

__all__ = ["FrameResult", "LiveModel"]

# Number of steps whose patches are chosen in advance.
AHEAD = 32


class FrameResult(ImageResult):
    """A restored frame. Its model is copied from the device only when it is asked for."""

    _model: BPFA | Callable[[], BPFA]

    def __init__(self, *, model: BPFA | Callable[[], BPFA], **others: Any) -> None:
        defaults_of = {field.name: field.default for field in fields(ImageResult)}
        for name, value in (defaults_of | others).items():
            if name != "model":
                object.__setattr__(self, name, value)
        object.__setattr__(self, "_model", model)

    @property
    def model(self) -> BPFA:
        """The model that restored the frame."""
        if not isinstance(self._model, BPFA):
            object.__setattr__(self, "_model", self._model())
        assert isinstance(self._model, BPFA)
        return self._model


class _Ahead:
    """Takes items from an iterator in a thread of its own, before they are needed.

    Which patches a step learns from is known long before the frame comes, and a new order of all patches
    takes milliseconds.
    """

    def __init__(self, items: Iterator[Any]) -> None:
        self._items, self._thread = items, ThreadPoolExecutor(1, thread_name_prefix="bpfa-batches")
        self._waiting = deque(self._thread.submit(next, items) for _ in range(AHEAD))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._waiting.append(self._thread.submit(next, self._items))
        return self._waiting.popleft().result()


class _Loaded(NamedTuple):
    """A frame as it is copied to the device."""

    values: Any
    """With four axes."""
    missing: NDArray[np.bool_] | None
    """With four axes."""
    places: NDArray[np.int64]
    """Flat places of hidden pixels."""

    def canvas(self) -> Canvas:
        """Return the frame without the hidden pixels, in its own units, in the memory of the host."""
        values = self.values if isinstance(self.values, np.ndarray) else self.values.get()
        missing = np.zeros(values.shape, dtype=bool) if self.missing is None else self.missing.copy()
        missing.ravel()[self.places] = True
        return Canvas.of(values, missing, channel_axis=3, stack_axis=0)


class _Course(NamedTuple):
    """A model on a device, and what its next steps need."""

    start: BPFA
    """The model that it began as."""
    form: PictureForm
    state: Any
    n_steps: int
    """Number of steps that have led to it."""
    batches: Iterator[Any]
    """Which patches its next steps learn from."""


class LiveModel:
    """A kept model on a device, which restores frames of one form and goes on learning from them.

    Parameters
    ----------
    model : BPFA
        On its device.
    options : RestorationOptions
    device : FrameDevice
        For frames of this form.
    form : PictureForm
    shape : tuple of int
        Shape of a frame.
    axes : tuple of int or None
        Positions of slices, height, width and channels in it.
    keeps_observed : bool
        Whether observed pixels stay as they are.
    """

    def __init__(
        self,
        model: BPFA,
        options: RestorationOptions,
        device: FrameDevice,
        form: PictureForm,
        shape: tuple[int, ...],
        axes: tuple[int | None, ...],
        *,
        keeps_observed: bool,
    ) -> None:
        self.options, self.device, self.settings = options, device, model.settings_
        self.shape, self.axes, self.keeps_observed = shape, axes, keeps_observed
        self.algorithm = self.settings.make_algorithm(n_jobs=1)
        self._course = self._course_of(model, form)
        self._course = self._course._replace(batches=_Ahead(self._course.batches))

    @property
    def form(self) -> PictureForm:
        """The form of the pictures that the present model is for."""
        return self._course.form

    def _course_of(self, model: BPFA, form: PictureForm) -> _Course:
        """Return the course that begins with a model."""
        assert isinstance(model.posterior_, GlobalPosterior)
        n_rows = self.device.rows.n_rows
        state = self.device.place_posterior(replace(model.posterior_, n_rows=n_rows))
        batches = batch_ids(n_rows, self.settings.batch_size, self.settings.stream, model.n_steps_ + 1)
        return _Course(model, form, state, model.n_steps_, batches)

    @classmethod
    def of(
        cls, model: BPFA, frame: Any, options: RestorationOptions, *, keeps_observed: bool
    ) -> LiveModel | None:
        """Return a model for frames like this one, or None if its device has no memory and kernels to keep.

        Parameters
        ----------
        model : BPFA
        frame : array
        options : RestorationOptions
            Those of a kept model.
        keeps_observed : bool
            Whether observed pixels stay as they are.
        """
        form = PictureForm.of_model(model)
        if options.refine is not None or options.callbacks or form.stabiliser is not None:
            return None
        form.check_options(options)
        model = on_device(model, options.device, n_jobs=options.n_jobs, verbose=options.verbose)
        if not isinstance(model.posterior_, GlobalPosterior):
            return None
        axes = axis_positions(frame.shape, options.channel_axis, options.stack_axis)
        four = tuple(1 if axis is None else frame.shape[axis] for axis in axes)
        if four[1] < form.patch_size[0] or four[2] < form.patch_size[1] or four[3] != len(form.mean):
            return None
        # Only where the patches are matters, so that no memory is needed for the pixels.
        nothing, anywhere = np.broadcast_to(np.float32(0), four), np.broadcast_to(True, four)
        stride = defaults.default_stride(form.patch_size) if options.stride is None else options.stride
        learned, restored = (PatchRows(nothing, anywhere, form.patch_size, n) for n in (1, stride))
        device = backend_of(model.settings_.device).frames(
            FrameForm(learned, restored, frame.dtype, keeps_observed),
            patch_algorithm(model, options.patch_burn_in),
            model.settings_.n_features,
            n_draws=options.n_draws,
            n_samples=options.patch_samples,
            stream=model.settings_.stream.child("restoration"),
        )
        if device is None:
            return None
        return cls(model, options, device, form, frame.shape, axes, keeps_observed=keeps_observed)

    def restore(
        self,
        frame: Any,
        mask: Any,
        *,
        n_steps: int,
        least_step: float,
        new_start: NewStart | None = None,
        wanted: tuple[str, ...] = ("image", "std"),
        to_host: bool = True,
        hidden: HiddenPixels | None = None,
    ) -> tuple[FrameResult, FrameSteps, Hidden | None]:
        """Restore a frame after learning from it; a frame that cannot be restored changes nothing.

        Parameters
        ----------
        frame : array
        mask : array-like or Scan, optional
        n_steps : int
        least_step : float
        new_start : NewStart, optional
            How a new model tries to begin with this frame. If it takes the place of the present one, it has
            made its own steps, and no others are made.
        wanted : tuple of str
            "image", "std" or both.
        to_host : bool
            Whether the arrays are copied to the host.
        hidden : HiddenPixels, optional
            Hides pixels, so that the errors of the model are known.

        Returns
        -------
        result : FrameResult
        steps : FrameSteps
        found : Hidden or None
            The hidden pixels, if there are any.
        """
        loaded = self._loaded(frame, mask, hidden)
        self._load(loaded, self.form)
        found = None if new_start is None else self._begun_with(loaded, new_start, least_step)
        if found is None:
            if new_start is not None:
                self._load(loaded, self.form)
            course, summaries, sizes = self._learned(self._course, n_steps, least_step)
        else:
            course, summaries, sizes = found
        arrays = self.device.restore(course.state, wanted, to_host=to_host)
        if arrays.failed:
            raise ValueError(f"the sums of step {arrays.failed} are not finite; the model stays as it was")
        self._course = course
        steps = _steps_of(summaries, sizes, course.form)
        places, values, shown = loaded.places, loaded.values, None
        if len(places):
            scanned = values.reshape(-1)[places].astype(np.float64)
            shown = Hidden(places, scanned, places % values.shape[3], arrays.errors)
        return self._result(arrays), steps, shown

    def _begun_with(
        self, loaded: _Loaded, new_start: NewStart, least_step: float
    ) -> tuple[_Course, list[Any], list[float]] | None:
        """Return what `_learned` does of a model that begins anew with a frame, if it explains it better."""
        begun = begun_with(loaded.canvas(), _model_of(self._course))
        if begun is None:
            return None
        form = PictureForm.of_model(begun)
        self._load(loaded, form)
        course, summaries, sizes = self._learned(self._course_of(begun, form), new_start.n_steps, least_step)
        if not new_start.accepts(_steps_of(summaries, sizes, form)):
            return None
        return course._replace(batches=_Ahead(course.batches)), summaries, sizes

    def _learned(
        self, course: _Course, n_steps: int, least_step: float
    ) -> tuple[_Course, list[Any], list[float]]:
        """Return the course after steps on the present frame, summaries of its states, and sizes of steps."""
        state, summaries, sizes = course.state, [course.state.summary()], []
        schedule = replace(self.settings, least_step=least_step).schedule
        for number in range(course.n_steps + 1, course.n_steps + n_steps + 1):
            batch = self.device.rows.take(next(course.batches))
            sizes.append(schedule(number))
            state = svi_step(
                state,
                batch,
                self.algorithm,
                step=number,
                rho=sizes[-1],
                stream=self.settings.stream,
                workspace=self.device.workspace,
            )
            summaries.append(state.summary())
        return course._replace(state=state, n_steps=course.n_steps + n_steps), summaries, sizes

    def more_errors(self, frame: Any, mask: Any, hidden: HiddenPixels) -> Array:
        """Return errors of other pixels of the same frame, for which it is restored once more.

        Parameters
        ----------
        frame, mask, hidden
            As in `restore`.
        """
        self._load(self._loaded(frame, mask, hidden, hidden.n_wanted), self.form)
        errors: Array = self.device.restore(self._course.state, ()).errors
        return errors

    def _loaded(
        self, frame: Any, mask: Any, hidden: HiddenPixels | None, n_wanted: int | None = None
    ) -> _Loaded:
        """Return a frame with four axes, and choose the pixels to be hidden."""
        missing = None if mask is None else missing_pixels(mask, self.shape, self.axes)
        if isinstance(frame, np.ma.MaskedArray):
            masked = np.ma.getmaskarray(frame)
            missing = masked if missing is None else missing | masked
        values = with_four_axes(frame, self.axes)
        missing = None if missing is None else with_four_axes(missing, self.axes)
        places = np.empty(0, dtype=np.int64)
        # A frame that is on the device already is not copied to the host for this.
        if hidden is not None and isinstance(values, np.ndarray):
            places = hidden.choose(values, missing, n_wanted)
        return _Loaded(values, missing, places)

    def _load(self, loaded: _Loaded, form: PictureForm) -> None:
        """Copy a frame to the device, in the units of a form, and refuse it if it cannot be restored."""
        facts = self.device.load(*loaded, mean=form.mean, scale=form.scale)
        self._check(facts, loaded.places, form)

    def model(self) -> BPFA:
        """Return the present model, in the memory of the host and with the history before the frames."""
        return _model_of(self._course)

    def _result(self, arrays: FrameArrays) -> FrameResult:
        course = self._course
        noise_std = np.sqrt(arrays.noise) * self.form.scale
        return FrameResult(
            image=self._in_shape(arrays.image),
            std=self._in_shape(arrays.std),
            missing=self._in_shape(arrays.missing),
            from_prior=self._in_shape(arrays.from_prior),
            noise_std=noise_std if self.axes[3] is not None else float(noise_std[0]),
            model=lambda: _model_of(course),
            patch_size=self.form.patch_size,
        )

    def _in_shape(self, array: Any) -> Any:
        """Return an array of four axes in the shape of a frame."""
        if array is None or array.ndim == len(self.shape):
            return array
        kept = [axis for axis in self.axes if axis is not None]
        sizes = [n for n, axis in zip(array.shape, self.axes, strict=True) if axis is not None]
        squeezed = array.reshape(sizes)
        return squeezed if kept == sorted(kept) else squeezed.transpose(np.argsort(kept))

    def _check(self, facts: FrameFacts, hidden: NDArray[np.int64], form: PictureForm) -> None:
        """Refuse a frame that cannot be restored, in the words that are used for any picture."""
        for channel, n in enumerate(facts.n_observed):
            if n == 0 and not facts.n_infinite and not len(hidden):
                where = "the image" if len(facts.n_observed) == 1 else f"channel {channel}"
                raise ValueError(
                    f"mask: every pixel of {where} is missing; expected at least one observed pixel"
                )
        if facts.n_infinite:
            raise ValueError(
                f"image: {facts.n_infinite} infinite pixels; expected finite numbers, or NaN where a pixel "
                "is missing"
            )
        # A place may be hidden twice, which has to be looked for only in frames with hardly a missing pixel.
        n_seen, n_pixels = int(facts.n_observed.sum()), int(np.prod(self.shape))
        whole = n_seen + len(hidden) >= n_pixels and n_seen + len(np.unique(hidden)) == n_pixels
        if whole and self.keeps_observed:
            raise ValueError(
                "mask: no pixel is missing; expected a mask or NaN, or `denoise` for a noisy image"
            )
        form.check_units(facts.mean * form.scale + form.mean, facts.std * form.scale)


def _model_of(course: _Course) -> BPFA:
    """Return the model of a course, in the memory of the host."""
    return at_step(course.start, course.state.host(), course.n_steps)


def _steps_of(summaries: list[Any], sizes: list[float], form: PictureForm) -> FrameSteps:
    """Wait for the device and return what is known of some steps."""
    read = type(summaries[0]).read(summaries)
    return FrameSteps([form.variance_of_unit * summary.noise_std**2 for summary in read], sizes)
