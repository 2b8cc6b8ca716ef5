"""Groups of like patches: the second stage of inpaint and denoise."""

import logging
from importlib import import_module

import numpy as np
import pytest
from skimage import data, transform

import bpfa
from bpfa._support.philox import Stream
from bpfa.backends.cpu.groups import CpuGroups
from bpfa.backends.cuda.groups import CudaGroups
from bpfa.backends.registry import BACKENDS
from bpfa.images import denoise, inpaint
from bpfa.images.groups import refine
from bpfa.images.groups.held_out import hide_pixels, judge
from bpfa.images.groups.plan import plan_groups
from bpfa.images.groups.round import Grouping
from bpfa.images.groups.verdict import NOISY_CORRECTION, combined_variance, like_its_surroundings

# The package has a function of the same name.
refine_module = import_module("bpfa.images.groups.refine")
# A dictionary that is learned quickly, so that groups have something to improve.
QUICK = {"n_components": 48, "max_steps": 60, "n_draws": 4, "random_state": 0}


@pytest.fixture(scope="module")
def camera():
    """A part of scikit-image's picture at half its size: 80 x 72."""
    return transform.downscale_local_mean(data.camera().astype(float), (2, 2))[40:120, 60:132]


@pytest.fixture(scope="module")
def missing(camera):
    return np.random.default_rng(0).random(camera.shape) < 0.7


@pytest.fixture(scope="module")
def filled(camera, missing):
    return inpaint(camera, missing, **QUICK)


def test_groups_fill_in_better_than_the_dictionary(camera, missing, filled):
    assert filled.stage == "groups"
    assert 1 <= filled.n_rounds <= 12
    assert 0.05 <= filled.group_weight <= 1
    np.testing.assert_array_equal(filled.image[~missing], camera[~missing])
    np.testing.assert_array_equal(filled.dictionary_image[~missing], camera[~missing])
    dictionary = inpaint(camera, missing, **QUICK, refine=None)
    np.testing.assert_array_equal(filled.dictionary_image, dictionary.image)
    before, after = (bpfa.psnr(camera, image, missing) for image in (dictionary.image, filled.image))
    assert after > before + 0.5
    error = np.abs(filled.image - camera)[missing]
    assert 0.90 < (error < 1.96 * filled.std[missing]).mean() < 0.99
    assert (filled.std[~missing] == 0).all()


@pytest.mark.gpu
@pytest.mark.parametrize("share", [0.2, 0.7, 1.0])
def test_rounds_on_a_gpu_are_those_of_the_host(camera, share):
    """Also one after another, when the groups of the second round are found on the result of the first."""
    rng = np.random.default_rng(3)
    values = ((camera - camera.mean()) / camera.std()).astype(np.float32)[None, ..., None]
    observed = rng.random(values.shape) < share
    noisy = share == 1.0
    plan = plan_groups(observed, noisy=noisy)
    noise = np.array([0.1 if noisy else plan.noise])
    seen = values + (np.sqrt(noise) * rng.normal(size=values.shape) if noisy else 0)
    start = (values + 0.15 * rng.normal(size=values.shape)).astype(np.float32)
    pictures = []
    for kernels in (CpuGroups(), CudaGroups()):
        grouping = Grouping(seen.astype(np.float32), observed, plan, kernels)
        first = grouping.round(start, grouping.beliefs(noise), learn_noise=noisy)
        second = grouping.round(first.value, first.beliefs, learn_noise=noisy)
        pictures.append((first, second))
    for expected, found in zip(*pictures, strict=True):
        assert np.sqrt(np.mean((found.value - expected.value) ** 2)) < 1e-3
        np.testing.assert_allclose(np.median(found.mixture / expected.mixture), 1, atol=1e-3)
        np.testing.assert_allclose(found.beliefs.noise, expected.beliefs.noise, rtol=1e-3)


