"""HyperSpy's .hspy files: HDF5 files with the data of a signal, its axes and its metadata."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bpfa._support.optional import library
from bpfa.data.formats.files import name_file_in_errors
from bpfa.images.files.microscopes import write_signal
from bpfa.images.files.picture import Picture
from bpfa.images.files.tiff_axes import signal_of_tiff

__all__ = ["read_hspy", "write_hspy"]


def read_hspy(path: Path) -> Picture:
    """Read a file that holds one signal; the axes that were scanned tell a spectrum image from a stack."""
    with name_file_in_errors(path), library("h5py", "hdf5").File(path, "r") as file:
        signals = list(file["Experiments"].values()) if "Experiments" in file else []
        names = [signal.name.rpartition("/")[2] for signal in signals]
        if len(signals) == 1:
            values = signals[0]["data"][()]
            scanned = [bool(signals[0][f"axis-{axis}"].attrs["navigate"]) for axis in range(values.ndim)]
    if len(names) != 1:
        raise ValueError(f"{path}: {len(names)} signals {names}; expected a file with one")
    return Picture.of_scan(path, values, scanned)


def write_hspy(path: Path, values: NDArray[Any], picture: Picture, note: str) -> None:
    """Write a copy of the file that a picture came from, with new values and a note about them."""
    if picture.notes is not None:
        picture = replace(picture, signal=signal_of_tiff(picture))
    if picture.signal is not None:
        write_signal(path, values, picture, note)
        return
    shutil.copyfile(picture.path, path)
    with library("h5py", "hdf5").File(path, "r+") as file:
        signal = next(iter(file["Experiments"].values()))
        stored = signal["data"]
        if stored.dtype == values.dtype:
            stored[...] = values
        else:
            kept = {"chunks": stored.chunks, "compression": stored.compression}
            del signal["data"]
            signal.create_dataset("data", data=values, **kept)
        general = signal.require_group("metadata/General")
        notes = str(general.attrs.get("notes", ""))
        general.attrs["notes"] = f"{notes}\n{note}".strip()
