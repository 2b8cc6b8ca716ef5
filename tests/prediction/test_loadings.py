"""A model of the rows made from a model of the columns: its loadings, their spread and their scale."""

import numpy as np
import pytest

from bpfa import ArrayRows, algorithm
from bpfa._support.philox import Stream
from bpfa.data import Batch
from bpfa.model.features import FactorisedFeatures, JointFeatures
from bpfa.model.marginals import weight_moments
from bpfa.model.posterior import GlobalPosterior
from bpfa.model.priors import Priors
from bpfa.prediction.loadings import Loadings, column_loadings, model_of_rows, new_entry_noise

N, D, K = 40, 30, 3
RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=(K, N)) * np.array([[1.0], [2.0], [0.5]])
USED = RNG.random((K, D)) < 0.5
WEIGHTS = RNG.normal(size=(K, D)) * USED
Y = WEIGHTS.T @ SCORES + 0.1 * RNG.normal(size=(D, N))


def transposed_posterior(g_o=100.0):
    """Return a posterior of the transposed model that knows the scores, and has a fourth feature of zeros."""
    phi = np.concatenate([SCORES, np.zeros((1, N))])
    certain = 1e8
    return GlobalPosterior(
        priors=Priors(),
        n_rows=D,
        a=np.array([5000.0, 5000, 5000, 1e-3]),
        b=np.array([5000.0, 5000, 5000, 1e4]),
        c=certain,
        d=certain / g_o,
        e=certain,
        f=certain,
        features=FactorisedFeatures.around(phi, certain),
        weight_precision="active",
    )


def loadings(*, joint, unit=None):
    chosen = algorithm("gibbs-ssvi", device="numpy")
    unit = np.ones(N) if unit is None else unit
    args = transposed_posterior(), ArrayRows(Y / unit), unit, chosen, Stream.from_seed(0)
    return column_loadings(*args, joint=joint)


@pytest.mark.parametrize("joint", [False, True])
def test_loadings_have_the_scale_that_gives_scores_the_mean_square_one(joint):
    found = loadings(joint=joint)
    # The feature that no column uses is left out, and the most used one is first.
    order = np.argsort(-found.probability.sum(axis=1), kind="stable")
    assert order.tolist() == [0, 1, 2]
    rms = np.sqrt((SCORES**2).mean(axis=1))
    expected = WEIGHTS * rms[:, None]
    match = [int(np.argmin(((expected - row) ** 2).sum(axis=1))) for row in found.mean]
    assert sorted(match) == [0, 1, 2]
    np.testing.assert_allclose(found.mean, expected[match], atol=0.12)
    assert found.probability[USED[match] & (np.abs(WEIGHTS[match]) > 0.3)].min() == 1


def test_the_spread_is_that_of_a_regression_on_the_scores():
    found = loadings(joint=True)
    assert found.spread.shape == (D, K, K)
    # In a column that surely uses all three features, the covariance is that of least squares.
    sure = np.flatnonzero((found.probability == 1).all(axis=0))[0]
    rms = np.sqrt((SCORES**2).mean(axis=1))
    covariance = np.linalg.inv(np.eye(K) + 100 * SCORES @ SCORES.T) * np.outer(rms, rms)
    close = [int(np.argmin(((WEIGHTS * rms[:, None] - row) ** 2).sum(axis=1))) for row in found.mean]
    np.testing.assert_allclose(
        found.spread[sure], covariance[np.ix_(close, close)] + 1e-6 * np.eye(K), rtol=0.05
    )
    variances = loadings(joint=False).spread
    assert variances.shape == (K, D)
    np.testing.assert_allclose(variances[:, sure], np.diagonal(found.spread[sure]), rtol=0.8)


def test_rows_with_noise_of_their_own_keep_their_scores():
    unit = np.linspace(0.5, 1.5, N)
    posterior = transposed_posterior()
    phi = posterior.features.mean / unit
    scaled = GlobalPosterior(**{**vars(posterior), "features": FactorisedFeatures.around(phi, 1e8)})
    args = scaled, ArrayRows(Y / unit), unit, algorithm("gibbs-ssvi", device="numpy"), Stream.from_seed(0)
    np.testing.assert_allclose(column_loadings(*args, joint=True).mean, loadings(joint=True).mean, atol=0.1)


