"""The start of fits that are to be read: components rotated to a simple structure."""

import numpy as np
import pytest

from bpfa import ArrayRows
from bpfa.inference.rotated_start import most_unequal_rotation
from bpfa.inference.starts import common_posterior
from bpfa.inference.varimax_start import simple_structure, varimax_posterior

RNG = np.random.default_rng(0)
Y = RNG.normal(size=(40, 6))
DATA = {
    "complete": Y,
    "missing rows": np.where(np.arange(40)[:, None] < 35, np.nan, Y),
    "missing column": np.where(np.arange(6) == 1, np.nan, Y),
    "zeros": 0 * Y,
    "constant": 0 * Y + 3,
    "fewer rows than features": Y[:2],
    "two values, spread evenly": np.sign(Y[:, :1]) @ np.ones((1, 6)) + 0.01 * Y,
}


def sparse_rows(n_rows=3000, share=0.3):
    """Return rows that use each of three features with this probability, and the features."""
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(n_rows, 3)) * (rng.random((n_rows, 3)) < share)
    features = rng.normal(size=(3, 10))
    return weights @ features + 0.1 * rng.normal(size=(n_rows, 10)), features


def matched(found, features):
    """Return the absolute cosine of every feature with the nearest one that was found."""
    found = found / np.linalg.norm(found, axis=1, keepdims=True)
    features = features / np.linalg.norm(features, axis=1, keepdims=True)
    return np.abs(found @ features.T).max(axis=0)


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("n_features", [1, 3])
def test_start_is_usable(kind, n_features):
    posterior = varimax_posterior(ArrayRows(DATA[kind]), n_features, seed=0)
    assert posterior.features.shape == (n_features, 6)
    posterior.sampled(np.random.default_rng(0)).checked()


def test_features_that_rows_use_are_found():
    values, features = sparse_rows()
    posterior = varimax_posterior(ArrayRows(values), 3, seed=0)
    assert (matched(posterior.features.mean, features) > 0.97).all()
    np.testing.assert_allclose(posterior.pi, 0.5, atol=0.01)


def test_a_few_extreme_rows_do_not_decide():
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(3000, 3)) * (rng.random((3000, 3)) < 0.3)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turned = weights @ turn
    turned[:3] = 15 * rng.normal(size=(3, 3))
    assert (np.abs(turn @ simple_structure(turned)).max(axis=0) > 0.99).all()
    # This rotation, which follows fourth powers, is misled by them.
    assert not (np.abs(turn @ most_unequal_rotation(turned)).max(axis=0) > 0.99).all()


def test_a_level_that_all_rows_have_is_not_rotated():
    values, _ = sparse_rows()
    level = np.random.default_rng(3).uniform(-30, 30, size=(len(values), 1))
    posterior = varimax_posterior(ArrayRows(values + level), 4, seed=0)
    assert posterior.pi.round(1).tolist() == [1.0, 0.5, 0.5, 0.5]
    first = posterior.features.mean[0]
    assert np.ptp(first) < 0.1 * np.abs(first).mean()


def test_the_rotation_is_orthogonal():
    rotation = simple_structure(RNG.normal(size=(200, 4)))
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(4), atol=1e-12)


def test_with_too_few_columns_it_is_the_common_start():
    rows = ArrayRows(Y)
    found, expected = (
        start(rows, 5, seed=0).features.mean for start in (varimax_posterior, common_posterior)
    )
    np.testing.assert_array_equal(found, expected)
