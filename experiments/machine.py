"""The machine that an experiment runs on, and how many threads it may use there."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from bpfa.backends.registry import backend_of

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables from which numerical libraries learn how many threads they may use."""


def processor() -> str:
    """Return the name of the processor, as far as the system gives it."""
    information = Path("/proc/cpuinfo")
    for line in information.read_text().splitlines() if information.exists() else []:
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor() or platform.machine()


def machine(device: str = "cpu") -> str:
    """Return the name of the processor and its number of cores, and of the device if it is another one."""
    named = f"{processor()}, {os.cpu_count()} cores"
    if device == "cpu":
        return named
    return f"{named}, {backend_of(device).description().split(';')[0]}"


def thread_option(device: str) -> dict[str, int]:
    """Return the option of `bpfa.algorithm` that leaves one thread to a process.

    Examples
    --------
    >>> thread_option("cpu"), thread_option("cuda")
    ({'n_jobs': 1}, {})
    """
    return {"n_jobs": 1} if device == "cpu" else {}


def thread_limit(n_threads: int) -> dict[str, str]:
    """Return the environment that gives numerical libraries this many threads.

    Examples
    --------
    >>> thread_limit(1)["OMP_NUM_THREADS"]
    '1'
    """
    return dict.fromkeys(THREAD_VARIABLES, str(n_threads))
