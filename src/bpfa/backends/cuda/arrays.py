"""Arrays that are on a device already: those of CuPy and, through DLPack, of PyTorch and other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa.backends.cuda.runtime import cupy_module
from bpfa.data.rows import Batch, RowSource

__all__ = ["CudaArrayRows", "is_cuda_array", "like_cuda_array"]

# The number by which DLPack calls CUDA devices.
DLPACK_CUDA = 2


def is_cuda_array(data: Any) -> bool:
    """Return whether data is an array in the memory of a CUDA device.

    Examples
    --------
    >>> is_cuda_array(np.ones(3))
    False
    """
    if type(data).__module__.split(".")[0] == "cupy":
        return True
    return hasattr(data, "__dlpack_device__") and data.__dlpack_device__()[0] == DLPACK_CUDA


class CudaArrayRows(RowSource):
    """The rows of an array on a device; NaN is missing. An array of single precision is used without a copy.

    Parameters
    ----------
    data : array on a CUDA device, shape (n_rows, n_columns)
    """

    def __init__(self, data: Any) -> None:
        cupy = cupy_module()
        array = cupy.from_dlpack(data) if not isinstance(data, cupy.ndarray) else data
        if array.ndim != 2 or 0 in array.shape:
            raise ValueError(f"data: shape {array.shape}; expected rows x columns, at least one of each")
        if array.dtype.kind not in "fiub":
            raise TypeError(f"data: dtype {array.dtype}; expected real numbers")
        self.values = cupy.ascontiguousarray(
            array, array.dtype if array.dtype == cupy.float32 else cupy.float64
        )
        super().__init__(*(int(n) for n in array.shape))
        infinite = cupy.isinf(self.values)
        if bool(infinite.any()):
            row, column = (int(places[0]) for places in cupy.nonzero(infinite))
            raise ValueError(
                f"data: infinity at row {row}, column {column}; expected finite numbers, or NaN where an "
                "entry is missing"
            )
        missing = cupy.isnan(self.values)
        self.observed = (~missing).view(cupy.uint8) if bool(missing.any()) else None

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the rows with these ids, in the memory of the host."""
        return Batch(self.values[cupy_module().asarray(ids)].get(), ids=ids)


def like_cuda_array(values: NDArray[Any], data: Any) -> Any:
    """Return values from the host as an array of the same library, and on the same device, as `data`."""
    cupy = cupy_module()
    array = cupy.asarray(values)
    if type(data).__module__.split(".")[0] == "cupy":
        return array
    import importlib

    return importlib.import_module(type(data).__module__.split(".")[0]).from_dlpack(array)
