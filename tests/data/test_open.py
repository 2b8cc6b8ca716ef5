"""What cannot be opened is refused in one line that names the file or the argument, and the way out."""

import sys

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import zarr
from scipy import sparse
from stored_tables import FULL, NAMES, WRITERS, N, write_csv, write_fcs, write_h5ad, write_npy, write_zarr

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
    sequential,
)

anndata = pytest.importorskip("anndata")


def with_infinity():
    array = FULL.astype(np.float64)
    array[17, 2] = -np.inf
    return array


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_path_is_known_by_its_suffix(suffix, tmp_path):
    WRITERS[suffix](tmp_path / f"x{suffix}", FULL)
    options = {"cofactor": None} if suffix == ".fcs" else {}
    for path in (tmp_path / f"x{suffix}", str(tmp_path / f"x{suffix}")):
        np.testing.assert_allclose(open_rows(path, **options).take(np.arange(N)).values, FULL, rtol=1e-6)
    twice = open_rows([tmp_path / f"x{suffix}"] * 2, **options)
    np.testing.assert_allclose(twice.take(np.array([N + 1, 0])).values, FULL[[1, 0]], rtol=1e-6)


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_file_that_is_not_there(suffix, tmp_path):
    with pytest.raises(FileNotFoundError, match=f"nothing{suffix}: no such file"):
        open_rows(tmp_path / f"nothing{suffix}")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet", ".h5", ".h5ad", ".fcs"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.98])
def test_a_truncated_file(suffix, share, tmp_path):
    path = tmp_path / f"x{suffix}"
    WRITERS[suffix](path, FULL)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    refused(path)


@pytest.mark.parametrize("suffix", [suffix for suffix in WRITERS if suffix not in (".csv", ".tsv")])
def test_a_foreign_file(suffix, tmp_path):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(bytes(np.random.default_rng(0).integers(0, 256, 5000, dtype=np.uint8)))
    refused(path)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n3,4,5,6\n", b"\xff\xfe\x00\x81"])
def test_a_table_that_is_none(suffix, content, tmp_path):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content.replace(b",", b"\t") if suffix == ".tsv" else content)
    refused(path)


def test_a_zarr_array_with_damaged_chunks(tmp_path):
    write_zarr(tmp_path / "x.zarr", FULL)
    for chunk in (tmp_path / "x.zarr" / "c").rglob("0"):
        if chunk.is_file():
            chunk.write_bytes(b"\x00\x01")
    refused(tmp_path / "x.zarr")
    (tmp_path / "x.zarr" / "zarr.json").write_text("{")
    refused(tmp_path / "x.zarr")


def test_a_file_cut_after_it_was_opened(tmp_path):
    for order in (np.ascontiguousarray, np.asfortranarray):
        write_npy(tmp_path / "x.npy", order(FULL))
        rows = open_rows(tmp_path / "x.npy")
        (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-1])
        assert rows.take(np.array([0])).complete
        with pytest.raises(ValueError, match=r"x\.npy: cannot be read \(the file ends too early\)"):
            rows.take(np.array([N - 1]))


def refused(path):
    """One line that names the file, of no type that belongs to a library."""
    with pytest.raises((ValueError, TypeError)) as caught:
        for _ in sequential(open_rows(path)):
            pass
    assert type(caught.value) in (ValueError, TypeError)
    message = str(caught.value)
    assert str(path) in message
    assert "expected" in message
    assert "\n" not in message


@pytest.mark.parametrize("suffix", [suffix for suffix in WRITERS if suffix != ".fcs"])
def test_infinity_is_refused_with_its_place(suffix, tmp_path):
    path = tmp_path / f"x{suffix}"
    WRITERS[suffix](path, with_infinity())
    column = "'c'" if suffix in (".csv", ".tsv", ".parquet", ".h5ad") else "2"
    with pytest.raises(ValueError, match=rf"-inf at row 17, column {column}; expected finite") as caught:
        list(sequential(open_rows(path)))
    assert str(path) in str(caught.value)


