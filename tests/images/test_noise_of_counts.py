"""The noise of counts: the transform and its inverse, what is learned, and what becomes of pictures."""

import logging

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from scipy.stats import norm, poisson
from skimage import data, transform

from bpfa.images import denoise, inpaint
from bpfa.images.noise import Stabiliser, choose_noise, relation
from bpfa.images.noise.anscombe import UnbiasedInverse, anscombe, expected_anscombe
from bpfa.images.noise.blocks import blocks_of
from bpfa.images.noise.relation import fit_line

# Enough to learn something, and no more.
FEW = {"n_components": 48, "max_steps": 60, "n_draws": 4, "random_state": 0, "n_jobs": 1, "refine": None}
TINY = FEW | {"patch_size": 3, "n_components": 6, "max_steps": 3, "n_draws": 2}
ONE = np.ones(1)


@pytest.fixture(scope="module")
def scene():
    """A part of scikit-image's picture at half its size: 96 x 96, from 0 to 1."""
    small = transform.downscale_local_mean(data.camera() / 255, (2, 2))[40:136, 60:156]
    return small / small.max()


@pytest.fixture(scope="module")
def ground():
    """Smooth ground with edges: 160 x 160, from 0.05 to 1."""
    smooth = gaussian_filter(np.random.default_rng(5).normal(size=(160, 160)), 12)
    smooth += 0.03 * (np.arange(160) > 70)
    smooth -= smooth.min()
    return 0.05 + 0.95 * smooth / smooth.max()


def chosen(pixels, noise_model="auto", observed=None, **given):
    values = np.asarray(pixels, float)[None, ..., None]
    seen = np.ones(values.shape, bool) if observed is None else observed[None, ..., None]
    return choose_noise(values, seen, noise_model, **given)


def exact_expectation(mean, read_noise):
    """Sum over all counts and, if there is read noise, a very fine grid of it."""
    counts = np.arange(int(mean + 15 * np.sqrt(mean) + 30))
    if read_noise == 0:
        given_count = anscombe(counts)
    else:
        grid = np.linspace(-9, 9, 200_001)
        weight = norm.pdf(grid) / norm.pdf(grid).sum()
        given_count = np.array([anscombe(k + read_noise * grid, read_noise) @ weight for k in counts])
    return poisson.pmf(counts, mean) @ given_count


@pytest.mark.parametrize("read_noise", [0.0, 0.3, 1.5, 12.0])
@pytest.mark.parametrize("mean", [0.0, 0.05, 0.7, 3.0, 40.0, 130.0])
def test_the_inverse_is_unbiased(mean, read_noise):
    expected = exact_expectation(mean, read_noise)
    assert expected_anscombe([mean], read_noise)[0] == pytest.approx(expected, abs=1e-5)
    inverse = UnbiasedInverse(read_noise, largest=100.0)
    # The slope of the inverse is the root of the variance of a count.
    assert inverse([expected])[0] == pytest.approx(mean, abs=2e-5 * np.sqrt(1 + mean + read_noise**2))


def test_the_algebraic_inverse_is_not():
    assert abs((exact_expectation(3.0, 0.0) / 2) ** 2 - 0.375 - 3.0) > 0.2


def test_the_inverse_of_large_counts():
    means = np.array([1e3, 65_535.0, 1e9])
    inverse = UnbiasedInverse(2.0, largest=float(expected_anscombe(means, 2.0).max()))
    np.testing.assert_allclose(inverse(expected_anscombe(means, 2.0)), means, rtol=1e-6)
    # Below what no signal gives, the signal is 0.
    assert inverse([0.0])[0] == 0.0


def test_mean_and_deviation_go_through_the_inverse():
    noise = Stabiliser("poisson-gaussian", 2.5 * ONE, 1.5 * ONE, 7 * ONE)
    stable, std = np.array([[3.0], [6.0], [20.0]]), np.array([[0.3], [0.5], [0.2]])
    draws = noise.mean(stable + std * np.random.default_rng(0).normal(size=(200_000, 3, 1)))
    np.testing.assert_allclose(noise.mean(stable, std), draws.mean(axis=0), rtol=3e-3)
    np.testing.assert_allclose(noise.deviation(stable, std), draws.std(axis=0), rtol=1e-2)
    # With nothing unknown, it is the inverse itself.
    np.testing.assert_allclose(noise.mean(stable, 0 * std), noise.mean(stable))
    assert not noise.deviation(stable, 0 * std).any()


@pytest.mark.parametrize(
    ("gain", "peak", "share"), [(1.0, 10, 1.0), (1.0, 100, 0.5), (7.5, 40, 1.0), (0.01, 10, 0.3)]
)
def test_the_gain_is_learned(ground, gain, peak, share):
    rng = np.random.default_rng(1)
    pixels, observed = gain * rng.poisson(peak * ground), rng.random(ground.shape) < share
    noise = chosen(np.where(observed, pixels, 1e6), "poisson", observed)
    assert noise.gain[0] == pytest.approx(gain, rel=0.05 if share > 0.4 else 0.1)
    assert (noise.read_noise[0], noise.offset[0]) == (0, 0)


