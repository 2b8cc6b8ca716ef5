"""PNG and JPEG files, read and written by Pillow."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.optional import library
from bpfa.data.formats.files import name_file_in_errors
from bpfa.images.files.picture import Picture

__all__ = ["read_pillow", "without_alpha", "write_jpeg", "write_png"]

# At this quality losses are hardly visible; a higher one takes much more space for little gain.
JPEG_QUALITY = 95
# Grey and colour, with and without alpha. Mode "I" holds 16-bit values in wider integers.
MODES = ("L", "LA", "RGB", "RGBA", "I", "I;16", "I;16B")


def read_pillow(path: Path) -> Picture:
    """Read a PNG or JPEG file."""
    image, ops = library("PIL.Image", "images"), library("PIL.ImageOps", "images")
    _refuse_deep_colours(path)
    with name_file_in_errors(path), image.open(path) as file:
        n_frames = getattr(file, "n_frames", 1)
        # Cameras store pictures as the sensor saw them, with a note on how to turn them: the upright picture
        # is the one that people see.
        upright = ops.exif_transpose(file)
        if upright.mode == "P":
            upright = upright.convert("RGBA" if "transparency" in upright.info else "RGB")
        elif upright.mode == "1":
            upright = upright.convert("L")
        mode, values = upright.mode, np.array(upright)
    if mode not in MODES or n_frames > 1:
        kind = f"{n_frames} frames" if n_frames > 1 else f"{mode} colours"
        raise ValueError(f"{path}: {kind}; expected one picture in grey or RGB")
    if mode.startswith("I"):
        values = values.astype(np.uint16)
    return without_alpha(Picture(path, values, None if values.ndim == 2 else 2))


def _refuse_deep_colours(path: Path) -> None:
    """Refuse PNG files with 16 bits per colour, of which Pillow silently reads only 8."""
    with open(path, "rb") as file:
        head = file.read(26)
    # The bits per sample and the kind of colours are bytes 24 and 25, after signature, length, name and size.
    if head.startswith(b"\x89PNG") and len(head) == 26 and head[24] == 16 and head[25] & 2:
        raise ValueError(
            f"{path}: PNG with 16 bits per colour, of which 8 would be lost; expected TIFF or .npy"
        )


def without_alpha(picture: Picture) -> Picture:
    """Remove the alpha channel, which is the second of two or the fourth of four on the last axis."""
    values = picture.values
    if picture.channel_axis != values.ndim - 1 or picture.n_channels not in (2, 4):
        return picture
    colours, alpha = values[..., :-1], values[..., -1]
    opaque = np.iinfo(alpha.dtype).max if alpha.dtype.kind in "iu" else 1
    partly = ~np.isin(alpha, (0, opaque))
    if partly.any():
        where = tuple(int(i) for i in np.argwhere(partly)[0])
        raise ValueError(
            f"{picture.path}: partly transparent at {where}; expected an image without an alpha channel, "
            "or one whose pixels are either opaque or fully transparent"
        )
    transparent = None if alpha.all() else alpha == 0
    if colours.shape[-1] == 1:
        return replace(picture, values=colours[..., 0], channel_axis=None, transparent=transparent)
    return replace(picture, values=colours, transparent=transparent)


def write_png(path: Path, values: NDArray[Any], picture: Picture, note: str) -> None:
    """Write a PNG file."""
    _as_image(values, picture).save(path, format="PNG")


def write_jpeg(path: Path, values: NDArray[Any], picture: Picture, note: str) -> None:
    """Write a JPEG file, which changes the values slightly."""
    warnings.warn("JPEG slightly changes observed pixels too; PNG and TIFF keep them", stacklevel=2)
    _as_image(values, picture).save(path, format="JPEG", quality=JPEG_QUALITY, subsampling=0)


def _as_image(values: NDArray[Any], picture: Picture) -> Any:
    if picture.channel_axis is not None:
        last = np.moveaxis(values, picture.channel_axis, -1)
        values = last[..., 0] if last.shape[-1] == 1 else last
    return library("PIL.Image", "images").fromarray(np.ascontiguousarray(values))