def test_infinity_in_a_sparse_matrix_has_a_place_too():
    with pytest.raises(ValueError, match="matrix: -inf at row 17, column 2; expected finite"):
        SparseRows(sparse.csc_array(with_infinity()), absent="zero")


def test_infinity_in_stored_sparse_rows(tmp_path):
    write_h5ad(tmp_path / "x.h5ad", sparse.csr_matrix(with_infinity()))
    with pytest.raises(ValueError, match=r"x\.h5ad: -inf at row 17, column 'c'"):
        list(sequential(open_rows(tmp_path / "x.h5ad")))


def npy(folder, array):
    np.save(folder / "x.npy", array)
    return folder / "x.npy"


def two_datasets(folder):
    with h5py.File(folder / "x.h5", "w") as file:
        file["first"], file["deep/second"], file["names"] = FULL, FULL[:, :2], [b"a"]
    return folder / "x.h5"


def two_arrays(folder):
    group = zarr.open_group(str(folder / "x.zarr"), mode="w")
    group.create_array("first", data=FULL)
    group.create_array("deep/second", data=FULL)
    return folder / "x.zarr"


def npz(folder):
    np.savez(folder / "x.npz", first=FULL, second=FULL, names=NAMES)
    return folder / "x.npz"


def sparse_npz(folder):
    sparse.save_npz(folder / "x.npz", sparse.csr_array(FULL))
    return folder / "x.npz"


def text_parquet(folder):
    pd.DataFrame({"a": [1.0], "donor": ["p7"]}).to_parquet(folder / "x.parquet")
    return folder / "x.parquet"


def text_csv(folder):
    (folder / "x.csv").write_text("a,donor\n1,p7\n")
    return folder / "x.csv"


def by_columns(folder):
    write_h5ad(folder / "x.h5ad", sparse.csc_matrix(FULL))
    return folder / "x.h5ad"


def fcs(folder):
    return write_fcs(folder / "x.fcs", FULL, markers=["CD4", "CD8", "", "CD4"])


def different_columns(folder):
    np.save(folder / "1.npy", FULL)
    np.save(folder / "2.npy", FULL[:, :3])
    return [folder / "1.npy", folder / "2.npy"]


def different_names(folder):
    pd.DataFrame(FULL, columns=NAMES).to_parquet(folder / "1.parquet")
    pd.DataFrame(FULL, columns=[*"abdc"]).to_parquet(folder / "2.parquet")
    return [folder / "1.parquet", folder / "2.parquet"]


def part_of_backed(folder):
    write_h5ad(folder / "x.h5ad", FULL)
    return anndata.read_h5ad(folder / "x.h5ad", backed="r")[:3]


def folder_named_as_a_file(folder):
    (folder / "x.parquet").mkdir()
    return folder / "x.parquet"