def mixed(ground, seed):
    rng = np.random.default_rng(seed)
    return 3 * rng.poisson(60 * ground) + rng.normal(scale=8.0, size=ground.shape)


def test_gain_and_read_noise_are_learned_without_bias(ground):
    """The gain of one picture of this size has an error of 5 %, which it states; the mean of many has not."""
    observed = np.ones((1, 160, 160), bool)
    lines = [fit_line(blocks_of(mixed(ground, seed)[None], observed)) for seed in range(20)]
    gains = np.array([line.slope for line in lines])
    assert gains.mean() == pytest.approx(3, rel=0.04)
    assert np.mean([line.intercept for line in lines]) == pytest.approx(64, rel=0.1)
    scores = (gains - 3) / [line.slope_error for line in lines]
    assert 0.6 < scores.std() < 1.5


def test_what_is_known_of_the_noise_is_used(ground):
    pixels = mixed(ground, 2)
    with_gain = chosen(pixels, "poisson-gaussian", gain=3.0)
    assert with_gain.gain[0] == 3
    assert with_gain.read_noise[0] == pytest.approx(8, rel=0.1)
    with_read_noise = chosen(pixels, "poisson-gaussian", read_noise=8.0)
    assert with_read_noise.read_noise[0] == 8
    assert with_read_noise.gain[0] == pytest.approx(3, rel=0.05)
    with_both = chosen(pixels, "poisson-gaussian", gain=2.0, read_noise=1.0)
    assert (with_both.gain[0], with_both.read_noise[0]) == (2, 1)


def test_an_offset_is_learned(ground):
    noise = chosen(100 + 2 * np.random.default_rng(3).poisson(50 * ground), "poisson-gaussian")
    assert noise.gain[0] == pytest.approx(2, rel=0.06)
    assert noise.offset[0] == pytest.approx(100, rel=0.06)
    assert noise.read_noise[0] == 0


@pytest.mark.parametrize("seed", range(3))
def test_auto_finds_out(ground, seed, caplog):
    rng = np.random.default_rng(seed)
    with caplog.at_level(logging.INFO, logger="bpfa"):
        assert chosen(rng.normal(100 * ground, 10.0)) is None
        assert "Gaussian noise" in caplog.text
        caplog.clear()
        assert chosen(rng.poisson(10 * ground)).kind == "poisson"
        assert "poisson noise, gain" in caplog.text
    assert chosen(mixed(ground, seed)).kind == "poisson-gaussian"


@pytest.mark.parametrize("name", ["astronaut", "coffee", "rocket", "chelsea"])
def test_auto_is_not_misled_by_texture(name):
    """Pictures on which its thresholds were not chosen, or other parts of them."""
    picture = getattr(data, name)()[100:260, 100:260, 2].astype(float)
    rng = np.random.default_rng(4)
    assert chosen(picture + rng.normal(scale=20.0, size=picture.shape)) is None
    assert chosen(rng.poisson(10 * picture / picture.max())).kind.startswith("poisson")


def test_channels_share_a_gain_unless_they_differ(ground):
    rng, observed = np.random.default_rng(6), np.ones((1, 160, 160, 3), bool)
    counts = rng.poisson(30 * np.stack([ground] * 3, axis=-1))[None].astype(float)
    same = choose_noise(counts, observed, "poisson")
    assert len(set(same.gain)) == 1
    other = choose_noise(counts * [1.0, 2.0, 4.0], observed, "poisson")
    np.testing.assert_allclose(other.gain, [1, 2, 4], rtol=0.06)


def test_a_picture_of_few_counts_is_restored_better(scene):
    signal = 10 * scene
    counts = np.random.default_rng(1).poisson(signal).astype(float)
    gaussian, found = denoise(counts, **FEW), denoise(counts, noise_model="auto", **FEW)
    assert (gaussian.noise_model, gaussian.gain, gaussian.read_noise) == ("gaussian", None, None)
    assert found.noise_model == "poisson"
    assert found.gain == pytest.approx(1, rel=0.1)
    assert found.noise_std == pytest.approx(np.sqrt(signal.mean()), rel=0.1)
    error = found.image - signal
    assert np.mean(error**2) < 0.8 * np.mean((gaussian.image - signal) ** 2)
    assert abs(error.mean()) < 0.05
    assert 0.90 < (np.abs(error) < 1.96 * found.std).mean() < 0.995
    # The deviation follows the signal.
    bright, dark = signal > 6, signal < 1
    assert found.std[bright].mean() > 2 * found.std[dark].mean()


