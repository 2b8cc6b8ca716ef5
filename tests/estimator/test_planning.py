"""The stages of a fit before its first step, each alone: the table, its scale, the settings and the plan."""

from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
from small_table import HOLED, TRUTH, D, N, model

from bpfa import BPFA, ArrayRows, open_rows
from bpfa.data import HeldOutRows
from bpfa.estimator import planning, visible
from bpfa.estimator.findings import Findings
from bpfa.estimator.inputs import Table, new_table
from bpfa.estimator.parameters import check_parameters
from bpfa.estimator.planning import (
    column_scale,
    completed_settings,
    first_settings,
    fit_limits,
    look_at,
    plan_first_part,
    plan_fit,
    plan_next_part,
)
from bpfa.fitting.limits import Limits
from bpfa.fitting.plan import Standing
from bpfa.fitting.run import run
from bpfa.selection.start_choice import Start


def parameters(**given):
    return check_parameters({"random_state": 0} | given)


class TestTable:
    def test_the_estimator_is_left_untouched(self, fitted):
        frame = pd.DataFrame(HOLED[:, :2], columns=["a", "b"])
        for estimator in (BPFA(n_components=7), fitted):
            before = dict(vars(estimator))
            table = new_table(estimator, frame)
            assert vars(estimator).keys() == before.keys()
            assert all(vars(estimator)[name] is value for name, value in before.items())
            assert table.names.tolist() == ["a", "b"]
            assert (table.rows.n_rows, table.rows.n_columns) == (N, 2)

    def test_entries_are_missing_if_they_are_nan_or_masked(self):
        missing = np.zeros(HOLED.shape, dtype=bool)
        missing[3] = True
        table = new_table(BPFA(), HOLED, missing)
        observed = table.rows.take(np.arange(N)).observed
        np.testing.assert_array_equal(observed, ~np.isnan(HOLED) & ~missing)
        assert table.names is None

    def test_a_source_keeps_the_names_of_its_columns(self):
        rows = open_rows(pd.DataFrame(TRUTH.y[:, :2], columns=["a", "b"]))
        assert new_table(BPFA(), rows).names.tolist() == ["a", "b"]


class TestScale:
    def test_standardised(self):
        scale = column_scale(ArrayRows(HOLED), standardize=True)
        np.testing.assert_allclose(scale.mean, np.nanmean(HOLED, axis=0), rtol=1e-9)
        np.testing.assert_allclose(scale.scale, np.nanstd(HOLED, axis=0), rtol=1e-9)
        np.testing.assert_array_equal(scale.noise_ratio, np.ones(D))

    def test_not_standardised(self):
        scale = column_scale(ArrayRows(HOLED), standardize=False)
        np.testing.assert_array_equal(scale.mean, np.zeros(D))
        np.testing.assert_array_equal(scale.scale, np.ones(D))
        np.testing.assert_array_equal(scale.unit, np.ones(D))


class TestSettings:
    def test_first_settings_by_default(self):
        settings = first_settings(parameters(), 5000, 10)
        assert (settings.n_features, settings.batch_size, settings.init) == (0, 1024, "principal")
        assert (settings.noise, settings.weight_precision, settings.held_out) == ("columns", "active", 0.0)
        assert settings.options == {"burn_in": 3, "n_samples": 3, "dropout": 0.0}

    def test_first_settings_are_those_of_the_user(self):
        given = {"batch_size": 7, "init": "data", "noise": "shared", "step_delay": 3.0, "step_decay": 0.7}
        settings = first_settings(parameters(**given, held_out=0.2, dropout=0.3), 5000, 10)
        assert {name: getattr(settings, name) for name in given} == given
        assert (settings.held_out, settings.options["dropout"]) == (0.2, 0.3)
        variational = first_settings(parameters(algorithm="mf-svi", n_sweeps=4), 20, 3000)
        assert variational.options == {"n_sweeps": 4}
        assert (variational.batch_size, variational.weight_precision) == (20, "all")
        assert (variational.init, variational.noise) == ("principal", "columns")

    @pytest.mark.parametrize(
        ("given", "start", "expected"),
        [
            ({}, Start(4, "principal"), (4, "joint", "principal", 0.0, 0)),
            # The data asked for the sparse start, so that its dropout is the default.
            ({}, Start(12, "common"), (12, "joint", "common", 0.1, 0)),
            ({"dropout": 0.3}, Start(12, "common"), (12, "joint", "common", 0.3, 0)),
            # The user asked for it.
            ({"init": "common"}, Start(12, "common"), (12, "joint", "common", 0.0, 0)),
            ({"features": "factorised"}, Start(4, "principal"), (4, "factorised", "principal", 0.0, 0)),
            ({"revise": True, "held_out": 0.1}, Start(4, "principal"), (4, "joint", "principal", 0.0, 20)),
            (
                {"revise": True, "held_out": 0.1, "n_components": 9},
                Start(9, "principal"),
                (9, "joint", "principal", 0.0, 9),
            ),
        ],
    )
    def test_completed_settings(self, given, start, expected):
        chosen = parameters(**given)
        settings = completed_settings(first_settings(chosen, 5000, 30), chosen, start, 5000, 30)
        found = (settings.n_features, settings.features, settings.init)
        assert (*found, settings.options["dropout"], settings.most_features) == expected

    @pytest.mark.parametrize(
        ("given", "start", "expected"),
        [
            ({}, Start(4, "principal"), Limits(100, None, None)),
            ({}, Start(12, "common"), Limits(500, None, None)),
            ({"init": "common"}, Start(12, "common"), Limits(2000, None, None)),
            # More than two features for three columns do not start as principal components alone.
            ({}, Start(21, "principal"), Limits(2000, None, None)),
            ({"batch_size": 10}, Start(4, "principal"), Limits(5000, None, None)),
            ({"algorithm": "gibbs"}, Start(4, "principal"), Limits(100, None, None)),
            ({"algorithm": "gibbs", "max_epochs": 3}, Start(4, "principal"), Limits(3, None, None)),
            ({"max_epochs": 2}, Start(4, "principal"), Limits(10, None, None)),
            ({"max_epochs": 2, "max_steps": 7}, Start(4, "principal"), Limits(7, None, None)),
            ({"max_time": 9.0}, Start(4, "principal"), Limits(None, 9.0, None)),
            (
                {"revise": True, "held_out": 0.1, "patience": 5},
                Start(4, "principal"),
                Limits(2000, None, 5),
            ),
        ],
    )
    def test_limits(self, given, start, expected):
        chosen = parameters(**given)
        settings = completed_settings(first_settings(chosen, 5000, 30), chosen, start, 5000, 30)
        assert fit_limits(chosen, settings, 5000, 30) == expected


