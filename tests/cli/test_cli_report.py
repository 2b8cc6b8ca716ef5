"""bpfa report: a page about a model, with and without a table."""

import numpy as np
import pytest
from cli_run import refused, runner

import bpfa

pandas = pytest.importorskip("pandas")
pytest.importorskip("typer")

NAMES = ["CD3", "CD4", "CD8", "CD19", "CD45"]
HOLES = bpfa.draw_data(60, 5, 3, g_o=100.0, g_w=1.0, seed=0).y * 3 + 7
HOLES[np.random.default_rng(0).random(HOLES.shape) < 0.2] = np.nan


@pytest.fixture
def run(capfd):
    return runner(capfd)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table in two kinds of files, in which commands run."""
    monkeypatch.chdir(tmp_path)
    pandas.DataFrame(HOLES, columns=NAMES).to_csv("t.csv", index=False)
    np.save("t.npy", HOLES)
    return tmp_path


def fitted(run, source, *options):
    ran = run("fit", source, "m.bpfa", "--components", 6, "--max-steps", 20, "--jobs", 1, *options)
    assert ran.status == 0, ran.err


def test_report_beside_the_model(run, folder):
    fitted(run, "t.csv")
    ran = run("report", "m.bpfa", "--json")
    assert ran.document["written"] == {"report": "m.html"}
    page = (folder / "m.html").read_text()
    assert all(name in page for name in NAMES)


def test_report_on_a_table(run, folder):
    """What it says of the data of a fit without held-out entries, and of one with some."""
    for options, words in (((), "seen in the fit"), (("--held-out", "0.2"), "held out")):
        fitted(run, "t.csv", *options, "--force")
        assert run("report", "m.bpfa", "--data", "t.csv", "--force").status == 0
        page = (folder / "m.html").read_text()
        assert f"Variance explained, {words}" in page
        assert f"{np.isnan(HOLES).sum()} of 300 entries are missing" in page
    refused(run("report", "m.bpfa", "t.csv", "--data", "t.csv", "--force"), "the same file as --data;")


def test_report_on_a_table_in_the_words_of_its_files(run, folder):
    """The options of a table serve --data as they serve IN of the other commands."""
    frame = pandas.DataFrame(HOLES, columns=NAMES, index=[f"cell {i}" for i in range(len(HOLES))])
    frame.assign(Time=1.0).to_csv("t2.csv", sep=";", decimal=",", index_label="name")
    options = ("--separator", ";", "--decimal", ",", "--index", "name", "--exclude", "Time")
    fitted(run, "t2.csv", *options)
    ran = run("report", "m.bpfa", "--data", "t2.csv", *options)
    assert ran.status == 0, ran.err
    assert f"{np.isnan(HOLES).sum()} of 300 entries are missing" in (folder / "m.html").read_text()
    refused(
        run("report", "m.bpfa", "n.html", "--separator", ";"), "--separator: expected --data FILE as well"
    )
    refused(run("report", "m.bpfa", "n.html", "--no-header"), "--header: expected --data FILE as well")
    assert not (folder / "n.html").exists()


def test_entries_held_out_by_default_or_not(run, folder):
    for value, share in (("auto", 0.0), ("0", 0.0), ("0.3", 0.3)):
        fitted(run, "t.npy", "--held-out", value, "--force")
        assert bpfa.BPFA.load("m.bpfa").settings_.held_out == share
    refused(run("fit", "t.npy", "n.bpfa", "--held-out", "some"), "--held-out 'some'", "or 'auto'")
