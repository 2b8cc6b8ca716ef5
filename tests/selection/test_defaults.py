"""What BPFA() chooses from the shape of the data."""

import numpy as np
import pytest

from bpfa import BPFA
from bpfa.data import ArrayRows, HeldOutRows
from bpfa.estimator.parameters import check_parameters
from bpfa.estimator.planning import completed_settings, first_settings, fit_limits
from bpfa.selection.defaults import most_components
from bpfa.selection.start_choice import Start

# Rows and columns; the features, their form and their start that suit them.
SHAPES = [
    ((1, 1), (1, "joint", "principal")),
    ((5, 3), (2, "joint", "principal")),
    ((150, 4), (2, "joint", "principal")),
    ((400, 6), (4, "joint", "principal")),
    ((172_791, 24), (16, "joint", "principal")),
    # The precision matrices of so many features, one for each column, would take 152 MB.
    ((16_428, 350), (233, "factorised", "principal")),
    ((10**7, 64), (42, "joint", "principal")),
    ((1000, 5000), (256, "factorised", "principal")),
    ((50, 4384), (33, "joint", "principal")),
]


def settings_of(parameters, n_rows, n_columns):
    """The settings of a fit with as many features as there may be."""
    settings = first_settings(parameters, n_rows, n_columns)
    start = Start(most_components(n_rows, n_columns), settings.init)
    return completed_settings(settings, parameters, start, n_rows, n_columns)


@pytest.mark.parametrize(("shape", "expected"), SHAPES)
def test_defaults_suit_the_shape(shape, expected):
    n_rows, n_columns = shape
    parameters = check_parameters(BPFA(random_state=0).get_params())
    settings = settings_of(parameters, n_rows, n_columns)
    limits = fit_limits(parameters, settings, n_rows, n_columns)
    assert (settings.n_features, settings.features, settings.init) == expected
    assert 1 <= settings.n_features <= min(n_rows, 256)
    # Fewer features than columns, where there are columns enough.
    assert settings.n_features < n_columns or n_columns < 3
    assert settings.batch_size == min(n_rows, 1024)
    assert limits.max_steps >= (20 if settings.init == "principal" else 2000)
    assert limits.max_steps * settings.batch_size >= 10 * n_rows
    joint_fit = 8 * n_columns * settings.n_features**2 <= 2**26
    assert (settings.features == "joint") == joint_fit
    assert settings.weight_precision == "active"


def test_what_the_algorithm_cannot_have_is_not_chosen():
    for algorithm, features, weights in [
        ("gibbs-ssvi", "joint", "active"),
        ("mimno-svi", "factorised", "active"),
        ("mf-ssvi", "joint", "all"),
        ("mf-svi", "factorised", "all"),
    ]:
        settings = settings_of(check_parameters({"algorithm": algorithm}), 1000, 20)
        assert (settings.features, settings.weight_precision) == (features, weights)


def low_rank(n_rows, n_columns, n_factors, noise, seed=0):
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=(n_rows, n_factors)) @ rng.normal(size=(n_factors, n_columns))
    return signal + noise * rng.normal(size=signal.shape)


@pytest.mark.parametrize(
    ("n_rows", "n_columns", "n_factors"), [(2000, 30, 3), (300, 100, 6), (60, 8, 2), (400, 600, 8)]
)
def test_as_many_features_as_the_data_has(n_rows, n_columns, n_factors):
    X = low_rank(n_rows, n_columns, n_factors, noise=1.0)
    X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    model = BPFA(max_steps=2, random_state=0).fit(X)
    assert abs(len(model.components_) - n_factors) <= 1 + n_factors // 3


def test_noise_has_next_to_no_features():
    X = np.random.default_rng(0).normal(size=(1000, 40))
    assert len(BPFA(max_steps=2, random_state=0).fit(X).components_) <= 3


def test_what_is_held_out_is_not_looked_at_for_the_number_of_features():
    X = low_rank(400, 20, 4, noise=0.5)
    model = BPFA(max_steps=2, random_state=0, held_out=0.3).fit(X)
    seen = HeldOutRows(ArrayRows(X), 0.3, model.settings_.stream)
    other = np.where(seen.take(np.arange(400)).observed, X, 1e3)
    # Means and scales are those of all entries: they are put out of play.
    same = BPFA(max_steps=2, random_state=0, held_out=0.3, standardize=False)
    first, second = (same.fit(data).components_ for data in (X, other))
    np.testing.assert_array_equal(first, second)


def test_a_fit_that_goes_on_keeps_its_number_of_features(tmp_path):
    X = low_rank(300, 12, 3, noise=0.5)
    model = BPFA(max_steps=10).fit(X, checkpoint=tmp_path / "a.bpfa")
    further = BPFA(max_steps=20).fit(X, checkpoint=tmp_path / "a.bpfa", resume=True)
    assert len(further.components_) == len(model.components_)
    assert further.n_steps_ == 20


def test_a_user_who_knows_nothing_gets_a_good_model():
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(600, 3)) @ rng.normal(size=(3, 12))
    X = 100 + 7 * (signal + 0.1 * rng.normal(size=signal.shape))
    hidden = rng.random(X.shape) < 0.1
    model = BPFA(random_state=0, max_steps=600).fit(np.where(hidden, np.nan, X))
    error = (model.impute(np.where(hidden, np.nan, X)) - X)[hidden]
    # The noise is 0.7, the data has a deviation of about 12.
    assert np.sqrt(np.mean(error**2)) < 2.0
