"""Predictions of missing entries: how many draws they take, and that these suffice."""

import numpy as np
import pytest
from builders import random_posterior

from bpfa import Batch, algorithm
from bpfa._support.philox import Stream
from bpfa.backends.cpu.backend import CpuBackend
from bpfa.prediction import missing
from bpfa.prediction.missing import MissingPredictor
from bpfa.prediction.predictions import predict

STREAM = Stream.from_seed(0)


def table(n_rows=200, n_columns=6):
    rng = np.random.default_rng(0)
    return Batch(rng.normal(size=(n_rows, n_columns)), rng.random((n_rows, n_columns)) < 0.7)


def posterior_of(scale, n_features=3):
    """A posterior whose draws are the more alike the larger `scale` is."""
    posterior = random_posterior(np.random.default_rng(0), 1000, n_features, 6, joint=True)
    features = type(posterior.features)(posterior.features.P * scale, posterior.features.h * scale)
    changed = {name: getattr(posterior, name) * scale for name in "abcdef"}
    return type(posterior)(posterior.priors, 1000, **changed, features=features)


@pytest.fixture
def draws_taken(monkeypatch):
    """Record the numbers of draws and rows of every call."""
    calls, original = [], CpuBackend.add_draws

    def recorded(self, found, views, batch, *arguments, **options):
        calls.append((len(views), len(batch)))
        return original(self, found, views, batch, *arguments, **options)

    monkeypatch.setattr(CpuBackend, "add_draws", recorded)
    return calls


def test_predictions_agree_with_those_of_all_entries():
    batch, posterior, chosen = table(100), posterior_of(5.0), algorithm("gibbs-ssvi")
    found = MissingPredictor(posterior, chosen, n_draws=1000, stream=STREAM).predict(batch)
    expected = predict(posterior, batch, chosen, n_draws=1000, stream=STREAM)
    difference = np.where(batch.observed, 0.0, (found.mean - expected.mean) / expected.std)
    assert np.abs(difference).max() < 0.15
    ratio = np.where(batch.observed, 1.0, found.std / expected.std)
    assert np.abs(ratio - 1).max() < 0.15


def test_variational_rows_are_predicted_as_before():
    batch, posterior, chosen = table(20), posterior_of(5.0), algorithm("titsias-ssvi")
    found = MissingPredictor(posterior, chosen, n_draws=5, stream=STREAM).predict(batch)
    expected = predict(posterior, batch, chosen, n_draws=5, stream=STREAM)
    np.testing.assert_array_equal(found.mean, expected.mean)


def test_rows_that_have_settled_take_no_further_draws(draws_taken):
    batch = table()
    MissingPredictor(posterior_of(1e6), algorithm("gibbs-ssvi"), n_draws=64, stream=STREAM).predict(batch)
    assert [n for n, _ in draws_taken] == [16, 16, 32]
    rows = [rows for _, rows in draws_taken]
    assert rows[0] == 200 > rows[1] > rows[2]
    draws_taken.clear()
    MissingPredictor(posterior_of(0.1), algorithm("gibbs-ssvi"), n_draws=64, stream=STREAM).predict(batch)
    assert sum(n for n, _ in draws_taken) == 64


def test_the_prediction_of_a_row_depends_on_the_row_alone():
    batch, posterior = table(), posterior_of(5.0)
    predictor = MissingPredictor(posterior, algorithm("gibbs-ssvi"), n_draws=40, stream=STREAM)
    together = predictor.predict(batch)
    some = np.array([150, 3, 77])
    again = predictor.predict(Batch(batch.values[some], batch.observed[some]))
    for a, b in zip(together, again, strict=True):
        np.testing.assert_array_equal(a[some], b)


def test_few_draws_in_memory_give_the_same_predictions(monkeypatch):
    """The rounds are shorter, so rows may stop earlier, but none can if all draws are needed."""
    batch, posterior = table(20), posterior_of(0.1)
    monkeypatch.setattr(missing, "SETTLED", 0.0)
    found = []
    for numbers in (2**23, 5 * 18):
        monkeypatch.setattr(missing, "DRAWN_NUMBERS", numbers)
        predictor = MissingPredictor(posterior, algorithm("gibbs-ssvi"), n_draws=40, stream=STREAM)
        found += [predictor.predict(batch), predictor.predict(batch)]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].mean, other.mean)
        np.testing.assert_array_equal(found[0].std, other.std)


def test_rows_that_differ_in_many_features_are_predicted_by_chains_with_weights(draws_taken):
    batch, posterior = table(20), posterior_of(1.0, n_features=60)
    MissingPredictor(posterior, algorithm("gibbs-ssvi"), n_draws=2, stream=STREAM).predict(batch)
    assert draws_taken == []
