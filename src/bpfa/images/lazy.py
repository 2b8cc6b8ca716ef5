"""Stacks of pictures in a Dask array: one dictionary for all slices, which are restored where they are."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.optional import library
from bpfa.cluster.collections import PURPOSE, caller_of, current_client
from bpfa.cluster.parts import ChunkKind
from bpfa.cluster.rows import ChunkedRows
from bpfa.data import Batch, RowSource
from bpfa.data.patches import PatchRows
from bpfa.estimator import BPFA
from bpfa.images.canvas import Canvas
from bpfa.images.kept import PictureForm
from bpfa.images.options import RestorationOptions
from bpfa.images.plan import RestorationPlan, plan_restoration
from bpfa.images.result import ImageResult
from bpfa.images.units import in_units_of_the_model

__all__ = ["LazyStack", "patches_on_workers", "restored_lazily"]

# The slices from which the size of patches, the units and the noise of counts are found, evenly spaced.
SAMPLED_SLICES = 8


@dataclass(frozen=True)
class LazyStack:
    """A stack of pictures whose chunks are whole slices.

    Parameters
    ----------
    image : dask.array.Array
    mask : dask.array.Array, or an object that holds for every slice, or None
    channel_axis : int or None
    stack_axis : int
    """

    image: Any
    mask: Any
    channel_axis: int | None
    stack_axis: int

    @classmethod
    def of(cls, image: Any, mask: Any, options: RestorationOptions) -> LazyStack:
        """Check a stack and its mask, and bring both to chunks of whole slices."""
        dask_array = library("dask.array", "dask", purpose=PURPOSE)
        if not isinstance(image, dask_array.Array):
            raise TypeError(f"image: {type(image).__name__}; expected an array")
        if options.stack_axis is None:
            raise ValueError(
                "image: a Dask array without slices; expected stack_axis, the axis of the slices, or "
                "image.compute()"
            )
        if image.dtype.kind not in "fiub":
            raise TypeError(
                f"image: dtype {image.dtype}; expected integers, floating-point numbers or booleans"
            )
        if np.isnan(image.shape).any():
            raise ValueError(
                "image: the sizes of its chunks are unknown; expected image.compute_chunk_sizes()"
            )
        axis = range(image.ndim)[options.stack_axis]
        image = image.rechunk({other: -1 for other in range(image.ndim) if other != axis})
        channel = None if options.channel_axis is None else range(image.ndim)[options.channel_axis]
        shape = getattr(mask, "shape", None)
        without_channels = tuple(n for other, n in enumerate(image.shape) if other != channel)
        if shape is not None and channel is not None and tuple(shape) == without_channels:
            if not isinstance(mask, dask_array.Array):
                mask = dask_array.from_array(np.asarray(mask))
            mask = dask_array.broadcast_to(dask_array.expand_dims(mask, channel), image.shape)
        elif shape is not None and tuple(shape) == image.shape and not isinstance(mask, dask_array.Array):
            mask = dask_array.from_array(np.asarray(mask), chunks=image.chunks)
        if isinstance(mask, dask_array.Array):
            if mask.shape != image.shape:
                raise ValueError(f"mask: shape {mask.shape}; expected {image.shape}, that of the image")
            mask = mask.rechunk(image.chunks)
        return cls(image, mask, channel, axis)

    @property
    def n_slices(self) -> int:
        """Number of slices."""
        return int(self.image.shape[self.stack_axis])

    @property
    def axes(self) -> dict[str, int | None]:
        """The arguments that name the axes."""
        return {"channel_axis": self.channel_axis, "stack_axis": self.stack_axis}

    def blocks(self) -> list[tuple[Any, Any]]:
        """Return the chunks, as delayed arrays, each with its mask."""
        images = self.image.to_delayed().ravel().tolist()
        if not hasattr(self.mask, "__dask_graph__"):
            return [(image, self.mask) for image in images]
        return list(zip(images, self.mask.to_delayed().ravel().tolist(), strict=True))

    def sample(self) -> Canvas:
        """Return some slices, evenly spaced, as a picture in this process."""
        dask = library("dask", "dask", purpose=PURPOSE)
        # Only these slices are brought here, from wherever they are.
        places = np.unique(np.linspace(0, self.n_slices - 1, SAMPLED_SLICES).round().astype(int))
        lazy = hasattr(self.mask, "__dask_graph__")
        chosen = (slice(None),) * self.stack_axis + (places,)
        image, mask = self.image[chosen], self.mask[chosen] if lazy else self.mask
        image, mask = dask.compute(image, mask)
        return Canvas.of(image, mask, **self.axes)


class _PatchPart(PatchRows):
    """The patches of some slices of a longer stack, with the ids that they have there."""

    def __init__(self, canvas: Canvas, size: tuple[int, int], first_id: int) -> None:
        super().__init__(canvas.values, canvas.observed, size)
        self.first_id = first_id

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the patches at these places, counted from the first patch of this part."""
        batch = super().take(ids)
        return Batch.unchecked(batch.values, batch.observed, batch.ids + self.first_id)


@dataclass(frozen=True)
class PatchKind(ChunkKind):
    """Chunks of slices, whose rows are the patches of these slices."""

    form: PictureForm | None = None
    channel_axis: int | None = None
    stack_axis: int = 0

    def rows(self, chunk: Any, number: int) -> RowSource:
        """Return the patches of a chunk: a pair of slices and their mask."""
        assert self.form is not None
        slices, mask = chunk
        canvas = Canvas.of(slices, mask, self.channel_axis, self.stack_axis)
        canvas = canvas.stabilised(self.form.stabiliser).standardised_by(self.form.mean, self.form.scale)
        return _PatchPart(canvas, self.form.patch_size, int(self.edges[number]))


