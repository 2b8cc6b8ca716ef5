"""The benchmark of frames stores what it has measured at once, and goes on where it was stopped."""

import json
import sys

import pytest

pytest.importorskip("rich")
from benchmarks import live


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Return a function that runs the benchmark with arguments, and returns what it has measured."""
    done = []
    score = {
        "frames": [{"psnr": 20.0, "covered": 0.95}],
        "new": {"psnr": 20.1, "covered": 0.95},
        "n_changes": 0,
    }
    found = {
        "times": {"kept": [1.0, 2.0, 3.0], "learning": [2.0, 3.0, 4.0]},
        "scores": dict.fromkeys(live.KINDS, score),
    }
    for part in live.PARTS:

        def measure(row, part=part):
            done.append((row.size, row.dose, part))
            if len(done) == 3:
                raise KeyboardInterrupt
            return found[part]

        monkeypatch.setattr(live.Row, part, measure)
    monkeypatch.setattr(live, "RESULTS", tmp_path / "live.json")
    monkeypatch.setattr(live.os, "sched_setaffinity", lambda *_: None, raising=False)

    def run(*arguments):
        done_before = len(done)
        monkeypatch.setattr(sys, "argv", ["live", "--device", "cpu", "--sizes", "256", "512", *arguments])
        live.main()
        return done[done_before:]

    return run


def test_a_run_that_was_stopped_goes_on(measured, capsys):
    with pytest.raises(KeyboardInterrupt):
        measured("--doses", "0.2")
    assert measured("--doses", "0.2") == [(512, 0.2, "times"), (512, 0.2, "scores")]
    assert measured("--doses", "0.2") == []
    assert measured("--doses", "0.2", "--only", "times", "--again") == [
        (256, 0.2, "times"),
        (512, 0.2, "times"),
    ]
    assert measured("--doses", "0.1", "--minutes", "0") == []
    assert "The time is up" in capsys.readouterr().out
    assert measured("--doses", "0.5", "--only", "scores") == [(256, 0.5, "scores"), (512, 0.5, "scores")]
    rows = live.rows_of(json.loads(live.RESULTS.read_text()))
    assert [row[1:5] for row in rows] == [
        ["256 x 256", "20 %", "2.0", "3.0"],
        ["256 x 256", "50 %", "", ""],
        ["512 x 512", "20 %", "2.0", "3.0"],
        ["512 x 512", "50 %", "", ""],
    ]
    assert rows[1][5:] == ["20.00 (-0.10)"] * 3 + ["95.0-95.0"]
    assert "| cpu | 256 x 256 | 20 % | 2.0 | 3.0 |" in live.markdown(json.loads(live.RESULTS.read_text()))
