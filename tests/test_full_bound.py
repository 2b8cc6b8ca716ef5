"""The bound of a whole data set: what it is, and that the global updates are its block-wise optima."""

from dataclasses import replace

import numpy as np
import pytest
from builders import random_batch, random_posterior
from finite_differences import gradient
from scipy.stats import bernoulli, beta, gamma, norm

from bpfa import full_bound
from bpfa.local import MeanField, SpikeSlab
from bpfa.statistics import LocalSums

N, K, D = 12, 3, 4
BLOCKS = {"pi": ("a", "b"), "g_o": ("c", "d"), "g_w": ("e", "f"), "phi": ("tau", "mu")}


@pytest.fixture(params=["full", "random", "empty row"])
def batch(request):
    return random_batch(np.random.default_rng(0), N, D, request.param)


@pytest.fixture(params=[MeanField, SpikeSlab])
def local(request):
    return request.param(n_sweeps=2)


@pytest.fixture
def posterior(batch):
    return random_posterior(np.random.default_rng(1), N, K, D, per_column=not batch.complete)


def updated(posterior, batch, local, q, block, k=0):
    """One block moved to its target given all others: the factors of pi, g_o, g_w or phi_k."""
    view = posterior.expected()
    target = posterior.target(LocalSums.of(view, batch, local.moments(view, q)), view.g_o)
    new = {name: getattr(target, name) for name in BLOCKS[block]}
    if block == "phi":
        # Features move one by one: S_k was taken with the other features where they are.
        chosen = np.arange(K)[:, None] == k
        new = {name: np.where(chosen, value, getattr(posterior, name)) for name, value in new.items()}
    return replace(posterior, **new)


def test_bound_is_the_expectation_it_claims(posterior, batch, local):
    """E_q[log p - log q] over globals and locals by Monte Carlo with densities from scipy, to 4 errors."""
    rng, M = np.random.default_rng(2), 20_000
    q = local.fit(posterior.expected(), batch)
    a0, b0 = posterior.priors.beta(K)
    priors = posterior.priors

    pi = rng.beta(posterior.a, posterior.b, size=(M, K))
    mean, scale = posterior.mu / posterior.tau, posterior.tau**-0.5
    phi = mean + scale * rng.normal(size=(M, K, D))
    g_o = rng.gamma(posterior.c, 1 / posterior.d, size=M)
    g_w = rng.gamma(posterior.e, 1 / posterior.f, size=M)
    z = rng.random((M, N, K)) < q.theta
    on = norm(q.m, q.kappa**-0.5)
    w = q.m + q.kappa**-0.5 * rng.normal(size=(M, N, K))
    log_w = on.logpdf(w)
    if isinstance(local, SpikeSlab):
        at_rest = norm(0, (posterior.f / posterior.e) ** 0.5)
        w = np.where(z, w, at_rest.rvs(w.shape, random_state=rng))
        log_w = np.where(z, on.logpdf(w), at_rest.logpdf(w))

    def total(log_density):
        return log_density.reshape(M, -1).sum(axis=1)

    signal = np.einsum("mnk,mkd->mnd", z * w, phi)
    log_y = norm.logpdf(batch.values, signal, g_o[:, None, None] ** -0.5) * batch.observed
    log_p = (
        total(log_y)
        + total(bernoulli.logpmf(z, pi[:, None]))
        + total(norm.logpdf(w, 0, g_w[:, None, None] ** -0.5))
        + total(beta.logpdf(pi, a0, b0))
        + total(norm.logpdf(phi, 0, D**-0.5))
        + gamma.logpdf(g_o, priors.c0, scale=1 / priors.d0)
        + gamma.logpdf(g_w, priors.e0, scale=1 / priors.f0)
    )
    log_q = (
        total(bernoulli.logpmf(z, q.theta))
        + total(log_w)
        + total(beta.logpdf(pi, posterior.a, posterior.b))
        + total(norm.logpdf(phi, mean, scale))
        + gamma.logpdf(g_o, posterior.c, scale=1 / posterior.d)
        + gamma.logpdf(g_w, posterior.e, scale=1 / posterior.f)
    )
    samples = log_p - log_q
    error = samples.std() / M**0.5
    assert error < 0.2
    assert abs(full_bound(posterior, batch, local, q) - samples.mean()) < 4 * error


@pytest.mark.parametrize("block", BLOCKS)
def test_global_update_is_stationary_and_a_maximum(posterior, batch, local, block):
    q = local.fit(posterior.expected(), batch)
    best = posterior
    # Under spike-and-slab the resting w follow g_w at once, and its optimum is the end of an iteration.
    for _ in range(200 if block == "g_w" else 1):
        best = updated(best, batch, local, q, block, k=1)
    assert full_bound(best, batch, local, q) > full_bound(posterior, batch, local, q)
    moved = 1 if block == "phi" else ...
    for name in BLOCKS[block]:
        at = np.array(getattr(best, name))

        def bound(value, name=name):
            return full_bound(replace(best, **{name: value}), batch, local, q)

        assert np.abs(gradient(bound, at)[moved]).max() < 1e-5
        for factor in (0.9, 1.1):
            scale = np.ones(at.shape)
            scale[moved] = factor
            assert bound(at * scale) < bound(at)


def test_coordinate_ascent_never_lowers_the_bound(posterior, batch, local):
    state, bounds = None, []
    for _ in range(20):
        q = local.fit(posterior.expected(), batch, state)
        state = q.state
        bounds.append(full_bound(posterior, batch, local, q))
        for block in BLOCKS:
            for k in range(K) if block == "phi" else (0,):
                posterior = updated(posterior, batch, local, q, block, k)
                bounds.append(full_bound(posterior, batch, local, q))
    assert (np.diff(bounds) > -1e-9).all()
    assert bounds[-1] > bounds[0] + 1
