"""The bound of a whole data set: what it is, and that the global updates are its block-wise optima."""

from dataclasses import fields, replace

import numpy as np
import pytest
from builders import random_batch, random_posterior
from finite_differences import gradient
from scipy.stats import bernoulli, beta, gamma, multivariate_normal, norm

from bpfa import full_bound
from bpfa._support.philox import Stream
from bpfa.backends.numpy import MeanField, SpikeSlab
from bpfa.model.features import FactorisedFeatures
from bpfa.model.local import local_sums
from bpfa.model.sums import sums_of

N, K, D = 12, 3, 4
BLOCKS = {"pi": ("a", "b"), "g_o": ("c", "d"), "g_w": ("e", "f"), "phi": ("features",)}
# The form of q(phi), what g_w is learned from, the local method and the mask; joint features have an expected
# view only where nothing is missing, and mean field has no idle weights.
CASES = [
    *(("factorised", "all", local, mask) for local in (MeanField, SpikeSlab) for mask in ("full", "random")),
    ("factorised", "all", SpikeSlab, "empty row"),
    ("factorised", "active", SpikeSlab, "random"),
    ("joint", "all", MeanField, "full"),
    ("joint", "active", SpikeSlab, "full"),
]


@pytest.fixture(params=CASES, ids=lambda case: "-".join(getattr(name, "__name__", name) for name in case))
def case(request):
    return request.param


@pytest.fixture
def batch(case):
    return random_batch(np.random.default_rng(0), N, D, case[3])


@pytest.fixture
def local(case):
    return case[2](n_sweeps=2)


@pytest.fixture
def posterior(case, batch):
    return random_posterior(
        np.random.default_rng(1),
        N,
        K,
        D,
        per_column=not batch.complete,
        joint=case[0] == "joint",
        weight_precision=case[1],
    )


class Fixed:
    """A local method whose q is given: its sums are those of the given q."""

    def __init__(self, local, q):
        self.local, self.q = local, q

    def sums(self, view, batch, draws, *, joint):
        return sums_of(view, batch, self.local.moments(view, self.q), joint=joint)


def fit(local, posterior, batch, start=None):
    view = posterior.expected()
    return local.fit(view, batch.padded_to(view.phi.shape[1]), start)


def updated(posterior, batch, local, q, block, k=0):
    """One block moved to its target given all others: the factors of pi, g_o, g_w, and phi or phi_k."""
    view = posterior.expected()
    draws = Stream.from_seed(0).rows(batch.ids, step=1)
    sums = local_sums(Fixed(local, q), view, batch, draws, joint=posterior.joint)
    target = posterior.target(sums, view.g_o)
    new = {name: getattr(target, name) for name in BLOCKS[block]}
    if block == "phi" and isinstance(posterior.features, FactorisedFeatures):
        # Features move one by one: S_k was taken with the other features where they are.
        chosen = np.arange(K)[:, None] == k
        new["features"] = FactorisedFeatures(
            *(
                np.where(chosen, getattr(target.features, name), getattr(posterior.features, name))
                for name in ("tau", "mu")
            )
        )
    return replace(posterior, **new)


def draw_phi(posterior, rng, M):
    """M draws of phi, M x K x D, and the log density of each."""
    features = posterior.features
    if isinstance(features, FactorisedFeatures):
        q_phi = norm(features.mean, np.sqrt(features.variance))
        phi = q_phi.rvs((M, K, D), random_state=rng)
        return phi, q_phi.logpdf(phi).reshape(M, -1).sum(axis=1)
    covariance = np.linalg.inv(features.P[0])
    columns = [multivariate_normal(covariance @ features.h[:, d], covariance) for d in range(D)]
    draws = [column.rvs(M, random_state=rng) for column in columns]
    log_density = sum(column.logpdf(draw) for column, draw in zip(columns, draws, strict=True))
    return np.stack(draws, axis=2), log_density


def test_bound_is_the_expectation_it_claims(posterior, batch, local):
    """E_q[log p - log q] over globals and locals by Monte Carlo with densities from scipy, to 4 errors."""
    rng, M = np.random.default_rng(2), 20_000
    q = fit(local, posterior, batch)
    a0, b0 = posterior.priors.beta(K)
    priors = posterior.priors

    pi = rng.beta(posterior.a, posterior.b, size=(M, K))
    phi, log_phi = draw_phi(posterior, rng, M)
    g_o = rng.gamma(posterior.c, 1 / posterior.d, size=M)
    g_w = rng.gamma(posterior.e, 1 / posterior.f, size=M)
    z = rng.random((M, N, K)) < q.theta
    on = norm(q.m, q.kappa**-0.5)
    w = q.m + q.kappa**-0.5 * rng.normal(size=(M, N, K))
    log_w = on.logpdf(w)
    counted = z if posterior.weight_precision == "active" else np.ones(z.shape)
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
        + total(norm.logpdf(w, 0, g_w[:, None, None] ** -0.5) * counted)
        + total(beta.logpdf(pi, a0, b0))
        + total(norm.logpdf(phi, 0, D**-0.5))
        + gamma.logpdf(g_o, priors.c0, scale=1 / priors.d0)
        + gamma.logpdf(g_w, priors.e0, scale=1 / priors.f0)
    )
    log_q = (
        total(bernoulli.logpmf(z, q.theta))
        + total(log_w * counted)
        + total(beta.logpdf(pi, posterior.a, posterior.b))
        + log_phi
        + gamma.logpdf(g_o, posterior.c, scale=1 / posterior.d)
        + gamma.logpdf(g_w, posterior.e, scale=1 / posterior.f)
    )
    samples = log_p - log_q
    error = samples.std() / M**0.5
    assert error < 0.2
    assert abs(full_bound(posterior, batch, local, q) - samples.mean()) < 4 * error


@pytest.mark.parametrize("block", BLOCKS)
def test_global_update_is_stationary_and_a_maximum(posterior, batch, local, block):
    q = fit(local, posterior, batch)
    best = posterior
    # The resting w follow g_w at once, and its optimum is the end of an iteration; where they are integrated
    # out, one update does it.
    for _ in range(200 if block == "g_w" and posterior.weight_precision == "all" else 1):
        best = updated(best, batch, local, q, block, k=1)
    assert full_bound(best, batch, local, q) > full_bound(posterior, batch, local, q)
    owner = best.features if block == "phi" else best
    moved = 1 if isinstance(owner, FactorisedFeatures) else ...
    for name in [field.name for field in fields(owner)] if block == "phi" else BLOCKS[block]:
        at = np.array(getattr(owner, name))

        def bound(value, name=name):
            value = (value + value.transpose(0, 2, 1)) / 2 if name == "P" else value
            new = replace(owner, **{name: value})
            return full_bound(replace(best, features=new) if block == "phi" else new, batch, local, q)

        assert np.abs(gradient(bound, at)[moved]).max() < 1e-5
        for factor in (0.9, 1.1):
            scale = np.ones(at.shape)
            scale[moved] = factor
            assert bound(at * scale) < bound(at)


def test_coordinate_ascent_never_lowers_the_bound(posterior, batch, local):
    state, bounds = None, []
    for _ in range(20):
        q = fit(local, posterior, batch, state)
        state = q.state
        bounds.append(full_bound(posterior, batch, local, q))
        for block in BLOCKS:
            for k in range(K) if block == "phi" else (0,):
                posterior = updated(posterior, batch, local, q, block, k)
                bounds.append(full_bound(posterior, batch, local, q))
    assert (np.diff(bounds) > -1e-9).all()
    assert bounds[-1] > bounds[0] + 1
