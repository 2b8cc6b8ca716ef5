"""Gaussians given by precision matrices, one for each column: draws from them, and steps of the matrices."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import scipy.linalg.cython_blas
import scipy.linalg.cython_lapack

from bpfa._support import _native
from bpfa._support.checks import Array
from bpfa._support.threads import one_blas_thread

__all__ = ["gaussian_draws", "moved_numbers", "moved_precisions"]

# BLAS libraries use one thread for matrices of at most this size, for which more would not pay.
ALWAYS_ONE_THREAD = 32
_POTRF = scipy.linalg.cython_lapack.__pyx_capi__["dpotrf"]
_TRSV = scipy.linalg.cython_blas.__pyx_capi__["dtrsv"]


def gaussian_draws(P: Array, h: Array, noise: Array) -> Array:
    """Return P_d^-1 h_d + L_d^-T noise_d for every column d, where L_d is the Cholesky factor of P_d.

    If the noise is standard normal, this is a draw from N(P_d^-1 h_d, P_d^-1); if it is zero, the mean.

    Parameters
    ----------
    P : array, shape (D, K, K) or (1, K, K)
        One matrix for each column, or one for all columns.
    h, noise : array, shape (K, D)

    Examples
    --------
    >>> gaussian_draws(4.0 * np.eye(2)[None], np.ones((2, 3)), np.zeros((2, 3)))
    array([[0.25, 0.25, 0.25],
           [0.25, 0.25, 0.25]])
    """
    out = np.empty(h.shape)
    # The compiled loop over columns has threads of its own; LAPACK must not start more in each of them. For
    # small matrices it starts none, and telling it not to would take longer than the draws.
    with one_blas_thread() if len(h) > ALWAYS_ONE_THREAD else nullcontext():
        bad = _native.gaussian_draws(
            _POTRF,
            _TRSV,
            np.ascontiguousarray(P),
            np.ascontiguousarray(h),
            np.ascontiguousarray(noise),
            out,
            0,
        )
    if bad >= 0:
        raise ValueError(f"P: the matrix of column {bad} is not positive definite")
    return out


def moved_precisions(P: Array, XX: Array, keep: float, gain: float, diagonal: float) -> tuple[Array, bool]:
    """Return keep P_d + gain XX_d + diagonal I for every column d, and whether all numbers in it are finite.

    The matrices may be larger than any cache of the processor. NumPy would pass over that memory once for
    every operation, which would take longer than the rest of a step with joint features; this function passes
    over it once.

    Parameters
    ----------
    P, XX : array, shape (D, K, K) or (1, K, K)
        One matrix for each column, or one for all columns.
    keep, gain, diagonal : float

    Examples
    --------
    >>> moved_precisions(np.eye(2)[None], np.ones((1, 2, 2)), keep=0.5, gain=2.0, diagonal=10.0)
    (array([[[12.5,  2. ],
            [ 2. , 12.5]]]), True)
    """
    out = np.empty(max(P.shape, XX.shape))
    finite = _native.move_precisions(
        np.ascontiguousarray(P), np.ascontiguousarray(XX), float(keep), float(gain), float(diagonal), out, 0
    )
    return out, finite


def moved_numbers(start: Array, target: Array, keep: float, gain: float) -> tuple[Array, bool]:
    """Return keep start + gain target, and whether all numbers in it are finite.

    Parameters
    ----------
    start, target : array, two-dimensional
    keep, gain : float

    Examples
    --------
    >>> moved_numbers(np.ones((1, 2)), np.array([[2.0, np.inf]]), keep=0.5, gain=1.0)
    (array([[2.5, inf]]), False)
    """
    out = np.empty(start.shape)
    finite = _native.move_numbers(
        np.ascontiguousarray(start), np.ascontiguousarray(target), float(keep), float(gain), out
    )
    return out, finite
