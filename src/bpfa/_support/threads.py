"""Threads: how many a parallel loop uses, and how libraries are kept from starting more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

from bpfa._support import _native
from bpfa._support.checks import check_integer

__all__ = ["check_jobs", "limited_threads", "one_blas_thread", "thread_count"]


def check_jobs(n_jobs: Any) -> int | None:
    """Return a number of threads as scikit-learn counts them: -1 is all processors, -2 all but one.

    None stays None, which means the number of threads that OMP_NUM_THREADS and threadpoolctl determine.

    Examples
    --------
    >>> check_jobs(2), check_jobs(None), check_jobs(-1) >= 1
    (2, None, True)
    """
    if n_jobs is None:
        return None
    expected = f"n_jobs={n_jobs!r}: expected an integer >= 1, or -1 for all processors"
    try:
        number = check_integer("n_jobs", n_jobs, low=-(2**31))
    except (TypeError, ValueError) as error:
        raise type(error)(expected) from None
    if number == 0:
        raise ValueError(expected)
    return number if number > 0 else max(1, _processors() + 1 + number)


def _processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_count(n_jobs: int | None = None) -> int:
    """Return how many threads a parallel loop uses: `n_jobs`, or by default as many as OpenMP would.

    There are at most four threads for each processor, and only one in a forked child process, in which the
    other threads do not exist.

    Examples
    --------
    >>> thread_count(1)
    1
    """
    return _native.thread_count(check_jobs(n_jobs) or 0)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within the block, let BLAS and LAPACK use only the thread that calls them.

    Examples
    --------
    >>> with one_blas_thread():
    ...     [pool["num_threads"] for pool in _libraries().info() if pool["user_api"] == "blas"][0]
    1
    """
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@contextmanager
def limited_threads(n_threads: int | None) -> Iterator[None]:
    """Within the block, let OpenMP use at most `n_threads` threads; None sets no limit.

    This is for libraries that have no parameter for the number of threads.

    Examples
    --------
    >>> with limited_threads(1):
    ...     thread_count()
    1
    """
    with nullcontext() if n_threads is None else _libraries().limit(limits=n_threads, user_api="openmp"):
        yield


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
