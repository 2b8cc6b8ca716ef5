"""Predictions without draws, by a model in which every row uses every feature."""

import numpy as np
import pytest

from bpfa import algorithm
from bpfa._support.philox import Stream
from bpfa.data import Batch
from bpfa.model.features import FactorisedFeatures, JointFeatures
from bpfa.model.marginals import signal
from bpfa.model.posterior import GlobalPosterior
from bpfa.model.priors import Priors
from bpfa.prediction import missing
from bpfa.prediction.dense_rows import predict_dense_rows, uses_all_features
from bpfa.prediction.missing import MissingPredictor
from bpfa.prediction.predictions import predict

N, D, K = 6, 40, 3
RNG = np.random.default_rng(0)
PHI = RNG.normal(size=(K, D))
Y = RNG.normal(size=(N, K)) @ PHI + 0.3 * RNG.normal(size=(N, D))
SEEN = RNG.random((N, D)) < np.linspace(0.2, 0.95, N)[:, None]
BATCH = Batch(np.where(SEEN, Y, np.nan))


def posterior(*, joint, precision=50.0, idle=1e-5):
    """Return a posterior of features with mean PHI, whose covariance is not diagonal if they are joint."""
    A = 0.3 * np.random.default_rng(1).normal(size=(D, K, K))
    P = precision * (np.eye(K) + A @ A.transpose(0, 2, 1))
    features = FactorisedFeatures.around(PHI, precision)
    if joint:
        features = JointFeatures(P, np.einsum("dkj,jd->kd", P, PHI))
    return GlobalPosterior(
        priors=Priors(),
        n_rows=N,
        a=np.full(K, 1e6),
        b=np.full(K, 1e6 * idle),
        c=1e7,
        d=0.09e7,
        e=1e7,
        f=1e7,
        features=features,
        weight_precision="active",
    )


@pytest.mark.parametrize("joint", [False, True])
def test_features_that_are_known_give_the_exact_distribution(joint):
    known = posterior(joint=joint, precision=1e12)
    found = predict_dense_rows(known, BATCH)
    exact = signal(np.ones((N, K), dtype=bool), PHI, 1 / 0.09, 1.0, BATCH)
    np.testing.assert_allclose(found.mean[~SEEN], exact.mean[~SEEN], rtol=1e-6)
    np.testing.assert_allclose(found.std[~SEEN] ** 2, exact.variance[~SEEN] + 0.09, rtol=1e-5)


@pytest.mark.parametrize("joint", [False, True])
def test_it_agrees_with_draws(joint):
    """The spread of the features widens predictions as much as it does over many draws."""
    uncertain = posterior(joint=joint)
    found = predict_dense_rows(uncertain, BATCH)
    drawn = predict(
        uncertain, BATCH, algorithm("gibbs-ssvi", device="numpy"), n_draws=400, stream=Stream.from_seed(0)
    )
    many = SEEN.mean(axis=1) > 0.5
    hidden = ~SEEN & many[:, None]
    np.testing.assert_allclose(found.mean[hidden], drawn.mean[hidden], atol=0.08)
    np.testing.assert_allclose(found.std[hidden], drawn.std[hidden], rtol=0.08)
    certain = predict_dense_rows(posterior(joint=joint, precision=1e12), BATCH)
    assert (found.std[hidden] > 1.02 * certain.std[hidden]).all()


def test_one_covariance_for_all_columns():
    shared = posterior(joint=True)
    P = shared.features.P[:1]
    h = P[0] @ PHI
    by_column = JointFeatures(np.repeat(P, D, axis=0), h)
    one, other = (
        predict_dense_rows(GlobalPosterior(**{**vars(shared), "features": features}), BATCH)
        for features in (JointFeatures(P, h), by_column)
    )
    np.testing.assert_allclose(one.std, other.std)


def test_blocks_of_rows_do_not_matter(monkeypatch):
    whole = predict_dense_rows(posterior(joint=True), BATCH)
    monkeypatch.setattr("bpfa.prediction.dense_rows.BLOCK_NUMBERS", 2 * K**2)
    np.testing.assert_allclose(predict_dense_rows(posterior(joint=True), BATCH).std, whole.std)


def test_a_row_with_nothing_observed_and_a_row_with_everything():
    whole = Batch(np.stack([np.full(D, np.nan), Y[0]]))
    found = predict_dense_rows(posterior(joint=True), whole)
    np.testing.assert_allclose(found.mean[0], 0, atol=1e-12)
    prior = (PHI**2).sum(axis=0)
    assert (found.std[0] ** 2 >= prior).all()
    assert np.isfinite(found.std).all()


@pytest.mark.parametrize(
    ("idle", "n_rows", "dense"), [(1e-5, N, True), (0.1, N, False), (1e-5, D + 1, False)]
)
def test_it_is_used_for_wide_tables_whose_rows_use_all_features(idle, n_rows, dense, monkeypatch):
    used = []

    def noted(*arguments):
        used.append(True)
        return predict_dense_rows(*arguments)

    monkeypatch.setattr(missing, "predict_dense_rows", noted)
    model = GlobalPosterior(**{**vars(posterior(joint=False, idle=idle)), "n_rows": n_rows})
    assert uses_all_features(model) == (idle < 1e-3)
    chosen = algorithm("gibbs-ssvi", device="numpy")
    MissingPredictor(model, chosen, n_draws=5, stream=Stream.from_seed(0)).predict(BATCH)
    assert bool(used) == dense