def test_groups_denoise_better_than_the_dictionary(camera):
    noisy = camera + np.random.default_rng(1).normal(scale=20.0, size=camera.shape)
    result = denoise(noisy, **QUICK)
    assert (result.stage, result.missing.any()) == ("groups", False)
    assert bpfa.psnr(camera, result.image) > bpfa.psnr(camera, result.dictionary_image) + 0.2
    assert 17 < result.noise_std < 23
    assert 0.85 < (np.abs(result.image - camera) < 1.96 * result.std).mean() < 0.995


def test_intervals_of_a_flat_noisy_picture_are_not_too_wide():
    """With the variance that the groups state, nearly all pixels are within the intervals of 80 %."""
    y, x = np.indices((72, 72))
    flat = 100.0 + 0.3 * x + 40.0 * (y > 40)
    result = denoise(flat + 20 * np.random.default_rng(1).normal(size=flat.shape), **QUICK)
    assert 0.8 < (np.abs(result.image - flat) < 1.28 * result.std).mean() < 0.985


def test_without_groups_the_result_is_that_of_the_dictionary(camera, missing):
    for refined in (None, "none"):
        result = inpaint(camera[:30, :30], missing[:30, :30], **QUICK | {"max_steps": 3}, refine=refined)
        assert (result.stage, result.n_rounds, result.group_weight) == ("dictionary", 0, 0.0)
        assert result.dictionary_image is None
    with pytest.raises(ValueError, match="refine='group'"):
        inpaint(camera, missing, refine="group")


def test_the_same_picture_for_any_threads(camera, missing):
    image, hidden = camera[:40, :44].astype(np.uint8), missing[:40, :44]
    options = QUICK | {"max_steps": 5}
    one, two = (inpaint(image, hidden, n_jobs=n, **options) for n in (1, 2))
    np.testing.assert_array_equal(one.image, two.image)
    np.testing.assert_array_equal(one.std, two.std)
    assert one.image.dtype == np.uint8


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((30, 34, 3), {"channel_axis": 2}),
        ((3, 24, 26), {"stack_axis": 0}),
        ((2, 20, 22, 2), {"stack_axis": 0, "channel_axis": 3}),
        ((9, 200), {}),
        ((10, 10), {}),
    ],
)
@pytest.mark.parametrize("function", [inpaint, denoise])
def test_pictures_of_all_shapes(shape, axes, function):
    rng = np.random.default_rng(0)
    grid = np.indices(shape).sum(axis=0)
    image = (100 + 60 * np.sin(grid / 3) + rng.normal(size=shape)).astype(np.float32)
    mask = rng.random(shape) < 0.4
    result = function(image, mask, patch_size=4, **QUICK | {"max_steps": 20}, **axes)
    assert result.image.shape == shape
    assert np.isfinite(result.image).all()
    assert np.isfinite(result.std).all()
    assert np.abs(result.image - image).mean() < 30


@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
def test_few_and_many_pixels(camera, share):
    hidden = np.random.default_rng(2).random(camera.shape) >= share
    result = inpaint(camera, hidden, **QUICK)
    dictionary = inpaint(camera, hidden, **QUICK, refine=None)
    after, before = (bpfa.psnr(camera, r.image, hidden) for r in (result, dictionary))
    assert after > before - 0.05


@pytest.mark.parametrize("kind", ["lines", "block", "text"])
def test_holes_with_structure(camera, kind):
    hidden = np.zeros(camera.shape, bool)
    if kind == "lines":
        hidden[::5] = hidden[1::5] = True
    elif kind == "block":
        hidden[30:38, 20:30] = True
    else:
        hidden[10:70:12, 5:60] = hidden[10:60, 20:70:15] = True
    result = inpaint(camera, hidden, **QUICK)
    dictionary = inpaint(camera, hidden, **QUICK, refine=None)
    after, before = (bpfa.psnr(camera, r.image, hidden) for r in (result, dictionary))
    assert after > before - 0.05


