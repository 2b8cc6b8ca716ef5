"""The experiments of the paper run, resume and write their page, on small data made up here."""

import json
import re

import numpy as np
import pytest
from imageio.v3 import imwrite

from bpfa import BPFA, Progress
from bpfa.prediction.draws import PosteriorDraw
from experiments.cells import Cell, Context, Store
from experiments.measure import follow
from experiments.runs import run_cells
from experiments.scores import HiddenEntries, draw_scores, imputed_scores, model_scores, posterior_scores
from paper.__main__ import EXPERIMENTS, NAMES, main
from paper.experiment import Options, verdict
from paper.interpolation import PAPER, PAPER_SECONDS
from paper.report import write_report
from paper.thought_experiment import exact, optimum


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Pictures and matrices where the experiments look for them."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for name in ("images", "cytof", "expression"):
        (folder / name).mkdir()
    slope = np.add.outer(np.arange(32), np.arange(32)) * 3.0
    for picture in ("boat", "barbara"):
        noisy = np.clip(slope + rng.normal(scale=5, size=slope.shape), 0, 255)
        imwrite(folder / "images" / f"{picture}.png", noisy.astype(np.uint8))
    np.savez(folder / "cytof" / "bcr_xl.npz", X=rng.gamma(2.0, 20.0, size=(250, 6)))
    np.savez(folder / "expression" / "tcga_rnaseq.npz", X=rng.normal(7.0, 2.0, size=(80, 10)))
    return folder


@pytest.fixture(scope="session")
def finished(data, tmp_path_factory):
    """Run everything once."""
    output = tmp_path_factory.mktemp("paper")
    assert main(["all", "--tiny", "--jobs", "1", "--data", str(data), "--output", str(output)]) == 0
    return output


def results(folder, name):
    return json.loads((folder / "results" / f"{name}.json").read_text())


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_every_cell_is_stored_with_what_made_it(finished, experiment):
    records = results(finished, experiment.name)
    assert {record["name"] for record in records} == {cell.name for cell in experiment.cells(Options("tiny"))}
    for record in records:
        assert record["seconds"] >= 0
        assert "cores" in record["machine"]


def test_the_page_has_every_section_and_claim_and_its_figures(finished):
    page = (finished / "RESULTS.md").read_text()
    for experiment in EXPERIMENTS:
        assert f"## {experiment.title}" in page
    assert "Not run yet" not in page
    assert "quick runs" in page
    claims = [line for line in page.splitlines() if re.match(r"\| \d+ \|", line) and "**" in line]
    assert len(claims) >= 25
    for line in claims:
        assert re.search(r"\*\*(holds|holds partly|does not hold)\*\*", line)
        # A bar within a cell would be a border.
        assert len(re.findall(r"(?<!\\)\|", line)) == 6
    for file in re.findall(r"\((figures/[^)]*)\)", page):
        assert 0 < (finished / file).stat().st_size < 150_000


def test_the_same_seed_gives_the_same_numbers_and_a_run_goes_on_where_it_was(finished, tmp_path, capsys):
    command = ["errata", "thought-experiment", "--tiny", "--jobs", "1", "--output", str(tmp_path)]
    assert main(command) == 0
    for name in ("errata", "thought-experiment"):
        for one, other in zip(results(finished, name), results(tmp_path, name), strict=True):
            assert (one["settings"], one["result"]) == (other["settings"], other["result"])
    capsys.readouterr()
    before = (tmp_path / "results" / "errata.json").stat().st_mtime_ns
    assert main(command) == 0
    assert "errata: 0 of 6 cells to run" in capsys.readouterr().out
    assert (tmp_path / "results" / "errata.json").stat().st_mtime_ns == before


def test_missing_data_is_one_line_and_the_rest_goes_on(tmp_path, capsys):
    where = ["--data", str(tmp_path / "nowhere"), "--output", str(tmp_path)]
    assert main(["cytof", "errata", "--tiny", "--jobs", "1", *where]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "left out" in line]
    assert len(lines) == 1
    assert "bcr_xl.npz" in lines[0]
    assert "Bodenmiller" in lines[0]
    page = (tmp_path / "RESULTS.md").read_text()
    assert "Not run yet: `python -m paper cytof`" in page
    assert "mu_k lacks" in page


def test_the_page_can_be_written_from_a_part_of_the_cells(finished, tmp_path):
    for experiment in EXPERIMENTS:
        for record in results(finished, experiment.name)[:1]:
            Store(tmp_path / "results" / f"{experiment.name}.json").add(record)
    assert write_report(EXPERIMENTS, tmp_path, quick=True).exists()


def double(settings, context):
    if settings["value"] < 0:
        raise ValueError("negative")
    return {"value": 2 * settings["value"]}


