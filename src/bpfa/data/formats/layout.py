"""How a table is laid out in a text file, found out from its first lines."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from bpfa.data.formats.text import (
    TEXT_SUFFIXES,
    kind_of_field,
    name_text_file_in_errors,
    open_text,
    records,
    text_suffix,
)

__all__ = ["Layout", "find_layout"]

SEPARATORS = (",", ";", "\t", "|", " ")
# Words for separators that are awkward to write.
SEPARATOR_WORDS = {"tab": "\t", "\\t": "\t", "space": " "}
# How much of a file is looked at: at most 200 lines, and no further line after a million characters, but at
# least four lines.
MOST_LINES, MOST_CHARACTERS, FEWEST_LINES = 200, 2**20, 4
# So many numbers are rarely in order by chance.
MANY = 8
NUMBERS = ("integer", "point", "comma", "number", "boolean")


@dataclass(frozen=True)
class Layout:
    """How a table is laid out in a text file.

    Parameters
    ----------
    separator : str
        Stands between two fields; a space stands for any number of spaces and tabs.
    decimal : {".", ","}
    header : bool
        Whether the first record holds the names of the columns.
    header_line : int
        The number of the line where the header begins; 0 without a header.
    short_header : bool
        Whether the header has no field above the first column, which holds names of rows, as R writes it.
    written : tuple of str
        The names of the columns as they are in the header: empty for a column without a name.
    labels : tuple of str
        Different names for all columns: "Unnamed: 3" for the fourth if it has no name, "a.1" for the second
        column that is called "a", and "0", "1", ... if there is no header.
    text : frozenset of int
        Columns in which the first lines hold text.
    mostly_text : frozenset of int
        Columns of which most entries in the first lines that are not missing are text: single ones are more
        likely errors.
    line_end : str
        How lines end in the file.
    found : tuple of str
        What was found out, and is not what one would expect of such a file, in words.
    """

    separator: str
    decimal: str
    header: bool
    header_line: int
    short_header: bool
    written: tuple[str, ...]
    labels: tuple[str, ...]
    text: frozenset[int]
    mostly_text: frozenset[int]
    line_end: str
    found: tuple[str, ...]

    @property
    def begins_with_text(self) -> bool:
        """Whether the first column holds text."""
        return 0 in self.mostly_text

    @property
    def n_skipped(self) -> int:
        """Number of records before the first row."""
        return int(self.header)


def find_layout(
    path: Path, separator: str | None = None, decimal: str | None = None, header: bool | None = None
) -> Layout:
    r"""Find out how a table is laid out; what is given is not looked for.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "genes.csv")
    ...     _ = path.write_text("gene;a;b\nTP53;1,5;2\nMYC;;0,5\n")
    ...     layout = find_layout(path)
    >>> layout.labels, layout.found
    (('gene', 'a', 'b'), ("separator ';'", 'decimal comma'))
    """
    _check_header(header)
    given, mark_given = _checked_separator(separator), _checked_decimal(decimal)
    usual = TEXT_SUFFIXES.get(text_suffix(path), ",")
    with name_text_file_in_errors(path):
        lines, whole = _first_lines(path)
        chosen = _best_separator(lines if whole else _unquoted(lines), usual) if given is None else given
        numbered = _records(lines, whole, chosen)
    if any("\0" in line for line in lines):
        raise ValueError(f"{path}: holds null characters, which text does not; expected a text file in UTF-8")
    if not numbered:
        raise ValueError(f"{path}: no line holds anything; expected a table")
    found = [] if given is not None or chosen == usual else [f"separator {_in_words(chosen)}"]
    rows = [fields for _, fields in numbered]
    kinds = [[kind_of_field(field) for field in fields] for fields in rows]
    mark = mark_given or _decimal(kinds)
    if mark_given is None and mark == ",":
        found.append("decimal comma")
    width, short = _width(path, rows, header)
    if short and width == 2 and chosen == "," and given is None:
        _refuse_decimal_commas(path, lines, kinds)
    text = _text_columns(kinds[1:], width)
    if header is None:
        header, numbers = (True, False) if short else _is_header(rows, kinds, width, text)
        if not header or numbers:
            found.append("the first line as the header" if header else "no header")
    if not header:
        text = _text_columns(kinds, width)
    written = _names(rows[0], width, short) if header else ("",) * width
    labels = _labels(written) if header else tuple(map(str, range(width)))
    if header:
        found += _renamed(written, labels)
    return Layout(
        separator=chosen,
        decimal=mark,
        header=bool(header),
        header_line=numbered[0][0] if header else 0,
        short_header=short,
        written=written,
        labels=labels,
        text=text,
        mostly_text=_mostly_text_columns(kinds[1:] if header else kinds, width),
        line_end="\r\n" if lines[0].endswith("\r\n") else "\n",
        found=tuple(found),
    )


def _checked_separator(separator: Any) -> str | None:
    if separator is None:
        return None
    if not isinstance(separator, str):
        raise TypeError(f"separator={separator!r}: expected text, such as ';'")
    character = SEPARATOR_WORDS.get(separator, separator)
    if len(character) != 1 or character.isalnum() or character in "\"'\r\n.+-":
        raise ValueError(
            f"separator={separator!r}: cannot stand between numbers; "
            "expected one character, such as ',' or ';', or 'tab' or 'space'"
        )
    return character


def _checked_decimal(decimal: Any) -> str | None:
    if decimal is not None and decimal not in (".", ","):
        raise ValueError(f"decimal={decimal!r}: expected '.' or ','")
    return None if decimal is None else str(decimal)


def _check_header(header: Any) -> None:
    if header is not None and not isinstance(header, bool):
        raise TypeError(f"header={header!r}: expected True, False or None")


def _in_words(separator: str) -> str:
    return {"\t": "tab", " ": "space"}.get(separator, repr(separator))


def _first_lines(path: Path) -> tuple[list[str], bool]:
    """Return the first lines of a file, and whether they are all of it."""
    lines: list[str] = []
    with open_text(path) as stream:
        n_characters = 0
        for line in stream:
            if len(lines) >= MOST_LINES or (n_characters > MOST_CHARACTERS and len(lines) >= FEWEST_LINES):
                return lines, False
            lines.append(line)
            n_characters += len(line)
    return lines or [""], True


def _records(lines: list[str], whole: bool, separator: str) -> list[tuple[int, list[str]]]:
    """Return the records of some lines, without the last one if it may have been cut."""
    found = list(records(lines, separator))
    return found if whole or len(found) < 2 else found[:-1]


def _unquoted(lines: list[str]) -> list[str]:
    """Return lines up to the last one after which no quotation mark is open."""
    open_after, count = [], 0
    for line in lines:
        count += line.count('"')
        open_after.append(count % 2 == 1)
    while len(lines) > 1 and open_after[len(lines) - 1]:
        lines = lines[:-1]
    return lines


def _best_separator(lines: list[str], usual: str) -> str:
    """Return the separator that divides lines into equally many fields, most of which are numbers."""
    best, best_score = usual, (False, 0.0, False, False)
    for separator in (usual, *(other for other in SEPARATORS if other != usual)):
        try:
            rows = [fields for _, fields in records(lines, separator, strict=True)]
        except csv.Error:
            # With another separator, quotation marks are in the wrong places, or fields are too long.
            continue
        data = rows[1:] or rows
        width, count = Counter(map(len, data)).most_common(1)[0] if data else (0, 0)
        if width < 2:
            continue
        fields = [field for row in data for field in row]
        kinds = [kind_of_field(field) for field in fields]
        regular = len(rows[0]) in (width, width - 1) and 10 * count >= 9 * len(data)
        share = 1 - kinds.count("text") / len(kinds)
        texts = (field for field, kind in zip(fields, kinds, strict=True) if kind == "text")
        divided = not any(mark in field for field in texts for mark in ";\t|")
        score = (regular, share, len(rows[0]) == width, divided)
        # A file of which no field is a number shows nothing.
        if any(kind in NUMBERS for kind in kinds) and score > best_score:
            best, best_score = separator, score
    return best


def _decimal(kinds: list[list[str]]) -> str:
    """Return the decimal mark that most numbers have which have one."""
    counts = Counter(kind for row in kinds for kind in row)
    return "," if counts["comma"] > counts["point"] else "."


def _width(path: Path, rows: list[list[str]], header: bool | None) -> tuple[int, bool]:
    """Return the number of columns, and whether the header has one field less because it names no index."""
    data = rows[1:] or rows
    width = Counter(map(len, data)).most_common(1)[0][0]
    ends_empty = width > 1 and all(row[-1] == "" for row in data if len(row) == width)
    if header is not False and len(rows[0]) == width - 1:
        # Either the lines end with a separator, or the first field of the header is left out.
        return (width - 1, False) if ends_empty else (width, True)
    if ends_empty and len(rows[0]) == width and rows[0][-1] == "":
        return width - 1, False
    n_names, longest = len(rows[0]), max(map(len, data))
    while n_names > longest and rows[0][n_names - 1] == "":
        n_names -= 1
    if header is not False and (n_names > longest or n_names < width - 1):
        raise ValueError(
            f"{path}: the first line has {n_names} fields, and the next ones have {width}; "
            "expected one name for each column, or another separator=..."
        )
    return max(width, n_names), False


def _refuse_decimal_commas(path: Path, lines: list[str], kinds: list[list[str]]) -> None:
    """Refuse lines such as 1,5 under a single name, which may be one number or two."""
    if not any('"' in line for line in lines) and all(kind == "integer" for row in kinds[1:] for kind in row):
        raise ValueError(
            f"{path}: lines such as {lines[-1].strip()!r} under one name may hold one number or two; "
            "expected separator=';' for decimal commas, or separator=',' for row names"
        )


def _text_columns(kinds: list[list[str]], width: int) -> frozenset[int]:
    """Return the columns in which some field is neither a number nor missing."""
    return frozenset(at for row in kinds for at, kind in enumerate(row[:width]) if kind == "text")


def _mostly_text_columns(kinds: list[list[str]], width: int) -> frozenset[int]:
    """Return the columns of which most known entries are text."""
    known = [[row[at] for row in kinds if at < len(row) and row[at] != "missing"] for at in range(width)]
    return frozenset(at for at, column in enumerate(known) if 2 * column.count("text") > len(column))


def _is_header(
    rows: list[list[str]], kinds: list[list[str]], width: int, text: frozenset[int]
) -> tuple[bool, bool]:
    """Return whether the first record names the columns, and whether these names look like numbers.

    It names them if it holds text in a column where the other records hold numbers. Frames without names have
    the header 0, 1, 2, ... If the table has row names, increasing integers are names too, such as years. So
    are many numbers in order, such as wavelengths, if no other record has its numbers in order.
    """
    first, first_kinds, others = rows[0], kinds[0], kinds[1:]
    numeric = [at for at in range(min(width, len(first))) if at not in text]
    if any(first_kinds[at] == "text" for at in numeric):
        return True, False
    known = [at for at in numeric if first_kinds[at] != "missing"]
    if not known:
        return bool(others) and not numeric, False
    if not others or any(first_kinds[at] == "boolean" for at in known):
        return False, False
    values = [float(first[at].replace(",", ".")) for at in known]
    # Among rows of integers, two integers that happen to be in order are more likely a row than names, unless
    # the corner above a full column is empty.
    telling = len(values) > 2 or any(kind in ("point", "comma", "number") for row in others for kind in row)
    telling |= first[0] == "" and all(row[0] != "missing" for row in others)
    telling &= all(first_kinds[at] == "integer" for at in known)
    counted = values == list(range(len(values))) and known in (numeric, numeric[1:])
    increasing = bool(text) and known == numeric and len(values) > 1 and values == sorted(set(values))
    if telling and (counted or increasing):
        return True, True
    if known != numeric or len(values) < MANY or not _in_order(values):
        return False, False
    return not any(_in_order(_numbers(*pair)) for pair in zip(rows[1:], others, strict=True)), True


def _numbers(fields: list[str], kinds: list[str]) -> list[float]:
    pairs = zip(fields, kinds, strict=True)
    return [float(field.replace(",", ".")) for field, kind in pairs if kind in NUMBERS and kind != "boolean"]


def _in_order(values: list[float]) -> bool:
    """Return whether values increase, or decrease, throughout."""
    pairs = list(pairwise(values))
    return all(a < b for a, b in pairs) or all(a > b for a, b in pairs)


def _names(fields: list[str], width: int, short: bool) -> tuple[str, ...]:
    names = [field.strip() for field in (["", *fields] if short else fields)]
    return tuple((names + [""] * width)[:width])


def _labels(written: tuple[str, ...]) -> tuple[str, ...]:
    """Return different names for all columns, made as pandas makes them."""
    # A dictionary, because it keeps the order and finds a name at once.
    labels: dict[str, None] = {}
    counts, reserved = Counter[str](), set(written)
    for at, name in enumerate(written):
        label = name or f"Unnamed: {at}"
        while label in labels or (label != name and label in reserved):
            counts[name] += 1
            label = f"{name or f'Unnamed: {at}'}.{counts[name]}"
        labels[label] = None
    return tuple(labels)


def _renamed(written: tuple[str, ...], labels: tuple[str, ...]) -> list[str]:
    """Return in words which names were changed because an earlier column has the same."""
    pairs = zip(written, labels, strict=True)
    changed = [
        f"another column {name!r} is called {label!r}" for name, label in pairs if name not in ("", label)
    ]
    return changed if len(changed) <= 3 else [*changed[:2], f"{len(changed) - 2} more columns like that"]
