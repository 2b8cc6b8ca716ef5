"""Priors, and data drawn from them."""

import numpy as np
import pytest
from scipy import stats

from bpfa import Priors, draw_data
from bpfa._support.philox import GlobalDraws
from bpfa.model.priors import log_gamma_draw, log_odds_draw


@pytest.mark.parametrize("shape", [1e-3, 0.3, 1.0, 20.0])
def test_log_gamma_draws(shape):
    draws = log_gamma_draw(np.full(20_000, shape), np.random.default_rng(0))
    assert stats.kstest(draws, stats.loggamma(shape).cdf).pvalue > 0.01


def test_log_odds_are_the_same_numbers_in_one_call_and_in_four():
    a, b = np.random.default_rng(0).gamma(0.5, size=(2, 300))
    together, apart = GlobalDraws(2**63 + 5, step=2**32 + 7), GlobalDraws(2**63 + 5, step=2**32 + 7)
    found = log_odds_draw(a, b, together)
    np.testing.assert_array_equal(found, log_gamma_draw(a, apart) - log_gamma_draw(b, apart))
    assert together.n_calls == apart.n_calls == 4


def test_beta_prior():
    """Beta(a/K, b (K-1)/K), and still a distribution for K = 1."""
    assert Priors(a=6.0, b=4.0).beta(4) == (1.5, 3.0)
    assert Priors(a=6.0, b=4.0).beta(1) == (6.0, 4.0)


def test_paper_settings_are_the_default():
    assert Priors() == Priors(a=10.0, b=10.0, c0=1.0, d0=10.0, e0=1.0, f0=1.0)


def test_data_follow_the_model():
    data = draw_data(2000, 50, 20, priors=Priors(a=20.0, b=20.0), g_o=25.0, g_w=0.25, seed=0)
    assert set(np.unique(data.z)) == {0.0, 1.0}
    assert stats.kstest(data.w.ravel(), stats.norm(scale=2.0).cdf).pvalue > 0.01
    assert stats.kstest(data.phi.ravel(), stats.norm(scale=50**-0.5).cdf).pvalue > 0.01
    assert stats.kstest(data.pi, stats.beta(1.0, 19.0).cdf).pvalue > 0.01
    assert stats.kstest((data.y - data.signal).ravel(), stats.norm(scale=0.2).cdf).pvalue > 0.01
    standardised = (data.z.mean(axis=0) - data.pi) / np.sqrt(data.pi * (1 - data.pi) / 2000)
    assert np.abs(standardised).max() < 4


@pytest.mark.parametrize(("name", "shape", "rate"), [("g_o", 3.0, 2.0), ("g_w", 5.0, 0.5)])
def test_precisions_are_drawn_unless_given(name, shape, rate):
    priors = Priors(c0=3.0, d0=2.0, e0=5.0, f0=0.5)
    draws = [getattr(draw_data(1, 1, 1, priors=priors, seed=seed), name) for seed in range(1000)]
    assert stats.kstest(draws, stats.gamma(shape, scale=1 / rate).cdf).pvalue > 0.01
    assert getattr(draw_data(1, 1, 1, **{name: 7.0}, seed=0), name) == 7.0


def test_seed():
    y = [draw_data(5, 4, 3, seed=seed).y for seed in (0, 0, 1)]
    np.testing.assert_array_equal(y[0], y[1])
    assert (y[0] != y[2]).all()
