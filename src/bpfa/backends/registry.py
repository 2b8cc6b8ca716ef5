"""All backends by name; the only place where they are listed."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

from numpy.typing import NDArray

from bpfa._support.checks import check_choice
from bpfa.backends.cpu.backend import CpuBackend
from bpfa.backends.cuda.backend import CudaBackend
from bpfa.backends.numpy.backend import NumpyBackend
from bpfa.backends.protocol import Backend
from bpfa.data import RowSource
from bpfa.data import as_rows as rows_on_host

__all__ = ["BACKENDS", "array_like", "as_rows", "backend_of", "check_device", "on_device"]

BACKENDS: dict[str, Backend] = {
    backend.name: backend for backend in (CpuBackend(), NumpyBackend(), CudaBackend())
}
"""The backends by name. "numpy" is the readable specification, and many times slower than the others."""

PREFERRED = ("cuda", "cpu")
"""The backends that "auto" tries, in this order."""


def backend_of(device: str) -> Backend:
    """Return the backend of a device such as "cpu" or "cuda:1".

    Examples
    --------
    >>> backend_of("cpu").name
    'cpu'
    """
    return BACKENDS[device.split(":")[0]]


def check_device(device: Any) -> str:
    """Return the name of a device after checking it; "auto" becomes a GPU if one can be used, else the CPU.

    Examples
    --------
    >>> check_device("cpu")
    'cpu'
    """
    backend = BACKENDS.get(device.split(":")[0]) if isinstance(device, str) else None
    if backend is not None and backend.has_numbered_devices:
        return str(device)
    check_choice("device", device, ("auto", *BACKENDS))
    if device != "auto":
        return str(device)
    problems = {name: BACKENDS[name].problem() for name in PREFERRED}
    chosen = next(name for name, problem in problems.items() if problem is None)
    reasons = "".join(f", as {problem}" for problem in problems.values() if problem is not None)
    _tell_once(f"device='auto': {BACKENDS[chosen].description()}{reasons}")
    return chosen


@cache
def _tell_once(message: str) -> None:
    logging.getLogger("bpfa").info(message)


def on_device(data: Any) -> Backend | None:
    """Return the backend in whose memory an array is, or None if the data is in the memory of the host.

    Examples
    --------
    >>> on_device([[1.0, 2.0]]) is None
    True
    """
    return next((backend for backend in BACKENDS.values() if backend.owns(data)), None)


def as_rows(data: Any, missing: Any = None) -> RowSource:
    """Return data as a source of rows, as `bpfa.data.as_rows` does, including arrays on a device.

    Examples
    --------
    >>> as_rows([[1.0, 2.0]]).n_columns
    2
    """
    backend = on_device(data)
    if backend is None:
        return rows_on_host(data, missing)
    if missing is not None:
        raise ValueError(
            "missing: a mask can be given only with an array on the host; expected None, and NaN in the array"
        )
    return backend.rows_of(data)


def array_like(values: NDArray[Any], data: Any) -> Any:
    """Return values from the host as an array on the device that `data` is on, if it is on one.

    Examples
    --------
    >>> import numpy as np
    >>> array_like(np.ones(2), [1.0, 2.0])
    array([1., 1.])
    """
    backend = on_device(data)
    return values if backend is None else backend.array_like(values, data)
