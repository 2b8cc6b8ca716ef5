"""Signals that end a fit in the way that Ctrl-C does: the fit is saved first."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = [
    "INTERRUPTED",
    "SIGNALS",
    "EndedBySignal",
    "EndedWithOutput",
    "interrupted_by_signals",
    "status_of",
]

# Sent by batch systems and on shutdown, and when the terminal is closed. Windows has no SIGHUP.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

INTERRUPTED = 130
"""The exit status of a program that Ctrl-C has ended."""


def status_of(number: int) -> int:
    """Return the exit status of a program that a signal has ended, by the convention of shells.

    Examples
    --------
    >>> status_of(15)
    143
    """
    return 128 + number


class EndedBySignal(KeyboardInterrupt):
    """An interrupt by a signal other than that of Ctrl-C.

    Parameters
    ----------
    number : int
        Number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = status_of(number)


class EndedWithOutput(Exception):
    """A command was interrupted, but has written its output and said so.

    Parameters
    ----------
    status : int
        The exit status of the program.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise `EndedBySignal`, a kind of KeyboardInterrupt, within the block.

    A signal that is ignored, as under nohup, stays ignored. After the first signal further ones are ignored
    until the end of the block, so that they do not disturb the saving.

    Examples
    --------
    >>> try:
    ...     with interrupted_by_signals():
    ...         signal.raise_signal(signal.SIGTERM)
    ... except KeyboardInterrupt as interrupt:
    ...     print(interrupt, interrupt.status)
    SIGTERM 143
    """
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may set handlers.
        yield
        return
    terminals = [handle for handle in (1, 2) if os.isatty(handle)]

    def end(number: int, frame: FrameType | None) -> None:
        for heeded in before:
            signal.signal(heeded, signal.SIG_IGN)
        if number != signal.SIGTERM:
            # The terminal is gone. Writing to it would be an error, which would prevent the saving.
            for handle in terminals:
                os.dup2(os.open(os.devnull, os.O_WRONLY), handle)
        raise EndedBySignal(number)

    before = {number: signal.getsignal(number) for number in SIGNALS}
    before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    try:
        for number in before:
            signal.signal(number, end)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
