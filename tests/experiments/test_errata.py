"""Where the paper's formulas slip (docs/math.md section 7): ours are right, the paper's wrong, in numbers."""

from dataclasses import replace

import numpy as np
import pytest
from builders import random_batch, random_posterior, random_view
from enumeration import enumerate_row
from finite_differences import gradient
from scipy.special import expit, logit
from scipy.stats import norm

from bpfa import ChainPosterior, algorithm, full_bound, held_out_score, posterior_draws
from bpfa._support.philox import Stream
from bpfa.backends.numpy import MeanField, SpikeSlab
from bpfa.data import Batch
from bpfa.model.features import FactorisedFeatures
from bpfa.model.local import LocalState
from bpfa.model.sums import LocalSums


class TestFeatures:
    """Items 1 and 5, seen from the full bound, for the first feature given all others."""

    N, K, D = 15, 3, 4

    @pytest.fixture(params=[MeanField, SpikeSlab])
    def setting(self, request):
        rng = np.random.default_rng(0)
        posterior, batch = random_posterior(rng, self.N, self.K, self.D), random_batch(rng, self.N, self.D)
        local, view = request.param(), posterior.expected()
        q = local.fit(view, batch)
        moments = local.moments(view, q)
        target = posterior.target(LocalSums.of(view, batch, moments), view.g_o)

        def bound(tau, mu):
            new = replace(
                posterior,
                features=FactorisedFeatures(
                    tau=np.vstack([np.broadcast_to(tau, self.D), posterior.features.tau[1:]]),
                    mu=np.vstack([mu, posterior.features.mu[1:]]),
                ),
            )
            return full_bound(new, batch, local, q)

        return target.features.tau[0], target.features.mu[0], view.g_o, moments.zw2[:, 0], bound

    def test_mu_needs_the_noise_precision(self, setting):
        tau, mu, g_o, _, bound = setting
        assert np.abs(gradient(lambda mu: bound(tau, mu), mu)).max() < 1e-5
        assert np.abs(gradient(lambda mu: bound(tau, mu), mu / g_o)).max() > 1e-2
        assert bound(tau, mu) > bound(tau, mu / g_o) + 0.1

    def test_tau_differs_between_columns_when_entries_are_missing(self, setting):
        tau, mu, g_o, zw2, bound = setting
        papers_tau = np.full(self.D, self.D + g_o * zw2.sum())
        assert np.ptp(tau) > 1
        assert np.abs(gradient(lambda tau: bound(tau, mu), tau)).max() < 1e-5
        assert np.abs(gradient(lambda tau: bound(tau, mu), papers_tau)).max() > 1e-3
        # No number for all columns at once, each with its own best mu, reaches what tau_kd reaches.
        shared = [bound(t, mu / tau * t) for t in np.linspace(tau.min(), papers_tau[0], 200)]
        assert bound(tau, mu) > max(shared) + 1e-3


class TestLocalBound:
    """Items 2 and 3, with one feature, where spike-and-slab is exact and so shows every slip."""

    @pytest.fixture(params=[0.2, 0.6])
    def setting(self, request):
        rng = np.random.default_rng(3)
        # A weak row, so that z stays uncertain.
        view, batch = random_view(rng, 1, 5), Batch(0.3 * rng.normal(size=(1, 5)))
        view = view._replace(logit=np.array([logit(request.param)]))
        exact = enumerate_row(view, batch.values[0], batch.observed[0])
        return view, batch, SpikeSlab().fit(view, batch), exact

    def test_prior_of_z_needs_the_log_of_its_odds(self, setting):
        view, batch, q, exact = setting

        def papers_bound(theta):
            bound = SpikeSlab().bound(view, batch, q._replace(theta=theta))
            return (bound + theta @ (np.exp(view.logit) - view.logit)).item()

        # Above the evidence: no bound at all. And its optimum is not the posterior of z.
        assert papers_bound(q.theta) > exact.log_evidence + 0.1
        assert abs(gradient(papers_bound, q.theta).item()) > 0.5
        papers_theta = expit(logit(q.theta) + np.exp(view.logit) - view.logit)
        assert abs(gradient(papers_bound, papers_theta).item()) < 1e-4
        np.testing.assert_allclose(q.theta[0], exact.z)
        assert abs(papers_theta[0] - exact.z).item() > 0.02

    def test_slab_is_charged_by_theta(self, setting):
        view, batch, q, exact = setting

        def bound(theta):
            return SpikeSlab().bound(view, batch, q._replace(theta=theta)).item()

        def papers_bound(theta):
            # g_w/2 (m^2 + 1/kappa) whatever z is, and nothing for the slab at rest
            overcharge = (1 - theta) * (view.g_w * (q.m**2 + 1 / q.kappa) - 1) / 2
            return bound(theta) - overcharge.item()

        np.testing.assert_allclose(bound(q.theta), exact.log_evidence)
        assert abs(gradient(bound, q.theta).item()) < 1e-6
        assert abs(papers_bound(q.theta) - exact.log_evidence) > 0.01
        assert abs(gradient(papers_bound, q.theta).item()) > 0.1


def test_predictive_is_the_log_of_a_mean_over_draws_summed_over_rows():
    """Item 4. With the globals known, log p(hidden | observed) is a difference of two exact evidences."""
    rng, n_rows, K, D, M = np.random.default_rng(4), 300, 3, 5, 100
    view = random_view(rng, K, D, g_o=1.0)
    x = (rng.random((n_rows, K)) < expit(view.logit)) * rng.normal(scale=view.g_w**-0.5, size=(n_rows, K))
    y = x @ view.phi + rng.normal(size=(n_rows, D))
    hidden = np.tile(np.arange(D) >= 3, (n_rows, 1))
    everything = np.ones(D, dtype=bool)
    exact = sum(
        enumerate_row(view, row, everything).log_evidence - enumerate_row(view, row, ~out).log_evidence
        for row, out in zip(y, hidden, strict=True)
    )
    posterior = ChainPosterior((view,), LocalState(np.zeros((n_rows, K)), np.zeros((n_rows, K))))
    gibbs = algorithm("gibbs", burn_in=20)
    score = held_out_score(posterior, y, hidden, gibbs, n_draws=M, seed=0)
    total = score.log_likelihood * score.n_entries

    draws = posterior_draws(posterior, Batch(y, ~hidden), gibbs, n_draws=M, stream=Stream.from_seed(0))
    density = np.exp([(norm.logpdf(y, draw.mean, draw.g_o**-0.5) * hidden).sum(axis=1) for draw in draws])
    # The error of log-mean-exp, by the delta method, over independent rows.
    error = np.sqrt((density.var(axis=0) / density.mean(axis=0) ** 2 / M).sum())
    assert abs(total - exact) < 4 * error
    papers = np.log(density.mean(axis=0).sum())
    mean_of_logs = np.log(density).mean(axis=0).sum()
    assert abs(papers - exact) > 100 * error
    assert mean_of_logs < exact - 50 * error
