"""The table of the README and of the site's first page, taken from the pages of the benchmarks.

So it cannot disagree with them. `python -m benchmarks.readme` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.pages import ACCURACY
from experiments.markdown import END, text_table

Row = dict[str, str]

HEADINGS = ["task", "measure", "bpfa", "its 95 % intervals cover", "the best of the others"]


@dataclass(frozen=True)
class Task:
    """A line of that table: which table of which section it is taken from, and what counts there."""

    label: str
    section: str
    title: str
    """How the line above the table begins."""

    measure: str
    """The column that is compared."""

    unit: str
    better: Callable[[float], float]
    """What is to be as small as possible, given an entry of that column."""

    seconds: str = "seconds"
    ours: str = "bpfa"


def largest(value: float) -> float:
    """Return what to minimise if the largest value is the best."""
    return -value


def smallest(value: float) -> float:
    """Return what to minimise if the smallest value is the best."""
    return value


def _picture(label: str, title: str) -> Task:
    return Task(label, "images", f"**{title}**", "PSNR", "PSNR, dB", largest, ours="bpfa groups")


TASKS = (
    _picture("photographs with 20 % of their pixels", "20 % observed"),
    _picture("photographs with noise of 25 grey levels", "Noise 25"),
    _picture("photographs of few photons (peak 10)", "Poisson noise, peak 10"),
    Task(
        "24 proteins of 20,000 cells", "like_rows", "Cells", "MSE", "squared error", smallest, "CPU seconds"
    ),
    Task("the same", "like_rows", "Cells", "log-likelihood", "log-likelihood", largest, "CPU seconds"),
    Task("3,000 genes of 350 tumours", "wide", "Tumours, 350 x 3,000", "MSE", "squared error", smallest),
    Task(
        "1,000 genes of 500 cell lines", "wide", "Cell lines, 500 x 1,000", "MSE", "squared error", smallest
    ),
)


def rows_of_table(page: str, section: str, title: str) -> list[Row]:
    r"""Return the rows of the first table below a line of a section; the first column is called "who".

    Examples
    --------
    >>> page = "<!-- speed -->\nHere, today:\n\n| who | s |\n| --- | ---: |\n| bpfa | 3 |\n<!-- end -->"
    >>> rows_of_table(page, "speed", "Here")
    [{'who': 'bpfa', 's': '3'}]
    """
    found = re.search(rf"<!-- {section} -->(.*?){END}", page, flags=re.DOTALL)
    text = found[1] if found else ""
    begin = re.search(rf"^{re.escape(title)}.*$", text, flags=re.MULTILINE)
    if begin is None:
        raise ValueError(f"section {section!r}: no line begins with {title!r}; expected one above a table")
    lines = text[begin.end() :].lstrip("\n").split("\n\n")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    names = ["who", *cells[0][1:]]
    return [dict(zip(names, row, strict=True)) for row in cells[2:]]


def line_of(task: Task, page: str) -> list[str]:
    """Return a line of the table: our figure, and that of whoever does best among the others."""
    rows = [row for row in rows_of_table(page, task.section, task.title) if row[task.measure]]
    ours = next(row for row in rows if row["who"] == task.ours)
    others = [row for row in rows if not row["who"].startswith("bpfa")]
    best = min(others, key=lambda row: task.better(float(row[task.measure])))

    def shown(row: Row) -> str:
        seconds = row[task.seconds].replace(" on cuda", " s on a GPU")
        return f"{row[task.measure]} ({seconds if seconds.endswith('GPU') else seconds + ' s'})"

    return [
        task.label,
        task.unit,
        shown(ours),
        ours["95 %" if "95 %" in ours else "95 % covers"],
        f"{best['who']} {shown(best)}",
    ]


def markdown() -> str:
    """Return the table."""
    page = ACCURACY.read_text()
    return text_table(HEADINGS, [line_of(task, page) for task in TASKS])
