"""Text files of tables: their records, and what a field of a record holds."""

from __future__ import annotations

import csv
import gzip
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.data.formats.files import name_file_in_errors

__all__ = ["MISSING", "TEXT_SUFFIXES", "kind_of_field", "open_text", "records", "text_suffix"]

# The kinds of text files, each with the separator that it usually has.
TEXT_SUFFIXES = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t"}
# What means a missing entry: the list of pandas, and marks without a letter or a digit.
MISSING = frozenset(
    (
        *("", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "NULL", "null", "None"),
        *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
        *("-", "--", "---", "\u2013", "\u2014", ".", "..", "...", "?"),
    )
)
BOOLEANS = {"TRUE": 1.0, "True": 1.0, "true": 1.0, "FALSE": 0.0, "False": 0.0, "false": 0.0}

INTEGER = re.compile(r"[+-]?\d+")
EXPONENT = r"([eE][+-]?\d+)?"
WITHOUT_MARK = re.compile(r"[+-]?(\d+e[+-]?\d+|inf|infinity)", re.IGNORECASE)
WITH_POINT = re.compile(rf"[+-]?(\d+\.\d*|\.\d+){EXPONENT}")
WITH_COMMA = re.compile(rf"[+-]?(\d+(,\d+)?|,\d+){EXPONENT}")


def kind_of_field(field: str) -> str:
    """Return what a field holds: "missing", "boolean", "text", or a number.

    Numbers are "integer"; "point" or "comma" if they have this decimal mark; and otherwise "number".

    Examples
    --------
    >>> [kind_of_field(field) for field in ("NA", "-", " 7", "1.5e3", "1,5", "1e3", "true", "TP53")]
    ['missing', 'missing', 'integer', 'point', 'comma', 'number', 'boolean', 'text']
    """
    field = field.strip()
    if field in MISSING:
        return "missing"
    if INTEGER.fullmatch(field):
        return "integer"
    if WITHOUT_MARK.fullmatch(field):
        return "number"
    if WITH_POINT.fullmatch(field):
        return "point"
    if WITH_COMMA.fullmatch(field):
        return "comma"
    return "boolean" if field in BOOLEANS else "text"


def text_suffix(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a path in lower case; that of a compressed text file has two parts.

    Examples
    --------
    >>> text_suffix("a/b.CSV.gz"), text_suffix("c.npy")
    ('.csv.gz', '.npy')
    """
    both = "".join(Path(path).suffixes[-2:]).lower()
    return both if both in TEXT_SUFFIXES else Path(path).suffix.lower()


@contextmanager
def name_text_file_in_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors about a text file into a ValueError that names the file."""
    try:
        with name_file_in_errors(path):
            yield
    except ValueError as error:
        if isinstance(cause := error.__cause__, UnicodeDecodeError):
            byte = cause.object[cause.start]
            raise ValueError(
                f"{path}: byte 0x{byte:02x} is not UTF-8 text; expected a file that is saved as UTF-8 "
                "(in Excel: 'CSV UTF-8')"
            ) from error
        raise


def open_text(path: str | os.PathLike[str]) -> TextIO:
    """Open a text file, which may be compressed, and may begin with a byte order mark."""
    if str(path).lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")


def encoding_of(path: str | os.PathLike[str]) -> str:
    """Return "utf-8-sig" if a text file begins with a byte order mark, which Excel needs, or else "utf-8"."""
    opener = gzip.open if str(path).lower().endswith(".gz") else open
    with opener(path, "rb") as stream:
        return "utf-8-sig" if stream.read(3) == b"\xef\xbb\xbf" else "utf-8"


def records(lines: Iterable[str], separator: str, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    r"""Yield the records of a table, each with the number of the line where it begins.

    Blank lines are skipped. A space as the separator stands for any number of spaces and tabs. With `strict`,
    quotation marks that do not enclose a field are an error.

    Examples
    --------
    >>> list(records(['a;"b;c"\n', "\n", "1;2\n"], ";"))
    [(1, ['a', 'b;c']), (3, ['1', '2'])]
    """
    spaced = separator == " "
    if spaced:
        lines = (line.strip().replace("\t", " ") for line in lines)
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=strict)
    line = 1
    for fields in reader:
        if len(fields) > 1 or (fields and fields[0].strip()):
            yield line, fields
        line = reader.line_num + 1


def number_parser(decimal: str) -> Callable[[str], float]:
    """Return a function from fields to numbers; NaN stands for missing, and anything else is a ValueError."""

    def parse(field: str) -> float:
        kind = kind_of_field(field)
        if kind in ("integer", "number", "point" if decimal == "." else "comma"):
            return float(field.replace(",", "."))
        if kind == "boolean":
            return BOOLEANS[field.strip()]
        if kind == "missing":
            return float("nan")
        raise ValueError(f"{field!r} is not a number")

    return parse


def parsed(
    path: Path, separator: str, n_skipped: int, positions: Sequence[int], decimal: str
) -> tuple[Array, set[int]]:
    """Return some columns of a text file as numbers, and which of these columns hold anything else.

    No library is needed. Fields that hold no numbers are NaN in the result.
    """
    parse, rows, texts = number_parser(decimal), [], set()
    with open_text(path) as stream:
        for count, (_, fields) in enumerate(records(stream, separator)):
            if count < n_skipped:
                continue
            row = np.full(len(positions), np.nan)
            for place, at in enumerate(positions):
                try:
                    row[place] = parse(fields[at]) if at < len(fields) else np.nan
                except ValueError:
                    texts.add(at)
            rows.append(row)
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(positions)), texts


def first_texts(
    path: Path, separator: str, n_skipped: int, positions: Sequence[int], decimal: str
) -> dict[int, tuple[str, int]]:
    """Return for each of these columns the first field that is not a number, if any, and its line."""
    parse = number_parser(decimal)
    found: dict[int, tuple[str, int]] = {}
    with open_text(path) as stream:
        for count, (line, fields) in enumerate(records(stream, separator)):
            if count < n_skipped:
                continue
            for at in positions:
                if at not in found and at < len(fields) and not _is_usable(parse, fields[at]):
                    found[at] = fields[at], line
            if len(found) == len(positions):
                break
    return found


def _is_usable(parse: Callable[[str], float], field: str) -> bool:
    """Return whether a field is missing or a number that can be stored; words for truth are not."""
    try:
        return not np.isinf(parse(field)) and kind_of_field(field) != "boolean"
    except ValueError:
        return False


def text_columns(path: Path, separator: str, n_skipped: int, positions: Sequence[int]) -> list[NDArray[Any]]:
    """Return some columns of a text file as they are written."""
    columns: list[list[str]] = [[] for _ in positions]
    with open_text(path) as stream:
        for count, (_, fields) in enumerate(records(stream, separator)):
            if count >= n_skipped:
                for column, at in zip(columns, positions, strict=True):
                    column.append(fields[at] if at < len(fields) else "")
    return [np.array(column, dtype=object) for column in columns]