def test_constant_pictures_and_single_pixels():
    image = np.full((20, 20), 9, dtype=np.uint8)
    mask = np.zeros(image.shape, dtype=bool)
    mask[4] = True
    assert (inpaint(image, mask, **QUICK | {"max_steps": 3}).image == 9).all()
    denoised = denoise(image, **QUICK | {"max_steps": 3})
    assert (denoised.image == 9).all()
    assert (denoised.stage, denoised.group_weight) == ("dictionary", 0.0)
    alone = np.full((20, 20), np.nan)
    alone[0, 0] = 3.0
    result = inpaint(alone, patch_size=8, n_components=4, max_steps=5, random_state=0)
    assert result.stage == "dictionary"
    assert np.isfinite(result.image).all()


def test_a_hole_without_any_pixel_near_is_left_to_the_prior(camera):
    hole = np.zeros(camera.shape, dtype=bool)
    hole[10:60, 10:60] = True
    options = QUICK | {"max_steps": 5, "patch_size": 6}
    result, dictionary = (inpaint(camera, hole, refine=refined, **options) for refined in ("groups", None))
    far = result.from_prior
    assert far.any()
    np.testing.assert_array_equal(result.image[far], dictionary.image[far])
    np.testing.assert_array_equal(result.std[far], dictionary.std[far])


def test_groups_that_do_harm_have_no_weight():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=2000)
    good, bad = truth + 0.1 * rng.normal(size=2000), truth + 2 + rng.normal(size=2000)
    spread = np.ones(2000), np.ones(2000)
    assert judge(truth, good, bad, spread).weight < 0.05
    assert judge(truth, bad, good, spread).weight > 0.95


def test_a_few_pixels_do_not_decide_on_the_weight():
    rng = np.random.default_rng(0)
    difference, truth = rng.normal(size=80), rng.normal(size=80)
    difference[:3] = 3.0
    seen = truth + difference
    # Apart from three pixels on an edge, the groups are right everywhere.
    seen[:3] -= 9.0
    slope = difference @ (seen - truth) / (difference @ difference)
    found = judge(seen, truth, truth + difference, (np.ones(80), np.ones(80)))
    assert slope < 0.6
    assert found.weight > slope + 0.15


def test_the_deviation_is_corrected_by_hidden_pixels():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=20_000)
    said = truth + 0.5 * rng.normal(size=20_000)
    found = judge(truth, said + 0.01 * rng.normal(size=20_000), said, (np.ones(20_000), np.ones(20_000)))
    assert found.correction == pytest.approx(0.25, rel=0.1)
    few = judge(*(a[:60] for a in (truth, said + 0.01, said)), (np.ones(60), np.ones(60)))
    assert 0.25 < few.correction < 1


def test_the_dictionary_has_a_part_in_the_variance_of_a_pixel():
    dictionary, groups, difference = np.array([2.0]), np.array([1.0]), np.array([3.0])
    assert combined_variance(dictionary, groups, difference, 0.0) == pytest.approx(2.0)
    assert combined_variance(dictionary, groups, difference, 0.5) == pytest.approx(1.5 + 9 / 4)
    assert combined_variance(dictionary, groups, difference, 1.0) == pytest.approx(0.7 + 0.3 * (2 + 9))
    noisy = combined_variance(dictionary, groups, difference, 1.0, noisy=True)
    assert noisy == pytest.approx(0.9 + 0.1 * (2 + 9))


def test_surroundings_make_the_variances_of_noisy_pixels_more_alike():
    variance = np.random.default_rng(0).gamma(1.0, size=(2, 90, 80, 3))
    variance[1] *= 10
    found = like_its_surroundings(variance)
    # Neither slices nor channels are mixed, and the mean is that of the picture, times the factor.
    np.testing.assert_allclose(
        found.mean(axis=(1, 2)), NOISY_CORRECTION * variance.mean(axis=(1, 2)), rtol=0.05
    )
    np.testing.assert_array_equal(found[0], like_its_surroundings(variance[:1])[0])
    relative = found.std(axis=(1, 2)) / found.mean(axis=(1, 2))
    np.testing.assert_allclose(
        relative, 0.4 * (variance.std(axis=(1, 2)) / variance.mean(axis=(1, 2))), rtol=0.2
    )


