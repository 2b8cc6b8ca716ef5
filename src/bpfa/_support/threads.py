"""Threads: how many a parallel loop uses, and how libraries are kept from starting more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache

from threadpoolctl import ThreadpoolController

from bpfa._support import _native

__all__ = ["limited_threads", "one_blas_thread", "thread_count"]


def thread_count(n_jobs: int | None = None) -> int:
    """Return how many threads a parallel loop uses: `n_jobs`, or by default as many as OpenMP would.

    There are at most four threads for each processor, and only one in a forked child process, in which the
    threads of OpenMP do not exist.

    Examples
    --------
    >>> thread_count(1)
    1
    """
    return _native.thread_count(n_jobs or 0)


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