MATRIX = sparse.csr_array(FULL)
FRAME = pd.DataFrame(FULL, columns=NAMES)
REFUSED = {
    "suffix": (lambda f: open_rows(f / "x.doc"), r"x\.doc: suffix '\.doc'; expected one of \.npy .*\.fcs"),
    "no suffix": (lambda f: open_rows("data"), "data: suffix ''"),
    "directory": (lambda f: open_rows(folder_named_as_a_file(f)), r"x\.parquet: a directory"),
    "empty list": (lambda f: open_rows([]), "empty list; expected at least one"),
    "no sources": (lambda f: ConcatRows([]), "sources: an empty list"),
    "not rows": (lambda f: ConcatRows([ArrayRows(FULL), FULL]), r"sources\[1\]: ndarray; expected Rows"),
    "paths and arrays": (lambda f: open_rows(["x.npy", FULL]), "source: a list of paths and other objects"),
    "number of columns": (
        lambda f: open_rows(different_columns(f)),
        r"sources\[1\] \(.*2\.npy\): 3 columns; expected 4, as the first source has",
    ),
    "names of columns": (
        lambda f: open_rows(different_names(f)),
        r"sources\[1\] \(.*2\.parquet\): column 2 is 'd'; expected 'c'",
    ),
    "option": (lambda f: open_rows(npy(f, FULL), key="x"), r"key: not an option of \.npy files"),
    "option of objects": (lambda f: open_rows(FRAME, layer="x"), "layer: not an option .*; expected columns"),
    "option of rows": (lambda f: open_rows(ArrayRows(FULL), key="x"), "key: not an option of a source"),
    "no rows": (lambda f: open_rows(npy(f, np.empty((0, 3)))), r"x\.npy: shape \(0, 3\); expected rows"),
    "no columns": (lambda f: open_rows(npy(f, np.empty((3, 0)))), r"x\.npy: shape \(3, 0\)"),
    "one dimension": (lambda f: open_rows(npy(f, FULL[0])), r"x\.npy: shape \(4,\); expected rows x columns"),
    "complex": (lambda f: open_rows(npy(f, FULL * 1j)), r"x\.npy: dtype complex64; expected real numbers"),
    "text": (lambda f: open_rows(npy(f, np.array([["a"]]))), r"x\.npy: dtype <U1; expected real numbers"),
    "objects": (lambda f: open_rows(npy(f, np.array([[None]]))), r"x\.npy: cannot be read \(.*\)"),
    "npz as npy": (lambda f: MemmapRows(npz(f)), r"x\.npz: cannot be read \(.*magic string"),
    "slice of columns": (
        lambda f: as_rows(np.load(npy(f, FULL), mmap_mode="r")[:, 1:3]),
        r"x\.npy: part of a mapped array that is not whole rows; .* numpy.array",
    ),
    "no key": (
        lambda f: open_rows(two_datasets(f)),
        r"key=None: .*x\.h5 has these arrays: 'deep/second' \(23, 2\), 'first' \(23, 4\), 'names' \(1,\)",
    ),
    "wrong key": (lambda f: open_rows(two_datasets(f), key="third"), "key='third': .* 'first'"),
    "group as key": (lambda f: open_rows(two_datasets(f), key="deep"), "key='deep': .* 'first'"),
    "key of one dimension": (lambda f: open_rows(two_datasets(f), key="names"), r"shape \(1,\)"),
    "key of a dataset": (
        lambda f: HDF5Rows(h5py.File(two_datasets(f), "r")["first"], key="x"),
        "key='x': the source is a dataset already",
    ),
    "no key in npz": (lambda f: open_rows(npz(f)), r"key=None: .*x\.npz has these arrays: 'first' \(23, 4\)"),
    "wrong key in npz": (lambda f: open_rows(npz(f), key="x"), "key='x': .*'second'"),
    "text in npz": (lambda f: open_rows(npz(f), key="names"), r"x\.npz: dtype <U1"),
    "no key in zarr": (lambda f: open_rows(two_arrays(f)), "key=None: .*'deep/second'"),
    "wrong key in zarr": (lambda f: open_rows(two_arrays(f), key="deep"), "key='deep': .*'first'"),
    "key of a zarr array": (
        lambda f: ZarrRows(zarr.open(str(two_arrays(f)))["first"], key="x"),
        "key='x': .* is an array, not a group",
    ),
    "sparse": (lambda f: as_rows(MATRIX), r'open_rows\(X, absent="missing"\) or .*absent="zero"'),
    "sparse too": (lambda f: open_rows(MATRIX), r'open_rows\(X, absent="missing"\)'),
    "sparse npz": (lambda f: open_rows(sparse_npz(f)), r'open_rows\(X, absent="missing"\)'),
    "key of a sparse npz": (
        lambda f: open_rows(sparse_npz(f), key="data"),
        "key='data': .* one sparse matrix",
    ),
    "absent of npz": (lambda f: open_rows(npz(f), absent="zero"), "absent='zero': .* is not a sparse matrix"),
    "absent": (lambda f: open_rows(MATRIX, absent="nan"), "absent='nan': expected one of 'missing', 'zero'"),
    "dense as sparse": (lambda f: SparseRows(FULL, absent="zero"), "matrix: ndarray; expected a sparse"),
    "nothing stored": (
        lambda f: SparseRows(sparse.csr_array((3, 2)), absent="missing"),
        "matrix: every entry is missing",
    ),
    "stored NaN": (
        lambda f: SparseRows(sparse.csr_array(np.full((3, 2), np.nan)), absent="zero"),
        "matrix: every entry is missing",
    ),
    "sparse without rows": (
        lambda f: SparseRows(sparse.csr_array((0, 2)), absent="zero"),
        r"matrix: shape \(0, 2\)",
    ),
    "complex sparse": (lambda f: SparseRows(MATRIX * 1j, absent="zero"), "matrix: dtype complex"),
    "text in parquet": (
        lambda f: open_rows(text_parquet(f)),
        r"x\.parquet: column 'donor' is not numbers \('p7' in row 0\); .*exclude=\['donor'\]",
    ),
    "text in csv": (lambda f: open_rows(text_csv(f)), r"'donor' is not numbers \('p7' in line 2\)"),
    "text in pandas": (lambda f: as_rows(FRAME.assign(donor="p7")), "data: column 'donor' is not numbers"),
    "text in polars": (lambda f: as_rows(pl.DataFrame({"donor": ["p7"]})), "column 'donor' is not numbers"),
    "dates": (lambda f: as_rows(FRAME.assign(when=pd.Timestamp(0))), "column 'when' is not numbers"),
    "complex in pandas": (lambda f: as_rows(FRAME.assign(c=1j)), "column 'c' is not numbers"),
    "columns": (
        lambda f: open_rows(text_parquet(f), columns=["b"]),
        r"columns: 'b' is not in .*x\.parquet, which has 'a', 'donor'",
    ),
    "columns as text": (lambda f: TableRows(FRAME, columns="a"), "columns='a': expected a list"),
    "no columns chosen": (lambda f: ParquetRows(text_parquet(f), columns=[]), "columns: none of"),
    "columns twice": (lambda f: as_rows(pd.concat([FRAME, FRAME], axis=1)), "two columns are called 'a'"),
    "by columns": (lambda f: open_rows(by_columns(f)), r"x\.h5ad: the matrix is stored as csc_matrix"),
    "layer": (
        lambda f: open_rows(by_columns(f), layer="counts"),
        r"layer='counts': .*x\.h5ad has these layers: 'twice'",
    ),
    "layer of an object": (
        lambda f: AnnDataRows(anndata.AnnData(FULL), layer="counts"),
        "layer='counts': the AnnData object has these layers: none",
    ),
    "no X": (lambda f: AnnDataRows(anndata.AnnData(shape=(3, 2))), "has no X; expected a layer"),
    "part of a backed object": (lambda f: AnnDataRows(part_of_backed(f)), r"source\.to_memory\(\)"),
    "absent of AnnData": (lambda f: AnnDataRows(anndata.AnnData(FULL), absent="x"), "absent='x'"),
    "channel": (
        lambda f: open_rows(fcs(f), channels=["CD3"]),
        r"'CD3' is the name of 0 channels of .*x\.fcs, which has 'CD4' \(a\), 'CD8' \(b\), 'c' \(c\)",
    ),
    "two channels": (lambda f: open_rows(fcs(f), channels=["CD4"]), "'CD4' is the name of 2 channels"),
    "channels as text": (lambda f: open_rows(fcs(f), channels="CD8"), "channels='CD8': expected a list"),
    "no channels": (lambda f: open_rows(fcs(f), channels=[]), r"x\.fcs: shape \(23, 0\)"),
    "cofactor": (lambda f: FCSRows(fcs(f), cofactor=0), "cofactor=0.0: expected a number > 0"),
    "path as data": (lambda f: as_rows("x.npy"), r"data='x\.npy': a path; .*bpfa\.open_rows"),
    "mask of rows": (lambda f: as_rows(ArrayRows(FULL), FULL > 0), "missing: a mask goes with an array"),
    "mask of sparse": (lambda f: as_rows(MATRIX, FULL > 0), "missing: a mask goes .* not with a sparse"),
    "all missing": (lambda f: open_rows(FRAME * np.nan), "data: every entry is missing"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_one_line(case, tmp_path):
    call, match = REFUSED[case]
    with pytest.raises((ValueError, TypeError), match=match) as caught:
        call(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_file_with_nothing_observed_is_refused_when_it_is_known(tmp_path):
    from bpfa.data import column_moments

    with pytest.raises(ValueError, match="every entry is missing"):
        column_moments(open_rows(npy(tmp_path, np.full((3, 2), np.nan))))


@pytest.mark.parametrize(
    ("library", "extra", "opener", "suffix"),
    [
        ("h5py", "hdf5", HDF5Rows, ".h5"),
        ("zarr", "zarr", ZarrRows, ".zarr"),
        ("pyarrow", "parquet", ParquetRows, ".parquet"),
        ("anndata.io", "anndata", AnnDataRows, ".h5ad"),
        ("flowio", "fcs", FCSRows, ".fcs"),
    ],
)
def test_a_library_that_is_not_installed(library, extra, opener, suffix, tmp_path, monkeypatch):
    WRITERS[suffix](tmp_path / f"x{suffix}", FULL)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"needs {library}: pip install 'bpfa\[{extra}\]'"):
        opener(tmp_path / f"x{suffix}")


def test_text_files_need_no_library(tmp_path, monkeypatch):
    write_csv(tmp_path / "x.csv", with_infinity() * 0.1)
    (tmp_path / "y.csv").write_text("gene;a;b\nTP53; 1,25;NA\nMYC;true;-3e-2\n")
    (tmp_path / "z.csv").write_text("a,b\n1,2\n3,n.d.\n")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "pandas", None)
    rows = open_rows(tmp_path / "y.csv")
    np.testing.assert_array_equal(rows.values, [[1.25, np.nan], [1.0, -0.03]])
    with pytest.raises(ValueError, match="-inf at row 17, column 'c'"):
        open_rows(tmp_path / "x.csv")
    with pytest.raises(TypeError, match=r"column 'b' is not numbers \('n\.d\.' in line 3\)"):
        open_rows(tmp_path / "z.csv")


def test_a_source_of_rows_opens_as_itself():
    rows = ArrayRows(FULL)
    assert open_rows(rows) is rows
    assert isinstance(open_rows(FULL.tolist()), ArrayRows)


def test_a_table_of_parquet_may_be_written_by_arrow(tmp_path):
    pa.parquet.write_table(pa.table({"a": pa.array([1, 2], pa.int64())}), tmp_path / "x.parquet")
    np.testing.assert_array_equal(open_rows(tmp_path / "x.parquet").take(np.array([1])).values, [[2.0]])


def test_only_the_named_array_of_an_npz_is_read(tmp_path, monkeypatch):
    """Others may be too large for the memory, or objects, which are never read."""
    labels = np.array(["a", None], dtype=object)
    np.savez(tmp_path / "x.npz", counts=np.eye(3), other=np.ones((4, 2)), labels=labels)
    np.savez(tmp_path / "y.npz", counts=np.eye(3), labels=labels)
    read, original = [], np.lib.npyio.NpzFile.__getitem__
    monkeypatch.setattr(
        np.lib.npyio.NpzFile, "__getitem__", lambda file, key: read.append(key) or original(file, key)
    )
    assert open_rows(tmp_path / "x.npz", key="counts").n_rows == 3
    assert open_rows(tmp_path / "y.npz").n_rows == 3
    assert read == ["counts", "counts"]
    with pytest.raises(ValueError, match=r"key=None: .*'counts' \(3, 3\), 'other' \(4, 2\), 'labels' \(2,\)"):
        open_rows(tmp_path / "x.npz")
    with pytest.raises(ValueError, match=r"x.npz: cannot be read .*allow_pickle"):
        open_rows(tmp_path / "x.npz", key="labels")
