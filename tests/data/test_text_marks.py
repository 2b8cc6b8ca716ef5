"""Marks of missing entries in text files as people write them, and files as other programs save them."""

import numpy as np
import pytest

from bpfa import open_rows


@pytest.mark.parametrize("pandas", [True, False], ids=["pandas", "without pandas"])
def test_marks_without_a_letter_or_a_digit_are_missing(pandas, tmp_path, monkeypatch):
    if not pandas:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    marks = ["-", "--", "\u2013", "\u2014", ".", "..", "?"]
    lines = [f"r{i};{mark};{i},5" for i, mark in enumerate(marks)]
    (tmp_path / "x.csv").write_text("\n".join(["name;a;b", *lines, "-;1,5;2"]), encoding="utf-8")
    rows = open_rows(tmp_path / "x.csv")
    np.testing.assert_array_equal(rows.values[:, 0], [np.nan] * len(marks) + [1.5])
    assert rows.row_names().values[0].tolist() == [*(f"r{i}" for i in range(len(marks))), "-"]


def test_another_encoding_is_refused_with_a_way_out(tmp_path):
    (tmp_path / "x.csv").write_bytes("a,b (\u00b5g/l)\n1,2\n".encode("cp1252"))
    with pytest.raises(ValueError, match=r"byte 0xb5 is not UTF-8 text; .*\(in Excel: 'CSV UTF-8'\)"):
        open_rows(tmp_path / "x.csv")
