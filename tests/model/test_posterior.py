"""The global posterior: its two views, its step, and what it says of itself."""

from dataclasses import replace

import numpy as np
import pytest
from builders import natural, random_batch, random_posterior
from scipy import stats
from scipy.special import digamma, polygamma

from bpfa._support.philox import Stream
from bpfa.backends.numpy import SpikeSlab
from bpfa.model.features import FactorisedFeatures, JointFeatures
from bpfa.model.local import local_sums

N, K, D = 10, 3, 4
FORMS = {"factorised": ("tau", "mu"), "joint": ("P", "h")}


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


@pytest.fixture(params=["all", "active"])
def posterior(request, form):
    return random_posterior(
        np.random.default_rng(0), N, K, D, joint=form == "joint", weight_precision=request.param
    )


def test_expected_view():
    posterior = random_posterior(np.random.default_rng(0), N, K, D)
    view = posterior.expected()
    np.testing.assert_allclose(view.phi, posterior.features.mu / posterior.features.tau)
    np.testing.assert_allclose(view.v, 1 / posterior.features.tau)
    np.testing.assert_allclose(view.logit, digamma(posterior.a) - digamma(posterior.b))
    np.testing.assert_allclose([view.g_o, view.g_w], [posterior.c / posterior.d, posterior.e / posterior.f])


def test_sampled_views_are_draws(posterior):
    rng, M = np.random.default_rng(1), 4000
    views = [posterior.sampled(rng) for _ in range(M)]
    assert not any(view.v.any() for view in views)

    def draws(name):
        return np.array([getattr(view, name) for view in views])

    # log pi - log(1 - pi) has mean digamma(a) - digamma(b) and variance trigamma(a) + trigamma(b)
    for name, mean, variance in (
        ("phi", posterior.features.mean, posterior.features.variance),
        (
            "logit",
            digamma(posterior.a) - digamma(posterior.b),
            polygamma(1, posterior.a) + polygamma(1, posterior.b),
        ),
    ):
        standardised = (draws(name) - mean) / np.sqrt(variance)
        assert np.abs(standardised.mean(axis=0)).max() < 4 * M**-0.5
        # The variance of a squared standard score is 2 for phi and below 5 for logit with a, b >= 1.
        assert np.abs((standardised**2).mean(axis=0) - 1).max() < 4 * (5 / M) ** 0.5
    for name, shape, rate in (("g_o", posterior.c, posterior.d), ("g_w", posterior.e, posterior.f)):
        assert stats.kstest(draws(name), stats.gamma(shape, scale=1 / rate).cdf).pvalue > 0.01


def sums_under(posterior, batch):
    view = posterior.sampled(np.random.default_rng(5))
    draws = Stream.from_seed(0).rows(batch.ids, step=1)
    return local_sums(SpikeSlab(), view, batch, draws, joint=posterior.joint), view.g_o


@pytest.mark.parametrize("rho", [0.0, 0.3, 1.0])
def test_step_moves_natural_parameters_linearly(posterior, rho):
    sums, g_o = sums_under(posterior, random_batch(np.random.default_rng(2), 5, D))
    old, new = natural(posterior), natural(posterior.target(sums, g_o))
    for name, moved in natural(posterior.step(sums, rho, g_o)).items():
        np.testing.assert_allclose(moved, (1 - rho) * old[name] + rho * new[name], err_msg=name)


def test_target_is_prior_plus_scaled_sums(posterior, form):
    sums, g_o = sums_under(posterior, random_batch(np.random.default_rng(2), 5, D))
    target, priors = posterior.target(sums, g_o), posterior.priors
    s = N / 5
    expected = {
        "a": priors.a / K + s * sums.n,
        "b": priors.b * (K - 1) / K + s * (5 - sums.n),
        "c": priors.c0 + s * sums.O / 2,
        "d": priors.d0 + s * sums.SSE / 2,
    }
    if posterior.weight_precision == "all":
        expected |= {"e": priors.e0 + N * K / 2, "f": priors.f0 + s * sums.W2 / 2}
    else:
        expected |= {"e": priors.e0 + s * sums.n.sum() / 2, "f": priors.f0 + s * sums.ZW2 / 2}
    if form == "factorised":
        expected |= {"tau": D + s * g_o * sums.T, "mu": s * g_o * sums.S}
    else:
        expected |= {"P": D * np.eye(K) + s * g_o * sums.XX, "h": s * g_o * sums.XY}
    for name, value in natural(target).items():
        np.testing.assert_allclose(value, expected[name], err_msg=name)


