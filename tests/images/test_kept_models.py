"""A kept dictionary restores other pictures of the same kind, without training or after a little of it."""

import numpy as np
import pytest

from bpfa import BPFA, denoise, inpaint, psnr
from bpfa.images import masks

SMALL = {"patch_size": (5, 4), "n_components": 24, "max_steps": 120, "refine": None, "random_state": 0}


def texture(seed, shape=(40, 48)):
    y, x = np.mgrid[: shape[0], : shape[1]]
    phase = np.random.default_rng(seed).random(2) * 6
    return 100 + 30 * np.sin(x / 2 + phase[0]) + 30 * np.cos((x + 2 * y) / 3 + phase[1])


@pytest.fixture(scope="module")
def model():
    return inpaint(texture(0), masks.random((40, 48), 0.4), **SMALL).model


def test_a_kept_dictionary_restores_without_training(model):
    picture, scan = texture(1), masks.random((40, 48), 0.4, seed=1)
    before = model.posterior_
    kept = inpaint(picture, scan, model=model, refine=None)
    assert kept.model.n_steps_ == 120
    assert kept.patch_size == (5, 4)
    assert model.posterior_ is before
    new = inpaint(picture, scan, **SMALL)
    filled = np.where(scan.missing, picture[~scan.missing].mean(), picture)
    quality = [psnr(picture, image, scan.missing) for image in (filled, kept.image, new.image)]
    assert quality[1] > quality[0] + 5
    assert quality[1] > quality[2] - 2


def test_the_picture_of_the_fit_is_restored_as_in_the_fit(model):
    picture, scan = texture(0), masks.random((40, 48), 0.4)
    again = inpaint(picture, scan, model=model, refine=None)
    np.testing.assert_array_equal(again.image, inpaint(picture, scan, **SMALL).image)


def test_a_model_is_saved_and_loaded_with_the_form_of_its_pictures(model, tmp_path):
    model.save(tmp_path / "m.bpfa")
    loaded = BPFA.load(tmp_path / "m.bpfa")
    picture, scan = texture(2), masks.spiral((40, 48), 0.4)
    options = {"refine": None}
    np.testing.assert_array_equal(
        inpaint(picture, scan, model=loaded, **options).image,
        inpaint(picture, scan, model=model, **options).image,
    )


def test_updates_go_on_learning_and_leave_the_given_model_alone(model):
    rng = np.random.default_rng(0)
    picture = 100 + 40 * np.sign(np.sin(np.add.outer(np.arange(40) / 1.3, np.arange(48) / 2.1)))
    scan = masks.random(picture.shape, 0.4, seed=3)
    kept, updated = (inpaint(picture, scan, model=model, update=n, refine=None) for n in (0, 60))
    assert updated.model.n_steps_ == 180
    assert len(updated.history["step"]) == 180
    assert model.n_steps_ == 120
    assert psnr(picture, updated.image, scan.missing) > psnr(picture, kept.image, scan.missing) + 0.5
    # The new model can be kept in turn.
    later = inpaint(picture + rng.normal(size=picture.shape), scan, model=updated.model, refine=None)
    assert later.model.n_steps_ == 180


def test_a_dictionary_of_counts_keeps_their_gain():
    rng = np.random.default_rng(0)
    options = {"patch_size": 5, "n_components": 16, "max_steps": 40, "refine": None, "random_state": 0}
    first, second = (3.0 * rng.poisson(texture(seed) / 10) for seed in (0, 1))
    model = denoise(first, noise_model="poisson", gain=3.0, **options).model
    kept = denoise(second, model=model, refine=None)
    assert kept.noise_model == "poisson"
    assert kept.gain == 3.0
    truth = 0.3 * texture(1)
    assert psnr(truth, kept.image) > psnr(truth, second) + 3


def test_channels_are_kept():
    picture = np.stack([texture(0), 2 * texture(1) + 50], axis=-1)
    scan = masks.random(picture.shape[:2], 0.5)
    options = {"patch_size": 4, "n_components": 16, "max_steps": 30, "refine": None, "random_state": 0}
    model = inpaint(picture, scan, channel_axis=-1, **options).model
    assert inpaint(picture, scan, channel_axis=-1, model=model, refine=None).image.shape == picture.shape
    with pytest.raises(ValueError, match="image: 1 channels; expected 2"):
        inpaint(picture[..., 0], scan, model=model)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"patch_size": 8}, "patch_size=8: the kept model has patches of 5 x 4 pixels"),
        ({"n_components": 5}, "n_components=5: the kept model has decided"),
        ({"max_steps": 5}, "max_steps=5: the kept model has decided"),
        ({"noise_model": "poisson"}, "noise_model='poisson': the kept model has decided"),
        ({"update": -1}, "update=-1"),
    ],
)
def test_options_that_contradict_the_model_are_refused(model, options, words):
    with pytest.raises(ValueError, match=words):
        inpaint(texture(1), masks.random((40, 48), 0.4), model=model, **options)


def test_the_size_of_the_patches_may_be_repeated(model):
    scan = masks.random((40, 48), 0.4)
    assert inpaint(texture(1), scan, model=model, patch_size=(5, 4), refine=None).patch_size == (5, 4)


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        (texture(1) * 1000, "expected a picture in the units of the model"),
        (texture(1) + 1e4, "expected a picture in the units of the model"),
        (texture(1)[:4], "4 x 48 pixels; expected at least the size of the patches of the model, 5 x 4"),
    ],
)
def test_pictures_of_another_kind_are_refused(model, picture, words):
    with pytest.raises(ValueError, match=words):
        inpaint(picture, np.eye(*picture.shape, dtype=bool), model=model)


def test_a_dark_or_constant_picture_is_not_refused(model):
    scan = masks.random((40, 48), 0.4)
    flat = inpaint(np.full((40, 48), 100.0), scan, model=model, refine=None)
    assert np.abs(flat.image - 100).max() < 15


def test_what_is_no_model_of_patches_is_refused():
    table = BPFA(2, max_steps=2, random_state=0).fit(np.random.default_rng(0).normal(size=(30, 4)))
    for model in (table, BPFA()):
        with pytest.raises(ValueError, match="not a model of patches of a picture"):
            inpaint(texture(1), masks.random((40, 48), 0.4), model=model)
    with pytest.raises(TypeError, match="model="):
        inpaint(texture(1), masks.random((40, 48), 0.4), model="m.bpfa")


def test_updates_without_a_model_are_refused():
    with pytest.raises(ValueError, match="update=5: expected a kept model"):
        inpaint(texture(1), masks.random((40, 48), 0.4), update=5)
