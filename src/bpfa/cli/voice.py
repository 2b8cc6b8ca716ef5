"""What a command says: one result on standard output, and progress and notes on standard error."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

import bpfa

__all__ = ["Voice"]


class Voice:
    """The way a command talks to its user.

    Parameters
    ----------
    quiet : bool
        Only errors are shown.
    as_json : bool
        The result is one JSON object.
    """

    def __init__(self, *, quiet: bool, as_json: bool) -> None:
        self.quiet, self.as_json = quiet, as_json
        self.errors = Console(stderr=True, quiet=quiet, highlight=False)
        self._began = time.perf_counter()
        if quiet:
            warnings.simplefilter("ignore")

    @property
    def verbose(self) -> int:
        """What the estimator calls it."""
        return 0 if self.quiet else 1

    @property
    def seconds(self) -> float:
        """Since the command began."""
        return time.perf_counter() - self._began

    def note(self, text: str) -> None:
        """Say something on the way."""
        self.errors.print(text, markup=False, soft_wrap=True)

    @contextmanager
    def bar(self, description: str, total: float | None) -> Iterator[Callable[[float], None]]:
        """Show a bar with the time left, or a clock when the total is not known, in a terminal."""
        unknown = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        known = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        columns = unknown if total is None else known
        hidden = self.quiet or not self.errors.is_terminal
        with Progress(*columns, console=self.errors, disable=hidden) as display:
            task = display.add_task(description, total=total)
            yield lambda amount: display.advance(task, amount)

    def result(self, command: str, document: dict[str, Any], *shown: RenderableType) -> None:
        """Say what came out: the document as JSON, or what is shown to people."""
        if self.as_json:
            versions = {"bpfa": bpfa.__version__, "numpy": np.__version__}
            whole = {"command": command, **document, "seconds": round(self.seconds, 3), "versions": versions}
            print(json.dumps(_plain(whole), allow_nan=False))
        elif not self.quiet:
            console = Console(highlight=False)
            for item in shown:
                console.print(item, markup=False, soft_wrap=isinstance(item, str))


def _plain(value: Any) -> Any:
    """Return what JSON can say: no arrays, paths or NaN."""
    if isinstance(value, dict):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
