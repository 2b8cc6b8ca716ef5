"""A picture as the model sees it, slices x height x width x channels in units of its spread, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array, check_integer, check_mask

__all__ = ["Canvas"]


@dataclass(frozen=True)
class Canvas:
    """A picture brought to four axes (slices, height, width, channels) and to mean 0 and deviation 1.

    Mean and deviation are those of the observed pixels, one for each channel.

    Parameters
    ----------
    values : float32 array, shape (slices, height, width, channels)
        Zero where a pixel is missing.
    observed : boolean array of the same shape
    mean, scale : arrays, shape (channels,)
    axes : tuple of int
        Where each of the four axes is in the picture; None where it has no such axis.
    dtype : numpy.dtype
        Of the picture.
    """

    values: NDArray[np.float32]
    observed: NDArray[np.bool_]
    mean: Array
    scale: Array
    axes: tuple[int | None, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(
        cls, image: Any, mask: Any = None, *, channel_axis: int | None = None, stack_axis: int | None = None
    ) -> Canvas:
        """Check a picture and its mask and bring them into shape.

        Examples
        --------
        >>> canvas = Canvas.of(np.array([[1, 3], [5, 0]], dtype=np.uint8), [[0, 0], [0, 1]])
        >>> canvas.values.shape, int(canvas.observed.sum()), canvas.mean
        ((1, 2, 2, 1), 3, array([3.]))
        """
        if isinstance(image, np.ma.MaskedArray):
            hidden = np.ma.getmaskarray(image)
            mask = hidden if mask is None else hidden | _full_mask(mask, image.shape, channel_axis)
        array = np.asarray(image)
        if array.dtype.kind not in "fiu":
            raise TypeError(f"image: dtype {array.dtype}; expected integers or floating-point numbers")
        axes = _axes(array.shape, channel_axis, stack_axis)
        if 0 in array.shape:
            raise ValueError(f"image: shape {array.shape} has no pixels; expected at least one")
        observed = np.ones(array.shape, dtype=bool) if array.dtype.kind != "f" else ~np.isnan(array)
        if mask is not None:
            observed &= ~_full_mask(mask, array.shape, channel_axis)
        if array.dtype.kind == "f" and (infinite := np.isinf(array) & observed).any():
            where = tuple(int(i) for i in np.argwhere(infinite)[0])
            raise ValueError(
                f"image: {array[where]} at {where}; expected finite numbers, or NaN where a pixel is missing"
            )
        return cls(*_standardised(_spread(array, axes), _spread(observed, axes)), axes, array.dtype)

    @property
    def has_channels(self) -> bool:
        """Whether the picture has an axis of channels."""
        return self.axes[3] is not None

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Where the picture is missing, in its own shape."""
        return self.folded(~self.observed)

    def folded(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return an array of four axes in the shape of the picture."""
        places = [axis for axis in self.axes if axis is not None]
        squeezed = array.reshape(
            [n for n, axis in zip(array.shape, self.axes, strict=True) if axis is not None]
        )
        return np.ascontiguousarray(np.moveaxis(squeezed, range(len(places)), places))

    def image(self, values: Array) -> NDArray[Any]:
        """Return standardised values as a picture of the type that came in.

        Integers are rounded and kept in the range of their type; floating-point numbers are not clipped.
        """
        picture = values * self.scale
        picture += self.mean
        picture = self.folded(picture)
        if self.dtype.kind == "f":
            return picture.astype(self.dtype, copy=False)
        limits = np.iinfo(self.dtype)
        # The largest 64-bit integers are no floating-point numbers: the next one below is.
        high = float(limits.max) if float(limits.max) <= limits.max else np.nextafter(float(limits.max), 0)
        np.rint(picture, out=picture)
        whole: NDArray[Any] = np.clip(picture, limits.min, high, out=picture).astype(self.dtype)
        return whole

    def deviation(self, std: Array) -> NDArray[Any]:
        """Return standardised deviations as a map of the picture's shape and units."""
        precision = np.float64 if self.dtype == np.float64 else np.float32
        return self.folded((std * self.scale).astype(precision, copy=False))


def _axes(shape: tuple[int, ...], channel_axis: int | None, stack_axis: int | None) -> tuple[int | None, ...]:
    """Return where slices, height, width and channels are among the axes of a picture."""
    named = {"stack_axis": stack_axis, "channel_axis": channel_axis}
    given = {name: axis for name, axis in named.items() if axis is not None}
    expected = 2 + len(given)
    if len(shape) != expected:
        raise ValueError(
            f"image: shape {shape}; expected {expected} axes: height, width"
            + "".join(f", and {name}={axis}" for name, axis in given.items())
            + ("" if len(shape) < expected else " (name further axes by channel_axis and stack_axis)")
        )
    for name, axis in given.items():
        given[name] = check_integer(name, axis, low=-len(shape), high=len(shape) - 1) % len(shape)
    if len(set(given.values())) < len(given):
        raise ValueError(f"stack_axis={stack_axis}: the same axis as channel_axis; expected another")
    height, width = (axis for axis in range(len(shape)) if axis not in given.values())
    return given.get("stack_axis"), height, width, given.get("channel_axis")


def _spread(array: NDArray[Any], axes: tuple[int | None, ...]) -> NDArray[Any]:
    """Return the picture with its axes in order, and those it does not have of length one."""
    ordered = array.transpose([axis for axis in axes if axis is not None])
    return ordered.reshape([1 if axis is None else array.shape[axis] for axis in axes])


def _full_mask(mask: Any, shape: tuple[int, ...], channel_axis: int | None) -> NDArray[np.bool_]:
    """Return a mask of the picture's shape; one without channels holds for all of them."""
    given = np.asarray(mask)
    if channel_axis is not None and given.ndim == len(shape) - 1:
        channel = channel_axis % len(shape)
        without = shape[:channel] + shape[channel + 1 :]
        return np.broadcast_to(np.expand_dims(check_mask("mask", given, without), channel), shape)
    return check_mask("mask", given, shape)


def _standardised(
    values: NDArray[Any], observed: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], NDArray[np.bool_], Array, Array]:
    n_channels = values.shape[-1]
    scaled = np.zeros(values.shape, dtype=np.float32)
    mean, scale = np.zeros(n_channels), np.ones(n_channels)
    for channel in range(n_channels):
        seen = observed[..., channel]
        if not seen.any():
            where = "the image" if n_channels == 1 else f"channel {channel}"
            raise ValueError(f"mask: every pixel of {where} is missing; expected at least one observed pixel")
        # In double precision, as the difference of two large single-precision numbers has few digits left.
        centred = values[..., channel].astype(np.float64)
        mean[channel] = centred.mean(where=seen)
        centred -= mean[channel]
        spread = float(np.sqrt(np.square(centred, where=seen, out=np.zeros_like(centred)).mean(where=seen)))
        if spread > 0:
            scale[channel] = spread
        np.divide(centred, scale[channel], out=scaled[..., channel], where=seen, casting="same_kind")
    return scaled, observed, mean, scale
