"""Rows of a Zarr array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.optional import library
from bpfa.data.formats.files import FileRows, existing_path, key_of_matrix, name_file_in_errors

__all__ = ["ZarrRows"]


class ZarrRows(FileRows):
    """Rows of a Zarr array.

    Parameters
    ----------
    source : path, zarr.Array or zarr.Group
    key : str, optional
        Path of the array within a group; the only matrix of the group by default.

    See Also
    --------
    bpfa.open_rows : Open a file, a frame or several of them.
    bpfa.data.FileRows : The base of sources that are files.

    Examples
    --------
    >>> import tempfile, zarr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     array = zarr.create_array(f"{folder}/data.zarr", data=np.eye(3), chunks=(2, 3))
    ...     ZarrRows(f"{folder}/data.zarr").take(np.array([1])).values
    array([[0., 1., 0.]])
    """

    def __init__(self, source: Any, key: str | None = None) -> None:
        zarr = library("zarr", "zarr")
        if isinstance(source, (zarr.Array, zarr.Group)):
            node, name = source, str(source.store_path)
        else:
            path = existing_path(source)
            with name_file_in_errors(path):
                node, name = zarr.open(str(path), mode="r"), str(path)
        if isinstance(node, zarr.Group):
            with name_file_in_errors(name):
                members = dict(node.members(max_depth=None))
            shapes = {path: array.shape for path, array in members.items() if isinstance(array, zarr.Array)}
            node = members[key_of_matrix(name, key, shapes)]
        elif key is not None:
            raise ValueError(f"key={key!r}: {name} is an array, not a group; expected None")
        stored_rows = node.chunks[0] if len(node.shape) == 2 else 1
        super().__init__(name, node.shape, np.dtype(node.dtype), stored_rows)
        self._array = node

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        return np.asarray(self._array[start:stop])