def test_the_specification_restores_the_same_picture():
    rng = np.random.default_rng(0)
    y, x = np.indices((20, 22))
    picture = np.sin(x / 2 + y / 3)[None, :, :, None].astype(np.float32)
    observed = rng.random(picture.shape) < 0.5
    plan = plan_groups(observed, noisy=False)
    plan = plan.__class__(**{**vars(plan), "reach": 5, "n_members": 20, "size": (4, 4), "stride": 3})
    rounds = []
    for name in ("numpy", "cpu"):
        grouping = Grouping(picture, observed, plan, BACKENDS[name].groups)
        current = np.where(observed, picture, 0).astype(np.float32)
        rounds.append(grouping.round(current, grouping.beliefs(np.array([1e-3])), learn_noise=True))
    expected, found = rounds
    np.testing.assert_array_equal(found.beliefs.rank_counts, expected.beliefs.rank_counts)
    np.testing.assert_allclose(found.value, expected.value, rtol=0, atol=5e-3)
    np.testing.assert_allclose(found.beliefs.noise, expected.beliefs.noise, rtol=0.02)
    assert np.abs(found.value - picture)[~observed].mean() < np.abs(current - picture)[~observed].mean() / 2


def test_an_interrupt_returns_the_best_so_far(camera):
    noisy = camera + np.random.default_rng(1).normal(scale=20.0, size=camera.shape)
    canvas = bpfa.images.canvas.Canvas.of(noisy)
    start = bpfa.images.restore.Restored(
        canvas.values.astype(float), np.ones(canvas.values.shape), np.ones(canvas.values.shape, bool)
    )
    calls = []

    class Interrupting(CpuGroups):
        def add_groups(self, *arguments):
            calls.append(1)
            if len(calls) == limit:
                raise KeyboardInterrupt
            super().add_groups(*arguments)

    plan = plan_groups(canvas.observed, noisy=True)
    settings = {"noisy": True, "restore": lambda changed: start, "stream": Stream.from_seed(0)}
    limit = 1
    found = refine(canvas, start, np.array([0.1]), plan, Interrupting(), **settings)
    assert (found.interrupted, found.n_rounds) == (True, 0)
    assert found.restored is start
    calls, limit = [], 4
    found = refine(canvas, start, np.array([0.1]), plan, Interrupting(), **settings)
    assert (found.interrupted, found.n_rounds) == (True, 1)
    assert np.std(canvas.image(found.restored.mean) - camera) < np.std(noisy - camera)


def test_hidden_pixels_are_observed_ones():
    observed = np.random.default_rng(0).random((2, 30, 40, 3)) < 0.5
    hidden = hide_pixels(observed, Stream.from_seed(1))
    assert hidden.any()
    assert not (hidden & ~observed).any()
    np.testing.assert_array_equal(hidden, hide_pixels(observed, Stream.from_seed(1)))


def test_progress_is_quiet_in_pipes(camera, missing, capfd, caplog):
    with caplog.at_level(logging.WARNING):
        inpaint(camera[:24, :24], missing[:24, :24], verbose=1, **QUICK | {"max_steps": 3})
    assert capfd.readouterr() == ("", "")


def test_colour_is_denoised_better_than_luma_alone():
    colour = transform.downscale_local_mean(data.astronaut().astype(float), (2, 2, 1))[20:84, 80:144]
    luma = np.array([0.299, 0.587, 0.114])
    noisy = colour + 25 * np.random.default_rng(0).normal(size=colour.shape)
    together, alone = denoise(noisy, channel_axis=2, **QUICK), denoise(noisy @ luma, **QUICK)
    assert together.noise_std.shape == (3,)
    gain = bpfa.psnr(colour @ luma, together.image @ luma) - bpfa.psnr(colour @ luma, alone.image)
    assert gain > 0.3


