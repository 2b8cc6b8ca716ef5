"""The ablation and the ideas: every cell runs, a run that was stopped resumes, and the tables are right."""

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from builders import natural
from imageio.v3 import imwrite

from benchmarks import ablation, ablation_page, tried
from benchmarks.ablation import main
from benchmarks.ablation_grid import Choice, grid
from benchmarks.ablation_page import joint_line, markdown, seconds_to_settle, time_to
from benchmarks.learning_problems import PROBLEMS, load
from bpfa import ALGORITHMS, Schedule, algorithm
from bpfa._support.philox import Stream
from bpfa.data import read_batches
from bpfa.inference.starts import random_posterior
from bpfa.inference.svi import svi_step


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Make up a picture and a matrix, and make the problems as small as possible."""
    data, results = tmp_path / "data", tmp_path / "results"
    rng = np.random.default_rng(0)
    for name in ("images", "cytof"):
        (data / name).mkdir(parents=True)
    slope = np.add.outer(np.arange(24), np.arange(24)) * 4.0
    imwrite(
        data / "images" / "house.png", (slope + rng.normal(scale=3, size=slope.shape) + 20).astype(np.uint8)
    )
    np.savez(data / "cytof" / "bcr_xl.npz", X=rng.gamma(2.0, 20.0, size=(150, 6)))
    sizes = {"n_features": 5, "batch_size": 60, "scored": 30, "n_draws": 2}
    for name, problem in list(PROBLEMS.items()):
        monkeypatch.setitem(PROBLEMS, name, problem._replace(**sizes))
    monkeypatch.setattr(tried, "RESULTS", results / "tried.json")
    monkeypatch.setattr(ablation, "RESULTS", results / "ablation.json")
    monkeypatch.setattr(ablation, "FIGURE", results / "ablation")
    return ["--data", str(data), "--seconds", "0.02", "--seeds", "0", "--jobs", "1"]


def test_the_grid_has_every_cell_that_exists():
    assert len(list(grid(PROBLEMS["cytometry"]))) == 23
    cells = list(grid(PROBLEMS["house 20 %"]))
    assert len(cells) == len(set(cells)) == 25
    assert [str(cell) for cell in cells if cell.dropout] == [
        f"gibbs-ssvi, {features}, active weights, dropout 10%" for features in ("factorised", "joint")
    ]
    assert [str(cell) for cell in cells if cell.init == "principal"] == [
        f"gibbs-ssvi, {features}, active weights, from components" for features in ("factorised", "joint")
    ]
    assert {cell.algorithm for cell in cells} == set(ALGORITHMS) - {"gibbs"}
    assert not any(cell.features == "joint" and cell.algorithm.endswith("-svi") for cell in cells)


def test_all_cells_run_and_are_not_run_again(small, capsys):
    assert main([*small, "--problems", "house 20 %", "cytometry"]) == 0
    first = capsys.readouterr().out
    assert "48 of 48 cells to run" in first
    records = json.loads(ablation.RESULTS.read_text())
    assert len(records) == 48
    for record in records:
        result = record["result"]
        assert np.isfinite([result["log_likelihood"], result["mse"], result["noise_std"]]).all()
        assert ("psnr" in result) == record["settings"]["problem"].startswith("house")
        assert 0 <= result["coverage"] <= 1
        integrated = "psnr" in result and record["settings"]["algorithm"] == "gibbs-ssvi"
        assert ("integrated" in result) == integrated
        assert result["steps"] >= 1
    assert ablation.FIGURE.with_suffix(".png").exists()
    assert main([*small, "--problems", "house 20 %"]) == 0
    assert "0 of 25 cells to run" in capsys.readouterr().out
    assert json.loads(ablation.RESULTS.read_text()) == records
    page = markdown(records)
    assert page.count("gibbs-ssvi, joint, active weights, chains carried over") == 2
    assert page.count("Joint features with active weights") == 3
    assert page.count("Joint features with active weights and a dropout of 10%") == 1


def test_a_problem_without_its_file_is_left_out(small, capsys):
    assert main([*small, "--problems", "expression"]) == 0
    out = capsys.readouterr().out
    assert "left out: no" in out
    assert "0 of 0 cells" in out


def test_times_are_read_off_curves():
    assert time_to([[1.0, 0.0], [4.0, 2.0], [8.0, 1.0]], 1.0) == pytest.approx(2.0)
    assert time_to([[1.0, 0.0], [4.0, 2.0]], 2.5) is None
    # 99 % of the way from knowing nothing to the end.
    low, high = ablation_page.NOTHING, ablation_page.NOTHING + 1.0
    assert seconds_to_settle([[1.0, low], [10.0, high], [100.0, high]]) == pytest.approx(10**0.99)
    assert seconds_to_settle([[1.0, low - 1], [10.0, low - 2]]) == 10.0


def test_joint_features_are_compared_with_the_papers_form():
    plain, joint = (
        Choice("gibbs-ssvi", *form, False) for form in (("factorised", "all"), ("joint", "active"))
    )
    slow, fast = ({"curve": [[1.0, 0.0], [float(end), 2.0]]} for end in (100, 10))
    line = joint_line({plain: [slow], joint: [fast]})
    assert "after 10% of the time" in line
    assert "end at 2.000" in line
    assert "never reach" in joint_line({plain: [{"curve": [[1.0, 3.0]]}], joint: [fast]})


def test_every_idea_is_tried(small, capsys):
    assert tried.main([*small, "--problems", "house 20 %", "cytometry"]) == 0
    records = json.loads(tried.RESULTS.read_text())
    # One idea is for pictures alone.
    assert len(records) == 2 * (len(tried.IDEAS) + 1) - 1
    out = capsys.readouterr().out
    for idea in tried.IDEAS:
        assert f"| {idea} |" in out
    shares = [record["result"] for record in records if record["settings"]["idea"] == tried.VARIANCE]
    assert all(0 <= share <= 1 for of_problem in shares for share in of_problem.values())


def test_without_an_idea_it_is_the_method_as_it_is(small):
    """Without any idea, the loop of the ideas makes the same steps as `train`."""
    data = load("cytometry", Path(small[1]), 0)
    problem = PROBLEMS["cytometry"]
    one_epoch = -(-data.rows.n_rows // problem.batch_size)
    steps = tried.training(data.rows, problem, tried.Idea(), 0)
    *_, ours = islice(steps, one_epoch)
    assert ours.posterior.n_rows == data.rows.n_rows
    batches = list(
        islice(read_batches(data.rows, problem.batch_size, Stream.from_seed(0).child("epoch 0")), one_epoch)
    )
    posterior = random_posterior(
        data.rows, problem.n_features, seed=0, features="joint", weight_precision="active"
    )
    for step, batch in enumerate(batches, start=1):
        posterior = svi_step(
            posterior, batch, algorithm("gibbs-ssvi", n_jobs=1), step=step,
            rho=Schedule(*problem.schedule["factorised"])(step), stream=Stream.from_seed(0),
        )  # fmt: skip
    for name, value in natural(posterior).items():
        np.testing.assert_array_equal(natural(ours.posterior)[name], value, err_msg=name)


def test_rescaled_features_have_weights_of_one_variance(small):
    """A feature and its weights explain the same together, and rescaling again changes nothing."""
    problem, data = PROBLEMS["cytometry"], load("cytometry", Path(small[1]), 0)
    *_, last = islice(tried.training(data.rows, problem, tried.Idea(), 0), 20)
    before = last.posterior
    after, again = tried.rescaled(before), tried.rescaled(tried.rescaled(before))
    growth = np.linalg.norm(after.features.mean, axis=1) / np.linalg.norm(before.features.mean, axis=1)
    assert growth.max() > 1.02 * growth.min()
    np.testing.assert_allclose(after.features.mean, before.features.mean * growth[:, None])
    np.testing.assert_allclose(after.features.variance, before.features.variance * growth[:, None] ** 2)
    np.testing.assert_allclose(again.features.mean, after.features.mean, rtol=0.1)
