from functools import partial

import numpy as np
import pytest
from cli_run import refused, runner

import bpfa
import bpfa.images
from bpfa.cli.demo_table import error, tumours
from bpfa.images.files import read_image

data = pytest.importorskip("skimage.data")
pytest.importorskip("typer")


def test_demo(capfd, tmp_path, monkeypatch):
    """On a corner of the photograph and with few steps, as the whole takes half a minute."""
    monkeypatch.setattr(bpfa.images, "inpaint", partial(bpfa.images.inpaint, n_components=32))
    monkeypatch.setattr("bpfa.cli.demo.STEPS", 40)
    truth = data.camera()[100:180, 200:280]
    monkeypatch.setattr(data, "camera", lambda: truth)
    monkeypatch.chdir(tmp_path)
    run = runner(capfd)
    ran = run("demo", "--json", "--jobs", 1)
    assert ran.status == 0
    document = ran.document
    psnr = document["psnr"]
    assert set(psnr) == {"bpfa", "bpfa, dictionary only", "biharmonic", "cubic"}
    assert psnr["bpfa"] != psnr["bpfa, dictionary only"]
    assert all(score["missing"] > 15 and score["all"] > score["missing"] for score in psnr.values())
    # Observed pixels are as they were: infinitely good, which JSON cannot say.
    assert [score["observed"] for score in psnr.values()] == [None] * 4
    assert document["missing_share"] == pytest.approx(0.8, abs=0.02)
    folder = tmp_path / "bpfa-demo"
    assert sorted(path.name for path in folder.iterdir()) == [
        "after.png",
        "before.png",
        "report.html",
        "uncertainty.png",
    ]
    after = read_image(folder / "after.png").values
    error = (after.astype(float) - truth) ** 2
    assert psnr["bpfa"]["all"] == pytest.approx(10 * np.log10(255**2 / error.mean()))
    page = (folder / "report.html").read_text(encoding="utf-8")
    for score in (psnr["bpfa"], psnr["bpfa, dictionary only"]):
        assert f"{score['missing']:.2f} dB" in page
    assert "95% intervals cover" in page
    refused(run("demo"), "--force")
    assert "dB" in run("demo", "--force", "--jobs", 1).out


def test_the_demo_of_a_table(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    opened = []
    monkeypatch.setattr("typer.launch", opened.append)
    ran = runner(capfd)("demo", "tables", "--table", "--json", "--jobs", 1)
    assert ran.status == 0
    document = ran.document
    names = {"holes": ".csv", "filled": ".csv", "std": ".csv", "model": ".bpfa", "report": ".html"}
    assert document["written"] == {stem: f"tables/{stem}{suffix}" for stem, suffix in names.items()}
    truth = tumours()[0]
    holes, filled, std = (
        np.genfromtxt(f"tables/{name}.csv", delimiter=",", skip_header=1, usecols=range(1, 31))
        for name in ("holes", "filled", "std")
    )
    missing = np.isnan(holes)
    assert missing.mean() == pytest.approx(0.4, abs=0.01)
    np.testing.assert_allclose(filled[~missing], truth[~missing], atol=1e-6)
    assert (std[~missing] == 0).all()
    assert document["error"]["bpfa"] == pytest.approx(error(truth, filled, missing), abs=1e-4)
    assert document["error"]["bpfa"] < document["error"]["5 like rows (KNNImputer)"] < 0.8
    assert 0.9 < document["coverage"] < 0.99
    assert "held out" in (tmp_path / "tables" / "report.html").read_text(encoding="utf-8")
    again = bpfa.BPFA.load("tables/model.bpfa").impute(bpfa.open_rows("tables/holes.csv"))
    np.testing.assert_allclose(again, filled, atol=1e-3)
    assert opened == []
    refused(runner(capfd)("demo", "tables", "--table"), "--force")
    assert "95 % intervals" in runner(capfd)("demo", "tables", "--table", "--force", "--open").out
    assert opened == [str(tmp_path / "tables" / "report.html")]


def test_a_file_is_no_folder(capfd, tmp_path):
    (tmp_path / "taken").touch()
    refused(runner(capfd)("demo", tmp_path / "taken"), f"FOLDER {tmp_path / 'taken'}", "expected a folder")
