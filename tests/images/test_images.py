"""inpaint and denoise with a dictionary only, from what users have to what they get."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from skimage import data, transform

import bpfa
from bpfa.images import denoise, inpaint

# Enough to learn something, and no more.
FEW = {"n_components": 32, "max_steps": 40, "n_draws": 4, "random_state": 0, "refine": None}
TINY = FEW | {"patch_size": 3, "n_components": 6, "max_steps": 3, "n_draws": 2}


@pytest.fixture(scope="module")
def camera():
    """A part of scikit-image's picture at half its size: 96 x 96, uint8."""
    return np.rint(255 * transform.downscale_local_mean(data.camera() / 255, (2, 2)))[40:136, 60:156].astype(
        np.uint8
    )


@pytest.fixture(scope="module")
def mask(camera):
    return np.random.default_rng(0).random(camera.shape) < 0.5


@pytest.fixture(scope="module")
def filled(camera, mask):
    return inpaint(np.where(mask, 0, camera).astype(np.uint8), mask, **FEW | {"n_components": 128})


def test_inpaint_restores_a_picture(camera, mask, filled):
    assert filled.image.dtype == np.uint8
    assert filled.image.shape == camera.shape
    np.testing.assert_array_equal(filled.image[~mask], camera[~mask])
    np.testing.assert_array_equal(filled.missing, mask)
    assert not filled.from_prior.any()
    assert bpfa.psnr(camera, filled.image, mask) > 26
    assert set(filled.history) >= {"step", "seconds", "noise_std", "n_active"}
    assert len(filled.history["step"]) == filled.model.n_steps_ == 40


def test_the_deviation_is_honest(camera, mask, filled):
    assert filled.std.dtype == np.float32
    assert (filled.std[~mask] == 0).all()
    error = np.abs(filled.image.astype(float) - camera)[mask] / filled.std[mask]
    assert 0.90 < (error < 1.96).mean() < 0.99
    # It tells where the errors are: the half of the pixels that it trusts has far less of them.
    trusted = filled.std[mask] < np.median(filled.std[mask])
    squares = (filled.image.astype(float) - camera)[mask] ** 2
    assert squares[trusted].mean() < 0.2 * squares[~trusted].mean()


def test_denoise_takes_noise_out(camera):
    noisy = camera + np.random.default_rng(1).normal(scale=20.0, size=camera.shape)
    result = denoise(noisy, **FEW)
    assert result.image.dtype == np.float64
    assert bpfa.psnr(camera, result.image) > bpfa.psnr(camera, noisy) + 4
    assert 17 < result.noise_std < 25
    assert not result.missing.any()
    assert 0.90 < (np.abs(result.image - camera) < 1.96 * result.std).mean() < 0.995


def test_weak_texture_is_not_taken_for_noise():
    """Stripes and grain weaker than the noise, over a smooth ground.

    Features that start as patches call a part of them noise, and end at 15.9.
    """
    rng, (y, x) = np.random.default_rng(0), np.mgrid[:96, :96]
    ground = gaussian_filter(rng.normal(size=(96, 96)), 8)
    stripes = np.sin(2 * np.pi * (0.21 * x + 0.07 * y)) * (x > 48)
    stripes += np.sin(2 * np.pi * (0.05 * x - 0.3 * y)) * (y > 48)
    grain = gaussian_filter(rng.normal(size=(96, 96)), 1)
    picture = 128 + 50 * ground / ground.std() + 8 * stripes + 20 * grain
    noisy = picture + 15 * rng.standard_normal(picture.shape)
    result = denoise(noisy, n_components=128, max_steps=300, random_state=0, refine=None)
    assert abs(result.noise_std - 15) < 0.5
    assert np.std(result.image - picture) < 6


def test_denoise_fills_in_too(camera, mask):
    noisy = camera + np.random.default_rng(1).normal(scale=10.0, size=camera.shape)
    by_nan = denoise(np.where(mask, np.nan, noisy), **FEW)
    by_mask = denoise(noisy, mask, **FEW)
    np.testing.assert_array_equal(by_nan.image, by_mask.image)
    np.testing.assert_array_equal(by_nan.std, by_mask.std)
    assert (by_mask.image[~mask] != noisy[~mask]).all()
    assert (by_mask.std > 0).all()
    assert bpfa.psnr(camera, by_mask.image) > 25


