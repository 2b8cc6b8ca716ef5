"""The factor by which hidden pixels correct standard deviations, from this frame and from those before."""

import numpy as np
import pytest

from bpfa.images.hidden_pixels import HiddenPixels


def errors_of_frames(rng, n_frames, n_pixels=250):
    return rng.normal(size=(n_frames, n_pixels))


def test_frames_that_agree_are_used_together():
    rng = np.random.default_rng(0)
    alone = [HiddenPixels(0).factor(errors) for errors in errors_of_frames(rng, 200)]
    together = []
    for _ in range(200):
        hidden = HiddenPixels(0)
        together.append([hidden.factor(errors) for errors in errors_of_frames(rng, 5)][-1])
    assert np.mean(together) == pytest.approx(1.0, abs=0.03)
    assert np.std(together) < 0.75 * np.std(alone)


@pytest.mark.parametrize("scale", [0.6, 1.8])
def test_a_frame_with_other_errors_is_corrected_by_its_own(scale):
    """It used to get intervals of the frames before, if it had few hidden pixels itself."""
    rng = np.random.default_rng(1)
    factors = []
    for _ in range(100):
        hidden = HiddenPixels(0)
        for errors in errors_of_frames(rng, 5):
            hidden.factor(errors)
        factors.append(hidden.factor(scale * errors_of_frames(rng, 1)[0]))
    assert np.median(factors) == pytest.approx(scale, rel=0.05)


def test_frames_without_hidden_pixels_change_nothing():
    hidden = HiddenPixels(0)
    errors = np.random.default_rng(2).normal(size=1000)
    found = hidden.factor(errors)
    assert hidden.factor(np.full(3, np.nan)) == found
    assert HiddenPixels(0).factor(np.zeros(0)) == 1.0