def patches_on_workers(stack: LazyStack, form: PictureForm, n_jobs: int | None) -> ChunkedRows:
    """Return the patches of all slices as rows that stay where the slices are."""
    dask = library("dask", "dask", purpose=PURPOSE)
    sides = [
        n for axis, n in enumerate(stack.image.shape) if axis not in (stack.stack_axis, stack.channel_axis)
    ]
    n_channels = 1 if stack.channel_axis is None else int(stack.image.shape[stack.channel_axis])
    per_slice = int(np.prod([n - size + 1 for n, size in zip(sides, form.patch_size, strict=True)]))
    lengths = np.asarray(stack.image.chunks[stack.stack_axis]) * per_slice
    kind = PatchKind(
        "image",
        np.append(0, np.cumsum(lengths)),
        int(np.prod(form.patch_size)) * n_channels,
        None,
        "chunk",
        form,
        stack.channel_axis,
        stack.stack_axis,
    )
    pair = dask.delayed(_pair, pure=False)
    chunks = [pair(image, mask) for image, mask in stack.blocks()]
    rows = ChunkedRows(kind, chunks, caller_of(current_client(), n_jobs, "image"))
    rows.of_patches = True
    return rows


def _pair(image: Any, mask: Any) -> tuple[Any, Any]:
    return image, mask


def _lazy_result(
    stack: LazyStack,
    restore: Callable[..., ImageResult],
    sample: Canvas,
    plan: RestorationPlan,
    model: BPFA,
    options: RestorationOptions,
) -> ImageResult:
    """Return the restored stack: lazy arrays with the chunks of the original, one chunk restored at a time.

    Parameters
    ----------
    stack : LazyStack
    restore : callable
        `inpaint` or `denoise`.
    sample : Canvas
        Some slices, in units of the model.
    plan : RestorationPlan
    model : BPFA
        Fitted to the patches of all slices.
    options : RestorationOptions
    """
    dask = library("dask", "dask", purpose=PURPOSE)
    dask_array = library("dask.array", "dask", purpose=PURPOSE)
    shared = dask.delayed(model, pure=False)
    block = dask.delayed(_restored_block, pure=False, nout=4)
    given = {
        "n_draws": options.n_draws,
        "refine": options.refine,
        "stride": options.stride,
        "device": options.device,
        "n_jobs": 1,
        **stack.axes,
    }
    found = [block(restore.__name__, image, mask, shared, given) for image, mask in stack.blocks()]
    precision = np.dtype(np.float64 if stack.image.dtype == np.float64 else np.float32)
    dtypes = (stack.image.dtype, precision, np.dtype(bool), np.dtype(bool))
    arrays = []
    for which, dtype in enumerate(dtypes):
        parts = []
        for number, n_slices in enumerate(stack.image.chunks[stack.stack_axis]):
            shape = [*stack.image.shape]
            shape[stack.stack_axis] = n_slices
            parts.append(dask_array.from_delayed(found[number][which], tuple(shape), dtype))
        arrays.append(dask_array.concatenate(parts, axis=stack.stack_axis))
    noise, counts = (
        sample.noise_std(model.posterior_.noise_std, sample.values.astype(np.float64)),
        sample.stabiliser,
    )

    def by_channel(values: Any) -> Any:
        return values if sample.has_channels else float(values[0])

    return ImageResult(
        image=arrays[0],
        std=arrays[1],
        missing=arrays[2],
        from_prior=arrays[3],
        noise_std=by_channel(noise),
        model=model,
        patch_size=plan.patch_size,
        stage="dictionary" if plan.groups is None else "groups",
        noise_model="gaussian" if counts is None else counts.kind,
        gain=None if counts is None else by_channel(counts.gain),
        read_noise=None if counts is None else by_channel(counts.read_noise),
    )


def restored_lazily(
    restore: Callable[..., ImageResult], image: Any, mask: Any, options: RestorationOptions
) -> ImageResult:
    """Learn a dictionary from all slices of a Dask array where they are, and restore them there, lazily.

    Parameters
    ----------
    restore : callable
        `inpaint` or `denoise`.
    image, mask
        As in `inpaint`.
    options : RestorationOptions
    """
    stack = LazyStack.of(image, mask, options)
    sample = in_units_of_the_model(stack.sample(), options)
    noisy = restore.__name__ == "denoise" or sample.stabiliser is not None
    plan = plan_restoration(sample, options, noisy=noisy)
    model = options.model
    if model is None:
        form = PictureForm.of(sample, plan.patch_size)
        rows = patches_on_workers(stack, form, options.n_jobs)
        parameters = {**plan.model_parameters, "groups": False}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X: no entry of column")
            model = BPFA(**parameters).fit(rows, callbacks=options.callbacks)
        model = form.noted_in(model)
    elif options.update:
        raise ValueError(f"update={options.update}: not for a Dask array; expected 0")
    return _lazy_result(stack, restore, sample, plan, model, options)


def _restored_block(
    name: str, image: Any, mask: Any, model: BPFA, given: dict[str, Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], NDArray[np.bool_]]:
    """Restore some slices by a dictionary that has been learned already."""
    from bpfa.images import pipeline

    canvas = Canvas.of(image, mask, channel_axis=given["channel_axis"], stack_axis=given["stack_axis"])
    if name == "inpaint" and canvas.observed.all():
        logging.getLogger("bpfa").debug("a chunk without missing pixels stays as it is")
        nothing = np.zeros(image.shape, dtype=bool)
        precision = np.float64 if image.dtype == np.float64 else np.float32
        return image, np.zeros(image.shape, precision), nothing, nothing
    result = getattr(pipeline, name)(image, mask, model=model, **given)
    return result.image, result.std, result.missing, result.from_prior