def test_one_precision_for_all_columns_until_an_entry_is_missing(form):
    rng = np.random.default_rng(3)
    posterior = random_posterior(rng, N, K, D, per_column=False, joint=form == "joint")
    for mask, n_precisions in (("full", 1), ("random", D), ("full", D)):
        sums, g_o = sums_under(posterior, random_batch(rng, 5, D, mask))
        posterior = posterior.step(sums, 0.5, g_o)
        shapes = {"factorised": (K, n_precisions), "joint": (n_precisions, K, K)}
        assert getattr(posterior.features, FORMS[form][0]).shape == shapes[form]
        assert posterior.features.variance.shape == (K, n_precisions)


def test_joint_draws_have_the_covariance_of_their_precision():
    posterior = random_posterior(np.random.default_rng(0), N, K, D, joint=True)
    rng, M = np.random.default_rng(6), 20_000
    draws = np.stack([posterior.features.sampled(rng) for _ in range(M)])
    for d in range(D):
        covariance = np.linalg.inv(posterior.features.P[d])
        # The error of an empirical covariance is at most (2/M)^(1/2) of the product of the deviations.
        scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
        assert (np.abs(np.cov(draws[:, :, d].T) - covariance) / scale).max() < 4 * (2 / M) ** 0.5
        np.testing.assert_allclose(covariance @ posterior.features.h[:, d], posterior.features.mean[:, d])


def test_joint_features_without_correlation_are_factorised_ones():
    rng = np.random.default_rng(7)
    phi = rng.normal(size=(K, D))
    joint, factorised = JointFeatures.around(phi, 9.0), FactorisedFeatures.around(phi, 9.0)
    np.testing.assert_allclose(joint.mean, factorised.mean)
    np.testing.assert_allclose(joint.variance, factorised.variance)
    np.testing.assert_allclose(joint.divergence(), factorised.divergence())
    for seed in range(3):
        draws = [features.sampled(np.random.default_rng(seed)) for features in (joint, factorised)]
        np.testing.assert_allclose(*draws)


def test_expected_view_of_joint_features_has_their_second_moments():
    """Products of the features summed over columns, E[phi_k phi_j], are all that a complete row can see."""
    posterior = random_posterior(np.random.default_rng(0), N, K, D, per_column=False, joint=True)
    view, features = posterior.expected(), posterior.features
    seen = view.phi @ view.phi.T
    np.testing.assert_allclose(seen, features.mean @ features.mean.T + D * np.linalg.inv(features.P[0]))
    with pytest.raises(ValueError, match="one for all columns"):
        random_posterior(np.random.default_rng(0), N, K, D, joint=True).expected()


def test_precision_that_is_no_precision_is_refused():
    features = JointFeatures(-np.ones((D, K, K)), np.ones((K, D)))
    with pytest.raises(ValueError, match="column 0 is not positive definite"):
        features.sampled(np.random.default_rng(0))


@pytest.mark.parametrize("name", ["n", "SSE", "XY", "XX"])
def test_a_step_refuses_numbers_that_are_not_finite_or_not_positive(name):
    posterior = random_posterior(np.random.default_rng(0), N, K, D, joint=True)
    sums, g_o = sums_under(posterior, random_batch(np.random.default_rng(2), 5, D))
    with pytest.raises(ValueError, match="expected"):
        posterior.step(replace(sums, **{name: getattr(sums, name) * np.nan}), 0.5, g_o)
    with pytest.raises(ValueError, match=r"[ab]: smallest|d=-"):
        posterior.step(replace(sums, n=sums.n - 1e3, SSE=-1e9), 0.5, g_o)


def test_a_step_leaves_the_old_posterior_alone(posterior):
    before = {name: np.copy(value) for name, value in natural(posterior).items()}
    sums, g_o = sums_under(posterior, random_batch(np.random.default_rng(2), 5, D))
    posterior.step(sums, 0.5, g_o)
    for name, value in natural(posterior).items():
        np.testing.assert_array_equal(value, before[name])


def test_summaries(posterior):
    a0 = posterior.priors.beta(K)[0]
    posterior = replace(posterior, n_rows=5000, a=a0 + np.array([0.5, 4.0, 100.0]), b=np.full(K, 50.0))
    np.testing.assert_allclose(posterior.pi, posterior.a / (posterior.a + 50.0))
    np.testing.assert_allclose(posterior.noise_std, (2 / 7) ** 0.5)
    assert (posterior.n_features, posterior.n_columns) == (K, D)
    # More than 5 of 5000 rows at the default share; more than one row at any.
    assert (posterior.n_active(), posterior.n_active(share=0.0)) == (1, 2)
