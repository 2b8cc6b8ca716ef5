"""Batches of rows in the commands for tables."""

import re

import numpy as np
import pytest
from cli_run import refused, runner

import bpfa

pandas = pytest.importorskip("pandas")
pytest.importorskip("typer")

SMALL = ("--components", 3, "--max-steps", 20, "--jobs", 1)
NAMES = ["CD3", "CD4", "CD8", "CD19"]
DAYS = np.array(["monday", "tuesday"])[np.arange(120) % 2]
WHOLE = (
    bpfa.draw_data(120, 4, 3, g_o=100.0, g_w=1.0, seed=0).y + np.where(DAYS == "monday", 5.0, 7.0)[:, None]
)


@pytest.fixture
def run(capfd):
    return runner(capfd)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pandas.DataFrame(WHOLE, columns=NAMES)
    frame.iloc[3, 1] = np.nan
    frame["day"] = DAYS
    frame.to_csv("t.csv", index=False)
    frame[["day", *NAMES]].to_csv("first.csv", index=False)
    frame.to_parquet("t.parquet")
    frame[DAYS == "monday"].drop(columns="day").to_csv("monday.csv", index=False)
    frame[DAYS == "tuesday"].drop(columns="day").to_csv("tuesday.csv", index=False)
    frame.index = frame.index.astype(str)
    pytest.importorskip("anndata").AnnData(frame[NAMES], obs=frame[["day"]]).write_h5ad("t.h5ad")
    return tmp_path


@pytest.mark.parametrize("source", ["t.csv", "first.csv", "t.parquet", "t.h5ad"])
def test_a_column_has_the_labels(run, folder, source):
    assert run("fit", source, "m.bpfa", "--batch", "day", *SMALL).status == 0
    model = bpfa.BPFA.load("m.bpfa")
    assert model.batch_effects_.labels == ("monday", "tuesday")
    assert list(model.feature_names_in_) == NAMES
    expected = bpfa.BPFA(n_components=3, max_steps=20, n_jobs=1, random_state=0)
    holes = pandas.read_parquet("t.parquet")[NAMES]
    expected.fit(holes, batch=DAYS)
    # Numbers of a text file may differ from those of the frame in the last digit.
    np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-4, atol=1e-5)


def test_rows_are_shown_as_another_batch_would(run, folder):
    assert run("fit", "t.csv", "m.bpfa", "--batch", "day", *SMALL, "--with-rows").status == 0
    assert run("impute", "m.bpfa", "t.csv", "same.csv", "--batch", "day").status == 0
    assert run("impute", "m.bpfa", "t.csv", "m.csv", "--batch", "day", "--to-batch", "monday").status == 0
    assert run("transform", "m.bpfa", "t.csv", "w.csv", "--batch", "day").status == 0
    same = pandas.read_csv("same.csv")
    assert list(same["day"]) == list(DAYS)
    np.testing.assert_allclose(same.loc[:2, NAMES], WHOLE[:3])
    model = bpfa.BPFA.load("m.bpfa")
    table = pandas.read_csv("t.csv")[NAMES]
    np.testing.assert_allclose(same[NAMES], model.impute(table, batch=DAYS), rtol=1e-6)
    np.testing.assert_allclose(
        pandas.read_csv("w.csv"), model.transform(table, batch=DAYS), rtol=1e-4, atol=1e-6
    )


def test_the_report_knows_the_batches(run, folder):
    """The two days differ far more than anything else: who does not know the day explains nothing."""
    assert run("fit", "t.csv", "m.bpfa", "--batch", "day", "--held-out", 0.2, *SMALL).status == 0
    known = run("report", "m.bpfa", "known.html", "--data", "t.csv", "--batch", "day")
    assert (known.status, known.err) == (0, "")
    unknown = run("report", "m.bpfa", "unknown.html", "--data", "t.csv")
    assert "without --batch the rows are taken for those of an unknown one" in unknown.err
    shares = [
        float(re.search(r"The model explains (-?[\d.]+)%", (folder / name).read_text())[1])
        for name in ("known.html", "unknown.html")
    ]
    assert shares[0] > shares[1] + 5
    refused(run("report", "m.bpfa", "n.html", "--batch", "day"), "--batch: expected --data FILE as well")


def test_files_are_batches(run, folder):
    assert run("fit", "monday.csv", "tuesday.csv", "m.bpfa", "--batch-by-file", *SMALL).status == 0
    effects = bpfa.BPFA.load("m.bpfa").batch_effects_
    assert effects.labels == ("monday.csv", "tuesday.csv")
    difference = effects.offset[1] - effects.offset[0]
    np.testing.assert_allclose(difference, 2.0, atol=0.8)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("fit", "t.csv", "m.bpfa", "--batch", "plate"), ("--batch plate", "no such column", "CD3")),
        (
            ("fit", "t.csv", "m.bpfa", "--batch", "day", "--batch-by-file"),
            ("--batch-by-file", "without --batch"),
        ),
        (("fit", "t.npy", "m.bpfa", "--batch", "day"), ("--batch day", "t.npy", "--batch-by-file")),
    ],
)
def test_what_is_refused(run, folder, arguments, parts):
    np.save("t.npy", WHOLE)
    refused(run(*arguments, *SMALL), *parts)


def test_to_batch_needs_a_batch_of_the_fit(run, folder):
    assert run("fit", "t.csv", "m.bpfa", "--batch", "day", *SMALL).status == 0
    found = run("impute", "m.bpfa", "t.csv", "o.csv", "--batch", "day", "--to-batch", "sunday")
    refused(found, "--to-batch", "sunday", "monday")