def planned(rows, resumed=None, **given):
    chosen = parameters(**{"batch_size": 100, "max_steps": 3} | given)
    table = Table(rows, None)
    return plan_fit(Findings(look_at(table, chosen, resumed), chosen, None), resumed)


class TestPlan:
    def test_it_is_frozen_and_complete(self):
        plan = planned(ArrayRows(HOLED), n_components=4)
        for part, name in ((plan, "settings"), (plan.settings, "n_features"), (plan.limits, "max_steps")):
            with pytest.raises(FrozenInstanceError):
                setattr(part, name, None)
        assert (plan.settings.n_features, plan.limits.max_steps) == (4, 3)
        assert plan.visits.rows_seen(plan.rows, 1) == N
        assert plan.standing == Standing()
        assert plan.held_out is None
        np.testing.assert_allclose((plan.scale.noise_ratio**2).mean(), 1.0)
        batch = plan.rows.take(np.arange(5))
        expected = (HOLED[:5] - plan.scale.mean) / plan.scale.unit
        np.testing.assert_allclose(batch.values[batch.observed], expected[batch.observed], rtol=1e-5)

    def test_entries_are_held_out_once(self, monkeypatch):
        """The choice of the start, the noise of columns, the run and the scores agree on what is hidden."""
        made, seen = [], []

        class CountedRows(HeldOutRows):
            def __init__(self, *arguments):
                made.append(self)
                super().__init__(*arguments)

        def noted(function):
            def note(rows, *arguments, **options):
                seen.append(rows)
                return function(rows, *arguments, **options)

            return note

        monkeypatch.setattr(visible, "HeldOutRows", CountedRows)
        monkeypatch.setattr(planning, "choose_start", noted(planning.choose_start))
        monkeypatch.setattr(planning, "column_noise", noted(planning.column_noise))
        plan = planned(ArrayRows(HOLED), held_out=0.2)
        assert len(made) == 1
        assert len(seen) == 3
        _, _, hidden = made[0].take_held_out(np.arange(N))
        assert 0.15 < hidden[~np.isnan(HOLED)].mean() < 0.25
        for rows in (*seen, plan.rows):
            observed = rows.take(np.arange(N)).observed
            np.testing.assert_array_equal(observed, ~np.isnan(HOLED) & ~hidden)
        scored = plan.held_out.batch.ids
        np.testing.assert_array_equal(plan.held_out.mask, hidden[scored])
        assert not (plan.held_out.batch.observed & plan.held_out.mask).any()
        truth = (HOLED[scored] - plan.scale.mean) / plan.scale.unit
        mask = plan.held_out.mask
        np.testing.assert_allclose(plan.held_out.truth[mask], truth[mask], rtol=1e-5)

    def test_the_parts_of_a_stream_share_settings_and_units(self):
        first_rows, second_rows = ArrayRows(HOLED[:300]), ArrayRows(HOLED[300:])
        chosen = parameters(n_components=4, batch_size=100)
        first = plan_first_part(Table(first_rows, None), chosen, n_jobs=None)
        assert (first.limits, first.held_out) == (Limits(None, None, None), None)
        assert (first.visits.first_id, first.visits.first_step) == (0, 1)
        outcome = run(first)
        second = plan_next_part(second_rows, chosen, outcome, n_jobs=None)
        assert second.settings == first.settings
        assert second.scale is outcome.scale
        assert (second.visits.first_id, second.visits.first_step) == (300, 4)
        assert second.standing.posterior is outcome.posterior
        assert second.visits.epochs_before == 1.0


def test_a_fit_is_its_stages_in_their_order():
    """What `fit` does is what the stages do one after another."""
    estimator = model(max_steps=5)
    checked = check_parameters(estimator.get_params())
    table = new_table(estimator, HOLED)
    outcome = run(plan_fit(Findings(look_at(table, checked, None), checked, None), None))
    fitted = model(max_steps=5).fit(HOLED)
    np.testing.assert_array_equal(outcome.posterior.features.mean, fitted.posterior_.features.mean)
    assert outcome.settings == fitted.settings_
