"""Rows of an AnnData object or .h5ad file: cells x genes."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bpfa._support.optional import library
from bpfa.data.formats.files import FileRows, existing_path, name_file_in_errors
from bpfa.data.formats.hdf5 import HDF5Rows
from bpfa.data.formats.sparse import SparseRows, check_absent, to_dense
from bpfa.data.mapped import MappedRows
from bpfa.data.row_names import RowNames
from bpfa.data.rows import ArrayRows, Batch, RowSource

__all__ = ["AnnDataRows"]


class AnnDataRows(MappedRows):
    """Observations (cells) of an AnnData object or .h5ad file.

    Parameters
    ----------
    source : anndata.AnnData or path
        From a file, or from X of an object opened with `backed="r"`, only the requested rows are read. Apart
        from the matrix and the names of the variables, nothing is read from a file.
    layer : str, optional
        Name of the layer to use; X by default.
    absent : {"zero", "missing"}
        What it means if a sparse matrix does not store an entry. Counts are stored in sparse form because
        most of them are zero, hence the default.

    See Also
    --------
    bpfa.open_rows : Open a file, a frame or several of them.
    bpfa.data.RowSource : The base of all sources.

    References
    ----------
    .. [1] I. Virshup, S. Rybakov, F. J. Theis, P. Angerer and F. A. Wolf, "anndata: Access and Store
       Annotated Data Matrices", Journal of Open Source Software 9 (2024).

    Examples
    --------
    >>> import anndata
    >>> import numpy as np
    >>> counts = anndata.AnnData(sparse.csr_matrix([[0.0, 2.0], [3.0, 0.0]]))
    >>> counts.var_names = ["CD4", "CD8"]
    >>> rows = AnnDataRows(counts)
    >>> rows.column_names, rows.take(np.array([1])).values
    (['CD4', 'CD8'], array([[3., 0.]]))
    """

    def __init__(self, source: Any, layer: str | None = None, absent: str = "zero") -> None:
        check_absent(absent)
        opener = _open_file if isinstance(source, (str, os.PathLike)) else _open_object
        rows, names = opener(source, layer, absent)
        rows.column_names = names
        super().__init__(rows)
        self.source = source

    def mapped(self, batch: Batch) -> Batch:
        """Return the batch unchanged: only the names of the columns are added."""
        return batch

    def row_names(self) -> RowNames | None:
        """Return the names of the observations, or None if they are only numbered."""
        if isinstance(self.source, (str, os.PathLike)):
            h5py, anndata_io = library("h5py", "anndata"), library("anndata.io", "anndata")
            with name_file_in_errors(self.source), h5py.File(self.source, "r") as file:
                table = file["obs"]
                label = str(table.attrs["_index"])
                values = np.asarray(anndata_io.read_elem(table[label]), dtype=object)
        else:
            label = self.source.obs_names.name or ""
            values = self.source.obs_names.to_numpy(dtype=object)
        if values.tolist() == [str(row) for row in range(len(values))]:
            return None
        return RowNames(("" if label in ("_index", "index") else label,), (values,))


class _StoredSparseRows(FileRows):
    """Rows of a CSR matrix in the HDF5 group of an .h5ad file."""

    def __init__(self, name: str, group: Any, absent: str) -> None:
        kind = group.attrs.get("encoding-type", "unknown")
        if kind != "csr_matrix":
            raise ValueError(
                f"{name}: the matrix is stored as {kind}, whose rows are slow to read; expected csr_matrix: "
                "write the file again in that form, or read it into memory with anndata.read_h5ad"
            )
        super().__init__(name, tuple(group.attrs["shape"]), group["data"].dtype)
        self._group, self._absent = group, absent

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        # The row pointers are not kept in memory either: eight bytes for each row add up.
        pointers = self._group["indptr"][start : stop + 1]
        first, last = pointers[0], pointers[-1]
        stored = self._group["data"][first:last], self._group["indices"][first:last], pointers - first
        rows = sparse.csr_array(stored, shape=(stop - start, self.n_columns))
        # Where an entry is stored more than once, its values are added, as in SciPy.
        rows.sum_duplicates()
        return to_dense(rows, self._absent)


def _open_file(source: str | os.PathLike[str], layer: str | None, absent: str) -> tuple[RowSource, list[str]]:
    path = existing_path(source)
    h5py, anndata_io = library("h5py", "anndata"), library("anndata.io", "anndata")
    with name_file_in_errors(path):
        file = h5py.File(path, "r")
        layers, names = file.get("layers", {}), anndata_io.read_elem(file["var"]).index
        node = file["X"] if layer is None else layers.get(layer)
    if node is None:
        raise _no_layer(str(path), layer, layers)
    return _rows_of_node(str(path), node, absent), [str(name) for name in names]


def _open_object(source: Any, layer: str | None, absent: str) -> tuple[RowSource, list[str]]:
    if layer is not None and layer not in source.layers:
        raise _no_layer("the AnnData object", layer, source.layers)
    if source.isbacked and source.is_view:
        raise ValueError(
            "source: a part of an AnnData object that is on disk; "
            "expected the whole object, or a copy in memory, source.to_memory()"
        )
    matrix = source.X if layer is None else source.layers[layer]
    names = [str(name) for name in source.var_names]
    if source.isbacked and layer is None:
        return _rows_of_node(str(source.filename), getattr(matrix, "group", matrix), absent), names
    if matrix is None:
        raise ValueError("source: the AnnData object has no X; expected a layer=...")
    rows: RowSource = SparseRows(matrix, absent=absent) if sparse.issparse(matrix) else ArrayRows(matrix)
    return rows, names


def _rows_of_node(name: str, node: Any, absent: str) -> RowSource:
    """Return the rows of a matrix in a file, which is dense (a dataset) or sparse (a group)."""
    if isinstance(node, library("h5py", "anndata").Dataset):
        return HDF5Rows(node)
    return _StoredSparseRows(name, node, absent)


def _no_layer(name: str, layer: str | None, layers: Any) -> ValueError:
    known = ", ".join(map(repr, layers)) or "none"
    return ValueError(
        f"layer={layer!r}: {name} has these layers: {known}; expected one of them, or None for X"
    )
