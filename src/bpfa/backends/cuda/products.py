"""Products of matrices on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpfa.backends.cuda.rows import C_TYPES
from bpfa.backends.cuda.runtime import cupy_module, kernel, launch

__all__ = ["products_of_rows"]

# The largest number of multiply-adds for which products.cu is used, and the rows of a matrix that a block of
# it has.
FEW_PRODUCTS, BLOCK_ROWS = 2**29, 64


def products_of_rows(A: Any, B: Any) -> Any:
    """Return A B^T. Only large products use cuBLAS, because CuPy cannot record it in a graph."""
    cupy, (n, D), m, real = cupy_module(), A.shape, len(B), A.dtype.name
    if n * m * D > FEW_PRODUCTS:
        return cupy.matmul(A, B.T)
    C = cupy.empty((n, m), real)
    function = kernel("products.cu", "products_of_rows", f"REAL={C_TYPES[real]}")
    if n:
        grid = -(-m // BLOCK_ROWS), -(-n // BLOCK_ROWS)
        launch(function, grid, 256, A, np.int64(n), B, np.int64(m), D, C)
    return C
