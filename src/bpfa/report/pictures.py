"""Arrays as small pictures within a page: PNG files, encoded in the address (data URI) of an image."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.optional import library

__all__ = ["COLOURS", "atom", "colour_map", "frame", "grey", "picture_uri"]

# The longest side in pixels, and the largest size in bytes, of a picture; larger ones are scaled down.
MAX_SIDE, MAX_BYTES = 1600, 900_000
# The colour map viridis at equal distances: its brightness rises evenly, and colour-blind people can read it.
COLOURS = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725")


def frame(values: NDArray[Any], channel_axis: int | None, stack_axis: int | None) -> Array:
    """Return what a page shows of an image: the middle slice, and the mean of the channels unless it is RGB.

    Examples
    --------
    >>> frame(np.zeros((9, 20, 30, 3)), channel_axis=3, stack_axis=0).shape
    (20, 30, 3)
    """
    shown = np.asarray(values, dtype=np.float64)
    if channel_axis is not None:
        shown = np.moveaxis(shown, channel_axis, -1)
        if stack_axis is not None and stack_axis > channel_axis:
            stack_axis -= 1
        if shown.shape[-1] != 3:
            shown = shown.mean(axis=-1)
    if stack_axis is not None:
        shown = np.take(shown, shown.shape[stack_axis] // 2, axis=stack_axis)
    return shown


def grey(
    values: Array, low: float, high: float, missing: NDArray[np.bool_] | None = None
) -> NDArray[np.uint8]:
    """Return values from `low` to `high` as 8 bits, with an alpha channel if pixels are missing."""
    share = (np.nan_to_num(values) - low) / (high - low if high > low else 1.0)
    shown = (255 * np.clip(share, 0, 1)).round().astype(np.uint8)
    if missing is None:
        return shown
    colours = shown if shown.ndim == 3 else shown[..., None]
    alpha = np.where(missing, 0, 255).astype(np.uint8)
    return np.concatenate([np.where(missing[..., None], 0, colours), alpha[..., None]], axis=-1)


def colour_map(values: Array, high: float) -> NDArray[np.uint8]:
    """Return values from 0 to `high` as colours."""
    anchors = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in COLOURS])
    # With only 64 colours the file is small, and the steps between them are not visible.
    share = np.round(np.clip(values / (high or 1.0), 0, 1) * 63) / 63
    places = np.linspace(0, 1, len(anchors))
    channels = [np.interp(share, places, anchors[:, channel]) for channel in range(3)]
    return np.stack(channels, axis=-1).round().astype(np.uint8)


def atom(component: Array, patch: tuple[int, int]) -> NDArray[np.uint8]:
    """Return a feature as a picture that is grey where the feature is 0. Its sign has no meaning."""
    values = component.reshape(*patch, -1)
    if values.shape[-1] != 3:
        values = values.mean(axis=-1)
    largest = float(np.abs(values).max()) or 1.0
    return grey(values, -largest, largest)


def picture_uri(pixels: NDArray[np.uint8], most_bytes: int = MAX_BYTES) -> str:
    """Return 8-bit pixels, grey or RGB, with or without alpha, as the address of an image.

    Parameters
    ----------
    pixels : uint8 array
    most_bytes : int
        A picture whose file is larger is scaled down.
    """
    image = library("PIL.Image", "images", purpose="pictures in reports need Pillow")
    picture = image.fromarray(pixels)
    picture.thumbnail((MAX_SIDE, MAX_SIDE))
    while True:
        stream = io.BytesIO()
        picture.save(stream, format="PNG", optimize=True)
        if stream.tell() <= most_bytes:
            return f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"
        picture.thumbnail((picture.width * 4 // 5, picture.height * 4 // 5))
