"""The memory that a worker frees after a part of a step, and needs again for the next one.

The nanny of a Dask worker starts it with MALLOC_TRIM_THRESHOLD_ in its environment, so that memory of
finished tasks goes back to the system. Then glibc returns every block of more than 128 KiB at once, and the
page faults of getting it back take a good part of the time of a step. They also slow down other workers of
the machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from bpfa._support import _native

__all__ = ["keep_freed_memory", "return_freed_memory"]

# Blocks below this size are kept. The largest ones of a step are the kernels' lists of features that are on,
# which have room for two million numbers. glibc takes no larger size than this.
KEPT_BLOCKS = 2**25
# The most bytes that are kept at the end of a heap.
KEPT_BYTES = 2**26
# What glibc does on its own.
GLIBC_DEFAULT = 2**17


def is_told_to_return(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether this process was started so that it returns freed memory at once.

    Examples
    --------
    >>> is_told_to_return({"MALLOC_TRIM_THRESHOLD_": "65536"}), is_told_to_return({})
    (True, False)
    """
    return "MALLOC_TRIM_THRESHOLD_" in environment or "MALLOC_MMAP_THRESHOLD_" in environment


def keep_freed_memory() -> None:
    """Keep freed memory of the size that steps need, even if this process was told to return it."""
    if is_told_to_return():
        _native.set_allocator(KEPT_BLOCKS, KEPT_BYTES)


def return_freed_memory() -> None:
    """Return freed memory as this process was told to."""
    if is_told_to_return():
        mapped, trimmed = (
            int(os.environ.get(f"MALLOC_{name}_THRESHOLD_", GLIBC_DEFAULT)) for name in ("MMAP", "TRIM")
        )
        _native.set_allocator(mapped, trimmed)
