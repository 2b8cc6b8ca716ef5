"""Weights integrated out: against dense Gaussian algebra, and as the limit of drawing them."""

import numpy as np
import pytest
from builders import random_view
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from bpfa import Batch
from bpfa.backends.cpu import _kernels
from bpfa.backends.cpu.signal import signal as fast_signal
from bpfa.model.marginals import log_predictive, signal

N, K, D = 12, 5, 6


@pytest.fixture(params=[0.7, 0.2], ids=["mostly observed", "mostly missing"])
def case(request):
    rng = np.random.default_rng(0)
    view = random_view(rng, K, D)
    truth = rng.normal(size=(N, D))
    hidden = rng.random((N, D)) < 0.15
    observed = (rng.random((N, D)) < request.param) & ~hidden
    hidden[0] = False
    observed[1] = False
    on = rng.random((N, K)) < 0.5
    on[2] = False
    on[3] = True
    return view, Batch(truth, observed), truth, hidden, on


def joint(view, on):
    """Covariance of the entries of a row, noise included, from the definition of the model."""
    active = view.phi[on]
    return active.T @ active / view.g_w + np.eye(D) / view.g_o


@pytest.mark.parametrize("signal", [signal, fast_signal], ids=["specification", "kernel"])
def test_signal_is_the_gaussian_conditional(case, signal):
    view, batch, truth, _, on = case
    found = signal(on, view.phi, view.g_o, view.g_w, batch)
    for i in range(N):
        o = batch.observed[i]
        covariance = joint(view, on[i])
        without_noise = covariance - np.eye(D) / view.g_o
        gain = np.linalg.solve(covariance[np.ix_(o, o)], without_noise[o]).T
        np.testing.assert_allclose(found.mean[i], gain @ truth[i, o], atol=1e-12)
        variance = np.where(o, 0.0, np.diag(without_noise - gain @ without_noise[o]))
        np.testing.assert_allclose(found.variance[i], variance, atol=1e-12)


@pytest.mark.parametrize("observed", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize(("n_rows", "n_features", "n_columns"), [(0, 3, 4), (1, 1, 1), (300, 70, 90)])
def test_kernel_equals_the_specification(n_rows, n_features, n_columns, observed):
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(n_features, n_columns))
    batch = Batch(rng.normal(size=(n_rows, n_columns)), rng.random((n_rows, n_columns)) < observed)
    on = rng.random((n_rows, n_features)) < 0.4
    found, expected = (f(on, phi, 25.0, 0.5, batch) for f in (fast_signal, signal))
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-10)
    np.testing.assert_allclose(found.variance, expected.variance, atol=1e-10)


def test_large_matrices_may_differ_by_little():
    """All columns less the missing ones leave rounding alone, where a feature has its length in these."""
    rng = np.random.default_rng(0)
    phi = np.zeros((3, 8))
    phi[:, 6:] = 1e6 * rng.normal(size=(3, 2))
    phi[:, :6] = 1e-3 * rng.normal(size=(3, 6))
    observed = np.ones((1, 8), dtype=bool)
    observed[:, 6:] = False
    batch = Batch(rng.normal(size=(1, 8)), observed)
    found = fast_signal(np.ones((1, 3), dtype=bool), phi, 1.0, 1e-6, batch)
    only = Batch(batch.values[:, :6])
    precision = 1e-6 * np.eye(3) + phi[:, :6] @ phi[:, :6].T
    expected = np.linalg.solve(precision, phi[:, :6] @ only.values[0]) @ phi
    np.testing.assert_allclose(found.mean[0], expected, rtol=1e-6, atol=1e-6)


def test_a_precision_that_has_no_factor_is_left_to_the_specification(monkeypatch):
    """Whatever the scales are, predictions come back."""
    monkeypatch.setattr(_kernels, "signal", lambda *arguments: 1)
    arguments = np.ones((1, 1), dtype=bool), np.ones((1, 2)), 1.0, 1.0, Batch([[3.0, np.nan]])
    for ours, theirs in zip(fast_signal(*arguments), signal(*arguments), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_density_is_that_of_the_gaussian_conditional(case):
    view, batch, truth, hidden, on = case
    found, mean = log_predictive(on, view.phi, view.g_o, view.g_w, batch, truth, hidden)
    np.testing.assert_allclose(mean, signal(on, view.phi, view.g_o, view.g_w, batch).mean, atol=1e-12)
    for i in range(N):
        o, h = batch.observed[i], hidden[i]
        if not h.any():
            assert found[i] == pytest.approx(0.0, abs=1e-12)
            continue
        covariance = joint(view, on[i])

        def log_density(chosen, i=i, covariance=covariance):
            if not chosen.any():
                return 0.0
            return multivariate_normal(cov=covariance[np.ix_(chosen, chosen)]).logpdf(truth[i, chosen])

        assert found[i] == pytest.approx(log_density(o | h) - log_density(o), abs=1e-9)


def test_it_is_the_limit_of_drawing_the_weights(case):
    """Monte Carlo over w given z and the observed entries, to four errors."""
    view, batch, truth, hidden, on = case
    i, M = 3, 200_000
    o, h, phi = batch.observed[i], hidden[i], view.phi[on[i]]
    assert h.any()
    precision = view.g_w * np.eye(len(phi)) + view.g_o * phi[:, o] @ phi[:, o].T
    mean = np.linalg.solve(precision, view.g_o * phi[:, o] @ truth[i, o])
    w = np.random.default_rng(1).multivariate_normal(mean, np.linalg.inv(precision), size=M)
    error2 = ((truth[i, h] - w @ phi[:, h]) ** 2).sum(axis=1)
    log_density = h.sum() / 2 * np.log(view.g_o / (2 * np.pi)) - view.g_o / 2 * error2
    estimate = logsumexp(log_density) - np.log(M)
    relative_error = np.exp(log_density - estimate).std() / M**0.5
    found = log_predictive(on, view.phi, view.g_o, view.g_w, batch, truth, hidden)[0][i]
    assert abs(found - estimate) < 4 * relative_error


def test_rows_do_not_depend_on_how_they_are_grouped(case, monkeypatch):
    view, batch, truth, hidden, on = case
    arguments = (on, view.phi, view.g_o, view.g_w, batch)
    whole = (*signal(*arguments), *log_predictive(*arguments, truth, hidden))
    monkeypatch.setattr("bpfa.model.marginals.GROUP_NUMBERS", 1)
    parts = (*signal(*arguments), *log_predictive(*arguments, truth, hidden))
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
