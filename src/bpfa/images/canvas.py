"""A picture in the form that the model works on, and the way back to the form it came in.

The model works on arrays of slices x height x width x channels, in which every channel is standardised.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array, check_integer, check_mask
from bpfa.data.patches import PatchRows
from bpfa.images.masks import Scan, checked_positions, missing_from
from bpfa.images.noise.stabiliser import Stabiliser

__all__ = ["Canvas", "axis_positions", "missing_pixels", "with_four_axes"]


@dataclass(frozen=True)
class Canvas:
    """A picture with four axes (slices, height, width, channels), standardised to mean 0 and deviation 1.

    Each channel has its own mean and standard deviation, which are those of its observed pixels.

    Parameters
    ----------
    values : float32 array, shape (slices, height, width, channels)
        Standardised pixels; 0 where a pixel is missing.
    observed : boolean array of the same shape
        True where a pixel is observed.
    mean, scale : arrays, shape (channels,)
        Mean and standard deviation of each channel, in the units of the picture.
    axes : tuple of int
        Position of each of the four axes in the original picture, or None where the picture has no such axis.
    dtype : numpy.dtype
        Type of the original picture.
    stabiliser : Stabiliser or None
        How the noise of the picture was brought to the same variance everywhere, after which the pixels were
        standardised; None if it was not.
    """

    values: NDArray[np.float32]
    observed: NDArray[np.bool_]
    mean: Array
    scale: Array
    axes: tuple[int | None, ...]
    dtype: np.dtype[Any]
    stabiliser: Stabiliser | None = None

    @classmethod
    def of(
        cls, image: Any, mask: Any = None, channel_axis: int | None = None, stack_axis: int | None = None
    ) -> Canvas:
        """Check a picture and its mask, and standardise the picture.

        Parameters
        ----------
        image, mask : array-like
            As in `bpfa.inpaint`.
        channel_axis, stack_axis : int, optional
            As in `bpfa.inpaint`.

        Examples
        --------
        >>> canvas = Canvas.of(np.array([[1, 3], [5, 0]], dtype=np.uint8), [[0, 0], [0, 1]])
        >>> canvas.values.shape, int(canvas.observed.sum()), canvas.mean
        ((1, 2, 2, 1), 3, array([3.]))
        """
        array = np.asarray(image)
        if array.dtype.kind not in "fiub":
            raise TypeError(
                f"image: dtype {array.dtype}; expected integers, floating-point numbers or booleans"
            )
        axes = axis_positions(array.shape, channel_axis, stack_axis)
        if 0 in array.shape:
            raise ValueError(f"image: shape {array.shape} has no pixels; expected at least one")
        observed = np.ones(array.shape, dtype=bool) if array.dtype.kind != "f" else ~np.isnan(array)
        if isinstance(image, np.ma.MaskedArray):
            observed &= ~np.ma.getmaskarray(image)
        if mask is not None:
            observed &= ~missing_pixels(mask, array.shape, axes)
        if array.dtype.kind == "f" and (infinite := np.isinf(array) & observed).any():
            where = tuple(int(i) for i in np.argwhere(infinite)[0])
            raise ValueError(
                f"image: {array[where]} at {where}; expected finite numbers, or NaN where a pixel is missing"
            )
        observed = with_four_axes(observed, axes)
        return cls(*_standardised(with_four_axes(array, axes), observed), axes, array.dtype)

    @property
    def has_channels(self) -> bool:
        """Whether the original picture has an axis of channels."""
        return self.axes[3] is not None

    @property
    def missing(self) -> NDArray[np.bool_]:
        """True where a pixel is missing, in the shape of the original picture."""
        return self.in_picture_shape(~self.observed)

    def pixels(self) -> Array:
        """Return the pixels in the units of the picture (stabilised ones, if they are), with four axes."""
        pixels: Array = self.values * self.scale + self.mean
        return pixels

    def stabilised(self, stabiliser: Stabiliser | None) -> Canvas:
        """Return the picture with noise of the same variance everywhere; None leaves it as it is.

        Parameters
        ----------
        stabiliser : Stabiliser or None

        Examples
        --------
        >>> counts = np.random.default_rng(0).poisson(9.0, size=(20, 30))
        >>> canvas = Canvas.of(counts)
        >>> stable = canvas.stabilised(Stabiliser("poisson", np.ones(1), np.zeros(1), np.zeros(1)))
        >>> bool(abs(stable.scale[0] - 1) < 0.1), stable.image(stable.values.astype(float)).dtype
        (True, dtype('int64'))
        """
        if stabiliser is None:
            return self
        values, observed, mean, scale = _standardised(stabiliser.transform(self.pixels()), self.observed)
        return replace(self, values=values, observed=observed, mean=mean, scale=scale, stabiliser=stabiliser)

    def standardised_by(self, mean: Array, scale: Array) -> Canvas:
        """Return the picture standardised by other means and deviations, for example those of a kept model.

        Parameters
        ----------
        mean, scale : array, shape (channels,)

        Examples
        --------
        >>> Canvas.of([[1.0, 3.0]]).standardised_by(np.array([1.0]), np.array([2.0])).values.ravel()
        array([0., 1.], dtype=float32)
        """
        pixels = (self.pixels() - mean) / scale
        values = np.where(self.observed, pixels, 0.0).astype(np.float32)
        return replace(self, values=values, mean=mean, scale=scale)

    def patches(self, size: tuple[int, int], stride: int = 1) -> PatchRows:
        """Return the patches of this height and width as a source of rows.

        Parameters
        ----------
        size : pair of int
            Height and width of a patch.
        stride : int
            Distance in pixels from one patch to the next.

        Examples
        --------
        >>> Canvas.of(np.eye(5)).patches((3, 3)).n_rows
        9
        """
        return PatchRows(self.values, self.observed, size, stride)

    def in_picture_shape(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return an array of four axes with the axes of the original picture."""
        places = [axis for axis in self.axes if axis is not None]
        squeezed = array.reshape(
            [n for n, axis in zip(array.shape, self.axes, strict=True) if axis is not None]
        )
        return np.ascontiguousarray(np.moveaxis(squeezed, range(len(places)), places))

    def image(self, values: Array, std: Array | None = None) -> NDArray[Any]:
        """Return standardised values as a picture with the shape, units and type of the original.

        Integers are rounded and clipped to the range of their type; floating-point numbers are not clipped.
        In a boolean picture, a pixel is True if its value is above 1/2.

        Parameters
        ----------
        values : array
        std : array, optional
            Their standard deviations, on which the picture depends if its noise was stabilised.
        """
        picture = self.in_picture_shape(self._in_units(values, std))
        if self.dtype.kind == "f":
            return picture.astype(self.dtype, copy=False)
        if self.dtype.kind == "b":
            return picture > 0.5
        limits = np.iinfo(self.dtype)
        # The largest 64-bit integer is not a floating-point number, so the next smaller one is the limit.
        high = float(limits.max) if float(limits.max) <= limits.max else np.nextafter(float(limits.max), 0)
        np.rint(picture, out=picture)
        whole: NDArray[Any] = np.clip(picture, limits.min, high, out=picture).astype(self.dtype)
        return whole

    def deviation(self, std: Array, values: Array | None = None) -> NDArray[Any]:
        """Return standardised standard deviations in the shape and units of the original picture.

        Parameters
        ----------
        std : array
        values : array, optional
            The standardised values that they belong to, on which they depend if the noise was stabilised.
        """
        precision = np.float64 if self.dtype == np.float64 else np.float32
        scaled = std * self.scale
        if self.stabiliser is not None and values is not None:
            scaled = self.stabiliser.deviation(values * self.scale + self.mean, scaled)
        return self.in_picture_shape(scaled.astype(precision, copy=False))

    def noise_std(self, noise: Array | float, values: Array) -> Array:
        """Return the standard deviation of the noise of each channel in the units of the picture.

        If the noise was stabilised, its variance depends on the pixel, and this is the root of its mean.

        Parameters
        ----------
        noise : array, shape (channels,), or float
            Standard deviation of the noise in standardised units, which matters if it was not stabilised.
        values : array
            Standardised pixels without noise.
        """
        if self.stabiliser is not None:
            return self.stabiliser.noise_std(self._in_units(values))
        scaled: Array = noise * self.scale
        return scaled

    def _in_units(self, values: Array, std: Array | None = None) -> Array:
        """Return standardised values in the units of the picture, with four axes."""
        picture = values * self.scale
        picture += self.mean
        if self.stabiliser is None:
            return picture
        return self.stabiliser.mean(picture, None if std is None else std * self.scale)