class TestCells:
    def run(self, cells, store, tmp_path, **options):
        options = {"jobs": 1, "budgets": {}} | options
        return list(run_cells(cells, double, store, Context(tmp_path, tmp_path), **options))

    def test_unequal_settings_are_run_again_and_replaced(self, tmp_path):
        store = Store(tmp_path / "cells.json")
        assert len(self.run([Cell("a", {"value": 1}), Cell("b", {"value": 2})], store, tmp_path)) == 2
        fresh = Store(tmp_path / "cells.json")
        done = self.run([Cell("a", {"value": 1}), Cell("b", {"value": 5})], fresh, tmp_path)
        assert [finished.cell.name for finished in done] == ["b"]
        values = {name: record["result"]["value"] for name, record in Store(fresh.path).records.items()}
        assert values == {"a": 2, "b": 10}

    def test_force_runs_all_again(self, tmp_path):
        store = Store(tmp_path / "cells.json")
        cells = [Cell("a", {"value": 1})]
        self.run(cells, store, tmp_path)
        assert len(self.run(cells, store, tmp_path, force=True)) == 1

    def test_a_failure_does_not_end_the_others(self, tmp_path):
        cells = [Cell("a", {"value": -1}), Cell("b", {"value": 2})]
        failed, done = self.run(cells, Store(tmp_path / "cells.json"), tmp_path)
        assert failed.record is None
        assert failed.error == "ValueError: negative"
        assert done.record["result"] == {"value": 4}

    def test_a_group_ends_with_its_budget(self, tmp_path):
        cells = [Cell(str(n), {"value": n}, expected=60.0, group="large") for n in range(5)]
        store = Store(tmp_path / "cells.json")
        done = self.run(cells, store, tmp_path, budgets={"large": 1.5})
        # Each is expected to take a minute; they take none, so that the next may begin.
        assert len(done) == 5
        fresh = Store(tmp_path / "fresh.json")
        assert self.run(cells, fresh, tmp_path, budgets={"large": 0.5}) == []

    def test_cells_of_another_plan_are_forgotten(self, tmp_path):
        store = Store(tmp_path / "cells.json")
        self.run([Cell("a", {"value": 1}), Cell("b", {"value": 2})], store, tmp_path)
        store.plan(["b"])
        assert list(Store(store.path).records) == ["b"]


def test_scores_are_those_of_the_mixture_of_draws():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(400, 5))
    hidden = rng.random(truth.shape) < 0.5
    entries = HiddenEntries.of(truth, hidden, np.arange(400))
    right, wrong = (PosteriorDraw(np.full((400, 1), x), np.ones((1, 5)), 1.0, 1.0) for x in (0.0, 1e3))
    found = draw_scores([right, right], entries, n_draws=2)
    expected = -0.5 * np.log(2 * np.pi) - 0.5 * (truth[hidden] ** 2).mean()
    assert found["log_likelihood"] == pytest.approx(expected)
    assert found["coverage"] == pytest.approx(0.95, abs=0.02)
    # A wrong draw next to a right one costs at most log 2 for each row, however wrong it is.
    with_wrong = draw_scores([right, wrong], entries, n_draws=2)
    assert with_wrong["log_likelihood"] == pytest.approx(
        expected - np.log(2) * hidden.any(axis=1).sum() / hidden.sum()
    )


def test_a_run_is_measured_ever_further_apart_and_at_its_end():
    progress = (Progress(step, 0.0, 0.1 * step, 1.0, None) for step in range(1, 1000))
    measured = []
    followed = follow(
        progress, lambda at: float(measured.append(at.step) or at.step), n_steps=200, n_points=8
    )
    assert followed.last.step == measured[-1] == 200
    assert (np.diff(measured, 2) >= 0).all()
    assert followed.curve[-1][1] == 200


def test_the_predicted_optimum_of_the_thought_experiment():
    assert optimum(3.0) == 0.5
    s = optimum(6.0)
    assert s == pytest.approx(1 / (1 + np.exp(-6.0 * (s - 0.5))))
    assert sum(exact(6.0)) == pytest.approx(1.0)


def test_numbers_of_the_paper():
    assert PAPER["gibbs-ssvi"]["peppers"] == 47.4
    assert PAPER["mf-svi"]["boat"] == 21.1
    assert PAPER_SECONDS["mimno-svi"] == 0.46
    assert verdict(True, False) == "holds partly"
    assert len(NAMES) == len(EXPERIMENTS) == 11


def test_a_model_with_noise_by_column_is_scored_in_the_units_of_the_data():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(600, 2)) @ rng.normal(size=(2, 8)) + rng.normal(size=(600, 8)) * np.geomspace(
        0.1, 1, 8
    )
    hidden = rng.random(y.shape) < 0.1
    holed = np.where(hidden, np.nan, y)
    model = BPFA(4, standardize=False, max_steps=300, random_state=0).fit(holed)
    assert model.noise_ratio_.max() > 3 * model.noise_ratio_.min()
    entries = HiddenEntries.of(y, hidden, np.arange(len(y)))
    found = model_scores(model, entries, 50, 0)
    mse = ((model.impute(holed) - y)[hidden] ** 2).mean()
    assert found["mse"] == pytest.approx(mse, rel=0.05)
    assert found["log_likelihood"] == pytest.approx(model.held_out_score(y, hidden).log_likelihood, abs=0.05)
    by_user = imputed_scores(model, entries)
    assert by_user["mse"] == pytest.approx(mse)
    assert by_user["log_likelihood"] == pytest.approx(found["log_likelihood"], abs=0.05)
    assert by_user["density"] == pytest.approx(model.held_out_score(y, hidden).log_likelihood)
    # The posterior by itself is in other units.
    wrong = posterior_scores(model.posterior_, entries, model.settings_.make_algorithm(1), 50, 0)
    assert wrong["log_likelihood"] < found["log_likelihood"] - 0.5
