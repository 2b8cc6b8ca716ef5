"""CUDA through CuPy: choosing a device, compiling kernels, keeping them on disk, and launching them."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bpfa._support.files import whole_file
from bpfa._support.optional import library

__all__ = [
    "CACHE_VARIABLE",
    "CurrentDevice",
    "as_kernel_arguments",
    "available_memory",
    "cache_folder",
    "card",
    "compiled",
    "cuda_problem",
    "cupy_module",
    "device_index",
    "kernel",
    "launch",
    "on_device",
    "source_text",
]

CACHE_VARIABLE = "BPFA_CACHE_DIR"
"""The environment variable that names the folder of compiled kernels; ~/.cache/bpfa by default."""

SOURCES = Path(__file__).parent / "kernels"
# "--use_fast_math" lets the hardware approximate functions in single precision; it does not affect double
# precision.
OPTIONS = ("--std=c++17", "--use_fast_math", "--device-as-default-execution-space")
# The compute capability of the oldest GPUs that the kernels are compiled for.
OLDEST = 7, 5


@cache
def cupy_module() -> Any:
    """Return CuPy, or raise an ImportError that says how to install it."""
    return library(
        "cupy",
        "cuda13",
        purpose="a GPU needs CuPy, which is not installed",
        alternative=", or 'bpfa[cuda12]' for a driver of CUDA 12",
    )


def cuda_problem(index: int = 0) -> str | None:
    """Return why a GPU cannot be used and what to do about it, or None if it can."""
    try:
        cupy = cupy_module()
    except ImportError as error:
        return str(error)
    try:
        n_devices = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        return (
            f"no GPU can be used ({error}): is the NVIDIA driver installed, and not older than CuPy's CUDA?"
        )
    if n_devices == 0:
        return "no GPU is visible: does CUDA_VISIBLE_DEVICES hide it?"
    if index >= n_devices:
        # The number is wrong, which is no problem of a GPU; `device_index` raises an error for it.
        return None
    found = cupy.cuda.runtime.getDeviceProperties(index)
    capability = found["major"], found["minor"]
    if capability >= OLDEST:
        return None
    has, needed = (".".join(str(number) for number in numbers) for numbers in (capability, OLDEST))
    return f"{found['name'].decode()} has compute capability {has}, and {needed} (Turing) is needed"


@cache
def device_index(name: str) -> int:
    """Return the number of a device such as "cuda" or "cuda:1", after checking that the device exists.

    Examples
    --------
    >>> device_index("cuda:x")
    Traceback (most recent call last):
    ...
    ValueError: device='cuda:x': expected 'cuda', or 'cuda:0', 'cuda:1', ... for one of several GPUs
    """
    match = re.fullmatch(r"cuda(?::(\d+))?", name)
    if match is None:
        raise ValueError(
            f"device={name!r}: expected 'cuda', or 'cuda:0', 'cuda:1', ... for one of several GPUs"
        )
    index = int(match[1] or 0)
    problem = cuda_problem(index)
    if problem is not None:
        raise RuntimeError(f"device={name!r}: {problem}")
    n_devices = cupy_module().cuda.runtime.getDeviceCount()
    if index >= n_devices:
        raise ValueError(
            f"device={name!r}: there are {n_devices} GPUs; expected at most 'cuda:{n_devices - 1}'"
        )
    return index


@contextmanager
def on_device(name: str, advice: Callable[[int], str] | None = None) -> Iterator[None]:
    """Run a block of code on a device; running out of memory is an error that says what would fit.

    Parameters
    ----------
    name : str
    advice : callable or None
        Given the available bytes, returns a sentence about what would fit into them.
    """
    cupy = cupy_module()
    with cupy.cuda.Device(device_index(name)):
        try:
            yield
        except cupy.cuda.memory.OutOfMemoryError as error:
            # Release the arrays of the computation that failed, so that their memory counts as available.
            traceback.clear_frames(error.__traceback__)
            available, total = available_memory()
            free = f"{available / 2**30:.3g} of {total / 2**30:.3g} GiB are free"
            raise MemoryError(
                f"device={name!r}: out of memory ({error}); {free}. "
                f"{'' if advice is None else advice(available)}Fewer features, a smaller batch_size, "
                "features='factorised' instead of 'joint', or device='cpu' need less"
            ) from error


def available_memory() -> tuple[int, int]:
    """Return how many bytes new arrays may take on the current device, and how many it has in all."""
    cupy = cupy_module()
    free, total = cupy.cuda.runtime.memGetInfo()
    pool = cupy.get_default_memory_pool()
    available, limit = free + pool.free_bytes(), pool.get_limit()
    return (min(available, limit - pool.used_bytes()) if limit else available), total


def card() -> str:
    """Return the name, the memory and the software of the first GPU."""
    cupy = cupy_module()
    found = cupy.cuda.runtime.getDeviceProperties(0)
    driver, runtime = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion()
    return (
        f"{found['name'].decode()}, {found['totalGlobalMem'] / 2**30:.0f} GiB, CuPy {cupy.__version__} with "
        f"CUDA {runtime // 1000}.{runtime % 1000 // 10}, driver for {driver // 1000}.{driver % 1000 // 10}"
    )


class CurrentDevice:
    """Properties of the current device."""

    @staticmethod
    @cache
    def _attribute(device: int, name: str) -> int:
        return int(cupy_module().cuda.Device(device).attributes[name])

    @staticmethod
    @cache
    def _capability(device: int) -> str:
        capability: str = cupy_module().cuda.Device(device).compute_capability
        return capability

    @classmethod
    def _of_current(cls, name: str) -> int:
        return cls._attribute(cupy_module().cuda.runtime.getDevice(), name)

    @classmethod
    def multiprocessors(cls) -> int:
        """Return the number of multiprocessors."""
        return cls._of_current("MultiProcessorCount")

    @classmethod
    def shared_memory(cls) -> int:
        """Return how many bytes of shared memory one block can have."""
        return cls._of_current("MaxSharedMemoryPerBlockOptin")

    @classmethod
    def multiprocessor_memory(cls) -> int:
        """Return how many bytes of shared memory all blocks on a multiprocessor can have together."""
        return cls._of_current("MaxSharedMemoryPerMultiprocessor")

    @classmethod
    def architecture(cls) -> str:
        """Return the compute capability, such as "90"."""
        return cls._capability(cupy_module().cuda.runtime.getDevice())

    @classmethod
    def tensor_cores(cls) -> bool:
        """Return whether the tensor cores can multiply numbers of type tf32, as those since Ampere can."""
        return int(cls.architecture()) >= 80


def source_text(name: str) -> str:
    """Return the text of a source in which every file that it includes takes the place of its `#include`."""
    seen: set[str] = set()

    def text(file: str) -> str:
        if file in seen:
            return ""
        seen.add(file)
        lines = (SOURCES / file).read_text().splitlines()
        included = (re.fullmatch(r'#include "(.+)"', line) for line in lines)
        return "\n".join(
            text(match[1]) if match else line
            for line, match in zip(lines, included, strict=True)
            if line != "#pragma once"
        )

    return text(name)


def kernel(source: str, name: str, *macros: str) -> Any:
    """Return a kernel of a source, compiled for the current device with macros such as "REAL=double"."""
    return _kernel(cupy_module().cuda.runtime.getDevice(), source, name, macros)


@cache
def _kernel(device: int, source: str, name: str, macros: tuple[str, ...]) -> Any:
    function = _module(device, source, macros).get_function(name)
    function.max_dynamic_shared_size_bytes = CurrentDevice.shared_memory() - function.shared_size_bytes
    return function


@cache
def _module(device: int, source: str, macros: tuple[str, ...]) -> Any:
    return cupy_module().RawModule(path=str(_cached(source, macros, CurrentDevice.architecture())))


def compiled(source: str, macros: tuple[str, ...], architecture: str) -> bytes:
    """Return a source compiled for an architecture such as "90"; no device is needed."""
    from cupy_backends.cuda.libs import nvrtc

    program = nvrtc.createProgram(source_text(source), source, (), ())
    try:
        options = (*OPTIONS, f"--gpu-architecture=sm_{architecture}", *(f"-D{macro}" for macro in macros))
        try:
            nvrtc.compileProgram(program, options)
        except nvrtc.NVRTCError as error:
            raise RuntimeError(
                f"{source} with {macros} does not compile: {nvrtc.getProgramLog(program)}"
            ) from error
        binary: bytes = nvrtc.getCUBIN(program)
        return binary
    finally:
        nvrtc.destroyProgram(program)


def _cached(source: str, macros: tuple[str, ...], architecture: str) -> Path:
    """Return a file with the compiled source, from the cache or newly compiled."""
    cupy = cupy_module()
    # The version of the compiler itself is not part of the key, because loading the compiler takes half a
    # second.
    versions = (cupy.__version__, cupy.cuda.runtime.runtimeGetVersion())
    key = repr((source_text(source), OPTIONS, macros, architecture, versions))
    name = f"{Path(source).stem}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.cubin"
    path = cache_folder() / name
    if path.exists():
        return path
    binary = compiled(source, macros, architecture)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _written(path, binary)
    except OSError as error:
        _warn_once(
            f"compiled kernels cannot be stored in {path.parent} ({error}), so every process compiles them "
            f"again; set {CACHE_VARIABLE} to a folder that can be written to"
        )
        return _written(Path(_folder_of_process().name) / name, binary)


def _written(path: Path, binary: bytes) -> Path:
    """Write a file that becomes visible to other processes only when it is complete."""
    with whole_file(path) as temporary:
        temporary.write_bytes(binary)
    return path


@cache
def _folder_of_process() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder that is removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="bpfa-")


def cache_folder() -> Path:
    """Return the folder in which compiled kernels are kept."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bpfa"


@cache
def _warn_once(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=2)


def as_kernel_arguments(*arguments: Any) -> tuple[Any, ...]:
    """Return arguments as kernels take them: integers of 32 bits, floats of 64 bits, and null for None.

    Integers of 64 bits are passed in as `numpy.int64`.
    """
    # The device waits for this, so it must be fast: an array, as most arguments are, costs one lookup.
    converters = [_ARGUMENTS.get(type(argument)) for argument in arguments]
    return tuple(
        [
            argument if convert is None else convert(argument)
            for argument, convert in zip(arguments, converters, strict=True)
        ]
    )


_NULL = np.uint64(0)
_ARGUMENTS: dict[type, Callable[[Any], Any]] = {
    int: np.int32,
    float: np.float64,
    bool: np.bool_,
    type(None): lambda _: _NULL,
}


def launch(
    function: Any, n_blocks: int | tuple[int, ...], n_threads: int, *arguments: Any, shared: int = 0
) -> None:
    """Start a kernel on the current stream."""
    grid = n_blocks if isinstance(n_blocks, tuple) else (n_blocks,)
    function(grid, (n_threads,), as_kernel_arguments(*arguments), shared_mem=shared)
