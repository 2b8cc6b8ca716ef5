"""Gaussians given by their precision matrices, one a column: their steps, and draws by LAPACK."""

from __future__ import annotations

import numpy as np
import scipy.linalg.cython_blas
import scipy.linalg.cython_lapack

from bpfa._support import _native
from bpfa._support.checks import Array
from bpfa._support.threads import one_blas_thread

__all__ = ["gaussian_draws", "moved_precisions"]

_POTRF = scipy.linalg.cython_lapack.__pyx_capi__["dpotrf"]
_TRSV = scipy.linalg.cython_blas.__pyx_capi__["dtrsv"]


def gaussian_draws(P: Array, h: Array, noise: Array) -> Array:
    """Return P_d^-1 h_d + L_d^-T noise_d for every column d, L_d being the Cholesky factor of P_d.

    That is a draw from N(P_d^-1 h_d, P_d^-1) where the noise is standard normal, its mean where it is zero.

    Parameters
    ----------
    P : array, shape (D, K, K) or (1, K, K)
        One matrix a column, or one for all.
    h, noise : array, shape (K, D)

    Examples
    --------
    >>> gaussian_draws(4.0 * np.eye(2)[None], np.ones((2, 3)), np.zeros((2, 3)))
    array([[0.25, 0.25, 0.25],
           [0.25, 0.25, 0.25]])
    """
    columns = np.empty(h.shape[::-1])
    # The threads are ours: LAPACK must not start its own inside each of them.
    with one_blas_thread():
        bad = _native.gaussian_draws(
            _POTRF,
            _TRSV,
            np.ascontiguousarray(P),
            np.ascontiguousarray(h.T),
            np.ascontiguousarray(noise.T),
            columns,
            0,
        )
    if bad >= 0:
        raise ValueError(f"P: the matrix of column {bad} is not positive definite")
    return np.ascontiguousarray(columns.T)


def moved_precisions(P: Array, XX: Array, keep: float, gain: float, diagonal: float) -> Array:
    """Return keep P_d + gain XX_d + diagonal I for every column d.

    The matrices may take more memory than any cache has: NumPy would go through it once for every operation,
    and that would take longer than all else in a step with joint features.

    Parameters
    ----------
    P, XX : array, shape (D, K, K) or (1, K, K)
        One matrix a column, or one for all.
    keep, gain, diagonal : float

    Examples
    --------
    >>> moved_precisions(np.eye(2)[None], np.ones((1, 2, 2)), keep=0.5, gain=2.0, diagonal=10.0)
    array([[[12.5,  2. ],
            [ 2. , 12.5]]])
    """
    out = np.empty(max(P.shape, XX.shape))
    _native.move_precisions(
        np.ascontiguousarray(P), np.ascontiguousarray(XX), float(keep), float(gain), float(diagonal), out, 0
    )
    return out
