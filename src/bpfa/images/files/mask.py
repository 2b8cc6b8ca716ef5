"""Masks: image files that show which pixels of another image are missing."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bpfa.images.files.formats import JPEG, read_image
from bpfa.images.files.picture import Picture

__all__ = ["read_mask"]


def read_mask(path: str | os.PathLike[str], picture: Picture) -> NDArray[np.bool_]:
    """Read which pixels of a picture are missing: those at which the mask is not zero.

    Parameters
    ----------
    path : path
        An image with the height and width of the picture, or with its whole shape. In a mask with colours, a
        pixel is missing if any channel is not zero. A mask of one plane applies to all slices of a stack.
    picture : Picture

    Returns
    -------
    boolean array
        Of the shape of the picture, with or without the channels.
    """
    mask = read_image(path)
    if mask.transparent is not None:
        raise ValueError(f"mask {path}: transparent pixels; expected only black (known) and white (missing)")
    if mask.values.dtype.kind == "f" and np.isnan(mask.values).any():
        raise ValueError(f"mask {path}: NaN; expected 0 where a pixel is known and 1 where it is missing")
    if Path(path).suffix.lower() in JPEG:
        warnings.warn(f"mask {path}: JPEG blurs edges, so too many pixels are missing; use PNG", stacklevel=2)
    missing: NDArray[np.bool_] = mask.values != 0
    shape, pixels = picture.values.shape, picture.pixels
    if mask.channel_axis is not None and missing.shape != shape:
        missing = np.any(missing, axis=mask.channel_axis)
    plane = pixels
    if picture.stack_axis is not None:
        channel, stack = picture.channel_axis, picture.stack_axis
        at = stack - (channel is not None and channel < stack)
        plane = pixels[:at] + pixels[at + 1 :]
        if missing.shape == plane:
            missing = np.broadcast_to(np.expand_dims(missing, at), pixels)
    if missing.shape not in (shape, pixels):
        accepted = " or ".join(map(str, dict.fromkeys((plane, pixels, shape))))
        raise ValueError(f"mask {path}: shape {mask.values.shape}; expected {accepted}, for {picture.path}")
    return missing
