"""TIFF files of any bit depth, with channels and stacks."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.optional import library
from bpfa.data.formats.files import name_file_in_errors
from bpfa.images.files.picture import Picture
from bpfa.images.files.pillow import without_alpha

__all__ = ["read_tiff", "write_tiff"]


def read_tiff(path: Path) -> Picture:
    """Read the first image of a TIFF file; pages that belong together are read as a stack."""
    tifffile = library("tifffile", "images")
    with name_file_in_errors(path), tifffile.TiffFile(path) as file:
        series, n_series = file.series[0], len(file.series)
        values, axes = series.asarray(), series.axes
        has_alpha = bool(series.keyframe.extrasamples)
    if n_series > 1:
        warnings.warn(f"{path}: only the first of {n_series} images is read", stacklevel=2)
    channel = next((axis for axis, name in enumerate(axes) if name in "SC"), None)
    stack = next((axis for axis, name in enumerate(axes) if name not in "YXSC"), None)
    picture = Picture(path, values, channel, stack)
    return without_alpha(picture) if has_alpha else picture


def write_tiff(path: Path, values: NDArray[Any], picture: Picture, note: str) -> None:
    """Write a TIFF file: three channels as RGB, others as planes, so that every program can show them."""
    axes = ["Y", "X"]
    named = ((picture.channel_axis, "C"), (picture.stack_axis, "Z"))
    for axis, name in sorted((axis, name) for axis, name in named if axis is not None):
        axes.insert(axis, name)
    colour = axes[-1] == "C" and values.shape[-1] == 3
    if not colour:
        order = [axes.index(name) for name in "ZCYX" if name in axes]
        values, axes = np.ascontiguousarray(values.transpose(order)), [axes[i] for i in order]
    library("tifffile", "images").imwrite(
        path,
        values,
        photometric="rgb" if colour else "minisblack",
        metadata={"axes": "".join(axes)},
    )