def test_the_same_seed_gives_the_same_picture_for_any_threads(camera, mask):
    one, two = (inpaint(camera, mask, n_jobs=n, **TINY) for n in (1, 2))
    np.testing.assert_array_equal(one.image, two.image)
    np.testing.assert_array_equal(one.std, two.std)
    other = inpaint(camera, mask, **TINY | {"random_state": 1})
    assert (one.image != other.image).any()


def test_colour_is_modelled_jointly():
    colour = data.astronaut()[20:68, 200:248]
    rng = np.random.default_rng(0)
    one_channel = rng.random(colour.shape) < 0.6
    result = inpaint(colour, one_channel, channel_axis=-1, patch_size=5, **FEW)
    assert result.image.dtype == np.uint8
    assert result.noise_std.shape == (3,)
    assert result.model.n_features_in_ == 5 * 5 * 3
    alone = inpaint(colour[..., 0], one_channel[..., 0], patch_size=5, **FEW)
    where = one_channel[..., 0]
    together = bpfa.psnr(colour[..., 0], result.image[..., 0], where)
    assert together > bpfa.psnr(colour[..., 0], alone.image, where) + 1
    first = inpaint(
        np.moveaxis(colour, -1, 0), np.moveaxis(one_channel, -1, 0), channel_axis=0, patch_size=5, **FEW
    )
    np.testing.assert_array_equal(np.moveaxis(first.image, 0, -1), result.image)


def test_a_spectrum_image_with_whole_spectra_missing():
    rng = np.random.default_rng(0)
    energies = np.linspace(0, 1, 40)
    spectra = np.stack([np.exp(-((energies - centre) ** 2) / 0.01) for centre in (0.2, 0.5, 0.8)])
    y, x = np.mgrid[:24, :20] / 20
    amounts = np.stack([y, x, np.sin(3 * (x + y)) + 1], axis=-1)
    truth = (amounts @ spectra).astype(np.float32)
    mask = rng.random(truth.shape[:2]) < 0.6
    noisy = truth + rng.normal(scale=0.05, size=truth.shape).astype(np.float32)
    result = denoise(noisy, mask, channel_axis=2, **FEW)
    assert result.image.dtype == np.float32
    assert result.model.n_features_in_ == 4 * 4 * 40
    error = result.image - truth
    assert np.sqrt((error**2).mean()) < 0.05
    assert np.sqrt((error[mask] ** 2).mean()) < 0.1


def test_a_stack_shares_its_features(camera, mask):
    stack = np.stack([camera[:40, :40], camera[50:90, 50:90], camera[:40, 50:90]])
    hidden = np.stack([mask[:40, :40]] * 3)
    hidden[2] = True
    result = inpaint(stack, hidden, stack_axis=0, **FEW | {"n_draws": 16})
    assert result.image.shape == stack.shape
    assert bpfa.psnr(stack[:2], result.image[:2], hidden[:2]) > 23
    # Nothing is known of the last slice: it is told so, and filled with the mean of draws from the prior.
    assert result.from_prior[2].all()
    assert not result.from_prior[:2].any()
    assert np.ptp(result.image[2]) < np.ptp(stack[:2]) / 2
    assert result.std[2].min() > np.median(result.std[:2][hidden[:2]])


def test_a_hole_larger_than_patches_is_filled_from_the_prior(camera):
    hole = np.zeros(camera.shape, dtype=bool)
    hole[10:40, 20:60] = True
    result = inpaint(camera, hole, **TINY)
    expected = np.zeros(camera.shape, dtype=bool)
    # Patches of 3 reach two pixels into the hole.
    expected[12:38, 22:58] = True
    np.testing.assert_array_equal(result.from_prior, expected)
    near = camera[~hole].mean() + 4 * camera[~hole].std()
    assert np.isfinite(result.std).all()
    assert result.image[expected].max() < near


