"""When a fit ends: after so many steps, so many seconds, or when held-out entries are predicted no better."""

from __future__ import annotations

from dataclasses import dataclass

from bpfa.fitting.history import History

__all__ = ["Limits"]

# A held-out score counts as better when it gains this many nats an entry.
SMALLEST_GAIN = 1e-4


@dataclass(frozen=True)
class Limits:
    """The limits of a fit; None is no limit.

    Parameters
    ----------
    max_steps : int or None
    max_time : float or None
        Seconds of training.
    patience : int or None
        Held-out scores in a row that may fail to be better than the best before them.

    Examples
    --------
    >>> Limits(max_steps=10, max_time=None, patience=None).reached(10, History())
    'max_steps'
    """

    max_steps: int | None
    max_time: float | None
    patience: int | None

    def reached(self, step: int, history: History) -> str | None:
        """Return the limit that ends the fit after this step, or None."""
        if self.max_steps is not None and step >= self.max_steps:
            return "max_steps"
        if self.max_time is not None and history.seconds >= self.max_time:
            return "max_time"
        if self.patience is not None and _stale(history.scores) >= self.patience:
            return "patience"
        return None

    def share_done(self, step: int, seconds: float) -> float:
        """Return how far the fit is on its way to the first limit, from 0 to 1."""
        shares = [0.0]
        if self.max_steps is not None:
            shares.append(step / self.max_steps)
        if self.max_time is not None:
            shares.append(seconds / self.max_time)
        return min(1.0, max(shares))


def _stale(scores: list[float]) -> int:
    """Count the scores since the last one that was better than all before it."""
    best, since = float("-inf"), 0
    for score in scores:
        if score > best + SMALLEST_GAIN:
            best, since = score, 0
        else:
            since += 1
    return since
