"""`bpfa.model.marginals.signal`, which integrates out the weights of rows, on all threads."""

from __future__ import annotations

import numpy as np
import scipy.linalg.cython_blas
import scipy.linalg.cython_lapack
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.threads import one_blas_thread
from bpfa.backends.cpu import _kernels
from bpfa.data import Batch
from bpfa.model import marginals
from bpfa.model.marginals import Signal

__all__ = ["signal"]

_BLAS, _LAPACK = scipy.linalg.cython_blas.__pyx_capi__, scipy.linalg.cython_lapack.__pyx_capi__


def signal(on: NDArray[np.bool_], phi: Array, g_o: float, g_w: float, batch: Batch) -> Signal:
    """Return the mean and variance of entries given the observed ones, as `bpfa.model.marginals.signal` does.

    Examples
    --------
    >>> found = signal(np.array([[True]]), np.ones((1, 2)), 1.0, 1.0, Batch([[3.0, np.nan]]))
    >>> found.mean, found.variance
    (array([[1.5, 1.5]]), array([[0. , 0.5]]))
    """
    values = np.where(batch.observed, batch.values, 0.0)
    weights, variance = np.zeros(on.shape), np.zeros(values.shape)
    phi = np.ascontiguousarray(phi, np.float64)
    # The kernel has threads of its own, inside which LAPACK must not start more.
    with one_blas_thread():
        failed = _kernels.signal(
            _LAPACK["dpotrf"],
            _BLAS["dsyrk"],
            _BLAS["dtrsm"],
            _BLAS["dtrsv"],
            np.ascontiguousarray(on).view(np.uint8),
            np.ascontiguousarray(batch.observed).view(np.uint8),
            np.ascontiguousarray(phi.T),
            phi @ phi.T,
            values @ phi.T,
            float(g_o),
            float(g_w),
            weights,
            variance,
            0,
        )
    if failed:
        # Because of rounding, a precision matrix is not positive definite, which the specification tolerates.
        return marginals.signal(on, phi, g_o, g_w, batch)
    return Signal(weights @ phi, variance)
