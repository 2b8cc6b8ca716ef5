"""Every source hands out the rows that an array in memory would, in any order."""

import subprocess
import sys

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import stored_tables
import zarr
from scipy import sparse
from stored_tables import FULL, NAMES, D, N, X, write_fcs, write_h5ad

import bpfa
from bpfa import ArrayRows
from bpfa.data import (
    AnnDataRows,
    ConcatRows,
    FCSRows,
    HDF5Rows,
    MemmapRows,
    ParquetRows,
    SparseRows,
    TableRows,
    ZarrRows,
    as_rows,
    open_rows,
    read_csv,
)

anndata = pytest.importorskip("anndata")

RNG = stored_tables.RNG
COUNTS = RNG.poisson(0.7, size=(N, D)).astype(np.float64)
IDS = [
    np.arange(N),
    np.array([N - 1]),
    np.array([7, 3, 22, 3, 0, 8, 8, 21]),
    RNG.permutation(N),
    np.empty(0, dtype=np.int64),
]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Five rows a chunk, so that there are several and the last is shorter."""
    monkeypatch.setattr("bpfa.data.formats.files.CHUNK_ENTRIES", 5 * D)
    monkeypatch.setattr("bpfa.data.formats.parquet.CHUNK_ENTRIES", 5 * D)


def save(path, array):
    np.save(path, array)
    return path


def npy_fortran(folder):
    return MemmapRows(save(folder / "x.npy", np.asfortranarray(X))), X


def npy_big_endian(folder):
    return MemmapRows(save(folder / "x.npy", X.astype(">f4"))), X


def npy_double(folder):
    return MemmapRows(save(folder / "x.npy", X.astype(np.float64))), X.astype(np.float64)


def npy_integers(folder):
    return MemmapRows(save(folder / "x.npy", COUNTS.astype(np.int16))), COUNTS


def memmap_slice(folder):
    padded = np.vstack([FULL[:3], X, FULL[:2]])
    return as_rows(np.load(save(folder / "x.npy", padded), mmap_mode="r")[1:][2 : N + 2]), X


def memmap_transposed(folder):
    return as_rows(np.load(save(folder / "x.npy", X.T.copy()), mmap_mode="r").T), X


def raw_memmap(folder):
    (folder / "x.raw").write_bytes(b"header.." + X.tobytes())
    return as_rows(np.memmap(folder / "x.raw", dtype=np.float32, mode="r", offset=8, shape=X.shape)), X


def hdf5(chunks, **options):
    def open_hdf5(folder):
        with h5py.File(folder / "x.h5", "w") as file:
            file.create_dataset("group/x", data=X, chunks=chunks, **options)
            file["names"] = [b"a", b"b"]
        return HDF5Rows(folder / "x.h5"), X

    return open_hdf5


def hdf5_dataset(folder):
    hdf5((3, 2))(folder)
    return as_rows(h5py.File(folder / "x.h5", "r")["group/x"]), X


def zarr_array(folder):
    array = zarr.create_array(str(folder / "x.zarr"), data=X, chunks=(4, 3))
    return as_rows(array), X


def zarr_group(folder):
    group = zarr.open_group(str(folder / "x.zarr"), mode="w")
    group.create_array("deep/x", data=X, chunks=(4, D))
    group.create_array("labels", data=np.arange(N))
    return ZarrRows(folder / "x.zarr"), X


def parquet(row_group_size):
    def open_parquet(folder):
        table = pa.table([pa.array(column, from_pandas=True) for column in X.T], names=NAMES)
        pa.parquet.write_table(table, folder / "x.parquet", row_group_size=row_group_size)
        return ParquetRows(folder / "x.parquet"), X

    return open_parquet


def parquet_kinds(folder):
    """Integers and booleans with nulls, a column of text that is not chosen, and the index of pandas."""
    frame = pd.DataFrame(
        {
            "text": ["t"] * N,
            "b": pd.array([None, *([True] * (N - 1))], dtype="boolean"),
            "a": pd.array([None, *range(N - 1)], dtype="Int64"),
        },
        index=np.arange(N) * 2,
    )
    frame.to_parquet(folder / "x.parquet", row_group_size=6)
    expected = np.full((N, 2), np.nan)
    expected[1:, 0], expected[1:, 1] = np.arange(N - 1), 1.0
    return ParquetRows(folder / "x.parquet", columns=["a", "b"]), expected


def sparse_missing(folder):
    observed = ~np.isnan(X)
    stored = sparse.coo_array((X[observed], np.nonzero(observed)), shape=X.shape)
    return SparseRows(stored, absent="missing"), X


def sparse_zero(folder):
    return SparseRows(sparse.csc_matrix(COUNTS), absent="zero"), COUNTS


def h5ad(matrix, values, **options):
    return lambda folder: (AnnDataRows(write_h5ad(folder / "x.h5ad", matrix), **options), values)


def backed(matrix, values, **options):
    def open_backed(folder):
        data = anndata.read_h5ad(write_h5ad(folder / "x.h5ad", matrix), backed="r")
        return AnnDataRows(data, **options), values

    return open_backed


def in_memory(matrix, values, **options):
    return lambda folder: (AnnDataRows(anndata.AnnData(matrix), **options), values)


MISSING_COUNTS = np.where(COUNTS == 0, np.nan, COUNTS)


def fcs(folder):
    return FCSRows(write_fcs(folder / "x.fcs", 10 * FULL)), np.arcsinh(10 * FULL.astype(float) / 5)


def fcs_integers(folder):
    """Not a matrix of floating-point numbers: the library reads it."""
    path = write_fcs(folder / "x.fcs", FULL)
    events, raw = COUNTS.astype("<i4"), path.read_bytes().replace(b"$DATATYPE/F/", b"$DATATYPE/I/")
    start = raw.index(FULL.astype("<f4").tobytes())
    path.write_bytes(raw[:start] + events.tobytes() + raw[start + events.nbytes :])
    return FCSRows(path, cofactor=None), COUNTS.astype(np.float32)


def fcs_raw(folder):
    path = write_fcs(folder / "x.fcs", FULL, markers=["M1", "", "M3", "M4"])
    return FCSRows(path, channels=["M3", "b", "a"], cofactor=None), FULL[:, [2, 1, 0]]


def concat(folder):
    parts = [save(folder / f"{i}.npy", part) for i, part in enumerate(np.split(X, [3, 4, 14]))]
    return open_rows(parts), X


def concat_mixed(folder):
    """A file, an array and a file in double precision."""
    single, double = save(folder / "0.npy", X[:9]), save(folder / "1.npy", X[17:].astype(float))
    return ConcatRows([MemmapRows(single), ArrayRows(X[9:17]), MemmapRows(double)]), X.astype(float)


def pandas_frame(folder):
    return as_rows(pd.DataFrame(X, columns=NAMES)), X


def pandas_nullable(folder):
    frame = pd.DataFrame(
        {name: pd.array(column, dtype="Float32") for name, column in zip(NAMES, X.T, strict=True)}
    )
    return TableRows(frame), X


def polars_frame(folder):
    return as_rows(pl.DataFrame(X, schema=NAMES).fill_nan(None)), X


def csv(folder):
    pd.DataFrame(X, columns=NAMES).to_csv(folder / "x.csv", index=False)
    return read_csv(folder / "x.csv"), X.astype(np.float64)


def tsv_by_polars(folder):
    pl.DataFrame(X, schema=NAMES).fill_nan(None).write_csv(folder / "x.tsv", separator="\t")
    return open_rows(folder / "x.tsv", columns=["d", "a"]), X[:, [3, 0]].astype(np.float64)


def npz(folder):
    np.savez(folder / "x.npz", x=X, names=NAMES)
    return open_rows(folder / "x.npz"), X


def sparse_npz(folder):
    sparse.save_npz(folder / "x.npz", sparse.csr_array(COUNTS))
    return open_rows(folder / "x.npz", absent="zero"), COUNTS


SOURCES = {
    "npy": lambda folder: (open_rows(save(folder / "x.npy", X)), X),
    "npy, by columns": npy_fortran,
    "npy, big endian": npy_big_endian,
    "npy, double": npy_double,
    "npy, integers": npy_integers,
    "part of a memmap": memmap_slice,
    "memmap by columns": memmap_transposed,
    "memmap of no npy": raw_memmap,
    "hdf5, contiguous": hdf5(None),
    "hdf5, chunks": hdf5((7, 3)),
    "hdf5, compressed": hdf5((2, D), compression="gzip"),
    "hdf5 dataset": hdf5_dataset,
    "zarr array": zarr_array,
    "zarr group": zarr_group,
    "parquet, small groups": parquet(2),
    "parquet, groups": parquet(6),
    "parquet, one group": parquet(N),
    "parquet, kinds of numbers": parquet_kinds,
    "sparse, missing": sparse_missing,
    "sparse, zero": sparse_zero,
    "h5ad, dense": h5ad(X, X),
    "h5ad, sparse": h5ad(sparse.csr_matrix(COUNTS), COUNTS),
    "h5ad, missing": h5ad(sparse.csr_matrix(COUNTS), MISSING_COUNTS, absent="missing"),
    "h5ad, layer": h5ad(sparse.csr_matrix(COUNTS), 2 * COUNTS, layer="twice"),
    "backed, dense": backed(X, X),
    "backed, sparse": backed(sparse.csr_matrix(COUNTS), COUNTS),
    "backed, layer": backed(sparse.csr_matrix(COUNTS), 2 * COUNTS, layer="twice"),
    "anndata, dense": in_memory(X, X),
    "anndata, sparse": in_memory(sparse.csc_matrix(COUNTS), COUNTS),
    "anndata, missing": in_memory(sparse.csr_matrix(COUNTS), MISSING_COUNTS, absent="missing"),
    "fcs": fcs,
    "fcs, raw channels": fcs_raw,
    "fcs, integers": fcs_integers,
    "list of files": concat,
    "list of sources": concat_mixed,
    "pandas": pandas_frame,
    "pandas, nullable": pandas_nullable,
    "polars": polars_frame,
    "csv": csv,
    "tsv": tsv_by_polars,
    "npz": npz,
    "sparse npz": sparse_npz,
}


@pytest.mark.parametrize("source", SOURCES)
def test_rows_are_those_of_the_array(source, tmp_path):
    rows, expected = SOURCES[source](tmp_path)
    assert isinstance(rows, bpfa.Rows)
    assert (rows.n_rows, rows.n_columns) == expected.shape
    for ids in IDS:
        batch = rows.take(ids)
        np.testing.assert_array_equal(batch.observed, ~np.isnan(expected[ids]))
        np.testing.assert_allclose(batch.values, np.nan_to_num(expected[ids]), rtol=1e-6)
        np.testing.assert_array_equal(batch.ids, ids)
        assert not len(ids) or source == "fcs" or batch.values.dtype == expected.dtype
    for start, stop in [(0, N), (3, 12), (N - 1, N)]:
        batch = rows.read(start, stop)
        np.testing.assert_array_equal(batch.observed, ~np.isnan(expected[start:stop]))
        np.testing.assert_allclose(batch.values, np.nan_to_num(expected[start:stop]), rtol=1e-6)
        np.testing.assert_array_equal(batch.ids, np.arange(start, stop))


IN_MEMORY = ("anndata,", "backed, layer", "sparse", "pandas", "polars", "csv", "tsv", "npz")


@pytest.mark.parametrize("source", SOURCES)
def test_files_have_chunks_and_memory_has_none(source, tmp_path):
    edges = SOURCES[source](tmp_path)[0].chunk_edges
    if source.startswith(IN_MEMORY):
        assert edges is None
    else:
        assert edges[0] == 0
        assert edges[-1] == N
        assert (np.diff(edges) > 0).all()


def test_chunks_are_whole_pieces_of_the_file(tmp_path):
    np.testing.assert_array_equal(hdf5(None)(tmp_path)[0].chunk_edges, [0, 5, 10, 15, 20, 23])
    # Pieces of two rows: two of them are four rows, and three would be more than a chunk.
    np.testing.assert_array_equal(hdf5((2, D))(tmp_path)[0].chunk_edges, [0, 4, 8, 12, 16, 20, 23])
    np.testing.assert_array_equal(hdf5((7, 3))(tmp_path)[0].chunk_edges, [0, 7, 14, 21, 23])
    np.testing.assert_array_equal(zarr_array(tmp_path)[0].chunk_edges, [0, 4, 8, 12, 16, 20, 23])
    np.testing.assert_array_equal(fcs_integers(tmp_path)[0].chunk_edges, [0, 23])
    np.testing.assert_array_equal(parquet(2)(tmp_path)[0].chunk_edges, [0, 6, 12, 18, 23])
    np.testing.assert_array_equal(parquet(9)(tmp_path)[0].chunk_edges, [0, 9, 18, 23])
    np.testing.assert_array_equal(concat_mixed(tmp_path)[0].chunk_edges, [0, 5, 9, 14, 17, 22, 23])


def test_pieces_too_large_for_memory_are_read_in_parts(tmp_path, monkeypatch):
    for module in ("files", "parquet"):
        monkeypatch.setattr(f"bpfa.data.formats.{module}.MAX_CHUNK_ENTRIES", 8 * D)
    for rows, expected in (hdf5((N, D))(tmp_path), parquet(N)(tmp_path)):
        assert np.diff(rows.chunk_edges).max() <= 8
        np.testing.assert_array_equal(rows.take(IDS[2]).values, np.nan_to_num(expected[IDS[2]]))


def test_a_chunk_is_read_once_and_only_where_it_is_needed():
    reads = []

    class Counted(bpfa.data.FileRows):
        def _read(self, start, stop):
            reads.append((start, stop))
            return X[start:stop]

    Counted("x", X.shape, X.dtype).take(np.array([22, 7, 4, 9, 22, 1, 4, 5]))
    assert reads == [(1, 5), (5, 10), (22, 23)]


@pytest.mark.parametrize(
    "source",
    ["parquet, groups", "h5ad, dense", "h5ad, layer", "backed, sparse", "pandas", "polars", "csv", "fcs"],
)
def test_column_names(source, tmp_path):
    assert SOURCES[source](tmp_path)[0].column_names == NAMES


def test_the_index_of_pandas_is_no_column(tmp_path):
    pd.DataFrame(FULL, columns=NAMES, index=np.arange(N) * 2).to_parquet(tmp_path / "x.parquet")
    rows = ParquetRows(tmp_path / "x.parquet")
    assert rows.column_names == NAMES
    chosen = ParquetRows(tmp_path / "x.parquet", columns=["__index_level_0__"])
    np.testing.assert_array_equal(chosen.take(np.array([3])).values, [[6.0]])


def test_columns_are_named_by_their_markers(tmp_path):
    assert fcs_raw(tmp_path)[0].column_names == ["M3", "b", "M1"]
    assert ConcatRows([ArrayRows(X), pandas_frame(tmp_path)[0]]).column_names == NAMES
    assert ConcatRows([ArrayRows(X)]).column_names is None


def test_stored_zeros_are_zeros_and_stored_nan_is_missing():
    matrix = sparse.csr_array((np.array([0.0, np.nan, 2.0]), ([0, 0, 1], [0, 1, 1])), shape=(2, 3))
    missing = SparseRows(matrix, absent="missing").take(np.arange(2))
    np.testing.assert_array_equal(missing.observed, [[True, False, False], [False, True, False]])
    zero = SparseRows(matrix, absent="zero").take(np.arange(2))
    np.testing.assert_array_equal(zero.observed, [[True, False, True], [True, True, True]])


def test_entries_stored_twice_add_up_as_in_scipy():
    matrix = sparse.csr_array((np.ones(3), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    rows = SparseRows(matrix, absent="zero")
    np.testing.assert_array_equal(rows.take(np.arange(2)).values, [[0, 2], [1, 0]])
    assert matrix.nnz == 3  # as it was given


def test_a_mapped_array_is_not_loaded_but_one_changed_in_memory_is(tmp_path):
    path = save(tmp_path / "x.npy", FULL)
    assert isinstance(as_rows(np.load(path, mmap_mode="r")), MemmapRows)
    changed = np.load(path, mmap_mode="c")
    changed[0, 0] = 7.0
    assert as_rows(changed).take(np.array([0])).values[0, 0] == 7.0
    hidden = as_rows(np.load(path, mmap_mode="r"), missing=np.eye(N, D, dtype=bool))
    assert not hidden.take(np.array([1])).observed[0, 1]


def test_a_mask_goes_with_a_table(tmp_path):
    rows = as_rows(pd.DataFrame(FULL), missing=np.eye(N, D, dtype=bool))
    np.testing.assert_array_equal(rows.take(np.array([1])).observed, [[True, False, True, True]])


def test_no_library_is_needed_but_for_its_own_files():
    optional = {"h5py", "zarr", "pyarrow", "pandas", "polars", "anndata", "flowio"}
    code = f"import sys, bpfa.data; print({optional} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
