"""How a table is laid out in a text file is found out, or asked for; nothing is misread in silence."""

import gzip

import numpy as np
import pandas as pd
import pytest

from bpfa.data import RowNames, open_rows
from bpfa.data.formats.layout import find_layout

NAN = np.nan


def opened(folder, content, suffix=".csv", **options):
    content = content.encode() if isinstance(content, str) else content
    path = folder / f"x{suffix}"
    path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
    return open_rows(path, **options)


def names_of(rows):
    names = rows.row_names()
    return None if names is None else (names.labels, [list(column) for column in names.values])


# content, suffix, names of columns, values, names of rows, what is said about it
FOUND = {
    "plain": ("a,b\n1,2\n3,4\n", ".csv", ["a", "b"], [[1, 2], [3, 4]], None, None),
    "tabs": ("a\tb\n1\t2\n", ".tsv", ["a", "b"], [[1, 2]], None, None),
    "semicolons": ("a;b\n1;2\n", ".csv", ["a", "b"], [[1, 2]], None, "separator ';'"),
    "tabs in csv": ("a\tb\n1\t2\n", ".csv", ["a", "b"], [[1, 2]], None, "separator tab"),
    "commas in tsv": ("a,b\n1,2\n", ".tsv", ["a", "b"], [[1, 2]], None, "separator ','"),
    "bars": ("a|b\n1|2\n", ".csv", ["a", "b"], [[1, 2]], None, "separator '|'"),
    "spaces": (" 1.5   2\n 3  4 \n", ".csv", None, [[1.5, 2], [3, 4]], None, "separator space, no header"),
    "decimal commas": (
        "gene;a;b\nTP53;1,5;2\nMYC;;0,5\n",
        ".csv",
        ["a", "b"],
        [[1.5, 2], [NAN, 0.5]],
        (("gene",), [["TP53", "MYC"]]),
        "separator ';', decimal comma, row names from column 'gene'",
    ),
    "decimal commas, no header": (
        "1,5;2,5\n3,5;4,5\n",
        ".csv",
        None,
        [[1.5, 2.5], [3.5, 4.5]],
        None,
        "separator ';', decimal comma, no header",
    ),
    "decimal commas and tabs": ("a\tb\n1,5\t2\n", ".tsv", ["a", "b"], [[1.5, 2]], None, "decimal comma"),
    "quoted decimal commas": ('a,b\n"1,5",2\n', ".csv", ["a", "b"], [[1.5, 2]], None, "decimal comma"),
    "commas and spaces": ("a, b\n1, 2\n3, NA\n", ".csv", ["a", "b"], [[1, 2], [3, NAN]], None, None),
    "no header": ("1,2\n3,4\n", ".csv", None, [[1, 2], [3, 4]], None, "no header"),
    "no header, first row with gaps": ("NA,2\n3,4\n", ".csv", None, [[NAN, 2], [3, 4]], None, "no header"),
    "no header, row of 0 and 1": ("0,1\n1,1\n", ".csv", None, [[0, 1], [1, 1]], None, "no header"),
    "no header, one line": ("0,1,2\n", ".csv", None, [[0, 1, 2]], None, "no header"),
    "no header, row names": (
        "g1,1.5,2\ng2,3,4\n",
        ".csv",
        None,
        [[1.5, 2], [3, 4]],
        (("",), [["g1", "g2"]]),
        "no header, row names from the first column",
    ),
    "counted header": (
        "0,1,2\n1.5,2,3\n",
        ".csv",
        ["0", "1", "2"],
        [[1.5, 2, 3]],
        None,
        "the first line as the header",
    ),
    "years": (
        "gene,2001,2002\ng1,1.5,2\n",
        ".csv",
        ["2001", "2002"],
        [[1.5, 2]],
        (("gene",), [["g1"]]),
        "the first line as the header, row names from column 'gene'",
    ),
    "wavelengths": (
        "sample,410,400.5,400,390,380,370,360.5,350\ns1,1,2,1,2,1,2,1,2\n",
        ".csv",
        ["410", "400.5", "400", "390", "380", "370", "360.5", "350"],
        [[1, 2, 1, 2, 1, 2, 1, 2]],
        (("sample",), [["s1"]]),
        "the first line as the header, row names from column 'sample'",
    ),
    "counted header above rows in order": (
        "0,1,2,3,4,5,6,7\n2,3,4,5,6,7,8,9\n",
        ".csv",
        [*"01234567"],
        [[2, 3, 4, 5, 6, 7, 8, 9]],
        None,
        "the first line as the header",
    ),
    "rows in order": (
        "1.5,2,3,4,5,6,7,8\n2,3,4,5,6,7,8,9\n",
        ".csv",
        None,
        [[1.5, 2, 3, 4, 5, 6, 7, 8], [2, 3, 4, 5, 6, 7, 8, 9]],
        None,
        "no header",
    ),
    "frame without names": (
        ",0,1\n0,1.5,2\n1,3,4\n",
        ".csv",
        ["0", "1"],
        [[1.5, 2], [3, 4]],
        (("",), [["0", "1"]]),
        "the first line as the header, row names from the first column",
    ),
    "empty corner": (
        ",0,1\ng1,3,2\ng2,1,4\n",
        ".csv",
        ["0", "1"],
        [[3, 2], [1, 4]],
        (("",), [["g1", "g2"]]),
        "the first line as the header, row names from the first column",
    ),
    "no header, nothing in the first row": (
        "g1,NA\ng2,1\n",
        ".csv",
        None,
        [[NAN], [1]],
        (("",), [["g1", "g2"]]),
        "no header, row names from the first column",
    ),
    "one column with decimal commas": (
        "r0;2,0\nr1;1,5\n",
        ".csv",
        None,
        [[2.0], [1.5]],
        (("",), [["r0", "r1"]]),
        "separator ';', decimal comma, no header, row names from the first column",
    ),
    "index of pandas": (
        ",a,b\n0,1.5,2\n1,3,4\n",
        ".csv",
        ["a", "b"],
        [[1.5, 2], [3, 4]],
        (("",), [["0", "1"]]),
        "row names from the first column",
    ),
    "index of a part": (
        ",a\n7,1.5\n3,3\n",
        ".csv",
        ["a"],
        [[1.5], [3]],
        (("",), [["7", "3"]]),
        "row names from the first column",
    ),
    "saved twice": (
        "Unnamed: 0,a\n0,1.5\n1,3\n",
        ".csv",
        ["a"],
        [[1.5], [3]],
        (("Unnamed: 0",), [["0", "1"]]),
        "row names from column 'Unnamed: 0'",
    ),
    "R": (
        '"a","b"\n"r1",1.5,NA\n"r2",2,3\n',
        ".csv",
        ["a", "b"],
        [[1.5, NAN], [2, 3]],
        (("",), [["r1", "r2"]]),
        "row names from the first column",
    ),
    "R with spaces": (
        '"a" "b"\n"r 1" 1.5 NA\n"2" 2 3\n',
        ".tsv",
        ["a", "b"],
        [[1.5, NAN], [2, 3]],
        (("",), [["r 1", "2"]]),
        "separator space, row names from the first column",
    ),
    "row names as they are": (
        "id,a\n007,1\nA,2\nNA,3\nB,4\nC,5\n",
        ".csv",
        ["a"],
        [[1], [2], [3], [4], [5]],
        (("id",), [["007", "A", "NA", "B", "C"]]),
        "row names from column 'id'",
    ),
    "mark and CRLF": (
        b"\xef\xbb\xbfa,b\r\n1,2\r\n\r\n3,4\r\n\r\n",
        ".csv",
        ["a", "b"],
        [[1, 2], [3, 4]],
        None,
        None,
    ),
    "mark without header": (b"\xef\xbb\xbf1.5,2\n3,4\n", ".csv", None, [[1.5, 2], [3, 4]], None, "no header"),
    "quotes": (
        'gene,"x, y"\n"a, ""b""",2\nc,3\n',
        ".csv",
        ["x, y"],
        [[2], [3]],
        (("gene",), [['a, "b"', "c"]]),
        "row names from column 'gene'",
    ),
    "compressed": ("a,b\n1,2\n", ".csv.gz", ["a", "b"], [[1, 2]], None, None),
    "compressed tabs": ("a\tb\n1\t2\n", ".tsv.gz", ["a", "b"], [[1, 2]], None, None),
    "missing": (
        "a,b\nNA,nan\n,N/A\n1,null\n",
        ".csv",
        ["a", "b"],
        [[NAN] * 2, [NAN] * 2, [1, NAN]],
        None,
        None,
    ),
    "names twice": (
        "a,a,a.1\n1,2,3\n",
        ".csv",
        ["a", "a.2", "a.1"],
        [[1, 2, 3]],
        None,
        "another column 'a' is called 'a.2'",
    ),
    "separators at the end": ("a,b,\n1,2,\n3,4,\n", ".csv", ["a", "b"], [[1, 2], [3, 4]], None, None),
    "separators at the end of rows": ("a,b\n1,2,\n3,4,\n", ".csv", ["a", "b"], [[1, 2], [3, 4]], None, None),
    "blank lines before": ("\n\na,b\n1,2\n", ".csv", ["a", "b"], [[1, 2]], None, None),
    "one column": ("a\n1\n2\n", ".csv", ["a"], [[1], [2]], None, None),
    "truth": ("a,b\nTrue,2\nFalse,3\n", ".csv", ["a", "b"], [[1, 2], [0, 3]], None, None),
    "rows are counted": (
        "id,a\n1,2.5\n2,3.5\n3,9\n",
        ".csv",
        ["id", "a"],
        [[1, 2.5], [2, 3.5], [3, 9]],
        None,
        "column 'id' is data, although it numbers the rows (if it names them: index='id')",
    ),
}


