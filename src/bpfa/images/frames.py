"""Frames that come one after another, restored by one dictionary that goes on learning."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from bpfa._support.checks import Array, check_choice, check_integer, check_number
from bpfa.backends.registry import backend_of, check_device
from bpfa.estimator import BPFA
from bpfa.estimator.kept import continued
from bpfa.images.canvas import Canvas
from bpfa.images.defaults import FEW_OBSERVED
from bpfa.images.frame_items import as_frame, frame_and_mask, observed_share, options_of_first
from bpfa.images.hidden_pixels import Hidden, HiddenPixels
from bpfa.images.kept import DECIDED, PictureForm
from bpfa.images.latency import FrameCounts, FrameWarning, Latency
from bpfa.images.latest import LatestFrame
from bpfa.images.live import LiveModel
from bpfa.images.new_scene import begun_with, steps_since
from bpfa.images.options import RestorationOptions
from bpfa.images.partial_scans import PartialScans
from bpfa.images.pipeline import denoise, inpaint
from bpfa.images.result import ImageResult
from bpfa.images.scene import LONGER, LONGER_IF_FAST, SMALL, FrameSteps, NewStart, SceneWatch

__all__ = ["FrameRestorer", "FrameWarning", "Latency"]

# Training steps with each frame, and their least size, if the user does not choose.
LEARN, FORGETTING = 8, 0.1
# Draws from the posterior behind a frame, samples of each patch under each of them, and sweeps before the
# first sample. A picture has more of them, but nobody waits for it. On the CPU a frame takes about as long as
# all its sweeps.
CHAINS = {"n_draws": 2, "patch_samples": 3, "patch_burn_in": 6}
CHAINS_ON_GPU = {"n_draws": 2, "patch_samples": 3, "patch_burn_in": 7}
# Sweeps before the first sample if few pixels are observed, so that there is time for them, or if they are a
# large share of the frame. What a patch shows is then known so well that its chain takes longer to find it.
LONG_BURN_IN = 12
TASKS = {"inpaint": inpaint, "denoise": denoise}
OUTPUTS = {"image": ("image",), "std": ("std",), "both": ("image", "std")}


class FrameRestorer(PartialScans):
    """Restores frames that come one after another by one dictionary, which goes on learning.

    The first frame is restored as any picture, unless a model is given; its dictionary is kept. With every
    further frame the dictionary learns for a few steps, and forgets slowly, so that it follows a scene that
    drifts. Groups of like patches take longer than a frame lasts, and are off unless asked for.

    If the frame before says hardly anything about a frame, or if the features explain it clearly worse or
    better than those before, the scene has changed, and there are three times as many steps with each of the
    next ten frames, or eight times as many on a GPU and if the first frame had at most 32,768 observed
    pixels. With the first of the ten, a new model tries to begin: like a fit from nothing, with steps that
    become smaller, and in the units of the new scene, but in part from the features in use. If it explains
    the frame better than these features did, it takes the place of the model before, and `model.n_steps_`
    counts its steps. Otherwise, as after a move to another part of the same specimen, the model before goes
    on. This frame takes the longest.

    On a GPU, the memory for frames, page-locked memory for the copies and the graphs of all kernels are kept
    between frames, as long as these have the same shape and type; only the pixels and the mask go in, and
    only what is asked for comes out. This holds unless groups refine the frames, the noise is that of
    counts, or there are callbacks: frames are then restored on the GPU like any other picture.

    Parameters
    ----------
    model : BPFA, optional
        A kept model to begin with, as for `inpaint`.
    task : {"inpaint", "denoise"}
        Whether observed pixels stay as they are, or are noisy.
    learn : int
        Number of training steps with each frame after the first; 0 leaves the dictionary as it is.
    forgetting : float
        Least size of these steps: what was learned more than about 1 / forgetting steps ago is forgotten.
    follow_changes : bool
        Whether there are more steps after a change of the scene, and a new model if it explains it better.
    calibrate : bool
        Whether a few observed pixels of every frame, one in a hundred, are hidden from the model to find out
        how large its errors are. All standard deviations are multiplied by the factor that makes intervals of
        95 % cover 95 % of these pixels. A frame after a change of scene, which has too few of them if it is
        small, is restored once more with others hidden. Only for "inpaint", and not for counts: errors of
        noisy pixels would contain their noise.
    output : {"both", "image", "std"}
        What results contain; the rest is None.
    to_host : bool
        False leaves the arrays of results on the GPU, as arrays of CuPy.
    **options
        All further options are those of `inpaint`. Here, `refine` is None by default, there are fewer draws
        and sweeps, and patches are at most 12 pixels wide unless `patch_size` says otherwise. There are more
        sweeps if the first frame has at most 32,768 observed pixels, or if they are at least a third of it.

    See Also
    --------
    bpfa.inpaint : Fill in missing pixels.
    bpfa.images.masks.Scan : The positions that a scan visits.

    Examples
    --------
    >>> from bpfa.images import FrameRestorer, masks
    >>> picture = np.add.outer(np.arange(24.0), np.arange(20.0))
    >>> restorer = FrameRestorer(patch_size=4, n_components=6, max_steps=40, random_state=0)
    >>> for seed in range(3):
    ...     result = restorer.restore(picture, masks.random(picture.shape, 0.5, seed=seed))
    >>> restorer.latency.n_restored, restorer.model.n_steps_
    (3, 56)
    """

    def __init__(
        self,
        model: BPFA | None = None,
        *,
        task: str = "inpaint",
        learn: int = LEARN,
        forgetting: float = FORGETTING,
        follow_changes: bool = True,
        calibrate: bool = True,
        output: str = "both",
        to_host: bool = True,
        **options: Any,
    ) -> None:
        self.task = check_choice("task", task, ("inpaint", "denoise"))
        self.learn = check_integer("learn", learn, low=0)
        self.forgetting = check_number("forgetting", forgetting, low=0.0, high=1.0)
        self.follow_changes = follow_changes
        self.output = check_choice("output", output, tuple(OUTPUTS))
        self.to_host = to_host
        device = check_device(options.get("device", "auto"))
        self._on_gpu = backend_of(device).has_numbered_devices
        chains = CHAINS_ON_GPU if self._on_gpu else CHAINS
        given: Any = {"refine": None} | chains | options
        # Wrong options are found out now, and not with the first frame.
        checked = RestorationOptions.of("FrameRestorer", given)
        counts = checked.noise_model != "gaussian"
        if model is not None:
            form = PictureForm.of_model(model)
            form.check_options(checked)
            counts = form.stabiliser is not None
        self._options, self._has_burn_in = given, "patch_burn_in" in options
        self._burn_in = chains["patch_burn_in"]
        self._model = model
        self._live: LiveModel | None = None
        self._form: tuple[tuple[int, ...], np.dtype[Any]] | None = None
        self._watch = SceneWatch(self.learn)
        self._hidden = HiddenPixels(seed=0) if calibrate and task == "inpaint" and not counts else None
        self.counts = FrameCounts()

    @property
    def model(self) -> BPFA | None:
        """The present model, in the memory of the host; None before the first frame."""
        return self._model if self._live is None else self._live.model()

    @property
    def n_changes(self) -> int:
        """How often the scene has changed."""
        return self._watch.n_changes

    @property
    def latency(self) -> Latency:
        """How long frames took so far, and how many were lost."""
        return self.counts.latency()

    def restore(self, frame: Any, mask: Any = None) -> ImageResult:
        """Restore a frame, after learning from it.

        Parameters
        ----------
        frame : array-like
            With the shape and the type of the frames before.
        mask : array-like or Scan, optional
            As in `inpaint`.

        Returns
        -------
        ImageResult

        See Also
        --------
        bpfa.images.FrameRestorer.stream : Restore frames as they come.
        bpfa.images.FrameRestorer.begin : Begin a frame that is still being scanned.

        Examples
        --------
        >>> from bpfa.images import FrameRestorer, masks
        >>> picture = np.add.outer(np.arange(24.0), np.arange(20.0))
        >>> restorer = FrameRestorer(patch_size=4, n_components=6, max_steps=40, random_state=0)
        >>> restorer.restore(picture, masks.random(picture.shape, 0.5, seed=0)).image.shape
        (24, 20)
        """
        began = time.perf_counter()
        following = self.follow_changes
        result = self._restored(
            frame,
            mask,
            self._watch.n_steps if following else self.learn,
            self._watch.new_start if following else None,
        )
        self.counts.restored(time.perf_counter() - began)
        return result

    def stream(self, frames: Iterable[Any]) -> Iterator[ImageResult]:
        """Restore frames as they come, and skip those that come too fast.

        The frames are read in a thread of their own. If another frame has come before the present one is
        done, the one in between is skipped, and `latency` counts it. A frame that cannot be restored gives a
        `FrameWarning`, and the stream goes on.

        Parameters
        ----------
        frames : iterable
            Each item is a frame, or a pair of a frame and its mask.

        Yields
        ------
        ImageResult

        See Also
        --------
        bpfa.images.FrameRestorer.restore : Restore one frame.

        Examples
        --------
        >>> from bpfa.images import FrameRestorer, masks
        >>> picture = np.add.outer(np.arange(24.0), np.arange(20.0))
        >>> restorer = FrameRestorer(patch_size=4, n_components=6, max_steps=40, random_state=0)
        >>> frames = [(picture, masks.random(picture.shape, 0.5, seed=0))]
        >>> [result.image.shape for result in restorer.stream(frames)]
        [(24, 20)]
        """
        slot = LatestFrame(frames)
        for item in slot:
            self.counts.n_skipped += slot.take_skipped()
            try:
                result = self.restore(*frame_and_mask(item))
            except (TypeError, ValueError) as error:
                self.counts.n_refused += 1
                warnings.warn(f"a frame is left out: {error}", FrameWarning, stacklevel=2)
                continue
            yield result

    def _restored(
        self, frame: Any, mask: Any, n_steps: int, new_start: NewStart | None = None, *, whole: bool = True
    ) -> ImageResult:
        """Restore a frame by the present model, or by a new one if there is none.

        A frame that cannot be restored changes nothing, and one that is not whole says nothing about others.
        """
        array = as_frame(frame)
        form = tuple(array.shape), np.dtype(array.dtype)
        if self._form is not None and form != self._form:
            raise ValueError(
                f"frame: {form[1]} of shape {form[0]}; expected {self._form[1]} of shape {self._form[0]}, as "
                "the frames before"
            )
        if self._form is None:
            self._prepare(array, mask)
        if self._model is None:
            result = self._first(array, mask, whole=whole)
        else:
            result = self._next(array, mask, n_steps, new_start, whole=whole)
        self._form = form
        if self._live is None:
            for unwanted in {"image", "std"} - set(OUTPUTS[self.output]):
                object.__setattr__(result, unwanted, None)
        return result

    @property
    def _axes(self) -> dict[str, Any]:
        """The axes of frames that are not those of height and width."""
        return {name: self._options.get(name) for name in ("channel_axis", "stack_axis")}

    def _prepare(self, frame: Any, mask: Any) -> None:
        """Choose the number of sweeps and steps that suit frames like the first one."""
        share = observed_share(frame, mask, **self._axes)
        small = share * frame.size <= SMALL
        self._watch.longer = LONGER_IF_FAST if small or self._on_gpu else LONGER
        if not self._has_burn_in:
            long = small or share >= FEW_OBSERVED
            self._options["patch_burn_in"] = LONG_BURN_IN if long else self._burn_in

    def _first(self, frame: Any, mask: Any, *, whole: bool) -> ImageResult:
        """Fit a model to the first frame and restore it."""
        options = options_of_first(frame, mask, self._options)
        result = TASKS[self.task](frame, mask, **options)
        self._model = result.model
        self._live = self._on_device(frame)
        if self._live is None and (self._hidden is None or options["refine"] is not None):
            return result
        # The frame is restored again, so that the result is where the user wants it, and its deviations are
        # corrected like those of all others.
        return self._next(frame, mask, 0, whole=whole)

    def _next(
        self, frame: Any, mask: Any, n_steps: int, new_start: NewStart | None = None, *, whole: bool
    ) -> ImageResult:
        """Restore a frame by the present model after learning from it."""
        if self._live is None and self._form is None:
            self._live = self._on_device(frame)
        if self._live is None:
            result, steps, hidden = self._next_picture(frame, mask, n_steps, new_start)
        else:
            result, steps, hidden = self._live.restore(
                frame,
                mask,
                n_steps=n_steps,
                least_step=self.forgetting,
                new_start=new_start,
                wanted=OUTPUTS[self.output],
                to_host=self.to_host,
                hidden=self._hidden,
            )
        if whole:
            self._see(frame, mask, result, steps, hidden)
        if self._hidden is not None and result.std is not None:
            result.std[...] *= result.std.dtype.type(self._hidden.factor())
        return result

    def _see(self, frame: Any, mask: Any, result: ImageResult, steps: FrameSteps, hidden: Any) -> None:
        """Find out whether the scene has changed, and then how large the errors of the model are."""
        another = False
        if self._hidden is not None and hidden is not None:
            another = self._hidden.shows_another_scene(hidden, result.image)
        changed = self._watch.see(steps, another=another)
        if self._hidden is None or hidden is None or result.std is None:
            return
        # Errors of an earlier scene say nothing about this one, nor do those of a model that is following it.
        self._hidden.add(hidden.errors, alone=changed or self._watch.is_following)
        if self._hidden.n_wanted:
            self._hidden.add_more(self._more_errors(frame, mask))

    def _more_errors(self, frame: Any, mask: Any) -> Array:
        """Return errors of other hidden pixels of a frame, for which it is restored once more."""
        assert self._hidden is not None
        if self._live is not None:
            return self._live.more_errors(frame, mask, self._hidden)
        options = self._kept_options() | {"model": self._model}
        _, hidden = self._hidden.restored(inpaint, frame, mask, options, self._hidden.n_wanted)
        return np.empty(0) if hidden is None else hidden.errors

    def _next_picture(
        self, frame: Any, mask: Any, n_steps: int, new_start: NewStart | None
    ) -> tuple[ImageResult, FrameSteps, Hidden | None]:
        """Restore a frame like any other picture."""
        assert self._model is not None
        options: dict[str, Any] = self._kept_options()
        before = self._model

        def restore(frame: Any, mask: Any, **options: Any) -> ImageResult:
            """Restore a frame of which some pixels may be hidden by the model that suits it."""
            nonlocal before
            found = None if new_start is None else self._begun_with(frame, mask, new_start)
            if found is not None:
                before, learned = found
                return TASKS[self.task](frame, mask, model=learned, **options)
            options |= {"update": n_steps, "forgetting": self.forgetting if n_steps else 0.0}
            return TASKS[self.task](frame, mask, model=before, **options)

        if self._hidden is None:
            result, hidden = restore(frame, mask, **options), None
        else:
            result, hidden = self._hidden.restored(restore, frame, mask, options)
        self._model = result.model
        return result, steps_since(before, result.model), hidden

    def _begun_with(self, frame: Any, mask: Any, new_start: NewStart) -> tuple[BPFA, BPFA] | None:
        """Return a model that begins anew with a frame, before and after its steps, if that is better."""
        assert self._model is not None
        canvas = Canvas.of(frame, mask, **self._axes)
        # A frame that the kept model would refuse is refused.
        form = PictureForm.of_model(self._model)
        form.canvas(canvas)
        begun = begun_with(canvas, self._model)
        if begun is None:
            return None
        form = PictureForm.of_model(begun)
        rows = form.canvas(canvas).patches(form.patch_size)
        learned = continued(begun, rows, new_start.n_steps, least_step=self.forgetting)
        return (begun, learned) if new_start.accepts(steps_since(begun, learned)) else None

    def _kept_options(self) -> Any:
        """Return the options that a kept model has not decided."""
        return {name: value for name, value in self._options.items() if name not in (*DECIDED, "patch_size")}

    def _on_device(self, frame: Any) -> LiveModel | None:
        """Return the model on a device that keeps everything between frames, if there is such a device."""
        assert self._model is not None
        options = RestorationOptions.of("FrameRestorer", self._kept_options())
        live = LiveModel.of(self._model, frame, options, keeps_observed=self.task == "inpaint")
        if live is None and not self.to_host:
            raise ValueError(
                "to_host=False: the frames are not kept on a GPU; expected device='cuda' without groups, "
                "callbacks and noise of counts, or to_host=True"
            )
        return live
