import numpy as np
from numpy.typing import NDArray

def philox4x32(counters: NDArray[np.uint32], key: int) -> None: ...
def uniform_draws(key: int, call: int, step: int, out: NDArray[np.float64]) -> None: ...
def gamma_draws(
    ndtri: object,
    key: int,
    call: int,
    step: int,
    shape: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
def normal_draws(ndtri: object, key: int, call: int, step: int, out: NDArray[np.float64]) -> None: ...
def gamma_number(ndtri: object, key: int, call: int, step: int, shape: float) -> float: ...
def log_gamma_parts(
    ndtri: object,
    key: int,
    call: int,
    step: int,
    shape: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
def thread_count(asked: int) -> int: ...
def gaussian_draws(
    potrf: object,
    trsv: object,
    P: NDArray[np.float64],
    h: NDArray[np.float64],
    noise: NDArray[np.float64],
    out: NDArray[np.float64],
    n_threads: int,
) -> int: ...
def move_precisions(
    P: NDArray[np.float64],
    XX: NDArray[np.float64],
    keep: float,
    gain: float,
    diagonal: float,
    out: NDArray[np.float64],
    n_threads: int,
) -> bool: ...
def move_numbers(
    from_: NDArray[np.float64],
    add: NDArray[np.float64],
    keep: float,
    gain: float,
    out: NDArray[np.float64],
) -> bool: ...
def set_allocator(mapped_from: int, trimmed_from: int) -> None: ...
