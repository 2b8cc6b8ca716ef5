"""The sampler of all variables: every replicate is a small data set with missing entries."""

import numpy as np
import pytest
from builders import random_mask
from geweke import BROKEN, BROKEN_SLABS, RIGHT, draw_locals, draw_values, smallest_pvalue
from scipy.special import logit

import bpfa.backends.cpu
import bpfa.backends.numpy.gibbs
from bpfa import Batch, Priors
from bpfa._support.philox import Stream
from bpfa.backends.numpy.gibbs import moments
from bpfa.inference.sampler import GibbsSampler
from bpfa.model.features import JointFeatures
from bpfa.model.sums import JointSums
from bpfa.model.view import GlobalView

N, K, D, N_SWEEPS = 6, 3, 4, 10
PRIORS = Priors(a=6.0, b=3.0, c0=4.0, d0=1.0, e0=4.0, f0=8.0)
OBSERVED = random_mask(np.random.default_rng(8), N, D, "empty row")


def draw_everything(rng):
    """Globals, locals and data from the prior."""
    view = GlobalView(
        phi=rng.normal(scale=D**-0.5, size=(K, D)),
        v=np.zeros((K, 1)),
        logit=logit(rng.beta(PRIORS.a / K, PRIORS.b * (K - 1) / K, size=K)),
        g_o=rng.gamma(PRIORS.c0) / PRIORS.d0,
        g_w=rng.gamma(PRIORS.e0) / PRIORS.f0,
    )
    state = draw_locals(view, N, rng)
    return view, state, draw_values(view, state.x, rng)


def statistics(view, state, y):
    x, residual = state.x, np.where(OBSERVED, y - state.x @ view.phi, 0.0)
    return {
        "g_o": view.g_o,
        "g_w": view.g_w,
        "logit": view.logit[0],
        "phi": view.phi[0, 0],
        "|phi|^2": (view.phi**2).sum(),
        "phi_0 phi_1": view.phi[0] @ view.phi[1],
        "n_active": state.z.sum(),
        "|x|^2": (x**2).sum(),
        "|y|^2": (np.where(OBSERVED, y, 0.0) ** 2).sum(),
        "g_o |r|^2": view.g_o * (residual**2).sum(),
        "g_w |x|^2": view.g_w * (x**2).sum(),
        "logit n": view.logit @ state.z.sum(axis=0),
        "signal": x[0] @ view.phi[:, 0],
        "phi_0 phi_1 x_0 x_1": (view.phi[0] @ view.phi[1]) * (x[:, 0] @ x[:, 1]),
    }


def replicate(sampler_class, local, seed, **form):
    rng = np.random.default_rng((3, seed))
    view, state, y = draw_everything(rng)
    sampler = sampler_class(Batch(y, OBSERVED), PRIORS, view, Stream.from_seed(seed), local, state, **form)
    for _ in range(N_SWEEPS):
        sampler.sweep()
        y = draw_values(sampler.view, sampler.state.x, rng)
        sampler.batch = Batch(y, OBSERVED)
    return statistics(sampler.view, sampler.state, y)


def geweke(sampler_class, local, n_replicates, **form):
    def by_name(replicates):
        return {name: [values[name] for values in replicates] for name in replicates[0]}

    rng = np.random.default_rng(4)
    return smallest_pvalue(
        by_name([replicate(sampler_class, local, seed, **form) for seed in range(n_replicates)]),
        by_name([statistics(*draw_everything(rng)) for _ in range(5 * n_replicates)]),
    )


# A mistake as large as those below is found with 300 replicates; the slow tests find smaller ones.
N_REPLICATES = [300, pytest.param(2000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("n_replicates", N_REPLICATES)
@pytest.mark.parametrize("blocked", [True, False])
def test_sampler_leaves_the_joint_distribution(methods, blocked, n_replicates):
    assert geweke(GibbsSampler, methods.Gibbs(blocked=blocked), n_replicates) > RIGHT


@pytest.mark.parametrize("n_replicates", N_REPLICATES)
@pytest.mark.parametrize(
    ("features", "weights"), [("joint", "all"), ("factorised", "active"), ("joint", "active")]
)
def test_other_draws_of_features_and_weights_leave_it_too(features, weights, n_replicates):
    form = {"features": features, "weight_precision": weights}
    assert geweke(GibbsSampler, bpfa.backends.cpu.Gibbs(), n_replicates, **form) > RIGHT


class Tampered:
    """A generator with some of its distributions replaced."""

    def __init__(self, rng, **replaced):
        self.__dict__.update(replaced, rng=rng)

    def __getattr__(self, name):
        return getattr(self.rng, name)


class PhiTooWide(GibbsSampler):
    """phi has half its precision."""

    def draw_globals(self, rng):
        return super().draw_globals(Tampered(rng, standard_normal=lambda n: 2**0.5 * rng.standard_normal(n)))


class IdleWeightsForgotten(GibbsSampler):
    """The rate of g_w lacks the weights of what is off."""

    def draw_globals(self, rng):
        return super().draw_globals(Tampered(rng, chisquare=lambda n: 0.0))


class ErrorNotHalved(GibbsSampler):
    """The rate of g_o takes the squared error whole."""

    def _draw_phi(self, x, rng):
        phi, residual = super()._draw_phi(x, rng)
        return phi, residual * 2**0.5


class FeaturesIndependent(GibbsSampler):
    """The joint draw of phi forgets what features share."""

    def _draw_phi_jointly(self, x, rng):
        sums = JointSums.of(self.view, self.batch, moments(self.view, self.state))
        P = self.view.g_o * sums.XX * np.eye(K) + D * np.eye(K)
        phi = JointFeatures(P, self.view.g_o * sums.XY).sampled(rng)
        return phi, self.batch.values - (x @ phi) * OBSERVED


def test_broken_joint_draw_is_caught():
    form = {"features": "joint", "weight_precision": "active"}
    assert geweke(FeaturesIndependent, bpfa.backends.numpy.Gibbs(), n_replicates=300, **form) < BROKEN


@pytest.mark.parametrize("broken", [PhiTooWide, IdleWeightsForgotten, ErrorNotHalved])
def test_broken_sampler_is_caught(broken):
    assert geweke(broken, bpfa.backends.numpy.Gibbs(), n_replicates=300) < BROKEN


@pytest.mark.parametrize("broken", BROKEN_SLABS)
def test_broken_local_step_is_caught(monkeypatch, broken):
    monkeypatch.setattr(bpfa.backends.numpy.gibbs, "slab", broken)
    assert geweke(GibbsSampler, bpfa.backends.numpy.Gibbs(), n_replicates=300) < BROKEN