@pytest.mark.parametrize("joint", [False, True])
def test_the_model_of_the_rows(joint):
    found = loadings(joint=joint)
    model = model_of_rows(found, transposed_posterior())
    assert isinstance(model.features, JointFeatures if joint else FactorisedFeatures)
    assert (model.n_rows, model.n_columns, model.n_features) == (N, D, K)
    np.testing.assert_allclose(model.features.mean, found.mean, atol=1e-8)
    variance = np.diagonal(found.spread, axis1=1, axis2=2).T if joint else found.spread
    np.testing.assert_allclose(model.features.variance, variance, rtol=1e-6)
    np.testing.assert_allclose(model.pi, 0.9999, atol=1e-5)
    assert model.e / model.f == 1
    assert model.noise_std == pytest.approx(0.1)
    assert model.n_active() == K


def test_a_model_without_any_feature_in_use_keeps_one():
    zeros = np.zeros((1, D), dtype=np.float32)
    nothing = Loadings(np.zeros((1, D)), np.full((1, D), 1e-6), zeros, np.full(D, N))
    assert model_of_rows(nothing, transposed_posterior()).n_features == 1


def test_moments_of_weights_are_those_of_a_regression():
    rng = np.random.default_rng(1)
    phi, y = rng.normal(size=(3, 6)), rng.normal(size=(2, 6))
    y[1, 2] = np.nan
    on = np.array([[True, False, True], [False, False, False]])
    mean, second = weight_moments(on, phi, 4.0, 2.0, Batch(y))
    used = phi[[0, 2]]
    covariance = np.linalg.inv(2 * np.eye(2) + 4 * used @ used.T)
    expected = covariance @ (4 * used @ y[0])
    np.testing.assert_allclose(mean[0, [0, 2]], expected)
    np.testing.assert_allclose(second[0][np.ix_([0, 2], [0, 2])], covariance + np.outer(expected, expected))
    assert mean[0, 1] == 0
    assert (second[0, 1] == 0).all()
    assert (mean[1] == 0).all()
    assert (second[1] == 0).all()


def test_the_number_of_entries_of_every_column_is_counted():
    assert (loadings(joint=True).n_observed == N).all()
    holed = np.where(np.arange(D)[:, None] > np.arange(N), np.nan, Y)
    args = transposed_posterior(), ArrayRows(holed), np.ones(N), algorithm("gibbs-ssvi", device="numpy")
    found = column_loadings(*args, Stream.from_seed(0), joint=False)
    np.testing.assert_array_equal(found.n_observed, N - np.arange(D))


def test_the_noise_of_a_new_entry():
    """Means and noise levels that were estimated from 20 entries widen the distribution of another one."""
    rng = np.random.default_rng(0)
    n_columns, n = 40_000, 20
    seen, new = rng.normal(size=(n_columns, n)), rng.normal(size=n_columns)
    mean, variance = seen.mean(axis=1), seen.var(axis=1, ddof=1)
    unused = Loadings(
        np.zeros((1, n_columns)),
        np.ones((1, n_columns)),
        np.zeros((1, n_columns), dtype=np.float32),
        np.full(n_columns, n),
    )
    # A fit with a common level, and one in which every column has been divided by its own noise.
    common = ((seen - mean[:, None]) ** 2).mean()
    ratio = ((new - mean) ** 2).mean() / common
    assert new_entry_noise(unused, by_column=False) == pytest.approx(ratio, rel=0.03)
    own = (((seen - mean[:, None]) ** 2).mean(axis=1) / variance).mean()
    ratio = ((new - mean) ** 2 / variance).mean() / own
    assert new_entry_noise(unused, by_column=True) == pytest.approx(ratio, rel=0.03)


def test_the_noise_of_the_model_of_the_rows():
    found, transposed = loadings(joint=True), transposed_posterior()
    wider = model_of_rows(found, transposed, 1.21)
    assert wider.noise_std == pytest.approx(1.1 * model_of_rows(found, transposed).noise_std)
