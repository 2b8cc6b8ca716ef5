"""A small table with missing entries, a quick fit to it, and comparisons of models."""

import numpy as np

from bpfa import BPFA, draw_data
from bpfa.estimator.storage import pack_posterior

N, D, K = 400, 6, 3
TRUTH = draw_data(N, D, K, g_o=400.0, g_w=1.0, seed=4)
SCALES, MEANS = np.array([1.0, 10.0, 0.1, 5.0, 2.0, 1000.0]), np.array([0.0, -50.0, 3.0, 0.0, 7.0, 1e5])
HIDDEN = np.random.default_rng(0).random((N, D)) < 0.1


def in_units(y):
    """Return the data as a user has it: every column with a mean and a scale of its own."""
    return y * SCALES + MEANS


X = in_units(TRUTH.y)
HOLED = np.where(HIDDEN, np.nan, X)


def model(**parameters):
    """Return an estimator whose fit to the table is quick."""
    return BPFA(**{"n_components": 6, "max_steps": 150, "batch_size": 100, "random_state": 0} | parameters)


def saved(fitted):
    """Save a model in the current folder, and return the name of the file."""
    fitted.save("model.bpfa", with_rows=True)
    return "model.bpfa"


def assert_same_posterior(a, b):
    ours, theirs = pack_posterior(a.posterior_)[0], pack_posterior(b.posterior_)[0]
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


def assert_same_model(a, b):
    assert_same_posterior(a, b)
    assert a.n_steps_ == b.n_steps_
