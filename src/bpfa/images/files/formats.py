"""The formats of image files, and which images each of them can hold."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa.data.formats.files import existing_path, name_file_in_errors
from bpfa.data.formats.text import TEXT_SUFFIXES, text_suffix
from bpfa.images.files.hyperspy import read_hspy, write_hspy
from bpfa.images.files.microscopes import PLUGINS, read_microscope, read_zspy
from bpfa.images.files.picture import Picture
from bpfa.images.files.pillow import read_pillow, write_jpeg, write_png
from bpfa.images.files.tiff import read_tiff, write_tiff

__all__ = ["JPEG", "check_target", "read_image", "write_image"]


class Format(NamedTuple):
    """How files of one format are read and written."""

    read: Callable[[Path], Picture]
    write: Callable[[Path, NDArray[Any], Picture, str], None] | None
    """None if files of this format are only read."""
    dtypes: tuple[str, ...] | None = None
    """Types of the values that a grey or RGB image may have; None allows any type and any shape."""


def read_image(path: str | os.PathLike[str]) -> Picture:
    """Read an image, and what the file says about its axes.

    In an alpha channel, 0 marks a missing pixel and the largest value an observed one. Pixels that are partly
    transparent are refused, because it is not clear what should become of them.

    Parameters
    ----------
    path : path
        .png, .jpg, .jpeg, .tif, .tiff, .npy or .hspy; with RosettaSciIO also .dm3, .dm4, .emd, .mrc and .ser,
        and with Zarr .zspy.

    Examples
    --------
    >>> read_image("picture.bmp")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: picture.bmp: suffix '.bmp'; expected an image: .png .jpg ... .ser
    """
    form, path = _format(path), existing_path(path)
    if path.is_dir() and path.suffix.lower() != ".zspy":
        raise ValueError(f"{path}: a folder; expected an image file")
    picture = form.read(path)
    values = picture.values
    if values.dtype.kind not in "fiub" or values.ndim < 2 or 0 in values.shape:
        raise ValueError(f"{path}: {values.dtype} of shape {values.shape}; expected an image of real numbers")
    if values.dtype == bool:
        return replace(picture, values=values.astype(np.uint8) * 255)
    return picture


def check_target(path: str | os.PathLike[str], picture: Picture, dtype: Any = None) -> None:
    """Check that a file can hold the values of a picture, before they are computed.

    Parameters
    ----------
    path : path
    picture : Picture
    dtype : dtype, optional
        Type of the values; that of the picture by default.
    """
    suffix, form = Path(path).suffix.lower(), _format(path)
    if form.write is None:
        raise ValueError(f"{path}: {suffix} files are only read; expected .hspy, .tif or .npy")
    name = np.dtype(picture.values.dtype if dtype is None else dtype).name
    if form.dtypes is not None:
        way_out = "expected .tif or .npy for these values"
        if name not in form.dtypes:
            raise ValueError(
                f"{path}: {name} values, but {suffix} holds {' and '.join(form.dtypes)}; {way_out}"
            )
        if picture.stack_axis is not None or picture.n_channels not in (1, 3):
            raise ValueError(
                f"{path}: shape {picture.values.shape}, but {suffix} holds grey or RGB; {way_out}"
            )
        if name == "uint16" and picture.n_channels == 3:
            raise ValueError(f"{path}: 16-bit colours, but {suffix} is written with 8 bits; {way_out}")
    if suffix == ".hspy" and not _has_axes(picture):
        raise ValueError(
            f"{path}: a .hspy file has the axes of one, of a file of a microscope or of a grey TIFF, which "
            f"{picture.path} is not; expected .tif or .npy"
        )


def _has_axes(picture: Picture) -> bool:
    """Return whether the file of a picture says enough about its axes for a .hspy file."""
    if picture.path.suffix.lower() == ".hspy" or picture.signal is not None:
        return True
    return picture.notes is not None and picture.channel_axis is None


def write_image(path: str | os.PathLike[str], values: NDArray[Any], picture: Picture, note: str) -> None:
    """Write an image that has new values, and everything else from a picture that was read.

    Parameters
    ----------
    path : path
    values : array
        Of the same shape as the picture.
    picture : Picture
        Gives the axes. For a .hspy file, everything but the values is copied from the file of this picture,
        and the axes and units from a TIFF file.
    note : str
        What has been done to the image, for the notes in a .hspy file.
    """
    write = _format(path).write
    assert write is not None
    if picture.detector is not None:
        values = values.reshape(*values.shape[:-1], *picture.detector)
    write(Path(path), values, picture, note)


def _read_npy(path: Path) -> Picture:
    with name_file_in_errors(path), open(path, "rb") as stream:
        return Picture(path, np.load(stream, allow_pickle=False))


def _write_npy(path: Path, values: NDArray[Any], picture: Picture, note: str) -> None:
    with open(path, "wb") as stream:
        np.save(stream, values)


JPEG = (".jpg", ".jpeg")
FORMATS = {
    ".png": Format(read_pillow, write_png, ("uint8", "uint16")),
    ".jpg": Format(read_pillow, write_jpeg, ("uint8",)),
    ".jpeg": Format(read_pillow, write_jpeg, ("uint8",)),
    ".tif": Format(read_tiff, write_tiff),
    ".tiff": Format(read_tiff, write_tiff),
    ".npy": Format(_read_npy, _write_npy),
    ".hspy": Format(read_hspy, write_hspy),
    ".zspy": Format(read_zspy, None),
    **dict.fromkeys(PLUGINS, Format(read_microscope, None)),
}
TABLES = (".npz", ".parquet", ".h5", ".hdf5", ".h5ad", ".zarr", ".fcs")


def _format(path: str | os.PathLike[str]) -> Format:
    suffix = Path(path).suffix.lower()
    if suffix in FORMATS:
        return FORMATS[suffix]
    is_table = suffix in TABLES or text_suffix(path) in TEXT_SUFFIXES
    table = " (tables: bpfa fit, bpfa impute)" if is_table else ""
    raise ValueError(f"{path}: suffix {suffix!r}; expected an image: {' '.join(FORMATS)}{table}")
