"""Several tables in one command, with the same or with different columns."""

import numpy as np
import pytest
from cli_run import refused, runner

import bpfa

pandas = pytest.importorskip("pandas")
pytest.importorskip("typer")

SMALL = ("--components", 3, "--max-steps", 20, "--jobs", 1)
NAMES = ["CD3", "CD4", "CD8", "CD19", "CD45"]
WHOLE = bpfa.draw_data(120, 5, 3, g_o=100.0, g_w=1.0, seed=0).y * 3 + 7


@pytest.fixture
def run(capfd):
    return runner(capfd)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two panels with three columns in common."""
    monkeypatch.chdir(tmp_path)
    frame = pandas.DataFrame(WHOLE, columns=NAMES)
    frame.iloc[:60, :4].to_csv("a.csv", index=False)
    frame.iloc[60:, [4, 1, 2, 3]].to_csv("b.csv", index=False)
    frame.iloc[60:, :4].to_csv("c.csv", index=False)
    return tmp_path


def test_tables_with_different_columns_become_one(run, folder):
    found = run("fit", "--union", "a.csv", "b.csv", "m.bpfa", *SMALL)
    assert found.status == 0
    assert "of which 3 are in every panel" in found.err
    assert list(bpfa.BPFA.load("m.bpfa").feature_names_in_) == NAMES
    assert run("impute", "--union", "m.bpfa", "a.csv", "b.csv", "out.csv", "--std", "std.csv").status == 0
    filled, std = pandas.read_csv("out.csv"), pandas.read_csv("std.csv")
    assert list(filled.columns) == NAMES == list(std.columns)
    assert filled.notna().all().all()
    np.testing.assert_allclose(filled.iloc[:60, :4], WHOLE[:60, :4])
    assert (std.iloc[:60, 4] > 0).all()
    assert (std.iloc[60:, 1:] == 0).all().all()
    assert run("transform", "--union", "m.bpfa", "b.csv", "weights.csv").status == 0
    assert len(pandas.read_csv("weights.csv")) == 60
    assert run("impute", "--union", "m.bpfa", "b.csv", "b-filled.csv").status == 0
    np.testing.assert_allclose(pandas.read_csv("b-filled.csv")["CD3"], filled["CD3"][60:])


def test_tables_with_the_same_columns_follow_one_another(run, folder):
    assert run("fit", "a.csv", "c.csv", "m.bpfa", *SMALL).status == 0
    assert bpfa.BPFA.load("m.bpfa").n_rows_seen_ == 120


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("fit", "a.csv", "b.csv", "m.bpfa"), ("column 0 is 'CD45'; expected 'CD3'", "or --union")),
        (
            ("fit", "--union", "--columns", "CD3", "a.csv", "b.csv", "m.bpfa"),
            ("--columns", "without --union"),
        ),
        (("fit", "a.csv", "b.csv", "a.csv"), ("MODEL a.csv", "the same file as IN")),
    ],
)
def test_several_tables_that_do_not_fit(run, folder, arguments, parts):
    refused(run(*arguments), *parts)
