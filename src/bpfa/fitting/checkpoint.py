"""Saving a fit while it runs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from bpfa._support.checks import check_integer, check_number

__all__ = ["Checkpoint"]


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
