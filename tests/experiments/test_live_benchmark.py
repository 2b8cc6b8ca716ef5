"""The benchmark of frames stores what it has measured at once, and goes on where it was stopped."""

import sys

import pytest

pytest.importorskip("rich")
from benchmarks import live


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Return a function that runs the benchmark with arguments, and returns what it has measured."""
    done = []
    quality = {"psnr": 20.0, "covered": 0.95}
    course = [quality, quality | {"psnr": 20.5, "covered": 0.96}]
    found = {
        "times": {"kept": [100.0, 200.0, 300.0], "learning": [200.0, 400.0, 500.0]},
        "scores": {kind: {"frames": course, "n_changes": 0} for kind in live.KINDS},
        "fits": {kind: {"frame": 2, "psnr": 20.6, "covered": 0.95} for kind in live.KINDS},
    }
    for part in live.PARTS:

        def measure(row, part=part):
            done.append((row.size, row.dose, part))
            if len(done) == 4:
                raise KeyboardInterrupt
            return found[part]

        monkeypatch.setattr(live.Row, part, measure)
    monkeypatch.setattr(live, "results_of", lambda device: tmp_path / f"{device}.json")
    monkeypatch.setattr(live.os, "sched_setaffinity", lambda *_: None, raising=False)
    monkeypatch.setattr(live.os, "sched_getaffinity", lambda _: {0, 1}, raising=False)

    def run(*arguments):
        done_before = len(done)
        monkeypatch.setattr(sys, "argv", ["live", "--device", "cpu", "--sizes", "256", "512", *arguments])
        live.main()
        return done[done_before:]

    return run


def test_a_run_that_was_stopped_goes_on(measured, capsys):
    with pytest.raises(KeyboardInterrupt):
        measured("--doses", "0.2")
    assert measured("--doses", "0.2") == [(512, 0.2, part) for part in live.PARTS]
    assert measured("--doses", "0.2") == []
    assert measured("--doses", "0.2", "--only", "times", "--again") == [
        (256, 0.2, "times"),
        (512, 0.2, "times"),
    ]
    assert measured("--doses", "0.1", "--minutes", "0") == []
    assert "The time is up" in capsys.readouterr().out
    assert measured("--doses", "0.5", "--only", "scores") == [(256, 0.5, "scores"), (512, 0.5, "scores")]
    results = live.stored("cpu")
    assert live.times_of(results) == [
        [f"{size} x {size}", "20 %", "200.0", "5", "400.0", "2.5"] for size in (256, 512)
    ]
    scores = live.scores_of(results)
    assert [row[:3] for row in scores[:4]] == [
        ["256 x 256", "20 %", "still"],
        ["256 x 256", "20 %", "drift"],
        ["256 x 256", "20 %", "cut"],
        ["256 x 256", "50 %", "still"],
    ]
    assert scores[0][3:] == ["20.00", "20.50", *[""] * 8, "-0.10", "95.0-96.0"]
    assert scores[3][-2:] == ["", "95.0-96.0"]
    assert "| 256 x 256 | 20 % | 200.0 | 5 | 400.0 | 2.5 |" in live.markdown(results)


def test_frames_are_those_of_the_fits_that_they_are_compared_with(measured):
    with pytest.raises(KeyboardInterrupt):
        measured("--doses", "0.2")
    results = live.stored("cpu")
    results["rows"]["256 x 256 at 20 %"]["fits"]["still"] = {"frame": 10, "psnr": 20.6, "covered": 0.95}
    assert [row[-2] for row in live.scores_of(results)] == ["", "-0.10", "-0.10"]


def test_times_of_one_processor_are_refused(measured, monkeypatch):
    monkeypatch.setattr(live.os, "sched_getaffinity", lambda _: {0}, raising=False)
    with pytest.raises(SystemExit, match="one processor; expected two"):
        measured("--doses", "0.2")