@pytest.mark.parametrize("stride", [2, 3])
def test_every_pixel_is_restored_at_any_stride(camera, mask, stride):
    result = inpaint(camera[:20, :23].astype(np.float32), mask[:20, :23], stride=stride, **TINY)
    assert np.isfinite(result.image).all()
    assert not result.from_prior.any()
    # The model has learned from all patches, though not all are restored.
    assert result.model.n_rows_seen_ == 18 * 21
    every = inpaint(camera[:20, :23].astype(np.float32), mask[:20, :23], stride=1, **TINY)
    np.testing.assert_array_equal(every.model.components_, result.model.components_)
    assert (every.image != result.image).any()


@pytest.mark.parametrize("algorithm", ["gibbs", "titsias-ssvi", "mf-svi", "mimno-svi"])
def test_other_algorithms(camera, mask, algorithm):
    image, missing = camera[:24, :24], mask[:24, :24]
    result = inpaint(image, missing, algorithm=algorithm, **TINY | {"max_steps": 60, "n_draws": 8})
    assert result.model.settings_.algorithm == algorithm
    assert result.image.dtype == np.uint8
    np.testing.assert_array_equal(result.image[~missing], image[~missing])
    level = np.full(image.shape, image[~missing].mean())
    assert bpfa.psnr(image, result.image, missing) > bpfa.psnr(image, level, missing) + 8


def test_settings_reach_the_fit(camera, mask):
    seen = []
    priors = bpfa.Priors(a=2.0)
    result = inpaint(
        camera[:30, :30],
        mask[:30, :30],
        patch_size=(4, 6),
        n_components=5,
        features="joint",
        priors=priors,
        init="random",
        max_epochs=2,
        n_draws=3,
        random_state=3,
        device="numpy",
        refine=None,
        callbacks=[lambda progress, history: seen.append(progress.step)],
    )
    settings = result.model.settings_
    assert (settings.n_features, settings.features, settings.priors) == (5, "joint", priors)
    assert (settings.init, settings.device) == ("random", "numpy")
    assert result.model.n_features_in_ == 24
    assert seen == [1, 2]
    assert isinstance(result.noise_std, float)
    assert result.noise_std == pytest.approx(
        result.model.noise_std_[0] * camera[:30, :30][~mask[:30, :30]].std()
    )


def test_a_time_limit_ends_the_fit(camera, mask):
    result = inpaint(camera, mask, n_components=8, max_time=0.3, n_draws=2, random_state=0)
    assert result.model.stopped_by_ == "max_time"


def test_a_constant_picture_stays_so():
    image = np.full((12, 12), 9, dtype=np.uint8)
    mask = np.zeros(image.shape, dtype=bool)
    mask[4] = True
    result = inpaint(image, mask, **TINY)
    assert (result.image == 9).all()


