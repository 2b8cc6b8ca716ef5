"""Rows of a dataset of an HDF5 file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.optional import library
from bpfa.data.formats.files import FileRows, existing_path, key_of_matrix, name_file_in_errors

__all__ = ["HDF5Rows"]


class HDF5Rows(FileRows):
    """Rows of a dataset of an HDF5 file.

    Parameters
    ----------
    source : path or h5py.Dataset
        A file is opened for each read, and closed again.
    key : str, optional
        Name of the dataset, such as "group/data"; the only matrix of the file by default.

    See Also
    --------
    bpfa.open_rows : Open a file, a frame or several of them.
    bpfa.data.FileRows : The base of sources that are files.

    Examples
    --------
    >>> import h5py, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with h5py.File(f"{folder}/data.h5", "w") as file:
    ...         file["counts"] = [[1.0, 2.0], [3.0, 4.0]]
    ...     HDF5Rows(f"{folder}/data.h5").take(np.array([1])).values
    array([[3., 4.]])
    """

    def __init__(self, source: Any, key: str | None = None) -> None:
        h5py = library("h5py", "hdf5")
        self._dataset: Any = None
        if isinstance(source, h5py.Dataset):
            if key is not None:
                raise ValueError(f"key={key!r}: the source is a dataset already; expected None")
            self._dataset = source
            self._describe(f"{source.file.filename}:{source.name}", source)
            return
        self._path, self._key = existing_path(source), key
        with name_file_in_errors(self._path), h5py.File(self._path, "r") as file:
            shapes = _shapes(file, h5py)
        self._key = key_of_matrix(str(self._path), key, shapes)
        with h5py.File(self._path, "r") as file:
            self._describe(str(self._path), file[self._key])

    def _describe(self, name: str, dataset: Any) -> None:
        stored_rows = dataset.chunks[0] if dataset.chunks else 1
        super().__init__(name, dataset.shape, dataset.dtype, stored_rows)

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        if self._dataset is not None:
            return np.asarray(self._dataset[start:stop])
        with library("h5py", "hdf5").File(self._path, "r") as file:
            return np.asarray(file[self._key][start:stop])


def _shapes(file: Any, h5py: Any) -> dict[str, tuple[int, ...]]:
    """Return the shape of every dataset of a file, by its name."""
    shapes: dict[str, tuple[int, ...]] = {}

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset):
            shapes[name] = node.shape

    file.visititems(visit)
    return shapes