def axis_positions(
    shape: tuple[int, ...], channel_axis: int | None, stack_axis: int | None
) -> tuple[int | None, ...]:
    """Return the positions of slices, height, width and channels among the axes of a picture."""
    named = {"stack_axis": stack_axis, "channel_axis": channel_axis}
    given = {name: axis for name, axis in named.items() if axis is not None}
    expected = 2 + len(given)
    if len(shape) != expected:
        raise ValueError(
            f"image: shape {shape}; expected {expected} axes: height, width"
            + "".join(f", and {name}={axis}" for name, axis in given.items())
            + ("" if len(shape) < expected else " (name further axes with channel_axis and stack_axis)")
        )
    for name, axis in given.items():
        given[name] = check_integer(name, axis, low=-len(shape), high=len(shape) - 1) % len(shape)
    if len(set(given.values())) < len(given):
        raise ValueError(f"stack_axis={stack_axis}: the same axis as channel_axis; expected another")
    height, width = (axis for axis in range(len(shape)) if axis not in given.values())
    return given.get("stack_axis"), height, width, given.get("channel_axis")


def with_four_axes(array: NDArray[Any], axes: tuple[int | None, ...]) -> NDArray[Any]:
    """Return a picture with all four axes in order; an axis that the picture lacks has length 1."""
    ordered = array.transpose([axis for axis in axes if axis is not None])
    return ordered.reshape([1 if axis is None else array.shape[axis] for axis in axes])


