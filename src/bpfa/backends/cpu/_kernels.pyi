from typing import Any

import numpy as np
from numpy.typing import NDArray

class SumArrays:
    def __init__(
        self,
        *,
        n: NDArray[np.float64],
        zw2: NDArray[np.float64] | None,
        x2: NDArray[np.float64] | None,
        xr: NDArray[np.float64] | None,
        xy: NDArray[np.float64] | None,
        xx: NDArray[np.float64] | None,
        total_zw2: NDArray[np.float64],
        w2: NDArray[np.float64] | None,
        rr: NDArray[np.float64],
    ) -> None: ...

def instruction_sets() -> list[str]: ...
def fma_rate(seconds: float, n_threads: int, instruction_set: str) -> float: ...
def copy_rate(seconds: float, n_threads: int) -> float: ...
def signal(
    potrf: object,
    syrk: object,
    trsm: object,
    trsv: object,
    on: NDArray[np.uint8],
    observed: NDArray[np.uint8],
    phi_t: NDArray[np.float64],
    gram: NDArray[np.float64],
    products: NDArray[np.float64],
    g_o: float,
    g_w: float,
    weights: NDArray[np.float64],
    variance: NDArray[np.float64],
    n_threads: int,
) -> int: ...
def add_draws(
    phi: NDArray[np.float64],
    logit: NDArray[np.float64],
    g_o: NDArray[np.float64],
    g_w: NDArray[np.float64],
    values: NDArray[np.float64],
    observed: NDArray[np.uint8],
    ids: NDArray[np.int64],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    on: NDArray[np.uint8],
    mean: NDArray[np.float64],
    squares: NDArray[np.float64],
    within: NDArray[np.float64],
    key: int,
    n_before: int,
    n_sweeps: int,
    n_threads: int,
    instruction_set: str,
) -> None: ...
def run_float32(**arguments: Any) -> None: ...
def run_float64(**arguments: Any) -> None: ...
def predict_patches_float32(**arguments: Any) -> None: ...
def predict_patches_float64(**arguments: Any) -> None: ...
def fold_patches_float32(**arguments: Any) -> None: ...
def fold_patches_float64(**arguments: Any) -> None: ...
