"""The local bound: what it is, that each coordinate update is its optimum, and that it never falls."""

import numpy as np
import pytest
from builders import MASKS, VIEWS, random_batch, random_view
from finite_differences import gradient
from scipy.special import expit, logit
from scipy.stats import bernoulli, norm

from bpfa.backends.numpy import MeanField, SpikeSlab
from bpfa.model.local import LocalState

K, D = 4, 5


@pytest.fixture(params=["MeanField", "SpikeSlab"])
def method(request, precise_methods):
    return getattr(precise_methods, request.param)


def bound_along(name, local, view, batch, q):
    """The bound as a function of logit(theta), m or log(kappa), and where q stands."""
    to, back = {"theta": (logit, expit), "m": (np.array, np.array), "kappa": (np.log, np.exp)}[name]
    at = to(getattr(q, name))
    return lambda value: local.bound(view, batch, q._replace(**{name: back(value)})).sum(), at


def random_start(rng, n_rows):
    return LocalState(rng.uniform(0.1, 0.9, size=(n_rows, K)), rng.normal(size=(n_rows, K)))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("view", VIEWS)
def test_bound_is_the_expectation_it_claims(method, view, mask):
    """E_q[log p(y, z, w | globals) - log q(z, w)] by Monte Carlo, to four standard errors."""
    rng, M = np.random.default_rng(11), 100_000
    view, batch = random_view(rng, K, D, view), random_batch(rng, 1, D, mask)
    local = method(n_sweeps=1)
    q = local.fit(view, batch, random_start(rng, 1))
    theta, m, kappa = q.theta[0], q.m[0], q.kappa[0]

    z = rng.random((M, K)) < theta
    slab_on = norm(m, kappa**-0.5)
    w = m + rng.normal(size=(M, K)) * kappa**-0.5
    log_q = bernoulli.logpmf(z, theta)
    if isinstance(local, SpikeSlab):
        slab_at_rest = norm(0, view.g_w**-0.5)
        w = np.where(z, w, slab_at_rest.rvs((M, K), random_state=rng))
        log_q += np.where(z, slab_on.logpdf(w), slab_at_rest.logpdf(w))
    else:
        log_q += slab_on.logpdf(w)
    # Under the expected view phi, too, is uncertain.
    phi = view.phi + rng.normal(size=(M, K, D)) * np.sqrt(view.v)
    log_y = norm.logpdf(batch.values, np.einsum("mk,mkd->md", z * w, phi), view.g_o**-0.5)
    log_p = bernoulli.logpmf(z, expit(view.logit)) + norm.logpdf(w, 0, view.g_w**-0.5)
    samples = log_y @ batch.observed[0] + (log_p - log_q).sum(axis=1)

    error = samples.std() / M**0.5
    assert error < 0.05
    assert abs(local.bound(view, batch, q)[0] - samples.mean()) < 4 * error + 1e-10


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("view", VIEWS)
def test_converged_point_is_stationary_and_a_maximum(method, view, mask):
    rng = np.random.default_rng(1)
    view, batch = random_view(rng, K, D, view), random_batch(rng, 3, D, mask)
    local = method(n_sweeps=2000)
    q = local.fit(view, batch)
    for name in q._fields:
        bound, at = bound_along(name, local, view, batch, q)
        assert np.abs(gradient(bound, at)).max() < 1e-7
        assert max(bound(at - 0.1), bound(at + 0.1)) < bound(at)


@pytest.mark.parametrize("view", VIEWS)
def test_one_update_is_the_optimum_of_its_coordinate(method, view):
    """The last feature of a sweep has just been updated, the others are anywhere."""
    rng = np.random.default_rng(2)
    view, batch = random_view(rng, K, D, view), random_batch(rng, 3, D)
    start = random_start(rng, len(batch))
    local = method(n_sweeps=1)

    def slopes(name, q):
        return np.abs(gradient(*bound_along(name, local, view, batch, q))).max(axis=0)

    q = local.fit(view, batch, start)
    assert slopes("theta", q)[-1] < 1e-7 < 1e-3 < slopes("theta", q)[0]
    if isinstance(local, MeanField):
        # w's factor was set before theta, given that of the start.
        q.theta[:, -1] = start.z[:, -1]
    assert slopes("m", q)[-1] < 1e-7 < 1e-3 < slopes("m", q)[0]
    assert slopes("kappa", q)[-1] < 1e-7


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("view", VIEWS)
def test_bound_never_falls(method, view, mask):
    rng = np.random.default_rng(3)
    view, batch = random_view(rng, K, D, view), random_batch(rng, 50, D, mask)
    local = method(n_sweeps=1)
    state, bounds = random_start(rng, len(batch)), []
    for _ in range(30):
        q = local.fit(view, batch, state)
        bounds.append(local.bound(view, batch, q))
        state = q.state
    assert (np.diff(bounds, axis=0) > -1e-10).all()
    assert (bounds[-1] > bounds[0] + 1e-3).any()


def test_going_on_from_a_state_is_one_longer_run(method):
    rng = np.random.default_rng(4)
    view, batch = random_view(rng, K, D, "expected"), random_batch(rng, 6, D)
    half, whole = method(n_sweeps=3), method(n_sweeps=6)
    resumed = half.fit(view, batch, half.fit(view, batch).state)
    for a, b in zip(resumed, whole.fit(view, batch), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_row_with_nothing_observed_gets_the_prior(method):
    rng = np.random.default_rng(5)
    view, batch = random_view(rng, K, D, "expected"), random_batch(rng, 3, D, "empty row")
    local = method(n_sweeps=1)
    q = local.fit(view, batch)
    np.testing.assert_allclose(q.theta[-1], expit(view.logit))
    np.testing.assert_allclose(q.m[-1], 0.0)
    np.testing.assert_allclose(q.kappa[-1], view.g_w)
    np.testing.assert_allclose(local.bound(view, batch, q)[-1], 0.0, atol=1e-12)
