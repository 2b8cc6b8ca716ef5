"""A noisier copy of a picture decides whether groups do harm."""

import numpy as np
import pytest
from skimage import data, transform

from bpfa._support.philox import Stream
from bpfa.backends.registry import BACKENDS
from bpfa.images.canvas import Canvas
from bpfa.images.groups import refine
from bpfa.images.groups.plan import plan_groups
from bpfa.images.groups.recorrupted import can_be_checked, recorrupted, trusted_weight
from bpfa.images.noise import Stabiliser
from bpfa.images.options import RestorationOptions
from bpfa.images.pipeline import _relearned, fit_patches
from bpfa.images.plan import plan_restoration
from bpfa.images.restore import Restored


def test_a_noisier_copy_is_independent_of_its_counterpart():
    rng = np.random.default_rng(0)
    observed = rng.random((120, 130, 2)) < 0.7
    noise = rng.normal(size=observed.shape) * [0.5, 2.0]
    canvas = Canvas.of(np.where(observed, noise, np.nan), channel_axis=2)
    variance = np.array([0.25, 4.0]) / canvas.scale**2
    copy = recorrupted(canvas, variance, Stream.from_seed(0))
    noisier = copy.canvas.values
    for channel in range(2):
        seen = canvas.observed[..., channel]
        a, b = noisier[..., channel][seen], copy.other[..., channel][seen]
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.03
        assert np.var(a) == pytest.approx(1.5 * variance[channel], rel=0.05)
    assert (noisier[~canvas.observed] == 0).all()


def stabilised_counts(expected, gain=2.0):
    """A picture of Poisson counts times a gain, on the scale on which their noise has the same variance."""
    counts = gain * np.random.default_rng(1).poisson(expected)
    return Canvas.of(counts).stabilised(Stabiliser("poisson", np.array([gain]), np.zeros(1), np.zeros(1)))


def test_counts_are_divided_into_independent_copies():
    expected = np.full((150, 140), 6.0)
    canvas = stabilised_counts(expected)
    copy = recorrupted(canvas, np.ones(1), Stream.from_seed(0))
    noisier = copy.canvas.stabiliser
    pixels = copy.canvas.pixels()
    assert noisier.gain[0] == pytest.approx(3.0)
    assert np.std(pixels) == pytest.approx(1.0, rel=0.05)
    assert np.mean(copy.other) == pytest.approx(12.0, rel=0.02)
    assert np.mean(copy.pixels(np.full((1, 1, 1, 1), copy.canvas.values.mean()))) == pytest.approx(
        12, rel=0.02
    )
    assert abs(np.corrcoef(pixels.ravel(), copy.other.ravel())[0, 1]) < 0.03


def test_groups_that_do_harm_to_counts_have_less_weight():
    """As for Gaussian noise; before counts were divided, groups of counts always had the weight 1."""
    expected = 20 * np.random.default_rng(0).random((64, 64)) + 2
    canvas = stabilised_counts(expected)

    def truth(changed):
        stable = changed.stabiliser.transform(2.0 * expected[None, :, :, None])
        value = (stable - changed.mean) / changed.scale
        return Restored(value, np.full(value.shape, 0.1), np.ones(value.shape, bool))

    plan = plan_groups(canvas.observed, noisy=True)
    settings = {"noisy": True, "restore": truth, "stream": Stream.from_seed(0)}
    found = refine(canvas, truth(canvas), 1 / canvas.scale**2, plan, BACKENDS["cpu"].groups, **settings)
    assert found.weight < 0.2


def test_read_noise_cannot_be_divided():
    noise = Stabiliser("poisson-gaussian", np.ones(1), np.ones(1), np.zeros(1))
    counts = np.random.default_rng(0).poisson(9.0, size=(30, 30)).astype(float)
    assert not can_be_checked(Canvas.of(counts).stabilised(noise))


def test_a_dictionary_forgets_the_noise_before_it_judges_groups():
    """Only that of a noisy picture, and only if the noisier copy has enough patches to learn from."""
    camera = transform.downscale_local_mean(data.camera().astype(float), (2, 2))[40:120, 60:132]
    canvas = Canvas.of(camera + np.random.default_rng(0).normal(scale=20.0, size=camera.shape))
    for noisy in (True, False):
        plan = plan_restoration(
            canvas, RestorationOptions(n_components=32, max_steps=20, random_state=0), noisy=noisy
        )
        model = fit_patches(canvas, plan)
        assert (_relearned(model, canvas, plan) is model) == (not noisy)
        part = Canvas.of(camera[:20, :20])
        assert _relearned(model, part, plan) is model


def test_groups_lose_weight_only_where_they_are_found_to_do_harm():
    rng = np.random.default_rng(0)
    truth, noise = rng.normal(size=5000), rng.normal(size=5000)
    good, bad = truth + 0.2 * rng.normal(size=5000), truth + 0.6 * rng.normal(size=5000)
    assert trusted_weight(truth + noise, bad, good) == 1
    assert trusted_weight(truth + noise, good, bad) < 0.3
    assert trusted_weight((truth + noise)[:20], good[:20], bad[:20]) == 1
    assert trusted_weight(truth, good, good) == 1


def test_groups_that_do_harm_to_a_noisy_picture_have_less_weight():
    """Groups of a picture without any structure, on top of a dictionary that knows the truth."""
    rng = np.random.default_rng(0)
    texture = rng.normal(size=(64, 64))
    canvas = Canvas.of(texture + 0.5 * rng.normal(size=texture.shape))
    truth = (texture[None, :, :, None] - canvas.mean) / canvas.scale
    restored = Restored(truth, np.full(truth.shape, 0.1), np.ones(truth.shape, bool))
    plan = plan_groups(canvas.observed, noisy=True)
    settings = {"noisy": True, "restore": lambda changed: restored, "stream": Stream.from_seed(0)}
    noise = 0.25 / canvas.scale**2
    found = refine(canvas, restored, noise, plan, BACKENDS["cpu"].groups, **settings)
    assert found.weight < 0.1
    assert np.std(found.restored.mean - truth) < 0.1
