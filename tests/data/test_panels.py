"""Sources with different columns as one table."""

import anndata
import flowio
import numpy as np
import pandas as pd
import polars as pl
import pytest

from bpfa.data import PanelRows, open_rows, sequential

FIRST = pd.DataFrame({"CD3": [1.0, 2.0, 3.0], "CD4": [4.0, np.nan, 6.0]}, index=["a", "b", "c"])
SECOND = pd.DataFrame({"CD8": [7.0, 8.0], "CD3": [9.0, 10.0]}, index=["d", "e"])
UNION = np.array([[1, 4, np.nan], [2, np.nan, np.nan], [3, 6, np.nan], [9, np.nan, 7], [10, np.nan, 8]])


def values_of(rows):
    batch = rows.read(0, rows.n_rows)
    return np.where(batch.observed, batch.values, np.nan)


def as_polars(frame):
    return pl.from_pandas(frame.reset_index(drop=True))


def as_anndata(frame):
    return anndata.AnnData(frame)


@pytest.mark.parametrize("convert", [lambda frame: frame, as_polars, as_anndata])
def test_columns_are_matched_by_name_and_absent_ones_are_missing(convert):
    rows = open_rows([convert(FIRST), convert(SECOND)], columns="union")
    assert rows.column_names == ["CD3", "CD4", "CD8"]
    np.testing.assert_array_equal(values_of(rows), UNION)
    shuffled = rows.take(np.array([4, 0, 3]))
    assert shuffled.values[:, 0].tolist() == [10, 1, 9]
    assert shuffled.ids.tolist() == [4, 0, 3]


def test_files_of_several_kinds_are_read_in_windows(tmp_path):
    FIRST.to_csv(tmp_path / "a.csv")
    SECOND.to_parquet(tmp_path / "b.parquet")
    rows = open_rows([tmp_path / "a.csv", tmp_path / "b.parquet"], columns="union")
    np.testing.assert_array_equal(values_of(rows), UNION)
    blocks = list(sequential(rows, block_rows=2))
    assert [len(block) for block in blocks] == [2, 2, 1]
    assert list(rows.row_names().values[0]) == ["a", "b", "c", "d", "e"]


def test_fcs_files_are_matched_by_marker(tmp_path):
    for name, markers in (("a.fcs", ["CD3", "CD4"]), ("b.fcs", ["CD8", "CD3"])):
        with open(tmp_path / name, "wb") as file:
            flowio.create_fcs(file, [1.0, 2.0, 3.0, 4.0], ["d1", "d2"], markers)
    rows = open_rows([tmp_path / "a.fcs", tmp_path / "b.fcs"], columns="union", cofactor=None)
    assert rows.column_names == ["CD3", "CD4", "CD8"]
    np.testing.assert_array_equal(
        values_of(rows), [[1, 2, np.nan], [3, 4, np.nan], [2, np.nan, 1], [4, np.nan, 3]]
    )


def test_a_wide_union_keeps_chunks_within_bounds(monkeypatch, tmp_path):
    pd.DataFrame({"a": np.arange(1000.0), "b": np.ones(1000)}).to_parquet(tmp_path / "a.parquet")
    wide = pd.DataFrame(np.ones((2, 300)), columns=["a", *(f"x{i}" for i in range(299))])
    monkeypatch.setattr("bpfa.data.panels.MAX_CHUNK_ENTRIES", 3000)
    rows = open_rows([tmp_path / "a.parquet", wide], columns="union")
    assert np.diff(rows.chunk_edges)[:-1].max() * rows.n_columns <= 3100
    np.testing.assert_array_equal(rows.read(0, 1000).values[:, 0], np.arange(1000.0))


def test_the_overlap_is_reported():
    overlap = open_rows({"blood": FIRST, "marrow": SECOND}, columns="union").overlap
    assert overlap.to_pandas().loc["CD8"].to_dict() == {"blood": False, "marrow": True}
    text = str(overlap)
    assert text.splitlines()[0] == "2 panels, 5 rows, 3 columns, of which 1 is in every panel"
    for line in ("blood: 3 rows, 2 columns, 1 shared", "in every panel: CD3", "only in marrow: CD8"):
        assert line in text