@pytest.mark.parametrize("without_pandas", [False, True])
@pytest.mark.parametrize("case", FOUND)
def test_what_is_found_out(case, without_pandas, tmp_path, monkeypatch):
    if without_pandas:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    content, suffix, columns, values, names, reading = FOUND[case]
    rows = opened(tmp_path, content, suffix)
    assert rows.column_names == columns
    np.testing.assert_array_equal(rows.values, np.array(values, dtype=float))
    assert names_of(rows) == names
    assert rows.reading == reading


TABLE = "gene,a,b,note\nTP53,1,2,x\nMYC,3,4,y\n"
ASKED = {
    "exclude": (TABLE, {"exclude": ["note"]}, ["a", "b"], (("gene",), [["TP53", "MYC"]])),
    "exclude the first": (TABLE, {"exclude": ["gene", "note"]}, ["a", "b"], None),
    "columns": (TABLE, {"columns": ["b", "a"]}, ["b", "a"], (("gene",), [["TP53", "MYC"]])),
    "index": (TABLE, {"index": "note", "exclude": ["gene"]}, ["a", "b"], (("note",), [["x", "y"]])),
    "two": (
        TABLE,
        {"index": ["note", "gene"]},
        ["a", "b"],
        (("note", "gene"), [["x", "y"], ["TP53", "MYC"]]),
    ),
    "by place": (TABLE, {"index": [0, -1]}, ["a", "b"], (("gene", "note"), [["TP53", "MYC"], ["x", "y"]])),
    "numbers": ("id,a\n7,1\n9,3\n", {"index": "id"}, ["a"], (("id",), [["7", "9"]])),
    "none": (",a\n0,1\n1,3\n", {"index": False}, ["Unnamed: 0", "a"], None),
    "as data": (",a\n0,1\n1,3\n", {"columns": ["Unnamed: 0"]}, ["Unnamed: 0"], None),
    "header": ("2001,2002\n1,2\n", {"header": True}, ["2001", "2002"], None),
    "no header": ("0,1,2\n1,2,3\n", {"header": False}, None, None),
    "no header, a choice": ("5,1,2\n1,2,3\n", {"columns": ["0", "2"]}, ["0", "2"], None),
    "no header, an index": ("5,1,2\n1,2,3\n", {"index": "0"}, None, (("",), [["5", "1"]])),
    "separator": ("a,b\n1,2\n", {"separator": ";"}, ["a,b"], None),
    "tab": ("a\tb\n1\t2\n", {"separator": "tab"}, ["a", "b"], None),
    "decimal": ("a;b\n" + "1;2\n" * 300 + "1,5;2\n", {"decimal": ","}, ["a", "b"], None),
}


