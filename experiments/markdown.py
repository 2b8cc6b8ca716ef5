"""Markdown: tables, and pages in which some sections are written by a program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

END = "<!-- end -->"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose first column is aligned to the left and whose others are aligned to the right.

    Examples
    --------
    >>> print(table(["", "seconds"], [["bpfa", "3"]]))
    |  | seconds |
    | --- | ---: |
    | bpfa | 3 |
    """
    return _lines(headings, ["---"] + ["---:"] * (len(headings) - 1), rows)


def text_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Return a table of text, aligned to the left, in which a bar in a cell does not end the cell.

    Examples
    --------
    >>> print(text_table(["", "size"], [["f", "|f|"]]))
    |  | size |
    | --- | --- |
    | f | \|f\| |
    """
    escaped = ([cell.replace("|", r"\|") for cell in row] for row in rows)
    return _lines(headings, ["---"] * len(headings), escaped)


def _lines(headings: Sequence[str], alignment: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (headings, alignment, *rows))


def replace_section(page: str, name: str, content: str) -> str:
    r"""Return the page with new content between the marker `<!-- name -->` and the next end marker.

    A page without the marker is returned as it is.

    Examples
    --------
    >>> page = "Before.\n<!-- speed -->\nold\n<!-- end -->\nAfter."
    >>> print(replace_section(page, "speed", "new"))
    Before.
    <!-- speed -->
    new
    <!-- end -->
    After.
    """
    begin = f"<!-- {name} -->"
    pattern = re.escape(begin) + ".*?" + re.escape(END)
    return re.sub(pattern, lambda _: f"{begin}\n{content}\n{END}", page, flags=re.DOTALL)
