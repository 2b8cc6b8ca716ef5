"""What a command prints: its result on standard output, and progress and notes on standard error."""

from __future__ import annotations

import json
import time
import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console, RenderableType

import bpfa
from bpfa._support.progress import ProgressBar, open_bar

__all__ = ["Messenger"]


class Messenger:
    """Brings a command's notes, progress and result to its user.

    Parameters
    ----------
    quiet : bool
        Show nothing but errors.
    as_json : bool
        Print the result as one JSON object.
    """

    def __init__(self, *, quiet: bool, as_json: bool) -> None:
        self.quiet, self.as_json = quiet, as_json
        self.errors = Console(stderr=True, quiet=quiet, highlight=False)
        self._began = time.perf_counter()
        if quiet:
            warnings.simplefilter("ignore")

    @classmethod
    def of(cls, context: typer.Context) -> Messenger:
        """Return the messenger that the options of a command ask for."""
        return cls(quiet=context.params["quiet"], as_json=context.params["as_json"])

    @property
    def verbose(self) -> int:
        """The parameter `verbose` of the estimator that fits `quiet`."""
        return 0 if self.quiet else 1

    @property
    def seconds(self) -> float:
        """Seconds since the command began."""
        return time.perf_counter() - self._began

    def note(self, text: str) -> None:
        """Print a note while the command runs."""
        self.errors.print(text, markup=False, soft_wrap=True)

    def bar(self, description: str, total: float | None) -> AbstractContextManager[ProgressBar]:
        """Show a progress bar with the time left; a spinner and a clock if the total is not known."""
        return open_bar(description, total, shown=not self.quiet, console=self.errors)

    def result(self, command: str, document: dict[str, Any], *shown: RenderableType) -> None:
        """Print the result: the document as JSON, or the other arguments for people to read."""
        if self.as_json:
            versions = {"bpfa": bpfa.__version__, "numpy": np.__version__}
            whole = {"command": command, **document, "seconds": round(self.seconds, 3), "versions": versions}
            print(json.dumps(_as_json(whole), allow_nan=False))
        elif not self.quiet:
            console = Console(highlight=False)
            for item in shown:
                console.print(item, markup=False, soft_wrap=isinstance(item, str))


def _as_json(value: Any) -> Any:
    """Return a value as JSON can express it: arrays as lists, paths as text, NaN and infinity as null."""
    if isinstance(value, dict):
        return {str(name): _as_json(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return _as_json(value.tolist())
    if isinstance(value, np.generic):
        return _as_json(value.item())
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
