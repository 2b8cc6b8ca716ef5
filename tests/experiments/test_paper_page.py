"""The summary of the page follows from the records, and the plan of a run from recorded times."""

import copy
import re
from dataclasses import replace

import numpy as np
import pytest

from experiments.cells import Store
from paper import __main__ as command
from paper import times
from paper.__main__ import EXPERIMENTS, HERE, NAMES, main
from paper.chain_study import PICTURE_TASKS, SIZES, TITLES, Change
from paper.chains import changed_winners, length, studied_lengths
from paper.experiment import Claim, Options
from paper.heavy_tails import answer
from paper.report import results_path, write_report
from paper.summary import matrix_line, reproduced
from paper.times import plan
from paper.verdicts import counts


def records_of(name):
    """Return copies of the records of the page."""
    return copy.deepcopy(list(Store(results_path(HERE, NAMES[name])).records.values()))


def sentences(name, records, tmp_path):
    return " ".join(NAMES[name].section(records, tmp_path).summary)


def summary_of(page):
    between = page.split("## Summary")[1].split("![")[0]
    return [line for line in between.splitlines() if line]


class TestSummary:
    def test_it_has_ten_plain_lines(self):
        lines = summary_of((HERE / "RESULTS.md").read_text())
        assert 5 <= len(lines) <= 10
        for sentence in re.split(r"(?<=[.:])\*{0,2} ", " ".join(lines)):
            assert len(re.findall(r"\d[\d.,]*", sentence)) <= 2, sentence
            assert len(sentence.split()) <= 45, sentence

    def test_a_lead_on_pictures_reproduces_if_the_records_have_it(self, tmp_path):
        records = records_of("denoising")
        assert "does not reproduce" in sentences("denoising", records, tmp_path)
        for record in records:
            if "ladder" in record["settings"] and record["settings"]["method"] in ("mimno-svi", "gibbs-ssvi"):
                for reading in record["result"]["readings"].values():
                    reading["long"]["all"] += 20
        changed = sentences("denoising", records, tmp_path)
        assert "for the Gibbs kinds reproduces" in changed
        assert "20.4 dB ahead" in changed

    def test_the_kind_that_wins_on_the_cytometry_is_that_of_the_records(self, tmp_path):
        records = records_of("cytof")
        assert "holds partly at their best but does not hold at their end" in sentences(
            "cytof", records, tmp_path
        )
        for record in records:
            if record["settings"]["method"] in ("mimno-svi", "gibbs-ssvi"):
                record["result"]["readings"]["end"]["long"]["log_likelihood"] += 1
        changed = sentences("cytof", records, tmp_path)
        assert "holds partly at their best but holds at their end" in changed
        assert "100 % at their end" in changed

    def test_the_reason_for_the_drift_is_where_the_sampler_goes(self, tmp_path):
        records = records_of("drift")
        assert "cytometry: towards the posterior" in sentences("drift", records, tmp_path)
        for record in records:
            if record["name"] in ("sampler/good", "sampler/drifted"):
                record["result"]["trace"][-1]["noise_std"] = 0.8
        assert "not towards the posterior" in sentences("drift", records, tmp_path)

    def test_the_optimiser_may_explain_a_gap_that_gradient_ascent_has(self, tmp_path):
        records = records_of("optimiser")
        assert "optimiser does not explain" in sentences("optimiser", records, tmp_path)
        for record in records:
            if "start" in record["settings"] and record["settings"]["task"] == "house":
                record["result"]["score"] -= 12
        changed = sentences("optimiser", records, tmp_path)
        assert "optimiser may explain" in changed
        assert "13.9 dB behind Gibbs-SSVI" in changed

    def test_squared_errors_are_those_of_the_records(self, tmp_path):
        records = records_of("synthetic")
        for record in records:
            if "gibbs-ssvi" in record["result"]:
                record["result"]["gibbs-ssvi"]["mse"] = 0.9 * record["result"]["gibbs"]["mse"]
        assert "Gibbs-SSVI is 10.0 % below the sampler's" in sentences("synthetic", records, tmp_path)

    def test_claims_are_counted_in_both_readings(self):
        claims = {"a": [Claim("", "", "holds", "does not hold"), Claim("", "", "holds partly")]}
        (line,) = reproduced(claims)
        assert "Of all 2 claims, 2 hold at the methods' best. At their end it is 1." in line
        assert "no experiment as a whole" in line
        assert counts(claims["a"])["at its end"] == {"does not hold": 1, "holds partly": 1}
        assert matrix_line({"best": {}, "end": {}}, "Nowhere") == []

    def test_the_page_is_that_of_its_records(self, tmp_path):
        (tmp_path / "results").symlink_to(HERE / "results")
        (tmp_path / "figures").mkdir()
        (tmp_path / "figures" / "pictures").symlink_to(HERE / "figures" / "pictures")
        page = write_report(EXPERIMENTS, tmp_path, quick=False)
        assert page.read_text() == (HERE / "RESULTS.md").read_text()


