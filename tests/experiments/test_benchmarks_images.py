"""The comparison of restorations: tasks, contestants, scores, and what gets onto the page."""

import argparse
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

pytest.importorskip("skimage")
from benchmarks import readme
from benchmarks.group_settings import bundled_pictures
from benchmarks.image_contestants import CONTESTANTS, Contestant, Effort, counts_from_roots
from benchmarks.image_page import markdown
from benchmarks.image_tasks import (
    BUNDLED,
    CHOSEN_ON,
    PICTURES,
    SHARED,
    TASKS,
    damage,
    damaged_picture,
    picture_file,
)
from benchmarks.images import available, cells, run, scores
from benchmarks.pages import Section
from experiments.cells import Context, Store
from experiments.runs import run_and_report

# A picture with edges and a slope, on which every method must improve on what it is given.
SLOPE = np.add.outer(np.arange(48.0), 2 * np.arange(48.0)) + 60 * (np.arange(48) > 20)
ARGUMENTS = argparse.Namespace(size=32, steps=3, device="cpu", threads=1, seed=0)


def error(image, truth, where):
    return float(np.sqrt(np.mean((image - truth)[where] ** 2)))


def test_tasks():
    noisy = damage(SLOPE, TASKS["noise-25"], 0)
    assert not noisy.missing.any()
    assert np.std(noisy.seen - SLOPE) == pytest.approx(25, rel=0.05)
    assert noisy.scored.all()
    holes = damage(SLOPE, TASKS["observed-20"], 0)
    assert holes.missing.mean() == pytest.approx(0.8, abs=0.03)
    np.testing.assert_array_equal(holes.seen[~holes.missing], SLOPE[~holes.missing])
    np.testing.assert_array_equal(holes.scored, holes.missing)
    both = damage(SLOPE, TASKS["observed-50-noise-15"], 0)
    assert both.missing.any()
    assert both.scored.all()
    counts = damage(np.full((200, 200), 127.5), TASKS["poisson-10"], 0).seen / 25.5
    assert (counts.mean(), counts.var()) == pytest.approx((5, 5), rel=0.03)


def test_bundled_pictures_need_no_download():
    for name in BUNDLED:
        assert picture_file(name).missing_from(Path("/nowhere")) is None
    assert picture_file(SHARED[0]).missing_from(Path("/nowhere"))
    assert damaged_picture("camera", TASKS["noise-15"], Path("/nowhere"), size=32).truth.shape == (32, 32)


@pytest.mark.parametrize("name", [name for name in CONTESTANTS if not name.startswith("bpfa")])
@pytest.mark.parametrize("task", TASKS)
def test_others_restore(name, task):
    contestant = CONTESTANTS[name]
    if not contestant.takes(TASKS[task]):
        pytest.skip("does not take part")
    if contestant.unavailable:
        pytest.skip(contestant.unavailable)
    picture = damage(SLOPE, TASKS[task], 0)
    image = contestant.restore(picture, Effort())
    assert image.shape == SLOPE.shape
    given = np.where(picture.missing, np.nanmean(picture.seen), picture.seen)
    assert error(image, SLOPE, picture.scored) < error(given, SLOPE, picture.scored)


def test_who_takes_part():
    taking = {task: [name for name in CONTESTANTS if CONTESTANTS[name].takes(TASKS[task])] for task in TASKS}
    ours = ["bpfa dictionary", "bpfa groups"]
    assert taking["noise-15"] == taking["poisson-10"] == ["wavelet", "TV", "NLM", "BM3D", *ours]
    assert taking["observed-10"] == ["cubic", "linear", "biharmonic", *ours]
    assert taking["observed-50-noise-15"] == list(CONTESTANTS)


def test_the_inverse_of_anscombe_is_unbiased():
    rng = np.random.default_rng(0)
    for mean in (0.5, 2.0, 10.0):
        roots = 2 * np.sqrt(rng.poisson(mean, 400_000) + 3 / 8)
        assert counts_from_roots(roots.mean()) == pytest.approx(mean, rel=0.03)
    assert (counts_from_roots(np.array([-1.0, 0.0])) >= 0).all()


