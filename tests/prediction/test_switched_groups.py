"""Groups that may use some features only predict rows better where their rows do, and no worse elsewhere."""

import numpy as np
import pytest

from bpfa.backends.registry import backend_of
from bpfa.data import Batch
from bpfa.model.row_features import FeatureGroups
from bpfa.model.row_groups import KeptRows
from bpfa.prediction.groups import GroupMixture, GroupPredictor

N_COLUMNS, N_FEATURES = 60, 16


def rows_of_kinds(n_used, seed=0, n_rows=1200):
    """Rows of six kinds, each with a mean and some of the features, and how they would be described."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(N_FEATURES, N_COLUMNS))
    used = np.array([rng.permutation(N_FEATURES) < n_used for _ in range(6)])
    kind, means = rng.integers(6, size=n_rows), 2 * rng.normal(size=(6, N_COLUMNS))
    weights = rng.normal(size=(n_rows, N_FEATURES)) * used[kind]
    values = means[kind] + weights @ phi + rng.normal(size=(n_rows, N_COLUMNS))
    variance = np.full(N_FEATURES, n_used / N_FEATURES)
    return values, FeatureGroups(phi, variance, 1.0, np.zeros(0, np.int32))


def density(values, features, *, switched):
    """Mean log density of hidden entries of some rows under groups of the others."""
    some, others = values[:150], values[150:].astype(np.float32)
    mixture = GroupMixture(feature_members=(60,), feature_weights=(1.0,), feature_switched=(switched,))
    predictor = GroupPredictor(
        mixture,
        KeptRows(others, np.zeros_like(others)),
        np.eye(N_COLUMNS, dtype=np.float32),
        backend_of("cpu").row_groups,
        features=features,
    )
    hidden = np.random.default_rng(1).random(some.shape) < 0.2
    batch = Batch(np.where(hidden, np.nan, some))
    found = [part.rows.log_density[0] for _, part in predictor.students(batch, some, hidden)]
    return np.concatenate(found).sum() / hidden.sum()


def gain(n_used):
    values, features = rows_of_kinds(n_used)
    return density(values, features, switched=True) - density(values, features, switched=False)


def test_switches_gain_where_groups_use_some_features_only():
    assert gain(4) > 0.02


def test_switches_lose_nothing_where_groups_use_all_features():
    assert gain(N_FEATURES) == pytest.approx(0.0, abs=0.01)


def test_the_odds_are_learned_from_all_groups():
    values, features = rows_of_kinds(4)
    kept = KeptRows(values.astype(np.float32), np.zeros_like(values, np.float32))
    mixture = GroupMixture(feature_members=(60,), feature_weights=(1.0,), feature_switched=(True,))
    kernels = backend_of("cpu").row_groups
    predictor = GroupPredictor(mixture, kept, np.eye(N_COLUMNS, dtype=np.float32), kernels, features=features)
    log_odds = predictor._features.log_odds
    often = 1 / (1 + np.exp(-log_odds))
    # A quarter of the features of a group are in use, and the kinds are equally large.
    assert 0.15 < often.mean() < 0.35
