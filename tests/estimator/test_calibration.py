"""Variance explained and coverage of intervals, against data drawn from known models."""

from copy import copy
from dataclasses import replace

import numpy as np
import pandas
import pytest
from known_models import NAMES, PHI, as_names, drawn, known_model
from scipy import stats

from bpfa.estimator.calibration import predictive_draws


@pytest.mark.parametrize("per_column", [False, True])
def test_variance_explained_is_that_of_what_impute_fills_in(model, X, per_column):
    hidden = (np.random.default_rng(2).random(X.shape) < 0.3) & ~np.isnan(X)
    answer = model.variance_explained(as_names(X), hidden, per_column=per_column)
    filled = model.impute(as_names(np.where(hidden, np.nan, X)), n_draws=20).to_numpy()
    axis = 0 if per_column else None
    error = np.where(hidden, (X - filled) / model.scale_, 0.0)
    total = np.where(hidden, (X - model.mean_) / model.scale_, 0.0)
    expected = 1 - (error**2).sum(axis=axis) / (total**2).sum(axis=axis)
    held_out = answer[answer["entries"] == "held out"]
    np.testing.assert_allclose(held_out["variance_explained"], np.atleast_1d(expected), rtol=1e-5)
    np.testing.assert_array_equal(held_out["n_entries"], np.atleast_1d(hidden.sum(axis=axis)))
    seen = answer[answer["entries"] == "observed"]
    np.testing.assert_array_equal(seen["n_entries"], np.atleast_1d((~np.isnan(X) & ~hidden).sum(axis=axis)))
    assert (seen["variance_explained"] > 0.9).all()
    assert ("column" in answer) == per_column
    if per_column:
        assert held_out["column"].tolist() == NAMES


def test_variance_explained_of_nothing_but_noise():
    model = known_model(np.eye(3), [0.01, 0.01, 0.01], g_o=1.0)
    X = np.random.default_rng(0).normal(5.0, size=(2000, 3))
    held_out = model.variance_explained(X)["variance_explained"].iloc[1]
    assert abs(held_out) < 0.02


def test_a_constant_column_has_no_variance_to_explain(model, X):
    X = X.copy()
    X[:, 0] = model.mean_[0]
    answer = model.variance_explained(as_names(X), per_column=True)
    assert answer.groupby("column")["variance_explained"].apply(lambda share: share.isna().all())["CD3"]
    assert answer["variance_explained"].isna().sum() == 2


def test_the_entries_hidden_by_default_are_those_of_the_score(model, X):
    score = model.held_out_score(as_names(X))
    answer = model.variance_explained(as_names(X))
    assert answer["n_entries"].iloc[1] == score.n_entries
    assert (model.calibration(as_names(X))["n_entries"] == score.n_entries).all()
    np.testing.assert_array_equal(answer["n_entries"].sum(), (~np.isnan(X)).sum())


def assert_calibrated(calibration, n_entries):
    level, n = calibration["level"], calibration["n_entries"]
    assert (n == n_entries).all()
    assert (np.abs(calibration["coverage"] - level) < 4 * np.sqrt(level * (1 - level) / n)).all()


def test_intervals_cover_what_they_are_meant_to(drawn_from_model):
    assert_calibrated(drawn_from_model[0].calibration(*drawn_from_model[1:]), 6000)


def test_intervals_of_peaked_distributions(drawn_from_model):
    """Of few entries, a component may be in the row or not: normal intervals of 50 % would cover 57 %."""
    model, X, hidden = copy(drawn_from_model[0]), drawn_from_model[1][:3000], drawn_from_model[2][:3000]
    model.settings_ = replace(model.settings_, options={**model.settings_.options, "burn_in": 60})
    missing = (np.random.default_rng(1).random(X.shape) < 0.7) & ~hidden
    assert_calibrated(model.calibration(np.where(missing, np.nan, X), hidden), 3000)


def test_intervals_that_leave_no_tail_to_spare(drawn_from_model):
    """Between the smallest and the largest of 39 draws lies 95 %, whatever the distribution."""
    model, X, hidden = drawn_from_model
    coverage = model.calibration(X, hidden, levels=[0.95], n_draws=39)["coverage"][0]
    assert abs(coverage - 0.95) < 4 * (0.95 * 0.05 / 6000) ** 0.5
    with pytest.raises(ValueError, match=r"n_draws=38: expected at least 39, for the tails of 0\.95"):
        model.calibration(X, hidden, levels=[0.5, 0.95], n_draws=38)


def test_coverage_tells_of_a_model_that_is_too_sure(drawn_from_model):
    """The control: the data has three times the noise that the model knows of."""
    model, X, hidden = drawn_from_model
    rng = np.random.default_rng(3)
    noisy = X + model.scale_ * rng.normal(scale=8**0.5 * 0.5, size=X.shape)
    assert model.calibration(noisy[:1000], hidden[:1000])["coverage"].iloc[2] < 0.9


def test_width_of_intervals_where_all_is_noise():
    model = known_model(np.eye(3), [1e-9] * 3, g_o=4.0, scale=[1.0, 10.0, 100.0])
    X = drawn(model, 3000)
    for per_column in (False, True):
        calibration = model.calibration(X, per_column=per_column, n_draws=199)
        np.testing.assert_allclose(
            calibration["width"], 2 * stats.norm.ppf((1 + calibration["level"]) / 2) * 0.5, rtol=0.03
        )
    assert calibration["column"].tolist() == ["x0", "x1", "x2"] * 3


def test_calibration_per_column_adds_up(drawn_from_model):
    model, X, hidden = drawn_from_model
    X, hidden = X[:1000], hidden[:1000].copy()
    hidden[:, 2] = False
    whole, columns = model.calibration(X, hidden), model.calibration(X, hidden, per_column=True)
    assert columns["coverage"].isna().sum() == 3
    for name in ("coverage", "width"):
        columns[name] *= columns["n_entries"]
        whole[name] *= whole["n_entries"]
    sums = columns.groupby("level", as_index=False)[["n_entries", "coverage", "width"]].sum()
    pandas.testing.assert_frame_equal(sums, whole.drop(columns="entries"), check_like=True)


def test_predictive_draws():
    """Rows that show the same have the same draws, but for the noise, of which each block has its own."""
    model = known_model(PHI, [0.3, 0.3, 0.3], g_o=1e8)
    batch = model._standardised(np.full((2, 4), np.nan)).take(np.arange(2))
    first, second = (predictive_draws(model, batch, ~batch.observed, 9, block=i) for i in range(2))
    assert first.shape == (9, 8)
    assert first.std() > 0.1
    np.testing.assert_allclose(first[:, :4], first[:, 4:], atol=1e-3)
    np.testing.assert_allclose(first, second, atol=1e-3)
    assert (first != second).all()
    assert (first[:, :4] != first[:, 4:]).all()


def test_too_few_rows_to_hide_any(model, X):
    with pytest.raises(ValueError, match="X: no entry is held out among 1 rows; expected more of them"):
        model.calibration(as_names(np.full((1, 4), 5.0)))
