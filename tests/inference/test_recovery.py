"""Data drawn from the model are recovered by every algorithm, hidden entries included."""

import numpy as np
import pytest

from bpfa import ALGORITHMS, ArrayRows, algorithm, draw_data, held_out_score, train
from bpfa.inference.starts import random_posterior

NOISE_STD = 0.1


@pytest.fixture(scope="module")
def data():
    return draw_data(2000, 20, 8, g_o=NOISE_STD**-2, g_w=1.0, seed=0)


@pytest.fixture(scope="module")
def hidden(data):
    return np.random.default_rng(1).random(data.y.shape) < 0.1


def fit(data, hidden, name, init="random"):
    n_steps = 60 if name == "gibbs" else 200
    *_, last = train(data.y, 20, missing=hidden, algorithm=name, n_steps=n_steps, init=init, seed=0)
    return last.posterior, held_out_score(last.posterior, data.y, hidden, algorithm(name), seed=0)


def assert_recovered(data, hidden, score):
    variance = data.y.var(axis=0).mean()
    start = random_posterior(ArrayRows(data.y, hidden), 20, seed=0)
    unlearned = held_out_score(start, data.y, hidden, algorithm("gibbs-ssvi"), seed=0)
    assert score.mse < variance / 3
    assert score.mse < unlearned.mse / 3
    assert score.log_likelihood > unlearned.log_likelihood + 0.5
    # Not even the truth predicts better than the noise: a smaller error would mean that something leaks.
    assert score.mse > 0.9 * NOISE_STD**2


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_recovers(data, hidden, name):
    posterior, score = fit(data, hidden, name)
    assert_recovered(data, hidden, score)
    if "gibbs" in name or name == "mimno-svi":
        assert abs(posterior.noise_std / NOISE_STD - 1) < 0.2


@pytest.mark.parametrize("init", ["data", "gibbs"])
def test_every_initialisation_recovers(data, hidden, init):
    _, score = fit(data, hidden, "gibbs-ssvi", init)
    assert_recovered(data, hidden, score)
