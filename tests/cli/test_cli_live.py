"""bpfa live: simulated scans, folders that are being written, stacks, movies, and the page in the browser."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
from chromium import chromium, needs_chromium, requests_of
from cli_run import runner
from micrographs import hspy

import bpfa
from bpfa.cli.live_server import serving
from bpfa.images import FrameRestorer, frame_sources, masks
from bpfa.report.live import LivePage

SMALL = ("--patch", "5", "--components", "16", "--max-steps", "60", "--jobs", "1", "--seed", "0")


@pytest.fixture
def run(capfd):
    return runner(capfd)


def picture(shape=(40, 44), shift=0):
    y, x = np.mgrid[: shape[0], : shape[1]]
    return (100 + 40 * np.sin((x + shift) / 2) + 25 * np.cos((x + 2 * y) / 3)).astype(np.float32)


def scanned(seed, shift=0):
    missing = masks.random((40, 44), 0.4, seed=seed).missing
    return np.where(missing, np.nan, picture(shift=shift)).astype(np.float32)


def result_of(done):
    assert done.status == 0, done.err
    return json.loads(done.out)


@pytest.mark.parametrize("scan", ["random", "line-hop", "lines", "spiral", "blue-noise"])
def test_a_simulated_scan_of_a_picture(run, tmp_path, scan):
    np.save(tmp_path / "a.npy", picture())
    options = ("--simulate", "--scan", scan, "--dose", "0.4", "--frames", "3", "--std", tmp_path / "std.npy")
    found = result_of(run("live", tmp_path / "a.npy", tmp_path / "out.npy", *options, *SMALL, "--json"))
    assert found["frames"] == 3
    assert len(found["psnr"]) == 3
    stack, std = np.load(tmp_path / "out.npy"), np.load(tmp_path / "std.npy")
    assert stack.shape == std.shape == (3, 40, 44)
    assert stack.dtype == np.float32
    assert (np.abs(stack[-1] - picture()) < 1e-3).mean() > 0.35


def test_a_simulated_scan_of_counts(run, tmp_path):
    """The mean of few counts over the channels is no whole number, and the peak is that of the picture."""
    counts = np.random.default_rng(0).poisson(picture()[..., None] / 100, size=(40, 44, 12))
    hspy(tmp_path / "a.hspy", counts, (True, True, False))
    options = ("--simulate", "--dose", "0.4", "--frames", "2")
    found = result_of(run("live", tmp_path / "a.hspy", tmp_path / "out.npy", *options, *SMALL, "--json"))
    frames = np.load(tmp_path / "out.npy")
    assert frames.dtype == np.float32
    assert len(np.unique(frames[0].round(3))) > 20
    assert 0 < found["psnr"][-1] < 60


def test_a_stack_and_a_kept_model(run, tmp_path):
    np.save(tmp_path / "a.npy", np.stack([scanned(seed) for seed in range(3)]))
    options = ("--stack-axis", "0", "--save-model", tmp_path / "m.bpfa")
    found = result_of(run("live", tmp_path / "a.npy", tmp_path / "out.tif", *options, *SMALL, "--json"))
    assert found["frames"] == 3
    model = bpfa.BPFA.load(tmp_path / "m.bpfa")
    assert model.n_steps_ == 60 + 2 * 8
    options = ("--stack-axis", "0", "--model", tmp_path / "m.bpfa", "--learn", "0", "--jobs", "1", "--json")
    found = result_of(run("live", tmp_path / "a.npy", tmp_path / "again.npy", *options))
    assert found["frames"] == 3


def test_a_folder_that_is_being_written(run, tmp_path):
    """Files that come later, one that is never finished, and one of another size."""
    folder = tmp_path / "scan"
    folder.mkdir()
    np.save(folder / "0.npy", scanned(0))

    def write():
        time.sleep(0.5)
        whole = (folder / "0.npy").read_bytes()
        (folder / "1.npy").write_bytes(whole[: len(whole) // 2])
        np.save(folder / "2.npy", scanned(2)[:30])
        np.save(folder / "3.npy", scanned(3))

    writer = threading.Thread(target=write)
    writer.start()
    done = run("live", folder, tmp_path / "out.npy", "--idle", "2", *SMALL, "--json")
    writer.join()
    found = result_of(done)
    assert (found["frames"], found["refused"]) == (2, 2)
    assert "1.npy: cannot be read" in done.err
    assert "2.npy: frame: float32 of shape (30, 44)" in done.err


def test_a_movie(run, tmp_path):
    imageio = pytest.importorskip("imageio.v3")
    frames = np.stack([picture(shift=n).round().astype(np.uint8) for n in range(3)])
    imageio.imwrite(tmp_path / "a.gif", frames)
    mask = masks.random((40, 44), 0.4, seed=0).missing
    np.save(tmp_path / "mask.npy", mask)
    done = run(
        "live", tmp_path / "a.gif", tmp_path / "out.npy", "--mask", tmp_path / "mask.npy", *SMALL, "--json"
    )
    assert result_of(done)["frames"] == 3


def test_frames_that_come_too_fast_are_skipped(run, tmp_path):
    np.save(tmp_path / "a.npy", picture())
    options = ("--simulate", "--dose", "0.4", "--frames", "30", "--rate", "1000", "--skip")
    found = result_of(run("live", tmp_path / "a.npy", tmp_path / "out.npy", *options, *SMALL, "--json"))
    assert found["skipped"] > 5
    assert found["frames"] + found["skipped"] == 30


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a.npy", "out.png"), "out.png: expected a stack, .tif or .npy"),
        (("a.npy", "out.npy", "--simulate", "--scan", "zigzag"), "scan='zigzag': expected one of 'random'"),
        (("a.npy", "out.npy", "--simulate", "--dose", "0"), "dose=0.0: expected a number"),
        (("none.npy", "out.npy"), "none.npy: no such file"),
        (("nowhere", "out.npy"), "nowhere: no such file or folder"),
        (("a.npy", "a.npy", "--force"), "out a.npy: the same file as source"),
        ((".", "out.npy"), "out out.npy: in the folder of the frames; expected another one"),
        (("a.npy", "out.npy", "--task", "sharpen"), "task='sharpen': expected one of"),
        (("a.npy", "out.npy"), "no frame was restored"),
        (("a.npy", "out.npy", "--simulate", "--frames", "0"), "frames=0: expected"),
        (("a.npy", "out.npy", "--simulate", "--rate", "0"), "rate=0.0: expected"),
        (("a.npy", "out.npy", "--idle", "-1"), "idle=-1.0: expected"),
        (("a.npy", "out.npy", "--linger", "nan"), "linger=nan: expected"),
        (("a.npy", "out.npy", "--serve", "--port", "99999"), "port=99999: expected"),
    ],
)
def test_wrong_usage_is_one_line(run, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", picture())
    done = run("live", *arguments, *SMALL)
    assert done.status == 2
    assert words in done.err.lower() or words in done.err
    assert not (tmp_path / "out.npy").exists()


def test_blank_frames_before_the_first_picture(run, tmp_path):
    blank = np.zeros((40, 44), np.float32)
    frames = [blank, np.full((40, 44), np.nan, np.float32), scanned(0), scanned(1)]
    np.save(tmp_path / "a.npy", np.stack(frames))
    done = run("live", tmp_path / "a.npy", tmp_path / "out.npy", "--stack-axis", "0", *SMALL, "--json")
    found = result_of(done)
    assert (found["frames"], found["refused"]) == (2, 2)
    assert "a.npy 0: frame: every observed pixel is 0; expected a picture" in done.err
    assert len(np.load(tmp_path / "out.npy")) == 2


def ending(monkeypatch, after, end):
    """Let the source of frames end in this way after some of them."""
    whole = frame_sources.stack_frames

    def ends(picture):
        for number, frame in enumerate(whole(picture)):
            if number == after:
                end()
            yield frame

    monkeypatch.setattr(frame_sources, "stack_frames", ends)


def interrupt():
    raise KeyboardInterrupt


def fail():
    raise OSError("the camera is gone")


@pytest.mark.parametrize(
    ("end", "status", "words"),
    [
        (interrupt, 130, "bpfa: interrupted; out.npy has the 2 frames so far"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), 143, "interrupted; out.npy has the 2 frames so far"),
        (fail, 1, "bpfa: the camera is gone"),
    ],
)
@pytest.mark.parametrize("skip", [(), ("--skip",)])
def test_whatever_ends_a_stream_its_frames_are_written(run, tmp_path, monkeypatch, end, status, words, skip):
    if skip and end is interrupt:
        pytest.skip("Ctrl-C comes to the main thread, which does not read the frames")
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.stack([scanned(seed) for seed in range(4)]))

    def end_later():
        # The reader of the frames is ahead of the restorer, unless it waits.
        time.sleep(3 if skip else 0)
        end()

    ending(monkeypatch, 2, end_later)
    options = ("--stack-axis", "0", "--std", "std.npy", "--save-model", "m.bpfa", *skip, *SMALL, "--json")
    done = run("live", "a.npy", "out.npy", *options)
    assert done.status == status, done.err
    # With --skip, the first frame may be replaced by the second one while the restorer starts.
    n_frames = json.loads(done.out)["frames"]
    assert n_frames == 2 or skip
    assert words.replace("2", str(n_frames)) in done.err
    assert "no finished output" not in done.err
    assert len(np.load("out.npy")) == len(np.load("std.npy")) == n_frames
    assert bpfa.BPFA.load("m.bpfa").n_steps_ >= 60


def test_an_end_before_the_first_frame_writes_nothing(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.stack([scanned(0)]))
    for end, status, words in (
        (interrupt, 130, "no finished output was written"),
        (fail, 1, "the camera is gone"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), 143, "no finished output was written"),
    ):
        with monkeypatch.context() as patch:
            ending(patch, 0, end)
            done = run("live", "a.npy", "out.npy", "--stack-axis", "0", *SMALL)
        assert (done.status, done.out) == (status, "")
        assert words in done.err
        assert not (tmp_path / "out.npy").exists()


@pytest.mark.skipif(os.name != "posix", reason="the signal of Ctrl-C is one of POSIX")
def test_ctrl_c_ends_a_folder_that_is_watched(tmp_path):
    """In a process of its own; the page is still there for a while, but not after Ctrl-C."""
    folder = tmp_path / "scan"
    folder.mkdir()
    np.save(folder / "0.npy", scanned(0))
    command = [sys.executable, "-m", "bpfa.cli", "live", folder, tmp_path / "out.npy", "--idle", "60"]
    command += ["--serve", "--linger", "60", *SMALL]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        address = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())[0]
        frames, waited = 0, time.monotonic()
        while not frames and time.monotonic() - waited < 60:
            time.sleep(0.1)
            with urllib.request.urlopen(f"{address}state.json") as answer:
                frames = json.load(answer)["frames"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "1 frames · 0 skipped · 0 left out" in out
    assert "interrupted; " in err
    assert len(np.load(tmp_path / "out.npy")) == 1


@pytest.fixture(scope="module")
def page():
    found = LivePage("a scan <b>")
    restorer = FrameRestorer(patch_size=5, n_components=16, max_steps=60, random_state=0, n_jobs=1)
    for seed in range(2):
        result = restorer.restore(scanned(seed))
        found.show(result, scanned(seed), restorer.latency, name=f"frame {seed}", psnr=30.0)
    return found


def test_the_page_is_for_this_computer_only(page):
    with serving(page, 0) as address:
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}state.json") as answer:
            assert json.load(answer)["frames"] == 2
        for name in ("frame", "seen", "std", "dictionary"):
            with urllib.request.urlopen(f"{address}{name}.png?2") as answer:
                assert answer.read(8) == b"\x89PNG\r\n\x1a\n"
        other = urllib.request.Request(address, headers={"Host": "example.org"})
        for request, status in ((other, 403), (f"{address}../secret", 404)):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(request)
            assert caught.value.code == status
            caught.value.close()
        port = int(address.rstrip("/").rpartition(":")[2])
        with pytest.raises(ValueError, match=f"--port {port}: cannot be used"), serving(page, port):
            pass


@needs_chromium
def test_the_page_in_a_browser(page, tmp_path):
    pytest.importorskip("selenium")
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    with serving(page, 0) as address, chromium(tmp_path / "profile") as browser:
        browser.get_log("performance")
        browser.get(address)
        text = lambda name: browser.find_element(By.ID, name).text  # noqa: E731
        WebDriverWait(browser, 10).until(lambda _: text("frames") == "2")
        width = "return document.getElementById(arguments[0]).naturalWidth"
        for name in ("frame", "seen", "std", "dictionary"):
            WebDriverWait(browser, 10).until(lambda _, name=name: browser.execute_script(width, name) > 0)
        assert browser.execute_script(width, "frame") == 44
        assert text("psnr") == "30.00 dB"
        assert text("scanned") == "40.0 %"
        assert browser.find_element(By.TAG_NAME, "h1").text == "a scan <b>"
        page.end()
        WebDriverWait(browser, 10).until(lambda _: text("status") == "No more frames.")
        assert browser.get_log("browser") == []
        asked = [url for owner, url in requests_of(browser) if owner == address]
        assert all(url.startswith((address, "data:")) for url in asked)


@needs_chromium
def test_the_command_serves_the_page_while_it_runs(tmp_path):
    pytest.importorskip("selenium")
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    np.save(tmp_path / "a.npy", picture())
    command = [
        sys.executable,
        "-m",
        "bpfa.cli",
        "live",
        tmp_path / "a.npy",
        tmp_path / "out.npy",
        "--simulate",
    ]
    command += ["--dose", "0.4", "--frames", "40", "--rate", "5", "--serve", *SMALL]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        line = process.stderr.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/", line)[0]
        with chromium(tmp_path / "profile") as browser:
            browser.get(address)
            frames = lambda: browser.find_element(By.ID, "frames").text  # noqa: E731
            WebDriverWait(browser, 30).until(lambda _: frames().isdigit() and int(frames()) >= 2)
            first = int(frames())
            WebDriverWait(browser, 30).until(lambda _: int(frames()) > first)
            assert float(browser.find_element(By.ID, "rate").text) > 0
        process.stderr.read()
    assert process.returncode == 0
    assert len(np.load(tmp_path / "out.npy")) == 40
