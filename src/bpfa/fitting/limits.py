"""When a fit ends: after a number of steps, after some time, or when held-out scores stop improving."""

from __future__ import annotations

from dataclasses import dataclass

from bpfa.fitting.history import History

__all__ = ["Limits"]

# A held-out score counts as an improvement if it is higher by at least this many nats per entry.
LEAST_GAIN = 1e-4


@dataclass(frozen=True)
class Limits:
    """The limits of a fit. None means that there is no such limit.

    Parameters
    ----------
    max_steps : int or None
        Steps of training, or sweeps of the sampler.
    max_time : float or None
        Seconds of training.
    patience : int or None
        The fit ends after this many held-out scores in a row that are no better than the best before them.

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
        if self.patience is not None and _scores_since_best(history.scores) >= self.patience:
            return "patience"
        return None

    def share_done(self, step: int, seconds: float) -> float:
        """Return how much of the fit is done, from 0 to 1, judged by the limit that is nearest."""
        shares = [0.0]
        if self.max_steps is not None:
            shares.append(step / self.max_steps)
        if self.max_time is not None:
            shares.append(seconds / self.max_time)
        return min(1.0, max(shares))


def _scores_since_best(scores: list[float]) -> int:
    """Count the scores after the last one that improved on all before it."""
    best, since = float("-inf"), 0
    for score in scores:
        if score > best + LEAST_GAIN:
            best, since = score, 0
        else:
            since += 1
    return since
