"""The variance of the noise of each channel, from the flat parts of a picture."""

import numpy as np
import pytest
from skimage import data

from bpfa.images import denoise
from bpfa.images.noise import channel_noise


@pytest.fixture(scope="module")
def waves():
    """A picture of which one half is flat and the other one a fine texture."""
    x = np.indices((128, 128))[1]
    texture = 30 * np.random.default_rng(5).normal(size=(128, 128))
    return (x / 4 + np.where(x < 64, 0, texture))[None, :, :, None]


def test_texture_is_not_taken_for_noise(waves):
    noisy = waves + np.random.default_rng(0).normal(scale=5.0, size=waves.shape)
    found = channel_noise(noisy, np.ones(noisy.shape, bool), 400.0)
    assert found[0] == pytest.approx(25.0, rel=0.1)


def test_the_dictionary_limits_the_mean_of_the_channels(waves):
    noisy = waves + np.random.default_rng(0).normal(size=(1, 128, 128, 3)) * [4.0, 8.0, 16.0]
    observed = np.ones(noisy.shape, bool)
    np.testing.assert_allclose(channel_noise(noisy, observed, 400.0), [16.0, 64.0, 256.0], rtol=0.2)
    limited = channel_noise(noisy, observed, 56.0)
    assert limited.mean() == pytest.approx(56.0)
    np.testing.assert_allclose(limited / limited[0], [1.0, 4.0, 16.0], rtol=0.2)


def test_a_picture_without_flat_parts_has_the_noise_of_the_dictionary():
    rng = np.random.default_rng(0)
    few = rng.normal(size=(1, 12, 12, 1))
    assert channel_noise(few, np.ones(few.shape, bool), 3.0) == pytest.approx(3.0)


def test_missing_pixels_do_not_matter(waves):
    rng = np.random.default_rng(0)
    noisy = waves + rng.normal(scale=5.0, size=waves.shape)
    observed = rng.random(noisy.shape) < 0.5
    found = channel_noise(np.where(observed, noisy, 1e6), observed, 400.0)
    assert found[0] == pytest.approx(25.0, rel=0.2)


def test_clipped_pixels_are_not_flat():
    """A dark background that was clipped to 0 has less noise than the rest."""
    rng = np.random.default_rng(0)
    picture = np.where(np.arange(256) < 128, 0.0, 100.0) + rng.normal(scale=10.0, size=(1, 256, 256))
    noisy = np.clip(picture, 0, 255)[..., None]
    found = channel_noise(noisy, np.ones(noisy.shape, bool), 200.0)
    assert found[0] == pytest.approx(100.0, rel=0.1)


def test_each_colour_has_its_own_noise():
    """The dictionary has one noise for all standardised channels, which has been too large for some."""
    picture = data.coffee()[100:180, 200:280].astype(float) * [1.0, 0.5, 0.2]
    noisy = picture + np.random.default_rng(0).normal(scale=10.0, size=picture.shape)
    result = denoise(noisy, channel_axis=2, n_components=32, max_steps=60, n_draws=2, random_state=0)
    np.testing.assert_allclose(result.noise_std, 10.0, rtol=0.15)
