"""bpfa fit that is interrupted, by the user or by a signal, and its checkpoints."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_run import refused, runner

import bpfa
import bpfa.estimator.storage
import bpfa.fitting.history
from bpfa.cli.signals import interrupted_by_signals

pytest.importorskip("typer")

SMALL = ("--components", 6, "--max-steps", 20, "--jobs", 1)
HOLES = bpfa.draw_data(60, 5, 3, g_o=100.0, g_w=1.0, seed=0).y * 3 + 7
HOLES[np.random.default_rng(0).random(HOLES.shape) < 0.2] = np.nan


@pytest.fixture
def run(capfd):
    return runner(capfd)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table, in which commands run."""
    monkeypatch.chdir(tmp_path)
    np.save("t.npy", HOLES)
    return tmp_path


def fitted(run, source="t.npy", *options):
    assert run("fit", source, "m.bpfa", *SMALL, *options).status == 0
    return bpfa.BPFA.load("m.bpfa")


def test_interrupted_and_resumed(run, folder, monkeypatch):
    add = bpfa.fitting.history.History.add

    def interrupt(history, *arguments):
        add(history, *arguments)
        if len(history) == 5:
            os.kill(os.getpid(), signal.SIGINT)

    command = ("fit", "t.npy", "m.bpfa", "--checkpoint", "c.bpfa", *SMALL)
    with monkeypatch.context() as patch:
        patch.setattr(bpfa.fitting.history.History, "add", interrupt)
        ran = run(*command)
    assert ran.status == 130
    assert "saved in c.bpfa" in ran.err
    assert not (folder / "m.bpfa").exists()
    refused(run(*command), "--checkpoint c.bpfa", "--resume")
    assert run(*command, "--resume").status == 0
    straight = bpfa.BPFA(6, max_steps=20, n_jobs=1, random_state=0).fit(HOLES)
    np.testing.assert_array_equal(bpfa.BPFA.load("m.bpfa").components_, straight.components_)


@pytest.mark.parametrize("full", ["c.bpfa", "both"])
def test_interrupted_where_the_checkpoint_cannot_be_saved(run, folder, monkeypatch, full):
    """The disk of the checkpoint is full: the steps are saved as MODEL, unless its disk is full too."""
    add, save = bpfa.fitting.history.History.add, bpfa.estimator.storage.save_file

    def interrupt(history, *arguments):
        add(history, *arguments)
        if len(history) == 5:
            os.kill(os.getpid(), signal.SIGINT)

    def no_space(arrays, path, **options):
        if full == "both" or "c.bpfa" in Path(path).name:
            raise OSError(28, "No space left on device", str(path))
        save(arrays, path, **options)

    monkeypatch.setattr(bpfa.fitting.history.History, "add", interrupt)
    monkeypatch.setattr(bpfa.estimator.storage, "save_file", no_space)
    ran = run("fit", "t.npy", "m.bpfa", "--checkpoint", "c.bpfa", *SMALL)
    assert ran.status == 130
    assert "checkpoint not saved" in ran.err
    assert not (folder / "c.bpfa").exists()
    if full == "both":
        assert "the 5 steps of the fit are lost" in ran.err
        assert not (folder / "m.bpfa").exists()
    else:
        assert "not finished; the model after 5 steps is in m.bpfa" in ran.err
        assert bpfa.BPFA.load("m.bpfa").n_steps_ == 5


@pytest.mark.parametrize("option", ["MODEL", "--checkpoint"])
@pytest.mark.parametrize("damaged", [True, False])
def test_force_replaces_models_even_if_they_are_damaged(run, folder, option, damaged):
    fitted(run)
    content = (folder / "m.bpfa").read_bytes()
    (folder / "old.bpfa").write_bytes(content[:-10] if damaged else content)
    files = ("old.bpfa",) if option == "MODEL" else ("n.bpfa", "--checkpoint", "old.bpfa")
    ran = run("fit", "t.npy", *files, "--components", 6, "--max-steps", 7, "--force")
    assert (ran.status, "warning" in ran.err) == (0, False), ran
    assert bpfa.BPFA.load("old.bpfa").n_steps_ == 7


def test_checkpoint_every(run, folder, monkeypatch):
    given = []
    fit = bpfa.BPFA.fit
    monkeypatch.setattr(
        bpfa.BPFA,
        "fit",
        lambda self, X, **options: (given.append(options["checkpoint"]), fit(self, X, **options))[1],
    )
    assert fitted(run, "t.npy", "--checkpoint", "c.bpfa", "--checkpoint-every", 0.5).n_steps_ == 20
    assert given == [bpfa.Checkpoint("c.bpfa", every_minutes=0.5)]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_signals_save_as_ctrl_c_does(run, folder, monkeypatch, name, status):
    add, number = bpfa.fitting.history.History.add, getattr(signal, name)

    def interrupt(history, *arguments):
        add(history, *arguments)
        if len(history) == 5:
            os.kill(os.getpid(), number)

    before = signal.signal(number, lambda *received: pytest.fail("the signal was not caught"))
    mine = signal.getsignal(number)
    command = ("fit", "t.npy", "m.bpfa", "--checkpoint", "c.bpfa", *SMALL)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(bpfa.fitting.history.History, "add", interrupt)
            ran = run(*command)
        assert signal.getsignal(number) is mine
    finally:
        signal.signal(number, before)
    assert ran.status == status
    assert "saved in c.bpfa" in ran.err
    assert "no finished output was written" in ran.err
    assert not (folder / "m.bpfa").exists()
    assert bpfa.BPFA.load("c.bpfa").n_steps_ == 5
    assert run(*command, "--resume").status == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_ignored_signals_stay_ignored(run, folder):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupted_by_signals():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_closed_terminal_saves_the_fit(folder):
    """The progress bar cannot be written any more, which must not prevent the saving."""
    pytest.importorskip("termios")
    # The program becomes the leader of a session of its own, whose terminal it is; and it hears when that is
    # closed, even if the tests run where such signals are ignored.
    code = (
        "import fcntl, signal, sys, termios; from bpfa.cli import main; "
        "signal.signal(signal.SIGHUP, signal.SIG_DFL); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        "main(sys.argv[1:])"
    )
    command = ("fit", "t.npy", "m.bpfa", "--checkpoint", "c.bpfa", "--checkpoint-every", "0", "--jobs", "1")
    terminal, end = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", code, *command, "--max-steps", "1000000000"],
        stdin=end,
        stdout=end,
        stderr=end,
        env={**os.environ, "TERM": "xterm"},
        start_new_session=True,
    )
    os.close(end)
    try:
        while not (folder / "c.bpfa").exists():
            assert process.poll() is None
            # A terminal that nobody reads would block the program.
            if select.select([terminal], [], [], 0.05)[0]:
                os.read(terminal, 4096)
        first = bpfa.BPFA.load("c.bpfa").n_steps_
        os.close(terminal)
        assert process.wait(timeout=30) == 129
    finally:
        process.kill()
        process.wait()
    model = bpfa.BPFA.load("c.bpfa")
    assert model.stopped_by_ == "interrupt"
    assert model.n_steps_ >= first
