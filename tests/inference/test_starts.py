"""Where the global posterior starts, for data of every odd shape."""

import numpy as np
import pytest

from bpfa import ArrayRows, Priors, draw_data
from bpfa._support.philox import Stream
from bpfa.backends.numpy import Gibbs
from bpfa.inference.starts import (
    common_posterior,
    data_posterior,
    gibbs_posterior,
    principal_posterior,
    random_posterior,
)

INITIALISERS = [random_posterior, data_posterior, gibbs_posterior, principal_posterior, common_posterior]
K = 5


Y = np.random.default_rng(0).normal(size=(40, 6))
DATA = {
    "complete": Y,
    "missing rows": np.where(np.arange(40)[:, None] < 35, np.nan, Y),
    "missing column": np.where(np.arange(6) == 1, np.nan, Y),
    "zeros": 0 * Y,
    "constant": 0 * Y + 3,
    "fewer rows than features": Y[:2],
    "one entry": Y[:1, :1],
}


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("initialise", INITIALISERS)
def test_start_is_usable(initialise, kind):
    rows = ArrayRows(DATA[kind])
    posterior = initialise(rows, K, seed=0)
    assert posterior.features.shape == (K, rows.n_columns)
    assert posterior.n_rows == rows.n_rows
    for view in (posterior.expected(), posterior.sampled(np.random.default_rng(0))):
        view.checked()


@pytest.mark.parametrize("initialise", INITIALISERS)
def test_seed(initialise):
    rows = ArrayRows(Y)
    first, again, other = (initialise(rows, K, seed=seed).features.mu for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("initialise", [random_posterior, data_posterior])
def test_start_knows_the_scale_of_the_data(initialise):
    """Ten times the data: ten times the noise and the weights, the same features."""
    small, large = (initialise(ArrayRows(scale * Y), K, seed=0) for scale in (1.0, 10.0))
    np.testing.assert_allclose(large.noise_std, 10 * small.noise_std)
    np.testing.assert_allclose(large.f / large.e, 100 * small.f / small.e)
    np.testing.assert_allclose(large.expected().phi, small.expected().phi)
    # Features of unit length could make up the variance of the data; at first all of it is called noise.
    signal = small.pi.sum() * (small.f / small.e) / Y.shape[1]
    assert 0.5 < signal / (Y**2).mean() < 2
    np.testing.assert_allclose(small.noise_std**2, (Y**2).mean())


def test_start_with_less_noise_and_more_features():
    start = random_posterior(ArrayRows(Y), 20, seed=0, noise_share=0.25, features_per_row=4.0)
    np.testing.assert_allclose(start.noise_std**2, 0.25 * (Y**2).mean())
    # What the rows would have said of pi, apart from the prior.
    np.testing.assert_allclose((start.a - start.priors.beta(20)[0]).sum() / len(Y), 4.0)


def test_random_features_come_from_their_prior():
    rows = ArrayRows(np.random.default_rng(0).normal(size=(50, 100)))
    phi = random_posterior(rows, 40, seed=0).expected().phi
    # Variance 1/D; the relative error of the estimate from 4000 numbers is (2/4000)^(1/2).
    assert abs(phi.var() * 100 - 1) < 4 * (2 / 4000) ** 0.5


def test_data_features_are_different_rows_of_unit_length():
    phi = data_posterior(ArrayRows(Y), len(Y), seed=0).expected().phi
    np.testing.assert_allclose(np.linalg.norm(phi, axis=1), 1.0)
    cosines = phi @ (Y / np.linalg.norm(Y, axis=1, keepdims=True)).T
    np.testing.assert_allclose(cosines.max(axis=1), 1.0)
    assert len(set(cosines.argmax(axis=1))) == len(Y)


@pytest.mark.parametrize("kind", ["fewer rows than features", "one entry", "zeros"])
def test_data_features_differ_where_rows_run_out(kind):
    phi = data_posterior(ArrayRows(DATA[kind]), K, seed=0).expected().phi
    assert len(np.unique(phi[:, 0])) == K


def test_principal_start_has_the_covariance_of_the_data():
    """Signal and noise of the start make up the data's covariance, as far as two factors can."""
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(2, 6))
    y = rng.normal(size=(4000, 2)) @ loadings + 0.3 * rng.normal(size=(4000, 6))
    y[rng.random(y.shape) < 0.2] = np.nan
    start = principal_posterior(ArrayRows(y), 2, seed=0, features="joint", weight_precision="active")
    view = start.expected()
    phi = view.phi[:, :6]
    covariance = (phi.T * start.pi) @ phi / view.g_w + np.eye(6) / view.g_o
    np.testing.assert_allclose(covariance, loadings.T @ loadings + 0.09 * np.eye(6), atol=0.25)
    assert abs(start.noise_std / 0.3 - 1) < 0.2


