"""A progress bar for people: in terminals and notebooks, and silent in pipes and logs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from bpfa.fitting.history import History
from bpfa.fitting.limits import Limits

__all__ = ["Bar", "progress_bar"]


class Bar(Protocol):
    """What a fit tells a bar after every step."""

    def __call__(self, history: History, n_rows_seen: float) -> None:
        """Show the last line of the history."""


@contextmanager
def progress_bar(limits: Limits, *, verbose: int, console: Any = None) -> Iterator[Bar]:
    """Show a bar while the block runs: step, rows a second, noise, features, held-out score, time left.

    Parameters
    ----------
    limits : Limits
        Of the fit, which say how far it is.
    verbose : int
        0 shows nothing.
    console : rich.console.Console, optional
        Standard error by default, so that what a program prints stays clean.
    """
    if not verbose:
        yield _silent
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError as error:
        raise ImportError("verbose=1 shows a progress bar with rich: pip install 'bpfa[progress]'") from error
    console = console or Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield _silent
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[line]}"),
    )
    with Progress(*columns, console=console, transient=False) as display:
        task = display.add_task("bpfa", total=1.0, line="starting")

        def show(history: History, n_rows_seen: float) -> None:
            last = {name: values[-1] for name, values in history.lists.items()}
            rate = n_rows_seen / max(last["seconds"], 1e-9)
            line = (
                f"step {last['step']:,} · {rate:,.0f} rows/s · noise {last['noise_std']:.3g} · "
                f"{last['n_active']} features"
            )
            if history.scores:
                line += f" · held-out {history.scores[-1]:.4f}"
            display.update(task, completed=limits.share_done(int(last["step"]), last["seconds"]), line=line)

        yield show


def _silent(history: History, n_rows_seen: float) -> None:
    """Show nothing."""