def test_channels_with_the_same_holes_have_models_of_their_own():
    observed = np.random.default_rng(0).random((1, 40, 40, 1)) < 0.5
    same = np.repeat(observed, 3, axis=3)
    other = np.random.default_rng(0).random((1, 40, 40, 3)) < 0.5
    plans = [plan_groups(o, noisy=noisy) for o, noisy in ((same, False), (other, False), (same, True))]
    assert [plan.separate_channels for plan in plans] == [True, False, False]
    grouping = Grouping(same.astype(np.float32), same, plans[0], BACKENDS["cpu"].groups)
    assert grouping.offsets.shape == grouping.channels.shape == (3, 100)
    np.testing.assert_array_equal(grouping.channels, np.repeat([[0], [1], [2]], 100, axis=1))
    np.testing.assert_array_equal(grouping.offsets % 3, grouping.channels)


def test_colours_with_the_same_holes_have_a_turn_together():
    def plans(n_channels):
        observed = np.repeat(np.random.default_rng(0).random((1, 40, 40, 1)) < 0.5, n_channels, axis=3)
        return plan_groups(observed, noisy=False).of_each_size(n_channels)

    assert [(plan.size, plan.separate_channels, plan.n_members) for plan in plans(3)] == [
        ((10, 10), True, 90),
        ((7, 7), True, 44),
        ((5, 5), False, 68),
    ]
    assert [plan.size for plan in plans(1)] == [(10, 10), (7, 7)]
    # Patches of many channels would be too narrow to be modelled together.
    assert all(plan.separate_channels for plan in plans(8))


def test_colours_tell_something_about_the_lightness():
    colour = transform.downscale_local_mean(data.astronaut().astype(float), (2, 2, 1))[20:84, 80:144]
    luma = np.array([0.299, 0.587, 0.114])
    missing = np.random.default_rng(0).random(colour.shape[:2]) < 0.5
    together, alone = (
        inpaint(colour, missing, channel_axis=2, **QUICK),
        inpaint(colour @ luma, missing, **QUICK),
    )
    truth = colour @ luma
    assert bpfa.psnr(truth, together.image @ luma, missing) > bpfa.psnr(truth, alone.image, missing) + 0.15


def test_channels_with_models_of_their_own_are_uncorrelated():
    rng = np.random.default_rng(0)
    lightness = rng.normal(size=(1, 30, 30, 1))
    colours = (lightness + 0.2 * rng.normal(size=(1, 30, 30, 3))).astype(np.float32)
    observed = np.repeat(rng.random((1, 30, 30, 1)) < 0.5, 3, axis=3)
    grouping = Grouping(colours, observed, plan_groups(observed, noisy=False), BACKENDS["cpu"].groups)
    covariance = np.cov(grouping.values[observed].reshape(-1, 3).T)
    off_diagonal = covariance - np.diag(np.diag(covariance))
    assert np.abs(off_diagonal).max() < 0.02
    current = np.where(observed, colours, 0)
    found = grouping.round(current, grouping.beliefs(np.full(3, 1e-4)), learn_noise=False)
    # Observed pixels come back in their own channels.
    assert np.abs(found.value - colours)[observed].mean() < 0.05


def test_strips_do_not_change_the_bits(camera, missing, monkeypatch):
    values = ((camera - camera.mean()) / camera.std())[None, :, :, None].astype(np.float32)
    observed = ~missing[None, :, :, None]
    grouping = Grouping(values, observed, plan_groups(observed, noisy=False), BACKENDS["cpu"].groups)
    rounds = []
    for most_rows in (16, 3):
        monkeypatch.setattr("bpfa.backends.groups.MOST_ROWS", most_rows)
        beliefs = grouping.beliefs(np.array([1e-4]))
        rounds.append(grouping.round(np.where(observed, values, 0), beliefs, learn_noise=True))
    np.testing.assert_array_equal(rounds[0].value, rounds[1].value)
    np.testing.assert_array_equal(rounds[0].mixture, rounds[1].mixture)
    np.testing.assert_array_equal(rounds[0].beliefs.rank_counts, rounds[1].beliefs.rank_counts)
