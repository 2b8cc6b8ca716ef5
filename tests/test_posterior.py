"""The global posterior: its two views, its step, and what it says of itself."""

from dataclasses import replace

import numpy as np
import pytest
from builders import random_batch, random_posterior
from scipy import stats
from scipy.special import digamma, polygamma

from bpfa.local import SpikeSlab
from bpfa.philox import Stream

N, K, D = 10, 3, 4
NATURAL = ("a", "b", "c", "d", "e", "f", "tau", "mu")


@pytest.fixture
def posterior():
    return random_posterior(np.random.default_rng(0), N, K, D)


def test_expected_view(posterior):
    view = posterior.expected()
    np.testing.assert_allclose(view.phi, posterior.mu / posterior.tau)
    np.testing.assert_allclose(view.v, 1 / posterior.tau)
    np.testing.assert_allclose(view.logit, digamma(posterior.a) - digamma(posterior.b))
    np.testing.assert_allclose([view.g_o, view.g_w], [posterior.c / posterior.d, posterior.e / posterior.f])


def test_sampled_views_are_draws(posterior):
    rng, M = np.random.default_rng(1), 4000
    views = [posterior.sampled(rng) for _ in range(M)]
    assert not any(view.v.any() for view in views)

    def draws(name):
        return np.array([getattr(view, name) for view in views])

    # log pi - log(1 - pi) has mean digamma(a) - digamma(b) and variance trigamma(a) + trigamma(b)
    expected = posterior.expected()
    for name, mean, variance in (
        ("phi", expected.phi, expected.v),
        ("logit", expected.logit, polygamma(1, posterior.a) + polygamma(1, posterior.b)),
    ):
        standardised = (draws(name) - mean) / np.sqrt(variance)
        assert np.abs(standardised.mean(axis=0)).max() < 4 * M**-0.5
        # The variance of a squared standard score is 2 for phi and below 5 for logit with a, b >= 1.
        assert np.abs((standardised**2).mean(axis=0) - 1).max() < 4 * (5 / M) ** 0.5
    for name, shape, rate in (("g_o", posterior.c, posterior.d), ("g_w", posterior.e, posterior.f)):
        assert stats.kstest(draws(name), stats.gamma(shape, scale=1 / rate).cdf).pvalue > 0.01


def sums_under(posterior, batch):
    view = posterior.expected()
    return SpikeSlab().sums(view, batch, Stream.from_seed(0).rows(batch.ids, step=1)), view.g_o


@pytest.mark.parametrize("rho", [0.0, 0.3, 1.0])
def test_step_moves_natural_parameters_linearly(posterior, rho):
    sums, g_o = sums_under(posterior, random_batch(np.random.default_rng(2), 5, D))
    target, moved = posterior.target(sums, g_o), posterior.step(sums, rho, g_o)
    for name in NATURAL:
        old, new = getattr(posterior, name), getattr(target, name)
        np.testing.assert_allclose(getattr(moved, name), (1 - rho) * old + rho * new, err_msg=name)


def test_target_is_prior_plus_scaled_sums(posterior):
    sums, g_o = sums_under(posterior, random_batch(np.random.default_rng(2), 5, D))
    target, priors = posterior.target(sums, g_o), posterior.priors
    s = N / 5
    expected = {
        "a": priors.a / K + s * sums.n,
        "b": priors.b * (K - 1) / K + s * (5 - sums.n),
        "c": priors.c0 + s * sums.O / 2,
        "d": priors.d0 + s * sums.SSE / 2,
        "e": priors.e0 + N * K / 2,
        "f": priors.f0 + s * sums.W2 / 2,
        "tau": D + s * g_o * sums.T,
        "mu": s * g_o * sums.S,
    }
    for name in NATURAL:
        np.testing.assert_allclose(getattr(target, name), expected[name], err_msg=name)


def test_one_number_per_feature_until_an_entry_is_missing():
    rng = np.random.default_rng(3)
    posterior = random_posterior(rng, N, K, D, per_column=False)
    for mask, shape in (("full", (K, 1)), ("random", (K, D)), ("full", (K, D))):
        sums, g_o = sums_under(posterior, random_batch(rng, 5, D, mask))
        posterior = posterior.step(sums, 0.5, g_o)
        assert posterior.tau.shape == shape


def test_a_step_leaves_the_old_posterior_alone(posterior):
    before = {name: np.copy(getattr(posterior, name)) for name in NATURAL}
    sums, g_o = sums_under(posterior, random_batch(np.random.default_rng(2), 5, D))
    posterior.step(sums, 0.5, g_o)
    for name in NATURAL:
        np.testing.assert_array_equal(getattr(posterior, name), before[name])


def test_summaries(posterior):
    a0 = posterior.priors.beta(K)[0]
    posterior = replace(posterior, n_rows=5000, a=a0 + np.array([0.5, 4.0, 100.0]), b=np.full(K, 50.0))
    np.testing.assert_allclose(posterior.pi, posterior.a / (posterior.a + 50.0))
    np.testing.assert_allclose(posterior.noise_std, (2 / 7) ** 0.5)
    assert (posterior.n_features, posterior.n_columns) == (K, D)
    # More than 5 of 5000 rows at the default share; more than one row at any.
    assert (posterior.n_active(), posterior.n_active(share=0.0)) == (1, 2)
