"""TIFF files of any bit depth, with channels and stacks, and what they say about the size of a pixel."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.optional import library
from bpfa.data.formats.files import name_file_in_errors
from bpfa.images.files.picture import Picture, TiffNotes
from bpfa.images.files.pillow import without_alpha

__all__ = ["read_tiff", "write_tiff"]

# What ImageJ's metadata say about the layout of a file, which is written anew, and about the range of values
# that is shown, which would not suit a picture of standard deviations.
LAYOUT_OF_IMAGEJ = {"ImageJ", "images", "channels", "slices", "frames", "hyperstack", "axes"}
SHOWN_BY_IMAGEJ = {"min", "max", "Ranges"}
# The types of values that ImageJ can read.
TYPES_OF_IMAGEJ = ("uint8", "uint16", "float32")
# What an OME description says about the size of a pixel and the time between two frames.
SIZES_IN_OME = [f"PhysicalSize{axis}{unit}" for axis in "XYZ" for unit in ("", "Unit")]
SIZES_IN_OME += ["TimeIncrement", "TimeIncrementUnit"]


def read_tiff(path: Path) -> Picture:
    """Read the first image of a TIFF file; pages that belong together are read as a stack."""
    tifffile = library("tifffile", "images")
    with name_file_in_errors(path), tifffile.TiffFile(path) as file:
        series, n_series = file.series[0], len(file.series)
        values, axes = series.asarray(), series.axes
        has_alpha = bool(series.keyframe.extrasamples)
        ome = file.ome_metadata if file.is_ome else None
        notes = TiffNotes(
            axes,
            values.shape,
            values.dtype,
            resolution=_resolution(series.keyframe),
            imagej=_without_layout(file.imagej_metadata if file.is_imagej else None),
            # A description of several images, or of several files, does not fit one image in one file.
            ome=ome if ome and ome.count("<Image ") == 1 and "FileName=" not in ome else None,
        )
    if n_series > 1:
        warnings.warn(f"{path}: only the first of {n_series} images is read", stacklevel=2)
    channel = next((axis for axis, name in enumerate(axes) if name in "SC"), None)
    stack = next((axis for axis, name in enumerate(axes) if name not in "YXSC"), None)
    picture = Picture(path, values, channel, stack, notes=notes)
    return without_alpha(picture) if has_alpha else picture


def _resolution(page: Any) -> dict[str, Any]:
    """Return the resolution of a page as arguments of `tifffile.imwrite`."""
    found = [page.tags.get(name) for name in ("XResolution", "YResolution", "ResolutionUnit")]
    if any(tag is None for tag in found):
        return {}
    (x, per_x), (y, per_y), unit = (tag.value for tag in found)
    if not (x and per_x and y and per_y):
        return {}
    return {"resolution": (x / per_x, y / per_y), "resolutionunit": int(unit)}


def _without_layout(metadata: dict[str, Any] | None) -> dict[str, Any]:
    """Return what ImageJ notes about the image itself."""
    left_out = LAYOUT_OF_IMAGEJ | SHOWN_BY_IMAGEJ
    return {name: value for name, value in (metadata or {}).items() if name not in left_out}


def write_tiff(path: Path, values: NDArray[Any], picture: Picture, note: str) -> None:
    """Write a TIFF file: three channels as RGB, others as planes, so that every program can show them.

    If the picture was read from a TIFF file, its resolution is kept, and so is what ImageJ or OME notes about
    it, as far as that fits the values.
    """
    write = library("tifffile", "images").imwrite
    notes = picture.notes
    if notes is not None and notes.ome is not None and notes.fit(values):
        # Pages and samples are written as they were, so that the description is still right.
        photometric = "rgb" if notes.axes.endswith("S") else "minisblack"
        description = notes.ome.encode()
        write(
            path, values, photometric=photometric, metadata=None, description=description, **notes.resolution
        )
        return
    axes = _axes(picture)
    colour = axes[-1] == "C" and values.shape[-1] == 3
    if not colour:
        order = [axes.index(name) for name in "TZCYX" if name in axes]
        values, axes = np.ascontiguousarray(values.transpose(order)), [axes[i] for i in order]
    photometric, letters = "rgb" if colour else "minisblack", "".join(axes)
    try:
        described = _description(letters, values.dtype, notes, colour=colour)
        write(path, values, photometric=photometric, **described)
    except OSError:
        raise
    except Exception as error:
        # Whatever a foreign program has noted, the restored picture must not be lost because of it.
        warnings.warn(f"{picture.path}: its metadata are not kept ({error})", stacklevel=2)
        write(path, values, photometric=photometric, metadata={"axes": letters})


def _axes(picture: Picture) -> list[str]:
    """Return a letter for each axis of a picture. A stack consists of slices, unless its file says frames."""
    axes = ["Y", "X"]
    notes, stack = picture.notes, picture.stack_axis
    frames = notes is not None and stack is not None and notes.axes[stack] == "T"
    named = ((picture.channel_axis, "C"), (stack, "T" if frames else "Z"))
    for axis, name in sorted((axis, name) for axis, name in named if axis is not None):
        axes.insert(axis, name)
    return axes


def _description(axes: str, dtype: np.dtype[Any], notes: TiffNotes | None, *, colour: bool) -> dict[str, Any]:
    """Return the arguments of `tifffile.imwrite` by which a file is described."""
    if notes is None:
        return {"metadata": {"axes": axes}}
    # Colours of a pixel that are stored together are samples to ImageJ and OME, not channels.
    samples = axes.replace("C", "S") if colour else axes
    if notes.ome is not None:
        return {"ome": True, "metadata": _sizes_in(notes.ome) | {"axes": samples}} | notes.resolution
    if notes.imagej and dtype.name in (TYPES_OF_IMAGEJ[:1] if colour else TYPES_OF_IMAGEJ):
        return {"imagej": True, "metadata": notes.imagej | {"axes": samples}} | notes.resolution
    return {"metadata": {"axes": axes}} | notes.resolution


def _sizes_in(ome: str) -> dict[str, Any]:
    """Return what an OME description says about the size of a pixel and the time between two frames."""
    pixels = library("tifffile", "images").xml2dict(ome)["OME"]["Image"]["Pixels"]
    return {name: pixels[name] for name in SIZES_IN_OME if name in pixels}
