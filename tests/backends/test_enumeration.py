"""Tiny K: every local method against the exact posterior and evidence of a row."""

import numpy as np
import pytest
from builders import MASKS, VIEWS, random_batch, random_view
from enumeration import enumerate_row
from scipy import stats

from bpfa import Batch
from bpfa._support.philox import Stream
from bpfa.model.local import LocalState

N_REPLICATES = 4000
N_SWEEPS = 50


def case(seed, K, view, mask):
    """A view and one row, as a batch."""
    rng = np.random.default_rng(seed)
    return random_view(rng, K, 5, view), random_batch(rng, 1, 5, mask)


def replicated(batch, n):
    """The same row n times: n independent chains, as every row has its own random numbers."""
    return Batch(np.repeat(batch.values, n, axis=0), np.repeat(batch.observed, n, axis=0))


def assert_mean(samples, exact):
    """The mean of independent samples, to 4.5 standard errors (a chance of 1e-5 a number)."""
    error = samples.std(axis=0, ddof=1) / len(samples) ** 0.5
    assert (np.abs(samples.mean(axis=0) - exact) < 4.5 * error + 1e-12).all()


def chisquare_pvalue(counts, p):
    """Goodness of fit, with the states that are expected fewer than five times as one."""
    rare = counts.sum() * p < 5
    observed = np.append(counts[~rare], counts[rare].sum())
    expected = counts.sum() * np.append(p[~rare], p[rare].sum())
    return stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue


@pytest.mark.parametrize("mask", MASKS)
def test_enumeration_agrees_with_the_marginal_normal(mask):
    """Given z, y is N(0, I/g_o + Phi^T Phi/g_w): the helper checked from the other side."""
    view, batch = case(0, 3, "sampled", mask)
    y, observed = batch.values[0], batch.observed[0]
    exact = enumerate_row(view, y, observed)
    density = 0.0
    for z in exact.states:
        on = view.phi[z == 1][:, observed]
        covariance = np.eye(observed.sum()) / view.g_o + on.T @ on / view.g_w
        prior = np.prod(stats.bernoulli.pmf(z, 1 / (1 + np.exp(-view.logit))))
        # scipy has no normal distribution of no dimension
        density += prior * (stats.multivariate_normal(cov=covariance).pdf(y[observed]) if len(on.T) else 1.0)
    np.testing.assert_allclose(exact.log_evidence, np.log(density), atol=1e-12)


@pytest.mark.parametrize("blocked", [True, False])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("K", [1, 3, 6])
def test_gibbs_draws_from_the_posterior(methods, K, view, mask, blocked):
    view, batch = case(K, K, view, mask)
    exact = enumerate_row(view, batch.values[0], batch.observed[0])
    rows = replicated(batch, N_REPLICATES)
    gibbs = methods.Gibbs(burn_in=N_SWEEPS - 1, n_samples=1, blocked=blocked)
    draws = Stream.from_seed(K).rows(rows.ids, step=1)
    x = next(gibbs.samples(view, rows, draws, 1))
    z = x != 0
    counts = np.bincount(z @ (1 << np.arange(K)[::-1]), minlength=2**K)
    assert chisquare_pvalue(counts, exact.p) > 1e-4
    assert_mean(x, exact.x)
    assert_mean(x**2, exact.zw2)
    sums = gibbs.sums(view, rows, draws)
    np.testing.assert_allclose(sums.n, z.sum(axis=0))
    np.testing.assert_allclose(sums.W2, (x**2 + (1 - z) / view.g_w).sum())


def best_fit(method, view, batch, starts):
    """The local posterior with the highest bound over several starts, and the bound."""
    fits = [method.fit(view, batch, start) for start in starts]
    bounds = [float(method.bound(view, batch, q)[0]) for q in fits]
    return fits[int(np.argmax(bounds))], max(bounds)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("K", [1, 2, 4, 6])
@pytest.mark.parametrize("seed", range(5))
def test_evidence_above_spike_slab_above_mean_field(methods, seed, K, view, mask):
    view, batch = case(100 + seed, K, view, mask)
    rng = np.random.default_rng(seed)
    starts = [LocalState(rng.random((1, K)), rng.normal(size=(1, K))) for _ in range(5)]
    mean_field, lowest = best_fit(methods.MeanField(n_sweeps=200), view, batch, starts)
    # Spike-and-slab's family does not hold mean field's optimum itself, only a better q with the same mean
    # of x, which its first sweep finds from there.
    _, middle = best_fit(methods.SpikeSlab(n_sweeps=200), view, batch, [*starts, mean_field.state])
    exact = enumerate_row(view, batch.values[0], batch.observed[0])
    assert exact.log_evidence >= middle - 1e-9
    assert middle >= lowest - 1e-9


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("view", VIEWS)
def test_spike_slab_of_one_feature_is_exact(precise_methods, view, mask):
    view, batch = case(7, 1, view, mask)
    exact = enumerate_row(view, batch.values[0], batch.observed[0])
    method = precise_methods.SpikeSlab(n_sweeps=1)
    q = method.fit(view, batch)
    moments = method.moments(view, q)
    np.testing.assert_allclose(method.bound(view, batch, q), [exact.log_evidence], atol=1e-12)
    np.testing.assert_allclose(moments.z[0], exact.z)
    np.testing.assert_allclose(moments.x[0], exact.x, atol=1e-12)
    np.testing.assert_allclose(moments.zw2[0], exact.zw2)


@pytest.mark.parametrize("name", ["MeanField", "SpikeSlab"])
def test_orthogonal_features_are_exact_for_spike_slab_only(methods, name):
    """With orthogonal features the posterior factorises over k, which spike-and-slab alone can follow."""
    view, batch = case(3, 4, "sampled", "full")
    view = view._replace(phi=np.linalg.qr(view.phi.T).Q.T)
    method = getattr(methods, name)(n_sweeps=500)
    gap = enumerate_row(view, batch.values[0], batch.observed[0]).log_evidence
    gap -= float(method.bound(view, batch, method.fit(view, batch))[0])
    assert (gap < 1e-9) == (name == "SpikeSlab")


@pytest.mark.parametrize("name", ["MeanField", "SpikeSlab"])
def test_draws_from_a_variational_posterior(methods, name):
    view, batch = case(2, 4, "expected", "random")
    rows = replicated(batch, N_REPLICATES)
    method = getattr(methods, name)()
    q = method.fit(view, batch)
    first, second = method.samples(view, rows, Stream.from_seed(0).rows(rows.ids, step=1), 2)
    assert (q.theta > 0.1).sum() >= 2
    for x in (first, second):
        for k in range(4):
            on = x[x[:, k] != 0, k]
            slab = stats.norm(q.m[0, k], q.kappa[0, k] ** -0.5)
            assert stats.binomtest(len(on), N_REPLICATES, q.theta[0, k]).pvalue > 1e-4
            assert len(on) == 0 or stats.kstest(on, slab.cdf).pvalue > 1e-4
    # Two draws of a row are independent: whether its first feature is on in one says nothing of the other.
    together = (first[:, 0] != 0) & (second[:, 0] != 0)
    assert stats.binomtest(together.sum(), N_REPLICATES, q.theta[0, 0] ** 2).pvalue > 1e-4