def test_a_contestant_without_its_package_is_left_out(monkeypatch, capsys):
    absent = Contestant(lambda picture, effort: None, package="no_such_package", install="pip install it")
    monkeypatch.setitem(CONTESTANTS, "absent", absent)
    assert available(["cubic", "absent"], Console(soft_wrap=True)) == ["cubic"]
    said = "left out: absent, because no_such_package is not installed (pip install it)"
    assert said in capsys.readouterr().out


def test_scores_of_bpfa():
    picture = damage(SLOPE, TASKS["observed-50-noise-15"], 0)
    answer = CONTESTANTS["bpfa dictionary"].restore(picture, Effort(steps=3))
    assert answer.stage == "dictionary"
    assert answer.model.n_steps_ == 3
    found = scores(picture, answer)
    assert found["psnr"] == found["psnr_all"] != found["psnr_missing"]
    assert 0 < found["ssim"] < 1
    covered = np.abs(SLOPE - answer.image) < 2.5758293 * answer.std
    assert found["coverage"]["0.99"] == pytest.approx(covered.mean())
    assert list(found["coverage"]) == ["0.8", "0.95", "0.99"]


def test_a_run_is_resumed_and_written_onto_the_page(tmp_path, monkeypatch):
    output, context, console = tmp_path / "pictures.json", Context(tmp_path, tmp_path), Console(quiet=True)
    names = ["linear", "bpfa dictionary"]
    wanted = cells(["moon", "text"], ["observed-20"], names, ARGUMENTS)
    page = tmp_path / "page.md"
    page.write_text("Old.\n<!-- images -->\nold numbers\n<!-- end -->\n")
    monkeypatch.setattr(readme, "SECTIONS", {"images": Section(page, output)})
    monkeypatch.setattr(readme, "WRITERS", {"images": readme.WRITERS["images"]})
    readme.main()
    # As long as there are no new results, the page keeps the old ones.
    assert "old numbers" in page.read_text()

    def runs(some):
        called = []

        def noted(settings, where):
            called.append(settings["contestant"])
            return run(settings, where)

        assert run_and_report("images", some, noted, Store(output), context, console, jobs=1) == 0
        return called

    # The first picture is complete, and of the second only one contestant is there.
    assert runs(wanted[:3]) == ["linear", "bpfa dictionary", "linear"]
    readme.main()
    text = page.read_text()
    assert "old numbers" not in text
    assert "**20 % observed** (missing pixels)" in text
    assert "mean of 1 picture |" in text
    rows = [line for line in text.splitlines() if line.startswith("| text")]
    assert len(rows) == 1
    assert rows[0].endswith("|  |  |")
    assert runs(wanted) == ["bpfa dictionary"]
    assert "mean of 2 pictures |" in markdown(list(Store(output).records.values()))
    assert runs(wanted) == []


def test_pictures_by_which_settings_were_chosen_are_not_in_the_means():
    tuned_on = set(bundled_pictures())
    assert tuned_on & set(PICTURES) == set(CHOSEN_ON)
    result = {"psnr": 30.0, "ssim": 0.9, "seconds": 1.0, "told": ""}
    settings = {"task": "noise-25", "contestant": "TV"}
    pictures = {"camera": 40.0, "moon": 30.0, "text": 20.0}
    page = markdown(
        [
            {"settings": {**settings, "picture": name}, "result": {**result, "psnr": psnr}}
            for name, psnr in pictures.items()
        ]
    )
    assert "mean of 2 pictures" in page
    assert "| TV | 25.00 |" in page
    assert "| camera \\* | 40.00 |" in page


def test_what_others_are_told_is_said():
    result = {"psnr": 30.0, "ssim": 0.9, "seconds": 1.0, "told": CONTESTANTS["BM3D"].told}
    settings = {"task": "noise-25", "picture": "house", "contestant": "BM3D"}
    assert "| BM3D | 30.00 | 0.9000 |  |  |  | 1.0 | the noise level |" in markdown(
        [{"settings": settings, "result": result}]
    )


def test_seconds_on_another_device_are_said_to_be():
    result = {"psnr": 30.0, "ssim": 0.9, "seconds": 1.0, "told": "", "device": "cuda"}
    settings = {"task": "noise-25", "picture": "house", "contestant": "bpfa groups"}
    result["coverage"] = {"0.8": 0.8, "0.95": 0.95, "0.99": 0.99}
    assert "| 1.0 on cuda |" in markdown([{"settings": settings, "result": result}])