def missing_pixels(mask: Any, shape: tuple[int, ...], axes: tuple[int | None, ...]) -> NDArray[np.bool_]:
    """Return which pixels of a picture of this shape are missing according to a mask or a scan.

    Parameters
    ----------
    mask : array-like or Scan
        As in `bpfa.inpaint`.
    shape : tuple of int
    axes : tuple of int or None
        As returned by `axis_positions`.

    Examples
    --------
    >>> missing_pixels([[0, 1]], (2, 3), axis_positions((2, 3), None, None)).sum()
    np.int64(5)
    """
    scanned = _missing_from_scan(mask, shape, axes)
    return _full_mask(mask, shape, axes[3]) if scanned is None else scanned


def _missing_from_scan(
    mask: Any, shape: tuple[int, ...], axes: tuple[int | None, ...]
) -> NDArray[np.bool_] | None:
    """Return a mask of the picture's shape if what is given is a scan or its positions, otherwise None.

    A list of positions is an array of integers of shape (n, 2), unless that is also the shape of a mask.
    """
    vertical, horizontal = axes[1], axes[2]
    assert vertical is not None
    assert horizontal is not None
    size = shape[vertical], shape[horizontal]
    if isinstance(mask, Scan):
        if mask.shape != size:
            height, width = mask.shape
            raise ValueError(
                f"mask: a scan of {height} x {width} pixels; expected {size[0]} x {size[1]}, as the image has"
            )
        missing = mask.missing
    else:
        given = np.asarray(mask)
        if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu" or given.shape == size:
            return None
        missing = missing_from(checked_positions(given, size), size)
    placed = missing.reshape(
        [
            size[(vertical, horizontal).index(axis)] if axis in (vertical, horizontal) else 1
            for axis in range(len(shape))
        ]
    )
    return np.broadcast_to(placed, shape)


def _full_mask(mask: Any, shape: tuple[int, ...], channel_axis: int | None) -> NDArray[np.bool_]:
    """Return a mask of the picture's shape; a mask without channels applies to every channel."""
    given = _as_booleans(np.asarray(mask))
    if channel_axis is not None and given.ndim == len(shape) - 1:
        channel = channel_axis % len(shape)
        without = shape[:channel] + shape[channel + 1 :]
        return np.broadcast_to(np.expand_dims(check_mask("mask", given, without), channel), shape)
    return check_mask("mask", given, shape)


def _as_booleans(mask: NDArray[Any]) -> NDArray[Any]:
    """Return a mask as booleans; a mask of 0 and one other integer, such as 255, is True at the latter.

    Examples
    --------
    >>> _as_booleans(np.array([0, 255, 0], dtype=np.uint8))
    array([False,  True, False])
    """
    if mask.dtype == bool:
        return mask
    if mask.dtype.kind in "fiub" and np.isin(mask, (0, 1)).all():
        return mask.astype(bool)
    marked: NDArray[np.bool_] = np.asarray(mask != 0)
    if mask.dtype.kind not in "iu" or (mask[marked] != mask[marked][0]).any():
        raise TypeError(f"mask: dtype {mask.dtype}; expected booleans, or 0 and one other integer")
    return marked


def _standardised(
    values: NDArray[Any], observed: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], NDArray[np.bool_], Array, Array]:
    """Return the fields `values`, `observed`, `mean` and `scale` of a canvas."""
    n_channels = values.shape[-1]
    scaled = np.zeros(values.shape, dtype=np.float32)
    mean, scale = np.zeros(n_channels), np.ones(n_channels)
    for channel in range(n_channels):
        seen = observed[..., channel]
        if not seen.any():
            where = "the image" if n_channels == 1 else f"channel {channel}"
            raise ValueError(f"mask: every pixel of {where} is missing; expected at least one observed pixel")
        # Double precision, because the difference of two large single-precision numbers loses most digits.
        centred = values[..., channel].astype(np.float64)
        mean[channel] = centred.mean(where=seen)
        centred -= mean[channel]
        spread = float(np.sqrt(np.square(centred, where=seen, out=np.zeros_like(centred)).mean(where=seen)))
        if spread > 0:
            scale[channel] = spread
        np.divide(centred, scale[channel], out=scaled[..., channel], where=seen, casting="same_kind")
    return scaled, observed, mean, scale
