"""Some rows of a matrix with missing entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array, as_real_array, check_mask
from bpfa._support.philox import MAX_ROW_ID

__all__ = ["Batch"]


class Batch:
    """Some rows: their values, which entries are observed, and their ids in the whole data set.

    Parameters
    ----------
    values : array, shape (rows, columns)
        Values at missing entries are ignored, and may be NaN.
    observed : boolean array of the same shape, optional
        True where an entry is observed. By default every entry that is not NaN is observed.
    ids : integer array, optional
        Ids of the rows, from which their random numbers are derived; 0, 1, 2, ... by default.

    See Also
    --------
    bpfa.Rows

    Examples
    --------
    >>> batch = Batch([[1.0, np.nan]])
    >>> batch.values, batch.complete
    (array([[1., 0.]]), False)
    """

    values: Array
    """Zero at missing entries, so that sums over rows need no mask."""
    observed: NDArray[np.bool_]
    ids: NDArray[np.int64]
    n_observed: int
    """Number of observed entries."""
    complete: bool
    """Whether every entry is observed."""

    def __init__(
        self,
        values: Any,
        observed: Any = None,
        ids: Any = None,
    ) -> None:
        values = as_real_array("values", values, keep_single=True)
        if values.ndim != 2 or values.shape[1] == 0:
            raise ValueError(f"values: shape {values.shape}; expected rows x columns, at least one column")
        if observed is None:
            observed = ~np.isnan(values)
        self.observed = check_mask("observed", observed, values.shape)
        self._count()
        self.values = values if self.complete else np.where(self.observed, values, values.dtype.type(0))
        ids = np.arange(len(values)) if ids is None else np.asarray(ids)
        fits = ids.shape == (len(values),) and ids.dtype.kind in "iu"
        if not fits or ((ids < 0) | (ids > MAX_ROW_ID)).any():
            raise ValueError(
                f"ids: {ids.dtype} of shape {ids.shape}; "
                f"expected {len(values)} integers from 0 to {MAX_ROW_ID}, one for each row"
            )
        self.ids = ids.astype(np.int64, copy=False)
        if not np.isfinite(self.values).all():
            row, column = np.argwhere(~np.isfinite(self.values))[0]
            raise ValueError(
                f"values: {self.values[row, column]} at row {self.ids[row]}, column {column}, which is "
                "observed; expected finite numbers"
            )

    @classmethod
    def unchecked(cls, values: Array, observed: NDArray[np.bool_], ids: NDArray[np.int64]) -> Batch:
        """Return rows of an earlier batch: values that are finite, and zero at missing entries.

        Parameters
        ----------
        values : array, shape (rows, columns)
        observed : boolean array of the same shape
        ids : integer array

        Returns
        -------
        Batch

        See Also
        --------
        bpfa.Batch.without : The same rows with more entries missing.

        Examples
        --------
        >>> batch = Batch([[1.0, np.nan], [2.0, 3.0]])
        >>> Batch.unchecked(batch.values[1:], batch.observed[1:], batch.ids[1:]).complete
        True
        """
        batch = cls.__new__(cls)
        batch.values, batch.observed, batch.ids = values, observed, ids
        batch._count()
        return batch

    def _count(self) -> None:
        self.n_observed = int(np.count_nonzero(self.observed))
        self.complete = self.n_observed == self.observed.size

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_columns(self) -> int:
        """Number of columns D."""
        return int(self.values.shape[1])

    def without(self, hidden: NDArray[np.bool_]) -> Batch:
        """Return the same rows, with the entries where `hidden` is true missing as well.

        Parameters
        ----------
        hidden : boolean array of the shape of the values

        Returns
        -------
        Batch

        See Also
        --------
        bpfa.data.HeldOutRows : Rows of which some entries are kept from the fit.

        Examples
        --------
        >>> Batch([[1.0, 2.0]]).without(np.array([[True, False]])).values
        array([[0., 2.]])
        """
        values = self.values.copy()
        np.copyto(values, 0, where=hidden)
        return Batch.unchecked(values, self.observed & ~hidden, self.ids)

    def padded_to(self, n_columns: int) -> Batch:
        """Return the same rows with columns of observed zeros appended, up to this number of columns.

        Parameters
        ----------
        n_columns : int

        Returns
        -------
        Batch

        See Also
        --------
        bpfa.Batch.without : The same rows with more entries missing.

        Examples
        --------
        >>> Batch([[1.0, 2.0]]).padded_to(3).values
        array([[1., 2., 0.]])
        """
        n_extra = n_columns - self.n_columns
        if n_extra <= 0:
            return self
        values = np.pad(self.values, ((0, 0), (0, n_extra)))
        return Batch(values, np.pad(self.observed, ((0, 0), (0, n_extra)), constant_values=True), self.ids)
