"""Progress bars: drawn by rich in terminals and notebooks, and silent everywhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from bpfa._support.optional import library

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

__all__ = ["ProgressBar", "open_bar", "tracked"]

Item = TypeVar("Item")


class ProgressBar:
    """A progress bar, or a silent stand-in for one where nothing is drawn; made by `open_bar`."""

    def __init__(self, display: Progress | None = None, task: TaskID | None = None) -> None:
        self._display, self._task = display, task

    @property
    def drawn(self) -> bool:
        """Whether there is a bar to see, so that it is worth computing what it shows."""
        return self._display is not None

    def advance(self, amount: float = 1.0) -> None:
        """Move the bar forward."""
        if self._display is not None and self._task is not None:
            self._display.advance(self._task, amount)

    def update(self, completed: float, text: str) -> None:
        """Move the bar to a place between 0 and the total, and write a text to its right."""
        if self._display is not None and self._task is not None:
            self._display.update(self._task, completed=completed, text=text)


@contextmanager
def open_bar(
    description: str,
    total: float | None,
    *,
    shown: bool = True,
    text: str | None = None,
    percentage: bool = False,
    console: Console | None = None,
) -> Iterator[ProgressBar]:
    """Show a progress bar while the block runs.

    Parameters
    ----------
    description : str
        Written to the left of the bar.
    total : float or None
        Where the bar ends. None, if that is not known, shows a spinner and the time that has passed.
    shown : bool
        False draws nothing, and does not need rich.
    text : str, optional
        Written to the right of the bar at first; see `ProgressBar.update`. Without it there is no such text.
    percentage : bool
        Show the percentage too, and at the end the time it took.
    console : rich.console.Console, optional
        Standard error by default, so that what a program prints to standard output stays clean. Nothing is
        drawn unless it is a terminal or a notebook.

    Yields
    ------
    ProgressBar

    Examples
    --------
    >>> with open_bar("counting", total=3, shown=False) as bar:
    ...     for number in range(3):
    ...         bar.advance()
    """
    if not shown:
        yield ProgressBar()
        return
    purpose = "verbose=1 shows a progress bar with rich"
    rich = library("rich.progress", "progress", purpose=purpose)
    console = console or library("rich.console", "progress", purpose=purpose).Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield ProgressBar()
        return
    columns = _columns(rich, bounded=total is not None, text=text is not None, percentage=percentage)
    with rich.Progress(*columns, console=console) as display:
        yield ProgressBar(display, display.add_task(description, total=total, text=text))


def tracked(items: Sequence[Item], description: str, *, shown: bool = True) -> Iterator[Item]:
    """Yield items one after another, while a bar shows how many have been dealt with.

    Examples
    --------
    >>> sum(tracked([1, 2, 3], "adding", shown=False))
    6
    """
    with open_bar(description, len(items), shown=shown, percentage=True) as bar:
        for item in items:
            yield item
            bar.advance()


def _columns(rich: Any, *, bounded: bool, text: bool, percentage: bool) -> list[Any]:
    """Return the parts of a bar from left to right."""
    description = rich.TextColumn("{task.description}")
    if not bounded:
        return [rich.SpinnerColumn(), description, rich.TimeElapsedColumn()]
    columns = [description, rich.BarColumn()]
    if percentage:
        columns.append(rich.TaskProgressColumn())
    columns.append(rich.TimeRemainingColumn(elapsed_when_finished=percentage))
    if text:
        columns.append(rich.TextColumn("{task.fields[text]}"))
    return columns