GOOD = np.arange(100.0).reshape(10, 10)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: inpaint(np.zeros((0, 5)), np.zeros((0, 5), bool)), ValueError, r"image: shape \(0, 5\)"),
        (lambda: inpaint(np.full((9, 9), np.nan)), ValueError, "every pixel of the image is missing"),
        (lambda: inpaint(GOOD, np.ones((10, 10), bool)), ValueError, "every pixel of the image is missing"),
        (lambda: inpaint(GOOD), ValueError, "mask: no pixel is missing"),
        (lambda: inpaint(GOOD, GOOD[:5] > 3), ValueError, r"mask: shape \(5, 10\), expected \(10, 10\)"),
        (lambda: inpaint(GOOD, np.where(GOOD > 5, np.nan, 0.0)), TypeError, "mask: dtype float64"),
        (lambda: inpaint(GOOD, GOOD.astype(int)), TypeError, "mask: dtype int64"),
        (lambda: inpaint(GOOD[:5], GOOD[:5] > 3), ValueError, "5 x 10 pixels, smaller than a patch"),
        (lambda: inpaint(GOOD, GOOD > 3, patch_size=11), ValueError, "patch_size=11: the image is 10 x 10"),
        (lambda: inpaint(GOOD, GOOD > 3, patch_size=0), ValueError, "patch_size=0"),
        (lambda: inpaint(GOOD, GOOD > 3, patch_size=2.5), TypeError, "patch_size=2.5"),
        (lambda: inpaint(GOOD, GOOD > 3, patch_size=(3, 3, 3)), ValueError, "patch_size=.*height and width"),
        (lambda: inpaint(GOOD, GOOD > 3, stride=9), ValueError, "stride=9: expected an integer from 1 to 8"),
        (lambda: inpaint(GOOD, GOOD > 3, stride=0), ValueError, "stride=0"),
        (lambda: inpaint(GOOD, GOOD > 3, n_draws=1), ValueError, "n_draws=1"),
        (lambda: inpaint(GOOD, GOOD > 3, algorithm="em"), ValueError, "algorithm='em'"),
        (lambda: inpaint(GOOD, GOOD > 3, max_steps=0), ValueError, "max_steps=0"),
        (lambda: denoise(GOOD[0]), ValueError, r"image: shape \(10,\); expected 2 axes"),
        (lambda: denoise(np.zeros((9, 9, 3))), ValueError, "expected 2 axes.*channel_axis and stack_axis"),
        (lambda: denoise(GOOD, channel_axis=0), ValueError, "expected 3 axes"),
        (lambda: denoise(np.zeros((9, 9, 3)), channel_axis=3), ValueError, "channel_axis=3"),
        (
            lambda: denoise(np.zeros((9, 9, 3, 3)), channel_axis=-1, stack_axis=3),
            ValueError,
            "stack_axis=3: the same axis",
        ),
        (lambda: denoise(GOOD * 1j), TypeError, "image: dtype complex128"),
        (lambda: denoise([["a"]]), TypeError, "image: dtype <U1"),
        (lambda: denoise(np.where(GOOD == 3, np.inf, GOOD)), ValueError, r"image: inf at \(0, 3\)"),
        (
            lambda: denoise(np.zeros((9, 9, 300)), channel_axis=2, patch_size=8),
            ValueError,
            "19200 numbers in a patch; expected at most 16384",
        ),
        (
            lambda: inpaint(
                np.zeros((9, 9, 2)), np.stack([GOOD[:9, :9] >= 0, GOOD[:9, :9] < 0], 2), channel_axis=2
            ),
            ValueError,
            "every pixel of channel 0 is missing",
        ),
    ],
)
def test_bad_input_gets_one_clear_line(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


# By how much the peak memory of a process of its own grows, in MiB.
MEMORY = """
import re
import numpy as np
from bpfa.images import inpaint

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

before = peak()
y, x = np.mgrid[:2048, :2048]
image = (128 + 60 * np.sin(x / 9.0) + 60 * np.cos(y / 7.0)).astype(np.uint8)
mask = np.random.default_rng(0).random(image.shape) < 0.8
# Every fourth patch along both axes is restored, to save time.
result = inpaint(image, mask, patch_size=8, stride=4, n_components=16, max_steps=2, n_draws=2, refine=None)
assert result.image.shape == image.shape
print(peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_is_that_of_some_pictures():
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    grown = float(done.stdout)
    print(f"{grown:.0f} MiB")
    # It grows by some 220 MiB. The 4 million patches would take 1 GiB in single precision, and two
    # predictions of each patch that is restored 128 MiB.
    assert 0 < grown < 300


def test_progress_is_quiet_in_pipes(camera, mask, capfd):
    inpaint(camera[:24, :24], mask[:24, :24], verbose=1, **TINY)
    assert capfd.readouterr() == ("", "")


def test_a_single_observed_pixel_is_enough():
    """The model has positions in a patch that are never observed, which is no business of the user."""
    image = np.full((20, 20), np.nan)
    image[0, 0] = 3.0
    result = inpaint(image, patch_size=8, n_components=4, max_steps=5, random_state=0)
    assert np.isfinite(result.image).all()
    assert np.isfinite(result.std).all()


def test_a_boolean_picture_comes_back_as_one():
    picture = np.add.outer(np.arange(24), np.arange(20)) % 12 < 6
    missing = np.random.default_rng(0).random(picture.shape) < 0.2
    options = {"patch_size": 6, "n_components": 12, "max_steps": 200, "random_state": 0}
    result = inpaint(picture, missing, **options)
    assert result.image.dtype == bool
    assert (result.image[~missing] == picture[~missing]).all()
    assert (result.image == picture)[missing].mean() > 0.8
    assert 0 < result.std[missing].max() < 1
    assert denoise(picture, **options).image.dtype == bool
