"""Names of rows are kept apart from the data, in every format that has them."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from stored_tables import FULL, NAMES, N, write_fcs, write_h5ad

from bpfa import ArrayRows
from bpfa.data import AnnDataRows, ConcatRows, ParquetRows, StandardisedRows, TableRows, open_rows

anndata = pytest.importorskip("anndata")

CELLS = [f"cell {i}" for i in range(N)]
FRAME = pd.DataFrame(FULL, columns=NAMES)


def names_of(rows):
    names = rows.row_names()
    return (
        None
        if names is None
        else {label: list(column) for label, column in zip(names.labels, names.values, strict=True)}
    )


def parquet(folder, frame, **options):
    if isinstance(frame, pa.Table):
        pa.parquet.write_table(frame, folder / "x.parquet", row_group_size=5)
    else:
        frame.to_parquet(folder / "x.parquet", row_group_size=5)
    return open_rows(folder / "x.parquet", **options)


def table(**first):
    return pa.table({**first, **{name: FULL[:, column] for column, name in enumerate(NAMES)}})


PARQUET = {
    "no index": (FRAME, None, None),
    "counted by pandas": (
        FRAME.set_axis(np.arange(N)),
        {"": list(range(N))},
        "row names from the index",
    ),
    "range": (FRAME.set_axis(pd.RangeIndex(5, 5 + N)), {"": list(range(5, 5 + N))}, None),
    "unnamed": (FRAME.set_axis(CELLS), {"": CELLS}, "row names from the index"),
    "named": (FRAME.set_axis(pd.Index(CELLS, name="cell")), {"cell": CELLS}, "row names from column 'cell'"),
    "numbers": (
        FRAME.set_axis(pd.Index(range(0, 2 * N, 2), name="id").astype("int32")),
        {"id": list(range(0, 2 * N, 2))},
        "row names from column 'id'",
    ),
    "two levels": (
        FRAME.set_axis(pd.MultiIndex.from_arrays([CELLS, range(N)], names=["cell", "at"])),
        {"cell": CELLS, "at": list(range(N))},
        "row names from columns 'cell', 'at'",
    ),
    "text, not by pandas": (table(cell=CELLS), {"cell": CELLS}, "row names from column 'cell'"),
    "categories": (
        table(cell=pa.array(CELLS).dictionary_encode()),
        {"cell": CELLS},
        "row names from column 'cell'",
    ),
}


@pytest.mark.parametrize("case", PARQUET)
def test_parquet(case, tmp_path):
    frame, names, reading = PARQUET[case]
    rows = parquet(tmp_path, frame)
    assert rows.column_names == NAMES
    np.testing.assert_array_equal(rows.take(np.array([N - 1, 3])).values, FULL[[N - 1, 3]])
    assert names_of(rows) == names
    assert rows.reading == reading


def test_what_is_asked_of_parquet(tmp_path):
    frame = FRAME.assign(note="x", id=np.arange(N)).set_axis(pd.Index(CELLS, name="cell"))
    rows = parquet(tmp_path, frame, index="id", exclude=["cell", "note"])
    assert (rows.column_names, names_of(rows)) == (NAMES, {"id": list(range(N))})
    assert rows.reading is None
    rows = parquet(tmp_path, frame, columns=["b", "a"])
    assert (rows.column_names, names_of(rows)) == (["b", "a"], {"cell": CELLS})
    assert names_of(parquet(tmp_path, FRAME.set_axis(range(1, N + 1)), index=False)) is None
    assert parquet(tmp_path, FRAME.set_axis(CELLS), index=False).column_names == NAMES
    with pytest.raises(TypeError, match=r"'note' is not numbers \('x' in row 0\); .*exclude=\['note'\]"):
        parquet(tmp_path, frame)
    with pytest.raises(TypeError, match=r"'when' is not numbers \('2020-01-01 00:00:00' in row 1\)"):
        parquet(tmp_path, FRAME.assign(when=pd.Series([None, pd.Timestamp("2020")])))
    with pytest.raises(ValueError, match="two columns are called 'a'"):
        parquet(tmp_path, pa.Table.from_arrays([pa.array([1.0])] * 2, names=["a", "a"]))


def test_only_the_requested_rows_are_read_until_names_are_asked_for(tmp_path, monkeypatch):
    rows = parquet(tmp_path, FRAME.set_axis(CELLS))
    monkeypatch.setattr("pyarrow.parquet.ParquetFile.read", lambda *_, **options: pytest.fail("read"))
    list(map(rows.take, np.arange(N)[:, None]))


def test_anndata(tmp_path):
    write_h5ad(tmp_path / "x.h5ad", FULL)
    stored = anndata.read_h5ad(tmp_path / "x.h5ad")
    for source in (tmp_path / "x.h5ad", stored, anndata.read_h5ad(tmp_path / "x.h5ad", backed="r")):
        assert names_of(AnnDataRows(source)) == {"": CELLS}
    stored.obs_names.name = "cell"
    stored.write_h5ad(tmp_path / "y.h5ad")
    for source in (tmp_path / "y.h5ad", stored):
        assert names_of(AnnDataRows(source)) == {"cell": CELLS}
    assert AnnDataRows(anndata.AnnData(FULL)).row_names() is None


def test_frames():
    assert names_of(open_rows(FRAME)) is None
    assert names_of(open_rows(FRAME.set_axis(pd.Index(CELLS, name="cell")))) == {"cell": CELLS}
    with_text = FRAME.assign(cell=CELLS, note="x")
    for frame in (with_text, pl.from_pandas(with_text)):
        rows = open_rows(frame, index="cell", exclude=["note"])
        assert (rows.column_names, names_of(rows)) == (NAMES, {"cell": CELLS})
        assert names_of(TableRows(frame, columns=["a"], index=False)) is None
        with pytest.raises(TypeError, match=r"'cell' is not numbers \('cell 0' in row 0\), nor is 'note'"):
            open_rows(frame)
    mixed = FRAME.assign(a=pd.Series([1.0, "x"] + [2.0] * (N - 2), dtype=object))
    with pytest.raises(TypeError, match=r"'a' is not numbers \('x' in row 1\)"):
        open_rows(mixed)


def test_several_files_and_rows_of_rows(tmp_path):
    FRAME.set_axis(CELLS).to_csv(tmp_path / "1.csv")
    FRAME.set_axis(CELLS).to_parquet(tmp_path / "2.parquet")
    both = open_rows([tmp_path / "1.csv", tmp_path / "2.parquet"])
    assert names_of(both) == {"": CELLS * 2}
    assert names_of(StandardisedRows(both, np.zeros(4), np.ones(4))) == {"": CELLS * 2}
    assert ConcatRows([ParquetRows(tmp_path / "2.parquet"), ArrayRows(FULL)]).row_names() is None
    assert ArrayRows(FULL).row_names() is None


DETECTORS = ["Time", "Event_length", "a", "b"]


@pytest.mark.parametrize(
    ("detectors", "markers", "left", "reading"),
    [
        (DETECTORS, None, ["a", "b"], "without Time, Event_length"),
        (["TIME", "Cell_length", "a", "HDR-T"], None, ["a"], "without TIME, Cell_length, HDR-T"),
        (
            ["1", "2", "a", "b"],
            ["Time", "Event length", "", "CD4"],
            ["a", "CD4"],
            "without Time, Event length",
        ),
        (["Timer", "a", "b", "c"], None, ["Timer", "a", "b", "c"], None),
    ],
)
def test_channels_about_the_event_are_left_out(detectors, markers, left, reading, tmp_path):
    path = write_fcs(tmp_path / "x.fcs", FULL, detectors, markers)
    rows = open_rows(path, cofactor=None)
    assert (rows.column_names, rows.reading) == (left, reading)
    columns = [(markers or detectors).index(name) if name != "a" else detectors.index("a") for name in left]
    np.testing.assert_array_equal(rows.take(np.arange(3)).values, FULL[:3, columns])


def test_channels_that_are_named(tmp_path):
    path = write_fcs(tmp_path / "x.fcs", FULL, DETECTORS)
    rows = open_rows(path, channels=["a", "Time"])
    assert (rows.column_names, rows.reading) == (["a", "Time"], None)
    assert open_rows(path, exclude=["a"]).column_names == ["b"]
    assert open_rows(path, exclude=["Time"]).column_names == ["a", "b"]
    with pytest.raises(ValueError, match="exclude: 'c' is the name of 0 channels"):
        open_rows(path, exclude=["c"])
    with pytest.raises(TypeError, match="exclude='a': expected a list of names"):
        open_rows(path, exclude="a")
