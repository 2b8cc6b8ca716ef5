"""Text files of tables, as the commands write them: in the style of the file that was read."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa.data import RowNames, RowSource, TextRows
from bpfa.data.formats.text import MISSING, TEXT_SUFFIXES, encoding_of, open_text, records, text_suffix

__all__ = ["Style", "write_filled_text", "write_text"]

# Rows that are turned into text at a time.
BLOCK_ROWS = 4096


@dataclass(frozen=True)
class Style:
    """How a table is written to a text file.

    Parameters
    ----------
    separator : str
    decimal : {".", ","}
    line_end : str
    encoding : str
    header : bool
        Whether there is a header.
    short_header : bool
        Whether the header has no field above the names of rows, as R writes it.
    """

    separator: str
    decimal: str = "."
    line_end: str = "\n"
    encoding: str = "utf-8"
    header: bool = True
    short_header: bool = False

    @classmethod
    def like(cls, rows: RowSource, target: Path) -> Style:
        """Return the style of the text file that was read, as far as the target allows it."""
        usual = TEXT_SUFFIXES[text_suffix(target)]
        if not isinstance(rows, TextRows):
            return cls(usual)
        layout = rows.layout
        separator = ";" if layout.decimal == usual else usual
        if TEXT_SUFFIXES[text_suffix(rows.path)] == usual:
            separator = layout.separator
        return cls(
            separator,
            layout.decimal,
            layout.line_end,
            encoding_of(rows.path),
            layout.header,
            layout.short_header,
        )

    def with_header(self) -> Style:
        """Return the same style for a table with names of columns that no file had."""
        return replace(self, header=True)

    @contextmanager
    def writer(self, path: Path) -> Iterator[Any]:
        """Open a file for writing, compressed if its name says so, and yield a writer of records."""
        with open(path, "wb") as raw:
            # Without a name and a time in it, the same table gives the same file.
            compressed = (
                gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if text_suffix(path).endswith(".gz") else raw
            )
            with io.TextIOWrapper(compressed, encoding=self.encoding, newline="") as stream:
                yield csv.writer(stream, delimiter=self.separator, lineterminator=self.line_end)

    def number(self, value: float) -> str:
        """Return a number as text that gives back the same number; NaN is missing."""
        if isnan(value):
            return "NA" if self.separator == " " else ""
        return repr(value).replace(".", self.decimal)


def write_text(
    path: Path, values: NDArray[Any], names: list[str], row_names: RowNames | None, style: Style
) -> None:
    """Write a matrix with the names of its columns and rows."""
    labels = [] if row_names is None else list(row_names.labels)
    with style.writer(path) as writer:
        if style.header:
            writer.writerow(names if style.short_header and len(labels) == 1 else [*labels, *names])
        of_rows = iter(()) if row_names is None else zip(*row_names.values, strict=True)
        for first in range(0, len(values), BLOCK_ROWS):
            block = np.asarray(values[first : first + BLOCK_ROWS], dtype=np.float64).tolist()
            named = list(islice(of_rows, len(block))) or [()] * len(block)
            writer.writerows([*name, *map(style.number, row)] for name, row in zip(named, block, strict=True))


def write_filled_text(path: Path, rows: TextRows, filled: NDArray[Any], style: Style) -> None:
    """Write a text file again with its missing entries filled in; all other fields are copied as they are."""
    layout, n_rows = rows.layout, 0
    with style.writer(path) as writer, open_text(rows.path) as stream:
        for count, (_, fields) in enumerate(records(stream, layout.separator)):
            if count < layout.n_skipped:
                writer.writerow(fields)
                continue
            if n_rows == len(filled):
                raise ValueError(
                    f"{rows.path}: has more rows than before; expected a file that does not change"
                )
            fields += [""] * (len(layout.labels) - len(fields))
            for at, value in zip(rows.positions, filled[n_rows].tolist(), strict=True):
                if fields[at].strip() in MISSING and not isnan(value):
                    fields[at] = style.number(value)
            writer.writerow(fields)
            n_rows += 1
    if n_rows < len(filled):
        raise ValueError(f"{rows.path}: has fewer rows than before; expected a file that does not change")