def test_groups_restore_counts_with_honest_deviations(scene):
    signal = 10 * scene
    counts = np.random.default_rng(1).poisson(signal).astype(float)
    result = denoise(counts, noise_model="poisson", **FEW | {"refine": "groups"})
    error = result.image - signal
    assert result.stage == "groups"
    assert np.mean(error**2) < np.mean((result.dictionary_image - signal) ** 2)
    assert 0.90 < (np.abs(error) < 1.96 * result.std).mean() < 0.99


def test_missing_pixels_of_counts(scene):
    rng = np.random.default_rng(7)
    signal, missing = 20 * scene, rng.random(scene.shape) < 0.4
    counts = rng.poisson(signal).astype(np.uint16)
    filled = inpaint(np.where(missing, 0, counts).astype(np.uint16), missing, noise_model="poisson", **FEW)
    assert filled.image.dtype == np.uint16
    np.testing.assert_array_equal(filled.image[~missing], counts[~missing])
    assert (filled.std[~missing] == 0).all()
    error = (filled.image - signal)[missing]
    assert np.sqrt(np.mean(error**2)) < 0.1 * signal.max()
    whole = denoise(np.where(missing, np.nan, counts), noise_model="poisson", **FEW)
    assert 0.90 < (np.abs(whole.image - signal) < 1.96 * whole.std).mean() < 0.995


def test_auto_leaves_the_bits_of_gaussian_noise(scene):
    noisy = 100 * scene + np.random.default_rng(8).normal(scale=10.0, size=scene.shape)
    default, auto = denoise(noisy, **TINY), denoise(noisy, noise_model="auto", **TINY)
    assert auto.noise_model == "gaussian"
    np.testing.assert_array_equal(default.image, auto.image)
    np.testing.assert_array_equal(default.std, auto.std)


def test_colours_and_types(ground):
    rng = np.random.default_rng(9)
    counts = rng.poisson(8 * np.stack([ground, 0.5 * ground], axis=0)).astype(np.uint8)
    result = denoise(counts, channel_axis=0, noise_model="poisson", **TINY)
    assert (result.image.shape, result.image.dtype) == (counts.shape, np.uint8)
    assert result.gain.shape == result.read_noise.shape == result.noise_std.shape == (2,)


def test_a_constant_picture():
    assert denoise(np.full((40, 40), 3.0), noise_model="auto", **TINY).noise_model == "gaussian"
    with pytest.raises(ValueError, match=r"gain=None: the noise cannot be learned.*expected a larger image"):
        denoise(np.full((80, 80), 3.0), noise_model="poisson", **TINY)
    zeros = denoise(np.zeros((40, 40)), noise_model="poisson", gain=1.0, **TINY)
    assert np.isfinite(zeros.image).all()
    assert np.abs(zeros.image).max() < 0.2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise_model": "poisson"}, "noise_model='poisson': the image has negative pixels, down to -"),
        ({"gain": 2.0}, "gain=2: Gaussian noise has none; expected noise_model='poisson-gaussian'"),
        ({"read_noise": 2.0}, "read_noise=2: Gaussian noise has none"),
        ({"noise_model": "poisson", "read_noise": 2.0}, "read_noise=2: Poisson noise has none"),
        ({"noise_model": "poisson", "gain": 0.0}, "gain=0.0: expected a number > 0"),
        ({"noise_model": "poisson", "read_noise": -1.0}, "read_noise=-1.0: expected a number >= 0"),
        ({"noise_model": "shot"}, "noise_model='shot': expected one of 'gaussian', 'poisson'"),
        ({"noise_model": "poisson-gaussian"}, "gain=None: the gain cannot be learned.*does not grow"),
    ],
)
def test_what_makes_no_sense_is_refused(ground, options, message):
    # The variance falls with the mean.
    pixels = np.random.default_rng(10).normal(ground, 2.0 - 1.5 * ground)
    with pytest.raises(ValueError, match=message):
        denoise(pixels, **TINY, **options)


@pytest.mark.parametrize("name", ["astronaut", "coffee"])
def test_flat_blocks_protect_the_gain_from_texture(name, monkeypatch):
    """Texture that remains in the blocks raises the gain, most if counts are many; it would raise it more."""
    picture = getattr(data, name)()[100:260, 100:260, 2].astype(float)
    counts = [np.random.default_rng(seed).poisson(100 * picture / picture.max()) for seed in range(3)]
    with_choice = np.mean([chosen(picture, "poisson").gain[0] for picture in counts])
    monkeypatch.setattr(relation, "FLAT_QUANTILE", 1.0)
    without = np.mean([chosen(picture, "poisson").gain[0] for picture in counts])
    assert with_choice < 1.2
    assert with_choice - 1 < 0.7 * (without - 1)
