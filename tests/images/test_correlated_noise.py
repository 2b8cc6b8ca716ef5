"""denoise says if its assumption of independent noise does not hold."""

import warnings

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter, gaussian_filter1d
from skimage import data

from bpfa.images import CorrelatedNoiseWarning, denoise
from bpfa.images.noise.correlation import LARGE_CORRELATION, neighbour_correlation

TINY = {
    "patch_size": 3,
    "n_components": 6,
    "max_steps": 3,
    "n_draws": 2,
    "random_state": 0,
    "n_jobs": 1,
    "refine": None,
}


def picture(name="camera"):
    return getattr(data, name)()[:160, :160].astype(float)


def unit_noise(seed=0, blur=None, shape=(160, 160)):
    noise = np.random.default_rng(seed).normal(size=shape)
    noise = noise if blur is None else blur(noise)
    return noise / noise.std()


@pytest.mark.parametrize(
    "blur",
    [lambda noise: gaussian_filter(noise, 1.0), lambda noise: gaussian_filter1d(noise, 0.8, axis=1)],
    ids=["both axes", "along rows"],
)
def test_correlated_noise_is_told(blur):
    with pytest.warns(
        CorrelatedNoiseWarning, match=r"correlation of 0\.\d\d even in the flattest parts"
    ) as told:
        denoise(picture() + 15 * unit_noise(blur=blur), **TINY)
    assert told[0].filename == __file__


@pytest.mark.parametrize("name", ["camera", "coins", "page", "brick", "moon"])
@pytest.mark.parametrize("noise_std", [10, 40])
def test_independent_noise_is_not(name, noise_std):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        denoise(picture(name) + noise_std * unit_noise(1), **TINY)


def test_noise_of_counts_is_judged_after_the_transform():
    counts = np.random.default_rng(2).poisson(picture() / 10)
    denoise(counts, noise_model="poisson", **TINY)


def test_the_correlation_of_independent_noise_is_zero():
    """Although a polynomial is taken away, and the flattest blocks are chosen."""
    found = [
        neighbour_correlation(unit_noise(seed)[None], np.ones((1, 160, 160), bool)) for seed in range(40)
    ]
    scores = np.array([correlation / error for correlation, error in found])
    # The larger of two independent scores is 0.56 on average, with a standard deviation of 0.83.
    assert abs(scores.mean() - 0.56) < 4 * 0.83 / np.sqrt(40)
    # None of them is worth a warning.
    assert max(correlation for correlation, _ in found) < LARGE_CORRELATION


def test_nothing_is_said_of_pictures_without_whole_blocks():
    noise = unit_noise(blur=lambda noise: gaussian_filter(noise, 1.0))
    missing = np.random.default_rng(3).random(noise.shape) < 0.5
    denoise(noise, missing, **TINY)
    denoise(noise[:20, :20], **TINY)
