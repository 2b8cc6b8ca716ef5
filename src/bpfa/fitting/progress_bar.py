"""The progress bar of a fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from bpfa._support.progress import open_bar
from bpfa.fitting.history import History
from bpfa.fitting.limits import Limits

__all__ = ["Bar", "progress_bar"]


class Bar(Protocol):
    """What a fit calls after every step to update its progress bar."""

    def __call__(self, history: History, n_rows_seen: float) -> None:
        """Show the last record of the history."""


@contextmanager
def progress_bar(limits: Limits, *, verbose: int, console: Any = None) -> Iterator[Bar]:
    """Show a progress bar while the block runs, with rate, noise, features in use, score and time left.

    Parameters
    ----------
    limits : Limits
        The limits of the fit, which determine how much of it is done.
    verbose : int
        0 shows nothing.
    console : rich.console.Console, optional
        Standard error by default. Nothing is drawn unless it is a terminal or a notebook.
    """
    with open_bar("bpfa", total=1.0, shown=bool(verbose), text="starting", console=console) as bar:

        def show(history: History, n_rows_seen: float) -> None:
            last = {name: values[-1] for name, values in history.lists.items()}
            share_done = limits.share_done(int(last["step"]), last["seconds"])
            bar.update(share_done, _summary(last, history.scores, n_rows_seen))

        # A bar that is not drawn must not read the history, which may mean waiting for a GPU.
        yield show if bar.drawn else _show_nothing


def _summary(last: dict[str, Any], scores: list[float], n_rows_seen: float) -> str:
    """Return the last record of the history in words."""
    rate = n_rows_seen / max(last["seconds"], 1e-9)
    summary = (
        f"step {last['step']:,} · {rate:,.0f} rows/s · noise {last['noise_std']:.3g} · "
        f"{last['n_active']} features"
    )
    return f"{summary} · held-out {scores[-1]:.4f}" if scores else summary


def _show_nothing(history: History, n_rows_seen: float) -> None:
    """Take the place of a bar that is not drawn."""