def test_exact_columns_are_as_before(tmp_path):
    for name in ("a.csv", "b.csv"):
        FIRST.to_csv(tmp_path / name)
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for options in ({}, {"columns": "exact"}):
        assert open_rows(paths, **options).n_rows == 6
    SECOND.to_csv(tmp_path / "b.csv")
    with pytest.raises(ValueError, match=r"column 0 is 'CD8'; expected 'CD3'.*or columns=\"union\""):
        open_rows(paths)


def chain(*panels):
    return [pd.DataFrame(np.ones((2, len(columns))), columns=list(columns)) for columns in panels]


def test_no_column_has_to_be_common_to_all():
    assert open_rows(chain("ab", "bc", "cd"), columns="union").n_columns == 4


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (chain("ab", "cd"), "sources: these panels share no measured column.*: panel 0; panel 1; expected"),
        (chain("ab", "cd", "bx"), "panel 0, panel 2; panel 1; expected"),
        ([FIRST, SECOND * np.nan], "panel 1: data: every entry is missing; expected at least one"),
        (
            [FIRST, pd.DataFrame([[1.0, 2.0]], columns=["CD3", "CD3"])],
            "panel 1: .*two columns are called 'CD3'",
        ),
        ([FIRST, np.ones((2, 2))], "panel 1: the columns have no name; expected names"),
        ([FIRST, pd.DataFrame([[1.0, 2.0]], columns=["CD3", ""])], "panel 1: column 1 has no name; expected"),
        ([FIRST, pd.DataFrame({"CD3": [1.0], "donor": ["p7"]})], "panel 1: .*'donor' is not numbers"),
        ([], "sources: an empty list; expected at least one source"),
    ],
)
def test_panels_that_cannot_be_joined(sources, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        open_rows(sources, columns="union")
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_joined(tmp_path):
    (tmp_path / "twice.csv").write_text("CD3,CD3\n1,2\n")
    (tmp_path / "bare.csv").write_text("1.5,2.5\n3.5,4.5\n")
    (tmp_path / "empty.parquet").write_bytes(b"")
    pd.DataFrame({"CD3": [np.nan, np.nan]}).to_parquet(tmp_path / "empty.parquet")
    for name, message in (
        ("twice.csv", "twice.csv: two columns are called 'CD3'"),
        ("bare.csv", "bare.csv: the columns have no name"),
        ("empty.parquet", "empty.parquet: every entry is missing"),
    ):
        with pytest.raises(ValueError, match=message):
            open_rows([FIRST, tmp_path / name], columns="union")


def test_a_column_without_entries_links_nothing():
    first, second = chain("ab", "ac")
    second["a"] = np.nan
    with pytest.raises(ValueError, match="share no measured column"):
        open_rows([first, second], columns="union")


def test_other_columns_can_be_asked_for():
    rows = open_rows([SECOND], columns="union").with_columns(["CD4", "CD3", "CD8"])
    assert isinstance(rows, PanelRows)
    np.testing.assert_array_equal(values_of(rows), UNION[3:, [1, 0, 2]])
    with pytest.raises(ValueError, match="panel 0: column 'CD8' is not a column of the fit; expected"):
        open_rows([SECOND], columns="union").with_columns(["CD4", "CD3"])


@pytest.mark.parametrize(
    ("sources", "options", "message"),
    [
        (
            [FIRST, FIRST],
            {"columns": "all"},
            "columns='all': expected 'union' or 'exact', or a list of names",
        ),
        ([FIRST, FIRST], {}, "source: a list of tables; expected columns='union', or columns='exact' if all"),
        ({"blood": FIRST}, {}, "source: a dict of tables; expected columns='union'"),
    ],
)
def test_how_tables_are_joined_has_to_be_said(sources, options, message):
    with pytest.raises(ValueError, match=message):
        open_rows(sources, **options)
