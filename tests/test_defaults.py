"""What BPFA() chooses from the shape of the data."""

import numpy as np
import pytest

from bpfa import BPFA
from bpfa.parameters import limits_of, settings_of

SHAPES = [(1, 1), (5, 3), (150, 4), (400, 6), (172_791, 24), (16_428, 350), (10**7, 64), (1000, 5000)]


@pytest.mark.parametrize(("n_rows", "n_columns"), SHAPES)
def test_defaults_suit_the_shape(n_rows, n_columns):
    parameters = BPFA(random_state=0).get_params()
    settings = settings_of(parameters, n_rows, n_columns)
    limits = limits_of(parameters, settings, n_rows)
    assert 1 <= settings.n_features <= min(n_rows, 256)
    # Fewer features than columns, where there are columns enough.
    assert settings.n_features < n_columns or n_columns < 3
    assert settings.batch_size == min(n_rows, 256)
    assert limits.max_steps >= 2000
    assert limits.max_steps * settings.batch_size >= 10 * n_rows
    if settings.features == "joint":
        assert 8 * n_columns * settings.n_features**2 <= 2**26
    assert settings.weights == "active"


def test_what_the_algorithm_cannot_have_is_not_chosen():
    for algorithm, features, weights in [
        ("gibbs-ssvi", "joint", "active"),
        ("mimno-svi", "factorised", "active"),
        ("mf-ssvi", "joint", "all"),
        ("mf-svi", "factorised", "all"),
    ]:
        settings = settings_of(BPFA(algorithm=algorithm).get_params(), 1000, 20)
        assert (settings.features, settings.weights) == (features, weights)


def test_a_user_who_knows_nothing_gets_a_good_model():
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(600, 3)) @ rng.normal(size=(3, 12))
    X = 100 + 7 * (signal + 0.1 * rng.normal(size=signal.shape))
    hidden = rng.random(X.shape) < 0.1
    model = BPFA(random_state=0, max_steps=600).fit(np.where(hidden, np.nan, X))
    error = (model.impute(np.where(hidden, np.nan, X)) - X)[hidden]
    # The noise is 0.7, the data has a deviation of about 12.
    assert np.sqrt(np.mean(error**2)) < 2.0