@pytest.mark.parametrize("case", ASKED)
def test_what_is_asked_for(case, tmp_path):
    content, options, columns, names = ASKED[case]
    rows = opened(tmp_path, content, **options)
    assert rows.column_names == columns
    assert names_of(rows) == names


REFUSED = {
    "text": (
        TABLE,
        {},
        r"column 'note' is not numbers \('x' in line 2\); .*index=\['note'\].*exclude=\['note'\]",
    ),
    "texts": ("a,n,m\n1,x,y\n", {}, r"'n' is not numbers .*, nor is 'm'; .*exclude=\['n', 'm'\]"),
    "text further down": ("a,b\n" + "1,2\n" * 300 + "x,2\n", {}, r"'a' is not numbers \('x' in line 302\)"),
    # Columns of text are to be left out; columns in which single entries are none are not.
    "text and a limit": (
        "a,n,b\n<0.5,x,1\n2,y,2\n3,z,3\n",
        {},
        r"'n' is not numbers \('x' in line 2\); .*exclude=\['n'\]$",
    ),
    "a limit": (
        "a,n,b\n<0.5,x,1\n2,y,2\n3,z,3\n",
        {"exclude": ["n"]},
        r"'a' is not numbers \('<0\.5' in line 2\); .*a number in place of a limit of detection",
    ),
    "text after two lines": ('a,b\n1,"x\ny"\n', {}, r"'b' is not numbers \('x\\ny' in line 2\)"),
    "comma further down": ("a;b\n" + "1;2\n" * 300 + "1;1,5\n", {}, r"\('1,5' in line 302\).* decimal=','"),
    "points": ("a;b\n1,5;2\n3,5;1.5\n4;2\n", {}, r"'b' is not numbers \('1\.5' in line 3\).* decimal='\.'"),
    "too large": ("a,b\n1,1e400\n", {}, r"'b' is not numbers \('1e400' in line 2\)"),
    "unnamed": (
        ",a\n0.5,1\n",
        {},
        r"first column has no name.*holds 0\.5.*index=\['Unnamed: 0'\].*index=False",
    ),
    "unnamed, twice": (",a\n2,1\n2,1\n", {}, r"the first column has no name"),
    "one number or two": ("value\n1,5\n2,5\n", {}, r"'2,5' under one name.*separator=';'.*separator=','"),
    "short header": ("a,b\n1,2,3,4\n5,6,7,8\n", {}, "first line has 2 fields, and the next ones have 4"),
    "long header": ("a,b,c\n1,2\n3,4\n", {}, "first line has 3 fields, and the next ones have 2"),
    "long line": ("a,b\n1,2\n3,4,5,6\n", {}, r"x\.csv: cannot be read .*line 3"),
    "wrong separator": (
        "a,b\n1.5,2\n",
        {"separator": ";"},
        r"column 'a,b' is not numbers.*another separator=",
    ),
    "encoding": ("a,b\n1,Größe\n".encode("latin-1"), {}, r"x\.csv: byte 0xf6 is not UTF-8.*saved as UTF-8"),
    "null characters": ("a,b\n1,\x002\n", {}, r"x\.csv: holds null characters"),
    "empty": ("\n\n", {}, r"x\.csv: no line holds anything"),
    "only a header": ("a,b\n", {}, r"x\.csv: shape \(0, 2\)"),
    "only names": ("a,b\nx,y\n", {"exclude": ["b"]}, "no column is left but for names of rows"),
    "no such index": (TABLE, {"index": "x"}, "index: 'x' is not in .*, which has 'gene', 'a', 'b', 'note'"),
    "no such place": (TABLE, {"index": 4}, "index: 4 is not in"),
    "no such column": (TABLE, {"exclude": ["x"]}, "exclude: 'x' is not in"),
    "excluded": (TABLE, {"columns": ["a"], "exclude": ["a"]}, "columns: 'a' is excluded as well"),
    "excluded index": (TABLE, {"index": "gene", "exclude": ["gene"]}, "index: 'gene' is excluded as well"),
    "data and index": (TABLE, {"columns": ["a"], "index": "a"}, "columns: 'a' holds names of rows as well"),
    "exclude": (TABLE, {"exclude": "note"}, "exclude='note': expected a list of names"),
    "index": (TABLE, {"index": True}, "index=True: expected the name of a column"),
    "index of no kind": (TABLE, {"index": 1.5}, r"index=1\.5: expected the name of a column"),
    "separator": (TABLE, {"separator": ";;"}, "separator=';;': cannot stand between numbers"),
    "separator of numbers": (TABLE, {"separator": "1"}, "separator='1': cannot stand"),
    "separator of no kind": (TABLE, {"separator": 1}, "separator=1: expected text"),
    "decimal": (TABLE, {"decimal": "x"}, r"decimal='x': expected '\.' or ','"),
    "header": (TABLE, {"header": "yes"}, "header='yes': expected True, False or None"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_in_one_line(case, tmp_path):
    content, options, match = REFUSED[case]
    with pytest.raises((ValueError, TypeError), match=match) as caught:
        opened(tmp_path, content, **options)
    assert "\n" not in str(caught.value)
    assert "expected" in str(caught.value)


def test_a_wide_table_is_looked_at_quickly(tmp_path):
    """A line may be longer than what is looked at of a long file."""
    values = np.random.default_rng(0).normal(size=(6, 30_000)).round(3)
    frame = pd.DataFrame(values, index=[f"s{i}" for i in range(6)], columns=[f"g{i}" for i in range(30_000)])
    frame.to_csv(tmp_path / "x.csv", sep=";", decimal=",")
    layout = find_layout(tmp_path / "x.csv")
    assert (layout.separator, layout.decimal, len(layout.labels)) == (";", ",", 30_001)
    rows = open_rows(tmp_path / "x.csv")
    np.testing.assert_array_equal(rows.values, values)
    assert names_of(rows)[1] == [list(frame.index)]


def test_numbers_are_those_of_pandas(tmp_path):
    """A model of a file does not change when the way of reading does."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 5)), columns=[*"abcde"])
    frame.to_csv(tmp_path / "x.csv", index=False)
    np.testing.assert_array_equal(
        open_rows(tmp_path / "x.csv").values, pd.read_csv(tmp_path / "x.csv").to_numpy()
    )


def test_errors_about_several_files_name_the_file(tmp_path):
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("a,c\n1,2\n")
    with pytest.raises(ValueError, match=r"sources\[1\] \(.*2\.csv\): column 1 is 'c'; expected 'b'"):
        open_rows([tmp_path / "1.csv", tmp_path / "2.csv"])


def test_what_was_found_out_is_logged(tmp_path, caplog):
    caplog.set_level("INFO", logger="bpfa")
    opened(tmp_path, "a;b\n1;2\n")
    assert caplog.messages == [f"reading {tmp_path / 'x.csv'}: separator ';'"]


def test_names_of_rows_as_an_index():
    names = RowNames(("donor", ""), (np.array(["p", "q"]), np.array([1, 2])))
    assert list(names.to_pandas()) == [("p", 1), ("q", 2)]
    assert names.to_pandas().names == ["donor", None]
    assert len(names) == 2
    assert RowNames.from_pandas(pd.RangeIndex(3)) is None
    assert RowNames.from_pandas(pd.RangeIndex(1, 3)).values[0].tolist() == [1, 2]
    assert RowNames.from_pandas(names.to_pandas()).labels == ("donor", "")
