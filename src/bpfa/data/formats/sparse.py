"""Rows of a sparse matrix; only the rows that are requested are made dense."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bpfa._support.checks import Array, as_real_array, check_choice
from bpfa.data.rows import Batch, RowSource

__all__ = ["SparseRows"]


class SparseRows(RowSource):
    """Rows of a sparse matrix of SciPy.

    Parameters
    ----------
    matrix : sparse matrix or array of scipy.sparse
        Kept in CSR format; other formats are converted once.
    absent : {"missing", "zero"}
        What it means if an entry is not stored. A matrix of ratings stores the known entries, so all others
        are "missing"; a matrix of counts stores the entries that are not zero, so all others are "zero".
        There is no default, because the wrong choice would silently give a wrong model. In both cases a
        stored zero is a zero, and a stored NaN is missing.
    column_names : list of str, optional

    See Also
    --------
    bpfa.open_rows : Open a file, a frame or several of them.
    bpfa.data.RowSource : The base of all sources.

    Examples
    --------
    >>> matrix = sparse.csr_array([[0.0, 2.0], [3.0, 0.0]])
    >>> batch = SparseRows(matrix, absent="missing").take(np.array([1, 0]))
    >>> batch.values, batch.observed
    (array([[3., 0.],
           [0., 2.]]), array([[ True, False],
           [False,  True]]))
    >>> SparseRows(matrix, absent="zero").take(np.array([0])).complete
    True
    """

    def __init__(self, matrix: Any, *, absent: str, column_names: list[str] | None = None) -> None:
        self.absent = check_absent(absent)
        is_sparse: bool = sparse.issparse(matrix)
        if not is_sparse:
            raise TypeError(f"matrix: {type(matrix).__name__}; expected a sparse matrix of scipy.sparse")
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise ValueError(f"matrix: shape {matrix.shape}; expected rows x columns, at least one of each")
        matrix = matrix.tocsr()
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        stored = as_real_array("matrix", matrix.data, keep_single=True)
        infinite = np.flatnonzero(np.isinf(stored))
        if infinite.size:
            first = infinite[0]
            row = np.searchsorted(matrix.indptr, first, side="right") - 1
            raise ValueError(
                f"matrix: {stored[first]} at row {row}, column {matrix.indices[first]}; "
                "expected finite numbers, or NaN where an entry is missing"
            )
        if np.isnan(stored).all() and (
            absent == "missing" or stored.size == matrix.shape[0] * matrix.shape[1]
        ):
            raise ValueError("matrix: every entry is missing; expected at least one observed entry")
        self._matrix = sparse.csr_array((stored, matrix.indices, matrix.indptr), shape=matrix.shape)
        super().__init__(*matrix.shape, column_names=column_names)

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the rows with these ids."""
        return Batch(to_dense(self._matrix[ids], self.absent), ids=ids)

    def read(self, start: int, stop: int) -> Batch:
        """Return the rows from `start` up to `stop`, which is not included."""
        return Batch(to_dense(self._matrix[start:stop], self.absent), ids=np.arange(start, stop))


def check_absent(absent: Any) -> str:
    """Return `absent`, after checking that it is one of the two meanings."""
    return check_choice("absent", absent, ("missing", "zero"))


def to_dense(matrix: Any, absent: str) -> Array:
    """Return rows of a CSR matrix as an array, with NaN where an entry is missing."""
    single = matrix.dtype.kind == "f" and matrix.dtype.itemsize <= 4
    values = np.full(
        matrix.shape, np.nan if absent == "missing" else 0.0, dtype=np.float32 if single else np.float64
    )
    values[np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices] = matrix.data
    return values
