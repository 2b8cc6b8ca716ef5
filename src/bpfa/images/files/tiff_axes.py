"""The axes of a TIFF file as HyperSpy describes them: names, sizes of a pixel, and units."""

from __future__ import annotations

from typing import Any

from bpfa._support.optional import library
from bpfa.images.files.picture import Picture, TiffNotes

__all__ = ["signal_of_tiff"]

NAMES = {"X": "x", "Y": "y", "Z": "z", "T": "time"}
# What `resolutionunit` says about centimetres. Inches are left out: they are how large a picture is printed.
CENTIMETRES = 3
MICRO = ("micron", "microns", "um", "\u03bcm", "\\u00B5m")
Step = tuple[float, str]
"""The distance of two pixels or frames, and its unit."""


def signal_of_tiff(picture: Picture) -> dict[str, Any]:
    """Return what a file of HyperSpy contains of a grey picture, or a stack, from a TIFF file.

    Parameters
    ----------
    picture : Picture
        With the notes of a TIFF file.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> notes = TiffNotes("YX", (4, 5), np.dtype(float), {"resolution": (4.0, 2.0)}, {"unit": "nm"})
    >>> axes = signal_of_tiff(Picture(Path("a.tif"), np.zeros((4, 5)), notes=notes))["axes"]
    >>> [(axis["name"], axis["scale"], axis["units"]) for axis in axes]
    [('y', 0.5, 'nm'), ('x', 0.25, 'nm')]
    """
    notes = picture.notes
    assert notes is not None
    steps = _steps_in_ome(notes) if notes.ome is not None else _steps_of_resolution(notes)
    axes = []
    for place, letter in enumerate(notes.axes):
        scale, units = steps.get(letter, (1.0, ""))
        axes.append(
            {
                "_type": "UniformDataAxis",
                "name": NAMES.get(letter, "stack"),
                "units": units,
                "scale": scale,
                "offset": 0.0,
                "size": picture.values.shape[place],
                "index_in_array": place,
                "navigate": place == picture.stack_axis,
                "is_binned": False,
            }
        )
    general = {"title": picture.path.stem, "original_filename": picture.path.name}
    return {"axes": axes, "metadata": {"General": general}, "original_metadata": {}}


def _steps_of_resolution(notes: TiffNotes) -> dict[str, Step]:
    """Return what ImageJ has noted, or else the resolution if it is one per centimetre."""
    x, y = notes.resolution.get("resolution", (0.0, 0.0))
    unit = notes.imagej.get("unit")
    if unit is None and notes.resolution.get("resolutionunit") == CENTIMETRES:
        unit = "cm"
    if unit is None or not (x and y):
        return {}
    units = "µm" if unit in MICRO else str(unit)
    steps = {"X": (1 / x, units), "Y": (1 / y, units)}
    if "spacing" in notes.imagej:
        steps["Z"] = float(notes.imagej["spacing"]), units
    if "finterval" in notes.imagej:
        steps["T"] = float(notes.imagej["finterval"]), str(notes.imagej.get("tunit", "s"))
    return steps


def _steps_in_ome(notes: TiffNotes) -> dict[str, Step]:
    """Return what the OME description says; the units there are micrometres and seconds by default."""
    pixels = library("tifffile", "images").xml2dict(notes.ome)["OME"]["Image"]["Pixels"]
    names = {"X": "PhysicalSizeX", "Y": "PhysicalSizeY", "Z": "PhysicalSizeZ", "T": "TimeIncrement"}
    usual = {"T": "s"}
    return {
        letter: (float(pixels[name]), str(pixels.get(f"{name}Unit", usual.get(letter, "µm"))))
        for letter, name in names.items()
        if name in pixels
    }
