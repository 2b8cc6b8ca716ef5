"""Features that are dropped, merged and added between steps."""

import numpy as np
import pytest

from bpfa import BPFA, algorithm
from bpfa._support.philox import Stream
from bpfa.data import ArrayRows, Batch
from bpfa.fitting.revision import extended, mapped, revise
from bpfa.inference.starts import principal_posterior
from bpfa.inference.training import train
from bpfa.model.features import FactorisedFeatures, JointFeatures
from bpfa.prediction.scores import held_out_score

N, D = 800, 12
GIBBS = algorithm("gibbs-ssvi", n_jobs=1)


@pytest.fixture(scope="module")
def data():
    """Four factors in noise, some entries missing."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(N, 4)) @ rng.normal(size=(4, D)) + 0.5 * rng.normal(size=(N, D))
    y /= y.std(axis=0)
    y[rng.random(y.shape) < 0.1] = np.nan
    return y


@pytest.fixture(scope="module")
def hidden(data):
    return (np.random.default_rng(1).random(data.shape) < 0.1) & ~np.isnan(data)


def trained(data, hidden, K, features="joint", n_steps=60):
    seen = np.where(hidden, np.nan, data)
    for last in train(  # noqa: B007 - the last one counts
        seen, K, features=features, weight_precision="active", init="principal", n_steps=n_steps, seed=0
    ):
        pass
    return last.posterior


def judge(data, hidden):
    return lambda posterior: held_out_score(posterior, data, hidden, GIBBS, n_draws=10, seed=0).log_likelihood


def look(posterior, data, hidden, most=8):
    batch = Batch(np.where(hidden, np.nan, data))
    return revise(posterior, judge(data, hidden), batch, GIBBS, most=most, stream=Stream.from_seed(0))


def regression(x, y, g_o):
    """Joint features that have seen these rows."""
    P = y.shape[1] * np.eye(x.shape[1]) + g_o * x.T @ x
    return JointFeatures(P[None], g_o * x.T @ y)


@pytest.mark.parametrize(
    "A",
    [np.eye(4)[[0, 2, 3]], np.array([[1.0, 0.7, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])],
    ids=["one dropped", "two merged"],
)
def test_mapped_features_are_those_of_the_mapped_rows(A):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 4)), rng.normal(size=(50, 6))
    found, expected = regression(x, y, 3.0).mapped(A), regression(x @ A.T, y, 3.0)
    np.testing.assert_allclose(found.P, expected.P)
    np.testing.assert_allclose(found.h, expected.h)


def test_independent_features_are_mapped_as_their_own_rows_say():
    rng = np.random.default_rng(0)
    # Twins, the second half as long: what either is used for, the first can be.
    phi, T = rng.normal(size=(1, 5)), np.array([[40.0], [60.0]])
    twins = FactorisedFeatures(5 + T, (5 + T) * np.concatenate([phi, phi / 2]))
    merged = twins.mapped(np.array([[1.0, 0.5]]))
    assert merged.tau[0, 0] == pytest.approx(5 + 40 + 60 / 4)
    np.testing.assert_allclose(merged.mean, phi, rtol=0.05)
    np.testing.assert_array_equal(twins.mapped(np.eye(2)[:1]).mean, twins.mean[:1])


@pytest.mark.parametrize("features", ["joint", "factorised"])
def test_new_features_leave_the_others_alone(data, features):
    posterior = principal_posterior(ArrayRows(data), 3, seed=0, features=features, weight_precision="active")
    phi = np.ones((2, D))
    grown = extended(posterior, phi, use=0.2)
    np.testing.assert_allclose(grown.features.mean, np.concatenate([posterior.features.mean, phi]))
    np.testing.assert_allclose(grown.pi, [*posterior.pi, 0.2, 0.2], atol=0.01)
    assert grown.e / grown.f == pytest.approx(posterior.e / posterior.f)
    again = mapped(grown, np.eye(5)[:3])
    np.testing.assert_allclose(again.features.mean, posterior.features.mean)
    np.testing.assert_allclose(again.a, posterior.a, rtol=1e-6)


def test_a_merged_feature_is_used_by_the_rows_of_both(data):
    posterior = principal_posterior(ArrayRows(data), 3, seed=0)
    a0, b0 = posterior.priors.beta(3)
    shares = np.array([0.5, 0.2, 0.1])
    object.__setattr__(posterior, "a", a0 + N * shares)
    object.__setattr__(posterior, "b", b0 + N * (1 - shares))
    merged = mapped(posterior, np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    np.testing.assert_allclose(merged.pi, [1 - 0.5 * 0.8, 0.1], atol=0.005)


@pytest.mark.parametrize("features", ["joint", "factorised"])
def test_lacking_features_are_added(data, hidden, features):
    posterior = trained(data, hidden, 2, features)
    revision = look(posterior, data, hidden)
    assert revision.kept[-1].startswith("added")
    assert revision.posterior.n_features > 2
    score = judge(data, hidden)
    assert score(revision.posterior) > score(posterior)


def test_no_more_features_than_allowed(data, hidden):
    revision = look(trained(data, hidden, 2), data, hidden, most=2)
    assert revision.posterior.n_features <= 2


def test_twins_are_merged(data, hidden):
    posterior = trained(data, hidden, 4)
    phi = posterior.features.mean
    twins = extended(posterior, np.concatenate([0.8 * phi[:1], -0.7 * phi[1:2]]), use=0.5)
    revision = look(twins, data, hidden, most=4)
    kept = revision.posterior.features.mean
    unit = kept / np.linalg.norm(kept, axis=1, keepdims=True)
    closeness = np.abs(unit @ unit.T) - np.eye(len(unit))
    assert revision.kept
    assert closeness.max() < 0.9
    assert revision.posterior.n_features == 4


def test_a_change_that_does_not_help_is_not_kept(data, hidden):
    posterior = trained(data, hidden, 4)
    scores = iter([0.0, *[-1.0] * 100])
    batch = Batch(np.where(hidden, np.nan, data))
    revision = revise(posterior, lambda _: next(scores), batch, GIBBS, most=8, stream=Stream.from_seed(0))
    assert revision.kept == ()
    assert revision.posterior is posterior


SETTINGS = {"held_out": 0.1, "revise": True, "random_state": 0, "n_jobs": 1}


def test_the_model_chooses_how_many_features_it_has(data):
    model = BPFA(12, init="random", max_steps=600, **SETTINGS).fit(data)
    assert 3 <= len(model.components_) < 12
    assert model.transform(data).shape == (N, len(model.components_))
    assert model.settings_.n_features == 12


def test_a_fit_grows_from_too_few_features(data, hidden):
    """It ends about where one that was told the right number does."""
    seen = np.where(hidden, np.nan, data)
    errors = {}
    for name, K, settings in (("told", 4, {}), ("few", 2, {}), ("grown", None, SETTINGS)):
        # Groups of like rows would make up for missing features.
        model = BPFA(K, max_steps=300, groups=False, **({"random_state": 0} | settings)).fit(seen)
        errors[name] = np.mean((model.impute(seen) - data)[hidden] ** 2)
    assert errors["grown"] < 1.1 * errors["told"] < errors["few"]


def test_a_revised_fit_goes_on_to_the_same_bits(data, tmp_path):
    whole = BPFA(2, max_steps=210, **SETTINGS).fit(data)
    BPFA(2, max_steps=120, **SETTINGS).fit(data, checkpoint=tmp_path / "a.bpfa")
    resumed = BPFA(2, max_steps=210, **SETTINGS).fit(data, resume=tmp_path / "a.bpfa")
    np.testing.assert_array_equal(resumed.components_, whole.components_)
    np.testing.assert_array_equal(resumed.impute(data), whole.impute(data))


@pytest.mark.parametrize(
    ("parameters", "error", "match"),
    [
        ({"revise": True}, ValueError, "nothing is held out"),
        (
            {"revise": True, "held_out": 0.1, "algorithm": "gibbs"},
            ValueError,
            "not available for algorithm='gibbs'",
        ),
        ({"revise": "yes", "held_out": 0.1}, TypeError, "expected True or False"),
    ],
)
def test_what_cannot_be_revised(data, parameters, error, match):
    with pytest.raises(error, match=match):
        BPFA(3, **parameters).fit(data)


@pytest.mark.parametrize("name", ["titsias-ssvi", "mf-ssvi", "mimno-svi", "mf-svi"])
def test_any_algorithm_can_be_revised(data, hidden, name):
    """Of eight features about as many are left as there are factors, four, and predictions are as good."""
    seen, counts, errors = np.where(hidden, np.nan, data), [], []
    for settings in (SETTINGS, SETTINGS | {"revise": False}):
        model = BPFA(8, algorithm=name, max_steps=150, **settings).fit(seen)
        counts.append(len(model.components_))
        errors.append(np.mean((model.impute(seen) - data)[hidden] ** 2))
    assert 3 <= counts[0] <= 6
    assert counts[1] == 8
    # The columns have variance 1.
    assert errors[0] < min(0.25, 1.1 * errors[1])