def test_heavier_tails_are_worth_offering_if_the_defaults_do_not_beat_them():
    records = records_of("drift")
    assert "is not worth offering" in answer(records)
    for record in records:
        if record["name"].startswith("student/table"):
            record["result"]["trace"][-1]["log_likelihood"] += 1
    assert "may be worth offering" in answer(records)
    assert "than Student's t on 0 of 3" in answer(records)


class TestChains:
    def test_winners_that_change_with_longer_chains_are_counted(self):
        study = {
            "mf-svi": {"best": {"25": 1.0, "50": 1.0}},
            "gibbs-ssvi": {"best": {"100": 0.9, "200": 1.1}},
            "mimno-svi": {"best": {"100": 0.5, "200": 0.6}},
        }
        assert changed_winners(study, "matrices") == (1, 2)

    @pytest.mark.parametrize("task", TITLES)
    def test_the_study_goes_beyond_the_long_chains(self, task):
        judged = task if task in PICTURE_TASKS else "matrices"
        *_, long, longest = SIZES["full"]["lengths"][judged]
        assert long == length("gibbs-ssvi", "long", judged) == studied_lengths("gibbs-ssvi", judged)[-2]
        assert longest >= 4 * long

    def test_a_change_is_told_apart_from_chance(self):
        rng = np.random.default_rng(0)
        noise = 0.01 * rng.normal(size=(2, 5))
        assert Change.of(noise[0], noise[1]).by_chance > 0.05
        assert Change.of(noise[0], noise[1] + 0.1).by_chance < 0.01


class TestPlan:
    @pytest.mark.parametrize(("scale", "limit"), [("full", 240), ("quick", 10)])
    def test_two_cores_are_enough(self, scale, limit, tmp_path):
        plans = [plan(experiment, Options(scale), tmp_path, jobs=2) for experiment in EXPERIMENTS]
        assert 0.3 * limit < sum(planned.minutes for planned in plans) < limit
        # Cells of which the page has the record of a GPU are estimated.
        share = sum(planned.recorded for planned in plans) / sum(planned.cells for planned in plans)
        assert share > (0.99 if scale == "quick" else 0.6)

    @pytest.mark.parametrize("name", [experiment.name for experiment in EXPERIMENTS if experiment.on_device])
    def test_estimates_are_not_below_recorded_times(self, name):
        """They stand in for the cells of the page that ran on a GPU."""
        recorded = times.recorded_seconds(NAMES[name], "quick")
        estimated = {cell.name: cell.expected for cell in NAMES[name].cells(Options("quick"))}
        assert recorded.keys() == estimated.keys()
        assert sum(recorded.values()) < sum(estimated.values())

    def test_it_rests_on_recorded_times(self, tmp_path, monkeypatch):
        monkeypatch.setattr(times, "HERE", tmp_path)
        experiment, options = NAMES["errata"], Options("full")
        estimated = plan(experiment, options, tmp_path / "new", jobs=1)
        assert estimated.recorded == 0
        record = {**records_of("errata")[0], "seconds": 3600.0}
        Store(results_path(tmp_path, experiment)).add(record)
        recorded = plan(experiment, options, tmp_path / "new", jobs=1)
        assert recorded.recorded == 1
        assert 60 < recorded.minutes < 60 + estimated.minutes
        Store(results_path(tmp_path, experiment)).add({**record, "machine": "a GPU, CuPy 14"})
        assert plan(experiment, options, tmp_path / "new", jobs=1) == estimated

    def test_a_run_that_was_interrupted_goes_on_with_the_rest(self, tmp_path, monkeypatch, capsys):
        ran, run = [], NAMES["errata"].run

        def interrupted(settings, context):
            if len(ran) == 2:
                raise KeyboardInterrupt
            return recorded(settings, context)

        def recorded(settings, context):
            ran.append(str(settings))
            return run(settings, context)

        where = ["errata", "--tiny", "--jobs", "1", "--output", str(tmp_path)]
        monkeypatch.setitem(command.NAMES, "errata", replace(NAMES["errata"], run=interrupted))
        assert main(where) == 130
        assert "the same command resumes the run" in capsys.readouterr().out
        monkeypatch.setitem(command.NAMES, "errata", replace(NAMES["errata"], run=recorded))
        assert main(where) == 0
        assert "errata: 4 of 6 cells to run" in capsys.readouterr().out
        assert len(ran) == len(set(ran)) == 6
