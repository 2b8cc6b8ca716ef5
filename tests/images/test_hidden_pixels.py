"""Hidden pixels: the factor by which their errors correct standard deviations, and a change of scene."""

import numpy as np
import pytest

from bpfa.images import masks
from bpfa.images.hidden_pixels import Hidden, HiddenPixels


def errors_of_frames(rng, n_frames, n_pixels=250):
    return rng.normal(size=(n_frames, n_pixels))


def factors_of(frames):
    hidden = HiddenPixels(0)
    for errors in frames:
        hidden.add(errors)
        yield hidden.factor()


def hidden_at(picture, seed, n=300):
    """Return hidden pixels of a picture with one channel or several."""
    places = np.random.default_rng(seed).integers(0, picture.size, n)
    channels = places % picture.shape[2] if picture.ndim == 3 else np.zeros_like(places)
    return Hidden(places, picture.ravel()[places].astype(float), channels, np.zeros(n))


def test_frames_that_agree_are_used_together():
    rng = np.random.default_rng(0)
    alone = [next(factors_of([errors])) for errors in errors_of_frames(rng, 200)]
    together = [list(factors_of(errors_of_frames(rng, 5)))[-1] for _ in range(200)]
    assert np.mean(together) == pytest.approx(1.0, abs=0.03)
    assert np.std(together) < 0.75 * np.std(alone)


@pytest.mark.parametrize("scale", [0.6, 1.8])
def test_a_frame_with_other_errors_is_corrected_by_its_own(scale):
    """It used to get intervals of the frames before, if it had few hidden pixels itself."""
    rng = np.random.default_rng(1)
    factors = []
    for _ in range(100):
        frames = [*errors_of_frames(rng, 5), scale * errors_of_frames(rng, 1)[0]]
        factors.append(list(factors_of(frames))[-1])
    assert np.median(factors) == pytest.approx(scale, rel=0.05)


@pytest.mark.parametrize("scale", [0.9, 1.1])
def test_errors_of_another_scene_are_not_used(scale):
    """Even where they differ so little that it could be chance."""
    rng, hidden = np.random.default_rng(1), HiddenPixels(0)
    for errors in errors_of_frames(rng, 5):
        hidden.add(errors)
    hidden.add(scale * rng.normal(size=250), alone=True)
    assert 1000 < hidden.n_wanted < 2000
    hidden.add_more(scale * rng.normal(size=20_000))
    assert hidden.n_wanted == 0
    assert hidden.factor() == pytest.approx(scale, rel=0.02)


def test_frames_without_hidden_pixels_change_nothing():
    hidden = HiddenPixels(0)
    hidden.add(np.random.default_rng(2).normal(size=1000))
    found = hidden.factor()
    hidden.add(np.full(3, np.nan))
    assert hidden.factor() == found
    assert list(factors_of([np.zeros(0)])) == [1.0]


def test_more_hidden_pixels_are_at_most_a_tenth_of_those_observed():
    missing = np.random.default_rng(0).random((300, 300)) > 0.2
    n_observed = (~missing).sum()
    for wanted, expected in ((500, 500), (100_000, 0.1 * n_observed)):
        places = HiddenPixels(0).choose(np.zeros(missing.shape), missing, wanted)
        assert len(places) == pytest.approx(expected, rel=0.15)
        assert not missing.ravel()[places].any()


def scene_of(name, shift=0):
    """Return a picture, without and with channels of quite different means."""
    data = pytest.importorskip("skimage.data")
    picture = getattr(data, name)()[100:228, 100 + shift : 228 + shift].astype(float)
    return picture if picture.ndim == 2 else picture + np.array([0.0, 400.0, 1000.0])


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (("moon", 0), ("moon", 0), False),
        (("moon", 0), ("moon", 1), False),
        (("grass", 0), ("grass", 1), False),
        (("moon", 0), ("grass", 0), True),
        (("coins", 0), ("moon", 0), True),
        (("astronaut", 0), ("astronaut", 1), False),
        (("astronaut", 0), ("coffee", 0), True),
    ],
)
def test_a_picture_that_the_one_before_does_not_explain_is_another_scene(before, now, expected):
    """Also if its features explain it as well as they explained the one before, and it is as bright."""
    hidden, first = HiddenPixels(0), scene_of(*before)
    second = scene_of(*now) * 1.1 + 20
    assert not hidden.shows_another_scene(hidden_at(first, 0), first)
    assert not hidden.shows_another_scene(hidden_at(first, 1), first)
    assert hidden.shows_another_scene(hidden_at(second, 2), second) == expected
    assert not hidden.shows_another_scene(hidden_at(second, 3), second)


@pytest.mark.parametrize(("dose", "expected"), [(0.2, 0.03), (0.5, 600 / 2**15), (1.0, 0.01)])
def test_no_more_pixels_of_small_frames_are_hidden_than_their_factor_needs(dose, expected):
    """Three per cent of half of a small frame were twice as many as suffice, and cost 0.1 to 0.4 dB."""
    missing = masks.random((256, 256), dose, seed=0).missing if dose < 1 else None
    places = HiddenPixels(seed=0).choose(np.zeros((256, 256)), missing)
    assert len(places) / (dose * 256**2) == pytest.approx(expected, rel=0.15)


def test_a_frame_whose_errors_count_alone_has_enough_of_them():
    hidden, values = HiddenPixels(seed=0), np.zeros((512, 512))
    missing = np.random.default_rng(0).random(values.shape) < 0.9
    assert 200 < len(hidden.choose(values, missing)) < 320
    hidden.add(np.zeros(600), alone=True)
    assert 550 < len(hidden.choose(values, missing)) < 650
    hidden.add(np.zeros(600))
    assert 200 < len(hidden.choose(values, missing)) < 320
