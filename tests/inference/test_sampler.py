"""The uncollapsed Gibbs sampler: its conditionals one by one, and its chain. Geweke's test has the whole."""

import numpy as np
import pytest
from builders import random_batch, random_view
from scipy.special import expit
from scipy.stats import beta, gamma, kstest, norm

from bpfa import ArrayRows, ChainPosterior, NonFiniteError, Priors
from bpfa._support.philox import Stream
from bpfa.backends.numpy import Gibbs
from bpfa.inference.sampler import GibbsSampler, gibbs_sampler
from bpfa.model.local import LocalState

N, K, D = 20, 3, 4


@pytest.fixture
def rows():
    batch = random_batch(np.random.default_rng(0), N, D, "empty row")
    return ArrayRows(batch.values, ~batch.observed)


@pytest.fixture
def view():
    return random_view(np.random.default_rng(1), K, D)


def run(rows, view, n_steps=10, seed=2, **options):
    stream = Stream.from_seed(seed)
    return list(gibbs_sampler(rows, view, Priors(), n_steps=n_steps, stream=stream, **options))


def test_every_global_is_drawn_from_its_conditional(rows, view):
    """Each draw through the distribution function of its conditional (docs/math.md section 8) is uniform."""
    priors, rng = Priors(a=4.0, b=6.0, c0=3.0, d0=2.0), np.random.default_rng(4)
    y, o = np.nan_to_num(rows.values), rows.observed
    z = (rng.random((N, K)) < 0.6).astype(float)
    x = z * rng.normal(size=(N, K))
    state = LocalState(z, x)
    sampler = GibbsSampler(rows.take(np.arange(N)), priors, view, Stream.from_seed(0), state=state)
    n = z.sum(axis=0)
    uniforms = {"phi": [], "g_o": [], "pi": []}
    for _ in range(1000):
        phi = sampler.view.phi.copy()
        new = sampler.draw_globals(rng)
        for k in range(K):
            rest = y - x @ phi + np.outer(x[:, k], phi[k])
            tau = D + view.g_o * (o * x[:, [k]] ** 2).sum(axis=0)
            mean = view.g_o * (o * x[:, [k]] * rest).sum(axis=0) / tau
            phi[k] = new.phi[k]
            uniforms["phi"].extend(norm.cdf(phi[k], mean, tau**-0.5))
        rate = priors.d0 + (o * (y - x @ phi) ** 2).sum() / 2
        uniforms["g_o"].append(gamma.cdf(new.g_o, priors.c0 + o.sum() / 2, scale=1 / rate))
        pi = beta(priors.a / K + n, priors.b * (K - 1) / K + N - n)
        uniforms["pi"].extend(pi.cdf(expit(new.logit)))
        sampler.view = view._replace(phi=phi)
    for name, draws in uniforms.items():
        assert kstest(draws, "uniform").pvalue > 1e-3, name


def test_progress(rows, view):
    progress = run(rows, view)
    assert [(p.step, p.epoch, p.rho) for p in progress] == [(t, float(t), 1.0) for t in range(1, 11)]


def test_newest_states_are_kept_and_half_a_run_is_burn_in(rows, view):
    progress = run(rows, view, n_steps=10, n_kept=3)
    newest = [p.posterior.views[-1] for p in progress]
    for p, n_kept in zip(progress, [1, 1, 1, 2, 2, 3, 3, 3, 3, 3], strict=True):
        assert [id(v) for v in p.posterior.views] == [id(v) for v in newest[p.step - n_kept : p.step]]


def test_seed(rows, view):
    first, again, other = (run(rows, view, seed=seed)[-1].posterior for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.views[-1].phi, again.views[-1].phi)
    np.testing.assert_array_equal(first.state.x, again.state.x)
    assert (first.views[-1].phi != other.views[-1].phi).all()


def test_yielded_states_are_not_overwritten(rows, view):
    states = run(rows, view)
    kept = list(gibbs_sampler(rows, view, Priors(), n_steps=1, stream=Stream.from_seed(2)))
    np.testing.assert_array_equal(states[0].posterior.state.x, kept[0].posterior.state.x)


@pytest.mark.parametrize("blocked", [True, False])
def test_sweep_draws_by_the_local_method_it_was_given(rows, view, blocked):
    batch, local, stream = rows.take(np.arange(N)), Gibbs(blocked=blocked), Stream.from_seed(3)
    sampler = GibbsSampler(batch, Priors(), view, stream, local)
    sampler.sweep()
    draws = stream.child("local").rows(batch.ids, 1)
    (x,) = Gibbs(burn_in=0, blocked=blocked).samples(view, batch, draws, 1)
    np.testing.assert_array_equal(sampler.state.x, x)


def test_chain_posterior(view):
    views = tuple(view._replace(g_o=g_o) for g_o in (1.0, 3.0))
    z = np.zeros((3000, K))
    z[:2, 0], z[:4, 1] = 1.0, 1.0
    posterior = ChainPosterior(views, LocalState(z, np.ones(z.shape)))
    np.testing.assert_allclose(posterior.noise_std, 2.0**-0.5)
    assert (posterior.n_features, posterior.n_columns) == (K, D)
    # More than 3 of 3000 rows at the default share; more than one row at any.
    assert (posterior.n_active(), posterior.n_active(share=0.0)) == (1, 2)
    rng = np.random.default_rng(0)
    assert {posterior.sampled(rng).g_o for _ in range(30)} == {1.0, 3.0}


def test_non_finite_sweep_keeps_the_last_good_state(rows, view):
    values = rows.values.copy()
    values[0, :] = 1e200
    huge = ArrayRows(values, ~rows.observed)
    with np.errstate(all="ignore"), pytest.raises(NonFiniteError, match="step 1 gave") as failure:
        run(huge, view)
    assert failure.value.step == 1
    np.testing.assert_array_equal(failure.value.posterior.views[-1].phi, view.phi)
