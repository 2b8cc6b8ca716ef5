"""Files of microscopes, read by RosettaSciIO: .dm3, .dm4, .emd, .mrc, .ser; and HyperSpy's .zspy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.optional import library
from bpfa.images.files.picture import Picture

__all__ = ["PLUGINS", "read_microscope", "read_zspy", "write_signal"]

PLUGINS = {
    ".dm3": "digitalmicrograph",
    ".dm4": "digitalmicrograph",
    ".emd": "emd",
    ".mrc": "mrc",
    ".ser": "tia",
}
"""The plugins of RosettaSciIO, by suffix."""


def read_microscope(path: Path) -> Picture:
    """Read a file that holds one signal, with its axes and metadata.

    Parameters
    ----------
    path : Path
        With one of the suffixes of `PLUGINS`.
    """
    plugin = library(f"rsciio.{PLUGINS[path.suffix.lower()]}", "microscopy")
    try:
        signals = plugin.file_reader(str(path))
    except Exception as error:
        # A reader of a file that is damaged, or not written to its end, may fail in any way.
        raise ValueError(f"{path}: cannot be read ({type(error).__name__}: {error})") from error
    if len(signals) != 1:
        titles = [signal["metadata"].get("General", {}).get("title", "") for signal in signals]
        raise ValueError(
            f"{path}: {len(signals)} signals {titles}; expected a file with one: load it with HyperSpy, and "
            "save the signal to be restored as .hspy"
        )
    signal = _Signal(np.array(signals[0]["data"]), [dict(axis) for axis in signals[0]["axes"]])
    for process in signals[0].get("post_process", ()):
        signal = process(signal) or signal
    return _picture(path, signal.data, {**signals[0], "axes": signal.axes})


class _Signal:
    """What a reader of RosettaSciIO needs of a signal to finish it: files store some axes in another order.

    Parameters
    ----------
    data : array
        In memory, where the reader may have mapped the file.
    axes : list of dict
        One for each axis of the data.
    """

    def __init__(self, data: NDArray[Any], axes: list[dict[str, Any]]) -> None:
        self.data, self.axes = data, axes

    def to_signal1D(self, optimize: bool = True) -> _Signal:
        """Return the signal with its first axis, the energies, as the last one; all others were scanned."""
        energy, *others = self.axes
        axes = [*({**axis, "navigate": True} for axis in others), {**energy, "navigate": False}]
        return _Signal(np.ascontiguousarray(np.moveaxis(self.data, 0, -1)), axes).numbered()

    def squeeze(self) -> _Signal:
        """Return the signal without axes of length 1."""
        axes = [axis for axis, n in zip(self.axes, self.data.shape, strict=True) if n > 1]
        return _Signal(self.data.squeeze(), axes).numbered()

    def numbered(self) -> _Signal:
        """Return the signal after noting in its axes where they are now."""
        for place, axis in enumerate(self.axes):
            if "index_in_array" in axis:
                axis["index_in_array"] = place
        return self


def read_zspy(path: Path) -> Picture:
    """Read a folder that HyperSpy has written in Zarr's format and that holds one signal.

    Parameters
    ----------
    path : Path
    """
    zarr = library("zarr", "zarr")
    try:
        signals = dict(zarr.open_group(str(path), mode="r")["Experiments"].groups())
        names = list(signals)
        if len(names) == 1:
            group = signals[names[0]]
            values = np.asarray(group["data"])
            axes = [dict(group[f"axis-{axis}"].attrs) for axis in range(values.ndim)]
            parts = {
                name: _nested(group[name]) for name in ("metadata", "original_metadata") if name in group
            }
    except Exception as error:
        raise ValueError(f"{path}: cannot be read ({type(error).__name__}: {error})") from error
    if len(names) != 1:
        raise ValueError(f"{path}: {len(names)} signals {names}; expected a file with one")
    return _picture(path, values, {"axes": axes, **parts})


def _nested(group: Any) -> dict[str, Any]:
    """Return the attributes of a group and of the groups in it."""
    return dict(group.attrs) | {name: _nested(inner) for name, inner in group.groups()}


def _picture(path: Path, values: NDArray[Any], signal: dict[str, Any]) -> Picture:
    scanned = [bool(axis.get("navigate")) for axis in signal["axes"]]
    return Picture.of_scan(
        path,
        values,
        scanned,
        signal={name: signal.get(name, {}) for name in ("axes", "metadata", "original_metadata")},
    )


def write_signal(path: Path, values: NDArray[Any], picture: Picture, note: str) -> None:
    """Write a .hspy file with new values, and with the axes and the metadata of a picture of a microscope.

    Parameters
    ----------
    path : Path
    values : array
    picture : Picture
        With a signal.
    note : str
        Added to the notes of the metadata.
    """
    assert picture.signal is not None
    metadata = dict(picture.signal["metadata"])
    general = dict(metadata.get("General", {}))
    general["notes"] = f"{general.get('notes', '')}\n{note}".strip()
    import bpfa

    # Everything that HyperSpy's own dictionary of a signal contains.
    signal = {
        "package_info": {"package": "bpfa", "package_version": bpfa.__version__},
        "data": values,
        "axes": picture.signal["axes"],
        "metadata": metadata | {"General": general},
        "original_metadata": picture.signal["original_metadata"],
        "attributes": {"_lazy": False, "ragged": False},
        "tmp_parameters": {},
        "learning_results": {},
        "models": {},
    }
    library("rsciio.hspy", "microscopy").file_writer(str(path), signal, show_progressbar=False)
