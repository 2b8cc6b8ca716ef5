"""Saving a fit while it runs."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from bpfa._support.checks import check_integer, check_number

__all__ = ["Checkpoint"]

State = TypeVar("State")


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a fit is saved while it runs; it is also saved when it ends or is interrupted.

    Parameters
    ----------
    path : path-like
        The file. It is complete at all times: a save replaces the earlier file only when it is finished.
    every_steps : int, optional
        Steps between saves.
    every_minutes : float, optional
        Minutes between saves. The default is 5 if `every_steps` is not given either.

    See Also
    --------
    bpfa.BPFA.fit : Learn from a whole table.
    bpfa.BPFA.load : Read a model from a file.

    Examples
    --------
    >>> Checkpoint("model.bpfa", every_steps=100)
    Checkpoint(path='model.bpfa', every_steps=100, every_minutes=None)
    """

    path: str | os.PathLike[str]
    every_steps: int | None = None
    every_minutes: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", os.fspath(self.path))
        if self.every_steps is not None:
            check_integer("every_steps", self.every_steps, low=1)
        if self.every_minutes is not None:
            check_number("every_minutes", self.every_minutes, low=0.0)
        if self.every_steps is None and self.every_minutes is None:
            object.__setattr__(self, "every_minutes", 5.0)


def as_checkpoint(checkpoint: Checkpoint | str | os.PathLike[str] | None) -> Checkpoint | None:
    """Return a checkpoint as it is, and a path as a checkpoint that saves there every five minutes."""
    if checkpoint is None or isinstance(checkpoint, Checkpoint):
        return checkpoint
    return Checkpoint(checkpoint)


class Clock:
    """Decides when a save is due."""

    def __init__(self, checkpoint: Checkpoint, step: int) -> None:
        self.checkpoint = checkpoint
        self.saved(step)

    def due(self, step: int) -> bool:
        """Return whether the fit should be saved after this step."""
        steps, minutes = self.checkpoint.every_steps, self.checkpoint.every_minutes
        if steps is not None and step >= self.step + steps:
            return True
        return minutes is not None and time.monotonic() >= self.time + 60 * minutes

    def saved(self, step: int) -> None:
        """Restart the count of steps and minutes, after a save."""
        self.step, self.time = step, time.monotonic()


class Saver(Generic[State]):
    """Saves a fit while it runs and at its end. A save that fails costs a warning, and not the fit.

    Parameters
    ----------
    save : callable
        Saves a state of the fit. An OSError, for example because the disk is full, becomes a UserWarning.
    path : path-like
        Where it is saved, for the warning.
    """

    def __init__(self, save: Callable[[State], None], path: str | os.PathLike[str]) -> None:
        self._save, self._path, self._warned = save, path, False

    def while_running(self, state: State) -> None:
        """Save the fit, which goes on if this fails; only the first failure of a fit causes a warning."""
        self._try(state, "the fit goes on", warn=not self._warned)

    def at_the_end(self, state: State) -> None:
        """Save the result of the fit, and warn if this fails."""
        self._try(state, "the file does not hold the end of the fit", warn=True)

    def _try(self, state: State, consequence: str, *, warn: bool) -> None:
        try:
            self._save(state)
        except OSError as error:
            if warn:
                self._warned = True
                reason = str(error)
                where = "" if str(self._path) in reason else f"{self._path}: "
                warnings.warn(f"checkpoint not saved; {consequence} ({where}{reason})", stacklevel=4)
