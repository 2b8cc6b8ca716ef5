"""Rows of a .npy file, or of a memory-mapped array, which are read from the file as they are needed."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa.data.formats.files import FileRows, existing_path, name_file_in_errors

__all__ = ["MemmapRows"]


class MemmapRows(FileRows):
    """Rows of a .npy file or of a `numpy.memmap`.

    The file is read, not mapped: mapped pages would count as memory of the process, and would not be
    released.

    Parameters
    ----------
    source : path or numpy.memmap
        Real numbers of any type and byte order, stored row by row or column by column (Fortran order).

    See Also
    --------
    bpfa.open_rows : Open a file, a frame or several of them.
    bpfa.data.FileRows : The base of sources that are files.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/data.npy", np.arange(6.0).reshape(3, 2))
    ...     MemmapRows(f"{folder}/data.npy").take(np.array([2])).values
    array([[4., 5.]])
    """

    def __init__(self, source: str | os.PathLike[str] | np.memmap[Any, Any]) -> None:
        if isinstance(source, np.memmap):
            mapped = source
        else:
            path = existing_path(source)
            with name_file_in_errors(path):
                mapped = np.lib.format.open_memmap(path, mode="r")
        super().__init__(str(mapped.filename), mapped.shape, mapped.dtype)
        self._stored = mapped.dtype
        self._offset = _file_offset(mapped)
        self._by_rows = bool(mapped.flags.c_contiguous)
        if not self._by_rows and not mapped.flags.f_contiguous:
            raise ValueError(
                f"{self.name}: part of a mapped array that is not whole rows; "
                "expected whole rows, or a copy in memory, numpy.array(data)"
            )

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        if self._by_rows:
            values = self._stored_items(start * self.n_columns, (stop - start) * self.n_columns)
            return values.reshape(-1, self.n_columns)
        columns = [
            self._stored_items(column * self.n_rows + start, stop - start) for column in range(self.n_columns)
        ]
        return np.stack(columns, axis=1)

    def _stored_items(self, first: int, count: int) -> NDArray[Any]:
        offset = self._offset + first * self._stored.itemsize
        items = np.fromfile(self.name, dtype=self._stored, count=count, offset=offset)
        if len(items) < count:
            raise ValueError("the file ends too early")
        return items


def _file_offset(mapped: np.memmap[Any, Any]) -> int:
    """Return where in the file the first entry is.

    A slice of a mapped array reports the offset of the array that it was taken from.
    """
    parent = mapped
    while isinstance(parent.base, np.memmap):
        parent = parent.base
    return int(parent.offset) + mapped.ctypes.data - parent.ctypes.data
