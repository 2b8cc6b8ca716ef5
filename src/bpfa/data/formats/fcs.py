"""Events of an FCS file, the format of flow and mass cytometry."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import check_number
from bpfa._support.optional import library
from bpfa.data.formats.files import FileRows, even_chunk_edges, existing_path, name_file_in_errors

__all__ = ["FCSRows"]

# Names of channels that say something about the event rather than the cell, without spaces and signs.
ABOUT_THE_EVENT = frozenset(
    ("time", "hdrt", "eventlength", "celllength", "event", "eventnumber", "eventnum", "eventcount", "eventid")
)


class FCSRows(FileRows):
    """Events of an FCS file, each value x transformed to arcsinh(x / cofactor).

    Only the requested events are read, except from old files of integers, which are read as a whole. Gains
    and logarithmic scales that the file declares are undone first; compensation is not applied.

    Parameters
    ----------
    path : path
    channels : list of str, optional
        Channels to use, by the name of their marker ($PnS) or detector ($PnN), in this order. By default all
        channels are used that measure the cell: not the time, the length and the number of the event.
    cofactor : float, optional
        The usual values are 5 for mass cytometry and about 150 for fluorescence; None leaves the values
        unchanged.
    exclude : list of str, optional
        Channels to leave out in addition, by the name of their marker or detector.

    See Also
    --------
    bpfa.open_rows : Open a file, a frame or several of them.
    bpfa.data.FileRows : The base of sources that are files.

    Examples
    --------
    >>> import flowio, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(f"{folder}/cells.fcs", "wb") as file:
    ...         _ = flowio.create_fcs(file, [0.0, 5.0, 10.0, 50.0], ["Er167Di", "Nd142Di"], ["CD4", "CD8"])
    ...     rows = FCSRows(f"{folder}/cells.fcs", channels=["CD8"])
    ...     rows.column_names, rows.take(np.array([0])).values
    (['CD8'], array([[0.8813736]], dtype=float32))
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        channels: Sequence[str] | None = None,
        cofactor: float | None = 5.0,
        exclude: Sequence[str] | None = None,
    ) -> None:
        self.cofactor = (
            None if cofactor is None else check_number("cofactor", cofactor, low=0.0, open_low=True)
        )
        self._path = existing_path(path)
        flowio = library("flowio", "fcs")
        with name_file_in_errors(path), open(path, "rb") as stream:
            self._head = flowio.FlowData(stream, only_text=True)
            self._type, self._offset = _layout(self._head)
            n_events, n_channels = int(self._head.event_count), int(self._head.channel_count)
            detectors = [str(name) for name in self._head.pnn_labels]
            markers = [str(name).strip() or detectors[i] for i, name in enumerate(self._head.pns_labels)]
        kept = _measuring(markers, detectors) if channels is None else ()
        self._columns = _positions(str(path), "channels", channels, markers, detectors) or list(kept)
        left_out = _positions(str(path), "exclude", exclude, markers, detectors)
        self._columns = [column for column in self._columns if column not in left_out]
        super().__init__(
            str(path),
            (n_events, len(self._columns)),
            np.dtype(np.float32),
            column_names=[markers[column] for column in self._columns],
        )
        skipped = [markers[at] for at in range(n_channels) if channels is None and at not in kept]
        if skipped:
            self.reading = f"without {', '.join(skipped)}"
        # A read covers all channels of an event; and all events of a file of integers, whose width may vary.
        self.chunk_edges = even_chunk_edges(n_events, n_channels, 1 if self._type else n_events)

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        if self._type is None:
            # Many programs write the position of the last byte wrong by one.
            with open(self._path, "rb") as stream:
                file = library("flowio", "fcs").FlowData(stream, ignore_offset_error=True)
            first = start
        else:
            # The library applies the gains and scales: here to a copy of the header with only these events.
            file, first = copy.copy(self._head), 0
            width = int(file.channel_count)
            offset = self._offset + start * width * self._type.itemsize
            file.events = np.fromfile(self._path, self._type, (stop - start) * width, offset=offset)
        events: NDArray[np.float64] = file.as_array()[first : first + stop - start, self._columns]
        return events if self.cofactor is None else np.arcsinh(events / self.cofactor)


def _layout(head: Any) -> tuple[np.dtype[Any] | None, int]:
    """Return the type of the events and where they begin, or None if they are no plain matrix of floats."""
    order = {"1,2,3,4": "<", "4,3,2,1": ">"}.get(head.text["byteord"])
    width = {"f": "f4", "d": "f8"}.get(head.data_type.lower())
    if order is None or width is None or head.text["mode"].lower() != "l":
        return None, 0
    return np.dtype(order + width), int(
        head.header["data_start"] if head.version == "2.0" else head.text["begindata"]
    )


def _measuring(markers: list[str], detectors: list[str]) -> list[int]:
    """Return the positions of the channels that measure the cell, and not when or how long it was seen."""
    pairs = zip(markers, detectors, strict=True)
    return [at for at, names in enumerate(pairs) if not any(map(_is_about_the_event, names))]


def _is_about_the_event(name: str) -> bool:
    return "".join(filter(str.isalnum, name)).lower() in ABOUT_THE_EVENT


def _positions(
    path: str, argument: str, channels: Sequence[str] | None, markers: list[str], detectors: list[str]
) -> list[int]:
    """Return the positions of the named channels in the file."""
    if channels is None:
        return []
    if isinstance(channels, str):
        raise TypeError(f"{argument}={channels!r}: expected a list of names")
    positions = []
    for channel in channels:
        found = [i for i, names in enumerate(zip(markers, detectors, strict=True)) if channel in names]
        if len(found) != 1:
            known = ", ".join(
                f"{marker!r} ({detector})" for marker, detector in zip(markers, detectors, strict=True)
            )
            raise ValueError(
                f"{argument}: {channel!r} is the name of {len(found)} channels of {path}, which has {known}; "
                "expected the name of exactly one"
            )
        positions += found
    return positions
