"""Rows in the memory of a device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa.backends.cuda.arrays import CudaArrayRows
from bpfa.backends.cuda.runtime import cupy_module, kernel, launch
from bpfa.backends.cuda.staging import copied_to_device
from bpfa.data import Batch, Rows, StandardisedRows, sequential
from bpfa.data.patches import PatchRows

__all__ = ["C_TYPES", "DeviceBatch", "DeviceRows", "rows_on_device", "uploaded"]

C_TYPES = {"float32": "float", "float64": "double"}
# The share of the free memory that data may take. Data that needs more is copied batch by batch.
MEMORY_SHARE = 0.6
# How many rows are copied to the device at a time.
BLOCK_ROWS = 65_536


class DeviceBatch:
    """Some rows on a device. Entry d of row i is `values[bases[ids[i]] + offsets[d]]`.

    Parameters
    ----------
    values : flat array of float32
    observed : flat array of uint8, or None where nothing is missing
    ids : array of int64
        Row ids, which key the random numbers.
    bases : array of int64 or None
        Where each row of the source begins. Without them, row i of the batch begins at i D.
    offsets : array of int32, shape (D,)
    most_observed : int or None
        An upper bound of the number of observed entries of a row; None where nothing is missing.
    mean_observed : float
        The average number of observed entries of a row, over the batch or over all rows.
    """

    def __init__(
        self,
        values: Any,
        observed: Any,
        ids: Any,
        bases: Any,
        offsets: Any,
        most_observed: int | None,
        mean_observed: float = 0.0,
    ) -> None:
        self.values, self.observed, self.ids = values, observed, ids
        self.bases, self.offsets = bases, offsets
        self.most_observed, self.mean_observed = most_observed, mean_observed
        self.complete = observed is None
        self.n_columns = len(offsets)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def resident(self) -> bool:
        """Whether the whole source of these rows is on the device, and its batches share the same memory."""
        return self.bases is not None

    def with_ids(self, ids: Any) -> DeviceBatch:
        """Return other rows of the same source, as many as in this batch."""
        counts = self.most_observed, self.mean_observed
        return DeviceBatch(self.values, self.observed, ids, self.bases, self.offsets, *counts)

    def part(self, start: int, stop: int) -> DeviceBatch:
        """Return consecutive rows of the batch."""
        if start == 0 and stop == len(self):
            return self
        values, observed = self.values, self.observed
        if self.bases is None:
            entries = slice(start * self.n_columns, stop * self.n_columns)
            values, observed = values[entries], None if observed is None else observed[entries]
        counts = self.most_observed, self.mean_observed
        return DeviceBatch(values, observed, self.ids[start:stop], self.bases, self.offsets, *counts)

    def dense(self, real: str, *, with_mask: bool = False) -> tuple[Any, Any]:
        """Return the rows as a matrix with zeros where entries are missing, and a mask.

        The mask is a matrix with ones where entries are observed and zeros elsewhere, or None unless asked
        for.
        """
        cupy, shape = cupy_module(), (len(self), self.n_columns)
        values = self.values.astype(real, copy=False)
        matrix = cupy.empty(shape, real)
        mask = cupy.empty(shape, real) if with_mask else None
        function = kernel("rows.cu", "gather_rows", f"REAL={C_TYPES[real]}")
        n_blocks = min(4096, -(-max(len(self), 1) // 8))
        launch(
            function, n_blocks, 256, values, self.observed, self.ids, self.bases, self.offsets,
            np.int64(len(self)), self.n_columns, matrix, mask,
        )  # fmt: skip
        return matrix, mask

    def padded_to(self, n_columns: int) -> DeviceBatch:
        """Return the same rows with columns of observed zeros up to this number of columns."""
        n_extra = n_columns - self.n_columns
        if n_extra <= 0:
            return self
        cupy = cupy_module()
        values, mask = self.dense(self.values.dtype.name, with_mask=not self.complete)
        values = cupy.pad(values, ((0, 0), (0, n_extra)))
        observed = None if mask is None else cupy.pad(mask, ((0, 0), (0, n_extra)), constant_values=1)
        return DeviceBatch(
            values.ravel(),
            None if observed is None else observed.astype(cupy.uint8).ravel(),
            self.ids,
            None,
            cupy.arange(n_columns, dtype=cupy.int32),
            None if observed is None else n_columns,
        )


def uploaded(batch: Batch, real: str, ids: NDArray[np.int64] | None = None) -> DeviceBatch:
    """Copy a batch to the device; `ids` take the place of its own ids as keys of the random numbers."""
    cupy = cupy_module()
    return DeviceBatch(
        copied_to_device(np.ascontiguousarray(batch.values, real).ravel()),
        None
        if batch.complete
        else copied_to_device(np.ascontiguousarray(batch.observed).view(np.uint8).ravel()),
        copied_to_device(batch.ids if ids is None else ids),
        None,
        cupy.arange(batch.n_columns, dtype=cupy.int32),
        None if batch.complete else int(batch.observed.sum(axis=1).max(initial=0)),
        batch.observed.sum() / max(len(batch), 1),
    )


class DeviceRows:
    """A source of rows that are all on the device.

    Parameters
    ----------
    values, observed, bases, offsets
        As in `DeviceBatch`.
    n_rows : int
    """

    def __init__(self, values: Any, observed: Any, bases: Any, offsets: Any, n_rows: int) -> None:
        self.values, self.observed, self.bases, self.offsets = values, observed, bases, offsets
        self.n_rows, self.n_columns = n_rows, len(offsets)
        self.most_observed: int | None = None
        self.mean_observed = float(self.n_columns)
        self.counts: Any = None
        """How many entries of each row are observed; None where nothing is missing."""
        if observed is not None:
            self.count()

    def count(self) -> None:
        """Count the observed entries of every row, and wait for the result."""
        self.counts = cupy_module().empty(self.n_rows, np.int32)
        launch(
            kernel("rows.cu", "count_observed", "REAL=float"), -(-self.n_rows // 256), 256,
            self.observed, self.bases, self.offsets, np.int64(self.n_rows), self.n_columns, self.counts,
        )  # fmt: skip
        self.most_observed, self.mean_observed = int(self.counts.max()), float(self.counts.mean())

    def take(self, ids: NDArray[np.int64]) -> DeviceBatch:
        """Return the rows with these ids."""
        return self.taken(copied_to_device(ids))

    def taken(self, ids: Any) -> DeviceBatch:
        """Return the rows with these ids, which are on the device."""
        counts = self.most_observed, self.mean_observed
        return DeviceBatch(self.values, self.observed, ids, self.bases, self.offsets, *counts)

    @classmethod
    def of_matrix(cls, values: Any, observed: Any) -> DeviceRows:
        """Return the rows of a matrix on the device; `observed` is None where nothing is missing."""
        cupy = cupy_module()
        n_rows, n_columns = values.shape
        return cls(
            values.ravel(),
            None if observed is None else observed.ravel(),
            cupy.arange(n_rows, dtype=cupy.int64) * n_columns,
            cupy.arange(n_columns, dtype=cupy.int32),
            n_rows,
        )

    @classmethod
    def of_patches(cls, rows: PatchRows) -> DeviceRows:
        """Return the patches of a picture; only the picture itself is copied to the device."""
        cupy = cupy_module()
        observed = rows.picture_observed
        return cls(
            cupy.asarray(rows.picture_values.ravel().astype(np.float32, copy=False)),
            None if observed.all() else cupy.asarray(observed.ravel().view(np.uint8)),
            cupy.asarray(rows.first_entries()),
            cupy.asarray(rows.offsets.astype(np.int32)),
            rows.n_rows,
        )


def rows_on_device(rows: Rows) -> Any:
    """Return a source with its rows on the current device, or the source itself if they do not fit.

    Parameters
    ----------
    rows : Rows
        Of patches only the picture is copied; all other rows become a matrix in single precision. If the rows
        do not fit, every batch is copied when it is used.
    """
    if isinstance(rows, DeviceRows):
        return rows
    if isinstance(rows, StandardisedRows) and not rows.mean.any() and (rows.scale == 1).all():
        rows = rows.rows
    if isinstance(rows, PatchRows):
        return DeviceRows.of_patches(rows)
    cupy = cupy_module()
    if isinstance(rows, CudaArrayRows):
        return DeviceRows.of_matrix(rows.values.astype(cupy.float32, copy=False), rows.observed)
    if isinstance(rows, StandardisedRows) and isinstance(rows.rows, CudaArrayRows):
        mean, scale = cupy.asarray(rows.mean), cupy.asarray(rows.scale)
        standardised = ((rows.rows.values - mean) / scale).astype(cupy.float32)
        return DeviceRows.of_matrix(standardised, rows.rows.observed)
    n_rows, n_columns = rows.n_rows, rows.n_columns
    free, _ = cupy.cuda.runtime.memGetInfo()
    if 5 * n_rows * n_columns + 8 * n_rows > MEMORY_SHARE * free:
        return rows
    values = cupy.empty((n_rows, n_columns), cupy.float32)
    observed = cupy.empty((n_rows, n_columns), cupy.uint8)
    complete, first = True, 0
    for batch in sequential(rows, block_rows=BLOCK_ROWS):
        block = slice(first, first + len(batch))
        values[block] = cupy.asarray(batch.values.astype(np.float32, copy=False))
        observed[block] = cupy.asarray(np.ascontiguousarray(batch.observed).view(np.uint8))
        complete, first = complete and batch.complete, first + len(batch)
    return DeviceRows.of_matrix(values, None if complete else observed)
