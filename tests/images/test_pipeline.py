"""Each stage between a picture and its result, alone."""

from dataclasses import replace

import numpy as np
import pytest

import bpfa
from bpfa.images.canvas import Canvas
from bpfa.images.options import RestorationOptions
from bpfa.images.pipeline import fit_patches, image_result, restore_from_model
from bpfa.images.plan import plan_restoration
from bpfa.images.restore import Restored

OPTIONS = RestorationOptions(
    patch_size=(3, 4), n_components=5, max_steps=3, n_draws=2, random_state=0, n_jobs=1
)


def canvas_of(shape=(64, 48), share=0.5, **axes):
    rng = np.random.default_rng(0)
    return Canvas.of(rng.normal(size=shape), rng.random(shape) >= share, **axes)


@pytest.mark.parametrize(
    ("share", "noisy", "expected"),
    [
        (0.9, False, {"max_steps": 2000, "dropout": 0.0, "init": "data"}),
        (0.9, True, {"max_steps": 2000, "dropout": 0.0, "init": "common"}),
        (0.2, False, {"max_steps": 500, "dropout": 0.1, "init": "data"}),
    ],
)
def test_a_plan_decides_what_is_left_open(share, noisy, expected):
    plan = plan_restoration(canvas_of(share=share), RestorationOptions(), noisy=noisy)
    assert {name: plan.model_parameters[name] for name in expected} == expected
    assert plan.model_parameters["n_components"] == 256
    assert plan.model_parameters["batch_size"] == (64 - plan.patch_size[0] + 1) * (
        48 - plan.patch_size[1] + 1
    )
    assert (plan.model_parameters["standardize"], plan.model_parameters["noise"]) == (False, "shared")


def test_a_plan_keeps_what_is_chosen():
    chosen = {"init": "random", "dropout": 0.3, "max_time": 2.0, "algorithm": "gibbs-ssvi", "n_jobs": 1}
    options = RestorationOptions(patch_size=6, stride=5, n_draws=3, **chosen)
    plan = plan_restoration(canvas_of(share=0.2), options, noisy=True)
    assert (plan.patch_size, plan.stride, plan.n_draws) == ((6, 6), 5, 3)
    assert {name: plan.model_parameters[name] for name in chosen} == chosen
    # A limit was chosen, so that there is no other one.
    assert plan.model_parameters["max_steps"] is None


def test_only_gibbs_ssvi_hides_pixels_by_default():
    plan = plan_restoration(canvas_of(share=0.2), RestorationOptions(algorithm="mf-svi"), noisy=False)
    assert plan.model_parameters["dropout"] == 0.0


def test_a_plan_does_not_change():
    plan = plan_restoration(canvas_of(), OPTIONS, noisy=False)
    with pytest.raises(TypeError):
        plan.model_parameters["n_components"] = 3


def test_a_model_learns_from_all_patches_whatever_the_stride():
    canvas = canvas_of((12, 10))
    seen = []
    plan = plan_restoration(canvas, replace(OPTIONS, stride=3), noisy=False)
    model = fit_patches(canvas, plan, callbacks=[lambda progress, history: seen.append(progress.step)])
    assert model.n_rows_seen_ == 10 * 7
    assert model.n_features_in_ == 3 * 4
    assert seen == [1, 2, 3]


def test_a_picture_is_restored_from_its_model():
    canvas = canvas_of((12, 10))
    plan = plan_restoration(canvas, OPTIONS, noisy=False)
    restored = restore_from_model(canvas, plan, fit_patches(canvas, plan))
    assert restored.mean.shape == restored.std.shape == restored.informed.shape == canvas.values.shape
    assert np.isfinite(restored.mean).all()
    assert restored.std.max() > 0
    assert restored.informed.all()


def test_a_result_has_the_form_of_the_picture():
    canvas = Canvas.of(
        np.random.default_rng(0).integers(0, 255, (3, 12, 10)).astype(np.uint8), channel_axis=0
    )
    plan = plan_restoration(canvas, OPTIONS, noisy=True)
    model = fit_patches(canvas, plan)
    ones = np.ones(canvas.values.shape)
    result = image_result(canvas, plan, model, Restored(0 * ones, ones, ones > 0))
    assert result.image.dtype == np.uint8
    np.testing.assert_array_equal(
        result.image, np.broadcast_to(np.rint(canvas.mean)[:, None, None], (3, 12, 10))
    )
    np.testing.assert_allclose(result.std[:, 0, 0], canvas.scale, rtol=1e-6)
    assert not result.from_prior.any()
    assert result.noise_std.shape == (3,)
    assert result.patch_size == (3, 4)


def test_inpaint_is_its_stages():
    rng = np.random.default_rng(0)
    image, mask = rng.normal(size=(12, 10)), rng.random((12, 10)) < 0.4
    canvas = Canvas.of(image, mask)
    plan = plan_restoration(canvas, OPTIONS, noisy=False)
    model = fit_patches(canvas, plan)
    result = image_result(canvas, plan, model, restore_from_model(canvas, plan, model))
    whole = bpfa.inpaint(
        image, mask, patch_size=(3, 4), n_components=5, max_steps=3, n_draws=2, random_state=0, n_jobs=1
    )
    np.testing.assert_array_equal(whole.image[mask], result.image[mask])
    np.testing.assert_array_equal(whole.std[mask], result.std[mask])
    assert whole.patch_size == result.patch_size == (3, 4)
