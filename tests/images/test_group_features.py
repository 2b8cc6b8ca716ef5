"""The features of single groups, which the report shows."""

import pickle

import numpy as np
import pytest

from bpfa.backends.registry import backend_of
from bpfa.images import denoise, inpaint
from bpfa.images.groups import FinishedGroups
from bpfa.images.groups.plan import plan_groups
from bpfa.prediction.groups import GroupBeliefs

RNG = np.random.default_rng(0)


def finished(picture, noisy=True):
    """The groups of a picture of four axes, before anything was learned."""
    plan = plan_groups(np.ones(picture.shape, bool), noisy=noisy)
    n_columns = plan.size[0] * plan.size[1] * picture.shape[3]
    return FinishedGroups(
        picture.astype(np.float32), plan, GroupBeliefs.of(np.array([0.01]), np.zeros((1, n_columns), int))
    )


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_a_planted_feature_is_found(device):
    """All patches of a slope are equal except for their level: a constant feature explains the rest."""
    picture = 0.01 * RNG.normal(size=(1, 21, 25, 1)) + np.arange(21)[:, None, None]
    (group,) = finished(picture).features(0, [7], [14], backend_of(device).groups)
    assert (group.y, group.x) == (7, 14)
    np.testing.assert_allclose(group.features @ group.features.T, np.eye(len(group.features)), atol=1e-6)
    np.testing.assert_allclose(np.abs(group.features[0]), 1 / 7, atol=0.005)
    assert group.shares[0] == pytest.approx(1, abs=0.01)
    assert (np.diff(group.shares) <= 0).all()
    assert group.shares.sum() <= 1 + 1e-9
    # The mean has the slope of every patch.
    np.testing.assert_allclose(np.diff(group.mean.reshape(7, 7), axis=0), 1, atol=0.02)


def test_places_and_slices():
    stack = RNG.normal(size=(3, 20, 24, 1)) * np.array([1.0, 10.0, 100.0])[:, None, None, None]
    groups = finished(stack)
    kernels = backend_of("cpu").groups
    found = groups.features(1, [0, 8], [0, 5, 12], kernels)
    assert [(group.y, group.x) for group in found] == [(0, 0), (0, 5), (0, 12), (8, 0), (8, 5), (8, 12)]
    alone = groups.features(1, [8], [5], kernels)[0]
    np.testing.assert_array_equal(found[4].mean, alone.mean)
    np.testing.assert_array_equal(found[4].features, alone.features)
    # Another slice has other patches.
    assert not np.allclose(alone.mean, groups.features(2, [8], [5], kernels)[0].mean)


def test_channels_with_models_of_their_own():
    """A feature then has a single channel, and all channels of a group are there."""
    waves = np.sin(np.add.outer(np.arange(40) / 2, np.arange(48) / 3))
    picture = np.stack([waves, waves[::-1]], axis=-1) + 0.01 * RNG.normal(size=(40, 48, 2))
    missing = np.random.default_rng(1).random((40, 48)) < 0.4
    given = {"n_components": 8, "max_steps": 5, "random_state": 0, "channel_axis": 2}
    groups = inpaint(picture, missing, **given).groups
    assert groups.plan.separate_channels
    (group,) = groups.features(0, [4], [4], backend_of("cpu").groups)
    # Each feature belongs to one of the uncorrelated channels.
    uncorrelated = group.features.reshape(len(group.features), -1, 2) @ groups.rotation
    used = (np.abs(uncorrelated) > 1e-5).any(axis=1)
    assert (used.sum(axis=1) == 1).all()


def test_flat_pictures_have_groups_without_features():
    (group,) = finished(np.zeros((1, 20, 20, 1))).features(0, [4], [4], backend_of("cpu").groups)
    assert len(group.features) == len(group.shares)
    assert np.isfinite(group.shares).all()
    assert not group.shares.any()


def test_a_result_carries_its_groups():
    picture = np.add.outer(np.arange(24.0), np.arange(20.0) % 5) + RNG.normal(size=(24, 20))
    given = {"n_components": 8, "max_steps": 5, "random_state": 0}
    assert denoise(picture, refine=None, **given).groups is None
    groups = pickle.loads(pickle.dumps(denoise(picture, **given))).groups
    assert groups.picture.shape == (1, 24, 20, 1)
    assert groups.beliefs.rank_counts.sum() > 0
    assert len(groups.features(0, [3], [3], backend_of("cpu").groups)) == 1
