import os
import subprocess
import sys
import warnings

import pytest
from cli_run import refused, runner

import bpfa

pytest.importorskip("typer")


@pytest.fixture
def run(capfd):
    return runner(capfd)


def test_version_and_help(run):
    assert run("--version") == (0, f"bpfa {bpfa.__version__}\n", "")
    assert run() == run("--help") == run("-h")
    for command in ("inpaint", "denoise", "fit", "transform", "impute", "report", "doctor", "demo"):
        assert command in run("--help").out
        assert run(command, "--help").status == 0


def test_as_a_module():
    ran = subprocess.run(
        [sys.executable, "-m", "bpfa.cli", "--version"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, f"bpfa {bpfa.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["paint"], "paint"),
        (["inpaint"], "IN"),
        (["inpaint", "a.png", "b.png", "--patch", "0"], "--patch"),
        (["inpaint", "a.png", "b.png", "--seed", "x"], "--seed"),
        (["inpaint", "a.png", "b.png", "--colour"], "--colour"),
        (["fit", "a.npy", "m", "--resume"], "bpfa: --resume: expected --checkpoint"),
        (["inpaint", "a.png", "b.png", "--mask", "m.png", "--missing", "0"], "bpfa: --mask and --missing: "),
        (["ft"], "'ft'"),
    ],
)
def test_wrong_usage_is_one_line(run, arguments, word):
    refused(run(*arguments), word, "--help'")


@pytest.mark.parametrize(
    ("error", "status", "shown"),
    [
        (ValueError("model: a b;\n  expected c"), 2, "bpfa: model: a b; expected c\n"),
        (PermissionError(13, "Permission denied", "m"), 2, "bpfa: m: Permission denied\n"),
        (OSError(28, "No space left on device", "m"), 1, "bpfa: m: No space left on device\n"),
        (OSError("m: not written"), 1, "bpfa: m: not written\n"),
        (ImportError("pip install x"), 1, "bpfa: pip install x\n"),
        (MemoryError("8 GiB"), 1, "8 GiB"),
        (KeyError("k"), 1, "KeyError: 'k'"),
        (RuntimeError("k"), 1, "This is a bug"),
        (RuntimeError("device='cuda': no GPU"), 1, "bpfa: --device 'cuda': no GPU\n"),
        (KeyboardInterrupt(), 130, "bpfa: interrupted; no finished output was written\n"),
    ],
)
def test_errors_and_exit_status(run, monkeypatch, tmp_path, error, status, shown):
    def load(path):
        raise error

    monkeypatch.setattr(bpfa.BPFA, "load", load)
    ran = run("report", tmp_path / "m")
    assert ran.status == status
    assert ran.err.count("\n") == 1
    assert "Traceback" not in ran.err
    assert ran.err == shown if shown.endswith("\n") else shown in ran.err


def test_a_traceback_when_asked_for(run, monkeypatch, tmp_path):
    monkeypatch.setenv("BPFA_DEBUG", "1")
    assert "Traceback" in run("report", tmp_path / "m").err


def test_warnings_are_lines_and_quiet_silences_them(run, monkeypatch, tmp_path):
    (tmp_path / "m").touch()

    def load(path):
        warnings.warn("beware", stacklevel=2)
        warnings.warn("soon", FutureWarning, stacklevel=2)
        raise ValueError("stop")

    monkeypatch.setattr(bpfa.BPFA, "load", load)
    assert run("report", tmp_path / "m").err == "bpfa: warning: beware\nbpfa: stop\n"
    assert run("report", tmp_path / "m", "-q").err == "bpfa: stop\n"


def test_a_reader_that_goes_away_is_no_traceback():
    command = f"{sys.executable} -m bpfa.cli --help; echo $? >&2"
    read, write = os.pipe()
    os.close(read)
    with subprocess.Popen(
        ["bash", "-c", command], stdout=write, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(write)
        assert process.communicate()[1] == "1\n"
