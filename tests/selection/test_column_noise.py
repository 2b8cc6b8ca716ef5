"""Noise by column: found, used, and undone on the way out."""

from contextlib import nullcontext

import numpy as np
import pytest

from bpfa import BPFA
from bpfa._support.philox import Stream
from bpfa.data import ArrayRows
from bpfa.inference.factor_analysis import LEAST_NOISE_SHARE
from bpfa.selection.column_noise import column_noise

N, D = 1500, 9
NOISE = np.array([0.2, 0.2, 0.2, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0])
SCALE = np.array([1.0, 10.0, 0.1] * 3)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    signal = (rng.normal(size=(N, 2)) * (rng.random((N, 2)) < 0.6)) @ rng.normal(size=(2, D))
    y = (signal + NOISE * rng.normal(size=(N, D))) * SCALE + 3.0
    y[rng.random((N, D)) < 0.1] = np.nan
    return y


def fit(data, **changes):
    # Groups of like rows would make up for a wrong noise.
    settings = {"n_components": 2, "max_steps": 400, "groups": False, "random_state": 0}
    return BPFA(**(settings | changes)).fit(data)


def test_noise_of_every_column_is_learned(data):
    np.testing.assert_allclose(fit(data).noise_std_, NOISE * SCALE, rtol=0.12)


def test_shared_noise_is_one_share_of_every_scale(data):
    model = fit(data, noise="shared")
    assert (model.noise_ratio_ == 1).all()
    np.testing.assert_allclose(model.noise_std_ / model.scale_, model.posterior_.noise_std)


def test_entries_are_predicted_better_than_with_one_noise_level(data):
    models = {noise: fit(data[:1000], noise=noise) for noise in ("columns", "shared")}
    scores = {noise: model.held_out_score(data[1000:]) for noise, model in models.items()}
    assert scores["columns"].log_likelihood > scores["shared"].log_likelihood + 0.1
    assert scores["columns"].mse < scores["shared"].mse


@pytest.mark.filterwarnings("ignore::bpfa.SeenInFitWarning")
def test_squared_error_is_in_units_of_the_scales(data):
    """By the definition: from the entries that `impute` fills in, without those units."""
    model = fit(data)
    hidden = (np.random.default_rng(1).random(data.shape) < 0.1) & ~np.isnan(data)
    filled, std = model.impute(np.where(hidden, np.nan, data), return_std=True, n_draws=200)
    error = ((data - filled) / model.scale_)[hidden]
    score = model.held_out_score(data, hidden, n_draws=200)
    assert score.mse == pytest.approx((error**2).mean(), rel=0.02)
    explained = model.variance_explained(data, hidden, n_draws=200)["variance_explained"][1]
    total = (((data - model.mean_) / model.scale_)[hidden] ** 2).mean()
    assert explained == pytest.approx(1 - (error**2).mean() / total, rel=0.02)
    assert 0.9 < (np.abs(data - filled) < 1.96 * std)[hidden].mean() < 0.99


def test_what_a_component_explains_does_not_depend_on_the_units_of_the_model(data):
    model = fit(data)
    x = model.transform(data)
    observed = ~np.isnan(data)
    values = np.where(observed, (data - model.mean_) / model.scale_, 0.0)
    phi = model.components_ / model.scale_

    def error(x):
        return (np.where(observed, values - x @ phi, 0.0) ** 2).sum()

    without = [error(x * (np.arange(2) != k)) for k in range(2)]
    expected = (np.array(without) - error(x)) / (values**2).sum()
    np.testing.assert_allclose(model.component_summary(data)["variance_explained"], expected, rtol=1e-6)


def test_held_out_history_is_in_units_of_the_scales(data):
    columns, shared = (fit(data, noise=noise, held_out=0.1, max_steps=200) for noise in ("columns", "shared"))
    last = [model.history_["held_out_mse"][-1] for model in (columns, shared)]
    assert last[0] == pytest.approx(last[1], rel=0.2)


def test_survives_a_file(data, tmp_path):
    model = fit(data, max_steps=20)
    model.save(tmp_path / "a.bpfa")
    loaded = BPFA.load(tmp_path / "a.bpfa")
    np.testing.assert_array_equal(loaded.noise_ratio_, model.noise_ratio_)
    np.testing.assert_array_equal(loaded.impute(data), model.impute(data))


@pytest.mark.parametrize(
    "odd", [np.nan, 7.0, "copy"], ids=["all missing", "constant", "a copy of another column"]
)
def test_columns_without_noise_of_their_own(data, odd):
    """The model gives them noise that is neither zero nor everything; users see what is known of them."""
    y = data.copy()
    y[:, 0] = y[:, 1] if odd == "copy" else odd
    empty, constant = odd is np.nan, odd == 7.0
    with pytest.warns(UserWarning, match="no entry of column x0") if empty else nullcontext():
        model = fit(y, max_steps=50)
    assert (model.noise_ratio_ >= (LEAST_NOISE_SHARE / 2) ** 0.5 * 0.5).all()
    assert (model.noise_std_[1:] > 0).all()
    filled = model.impute(y)
    assert np.isfinite(filled[:, 1:]).all()
    if empty:
        assert np.isnan(model.noise_std_[0])
        assert np.isnan(filled[:, 0]).all()
    else:
        assert (model.noise_std_[0] == 0) == constant
        assert np.isfinite(filled).all()


def test_a_single_column_has_nothing_to_be_compared_with():
    rows = ArrayRows(np.random.default_rng(0).normal(size=(50, 1)))
    np.testing.assert_array_equal(column_noise(rows, 1, Stream.from_seed(0)), [1.0])


@pytest.mark.parametrize(("n_rows", "missing"), [(50, 0.3), (100, 0.0)])
def test_noise_of_the_columns_of_a_wide_table(n_rows, missing):
    """With few rows the factors themselves say little about the noise; regressions on their scores do."""
    rng = np.random.default_rng(0)
    levels = rng.gamma(4.0, 0.25, size=1500)
    signal = rng.normal(size=(n_rows, 8)) @ (rng.normal(size=(8, 1500)) * (rng.random((8, 1500)) < 0.3))
    y = signal + 0.7 * signal.std() * levels * rng.normal(size=signal.shape)
    y[rng.random(y.shape) < missing] = np.nan
    scale = np.nanstd(y, axis=0)
    found = column_noise(ArrayRows((y - np.nanmean(y, axis=0)) / scale), 8, Stream.from_seed(0)) * scale
    errors = np.log(found / levels)
    assert errors.std() < 0.25
    assert np.corrcoef(np.log(found), np.log(levels))[0, 1] > 0.9


def test_a_wide_table_with_columns_that_have_fewer_entries_than_there_are_factors():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(40, 6)) @ rng.normal(size=(6, 300)) + rng.normal(size=(40, 300))
    y[5:, :10] = np.nan
    found = column_noise(ArrayRows(y / np.nanstd(y, axis=0)), 6, Stream.from_seed(0))
    assert np.isfinite(found).all()
    assert (found[:10] > 0.3 * np.median(found)).all()