def test_principal_start_leaves_columns_to_tell_the_noise():
    start = principal_posterior(ArrayRows(Y), 4, seed=0)
    assert (start.pi > 0.5).sum() == 4
    assert start.noise_std > 0.3


@pytest.mark.parametrize(
    ("start_from", "n_features"), [(common_posterior, 5), (principal_posterior, 9), (principal_posterior, 40)]
)
def test_what_rows_have_in_common(start_from, n_features):
    """Two strong factors are components, a weak one and noise are left to the other features."""
    rng = np.random.default_rng(0)
    strength = np.array([[3.0], [2.0], [0.3]])
    loadings = np.linalg.qr(rng.normal(size=(12, 3)))[0].T * strength * np.sqrt(12)
    y = rng.normal(size=(2000, 3)) @ loadings + 0.5 * rng.normal(size=(2000, 12))
    start = start_from(ArrayRows(y), n_features, seed=0, weight_precision="active")
    assert np.flatnonzero(start.pi > 0.5).tolist() == [0, 1]
    phi = start.features.mean[:2]
    directions = loadings[:2] / np.linalg.norm(loadings[:2], axis=1, keepdims=True)
    np.testing.assert_allclose(
        np.linalg.norm(phi @ directions.T, axis=1), np.linalg.norm(phi, axis=1), rtol=0.01
    )
    assert (start.pi[2:] <= 0.2).all()


def test_rows_of_pure_noise_have_nothing_in_common():
    start = common_posterior(ArrayRows(np.random.default_rng(0).normal(size=(2000, 8))), 20, seed=0)
    assert (start.pi < 0.1).all()


def test_as_many_common_components_as_features():
    """More directions stand out than there are features: the largest are taken."""
    y = np.random.default_rng(0).normal(size=(500, 9)) * [3.0, 2.5, 2.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]
    start = common_posterior(ArrayRows(y), 2, seed=0)
    assert (start.pi > 0.5).all()
    np.testing.assert_array_equal(np.abs(start.features.mean).argmax(axis=1), [0, 1])


@pytest.mark.parametrize("n_subset", [10, 40, 1000])
def test_gibbs_start_speaks_for_all_rows(n_subset):
    rows, priors = ArrayRows(Y), Priors()
    posterior = gibbs_posterior(rows, K, priors, seed=0, n_subset=n_subset, n_sweeps=3)
    a0, b0 = priors.beta(K)
    np.testing.assert_allclose(posterior.a + posterior.b, a0 + b0 + 40)
    np.testing.assert_allclose(posterior.c, priors.c0 + 40 * 6 / 2)
    np.testing.assert_allclose(posterior.e, priors.e0 + 40 * K / 2)


def test_gibbs_start_has_learned():
    """The noise is near its true 0.1, and a step over all rows would not change how much is known."""
    rows = ArrayRows(draw_data(500, 15, 4, g_o=100.0, g_w=1.0, seed=1).y)
    posterior = gibbs_posterior(rows, 8, seed=0, n_sweeps=60)
    assert abs(posterior.noise_std / 0.1 - 1) < 0.2
    view, batch = posterior.expected(), rows.take(np.arange(500))
    sums = Gibbs().sums(view, batch, Stream.from_seed(0).rows(batch.ids, step=1))
    after = posterior.target(sums, view.g_o)
    assert 0.5 < after.features.tau.sum() / posterior.features.tau.sum() < 2


@pytest.mark.parametrize("initialise", INITIALISERS)
def test_data_too_large_for_floating_point_is_refused(initialise):
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=r"values|data|rows"):
        initialise(ArrayRows(np.full((5, 3), 1e200)), K, seed=0)


def test_unused_features_keep_a_direction_after_a_gibbs_run():
    rows = ArrayRows(np.random.default_rng(0).normal(size=(8, 3)))
    start = gibbs_posterior(rows, 40, seed=0, n_subset=8, n_sweeps=3)
    assert (np.abs(start.expected().phi).sum(axis=1) > 0).all()


@pytest.mark.parametrize("n_columns", [240, 300])
def test_columns_that_are_missing_together_do_not_look_like_components(n_columns):
    # Pixels of three channels: all of them show the mean of the row, and noise.
    rng = np.random.default_rng(0)
    missing = np.repeat(rng.random((4000, n_columns // 3)) < 0.5, 3, axis=1)
    y = rng.normal(size=(4000, 1)) + 0.5 * rng.normal(size=missing.shape)
    start = common_posterior(ArrayRows(np.where(missing, np.nan, y)), 64, seed=0)
    assert (start.pi > 0.9).sum() == 1
    assert start.noise_std == pytest.approx(0.5, abs=0.03)
