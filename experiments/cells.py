"""Cells, the pieces in which an experiment is run, and the files in which their results are stored.

A cell is stored as soon as it is done, so that an experiment that was stopped can be resumed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bpfa._support.files import whole_file

Record = dict[str, Any]
"""What is stored of a cell: its name, settings, result and seconds, and the machine it ran on."""


class DataFile(NamedTuple):
    """A file of the data folder."""

    path: str
    """The path of the file, relative to the data folder."""
    origin: str
    """Where the file comes from."""

    def missing_from(self, folder: Path) -> str | None:
        """Return one line of text if the data folder does not have the file, otherwise None.

        Examples
        --------
        >>> DataFile("a.npz", "made by hand").missing_from(Path("/nowhere"))
        'left out: no /nowhere/a.npz, which is made by hand; --data names another folder'
        """
        path = folder / self.path
        if path.exists():
            return None
        return f"left out: no {path}, which is {self.origin}; --data names another folder"


@dataclass(frozen=True)
class Cell:
    """The unit that is run and stored: for example, one method on one data set with one seed."""

    name: str
    """The name of the cell, unique within its experiment."""
    settings: dict[str, Any] = field(compare=False)
    """Everything the result depends on; a stored cell with equal settings is not run again."""
    expected: float = 1.0
    """Seconds that the cell is expected to take at most."""
    group: str = ""
    """The cells of a group can share a budget of time."""
    needs: DataFile | None = None
    """The data file that the cell reads."""


class Context(NamedTuple):
    """Where a cell finds its data, where it can leave pictures, and which device it runs on."""

    data: Path
    output: Path
    device: str = "cpu"
    """The device of `bpfa.train` and `bpfa.algorithm`. It is no setting of a cell: its results agree up to
    rounding with those of another device, and are not computed again because of it."""


Run = Callable[[dict[str, Any], Context], dict[str, Any]]
"""A function from the settings of a cell to its result, both of which can be written as JSON."""


class Store:
    """The records of an experiment, in a JSON file with one line for each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[str, Record] = {}
        self.places: dict[str, int] = {}
        if path.exists():
            self.records = {record["name"]: record for record in json.loads(path.read_text())}

    def has(self, cell: Cell) -> bool:
        """Return whether the cell has been run with equal settings."""
        record = self.records.get(cell.name)
        # Compared after a round trip through JSON, which turns tuples into lists.
        return record is not None and record["settings"] == json.loads(json.dumps(cell.settings))

    def add(self, record: Record) -> None:
        """Store a record."""
        self.records[record["name"]] = record
        self._write()

    def plan(self, names: list[str]) -> None:
        """Set which cells the experiment has, and their order; the records of all others are deleted."""
        self.places = {name: place for place, name in enumerate(names)}
        if not self.records.keys() <= self.places.keys():
            self.records = {name: record for name, record in self.records.items() if name in self.places}
            self._write()

    def _write(self) -> None:
        self.records = dict(sorted(self.records.items(), key=lambda item: self.places.get(item[0], 0)))
        lines = ",\n".join(json.dumps(record, allow_nan=False) for record in self.records.values())
        write_whole(self.path, f"[\n{lines}\n]\n")


def write_whole(path: Path, text: str) -> None:
    """Write a file, which replaces an earlier one only once it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        temporary.write_text(text)


def write_results(path: Path, results: Any) -> None:
    """Write results as JSON."""
    write_whole(path, json.dumps(results, indent=1) + "\n")
