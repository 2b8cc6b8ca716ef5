"""Frames on a GPU that keeps memory and graphs between them: the results of the ordinary way, to rounding."""

import gc

import numpy as np
import pytest

from bpfa import psnr
from bpfa.backends.cuda import frames as cuda_frames
from bpfa.backends.cuda.pictures import PatchSamples, restore_patches
from bpfa.data.patches import PatchRows
from bpfa.images import FrameRestorer, masks
from bpfa.images import live as live_module
from bpfa.images.frames import LONG_BURN_IN
from bpfa.images.kept import PictureForm
from bpfa.images.live import FrameResult
from bpfa.images.restore import patch_algorithm

pytestmark = pytest.mark.gpu

SHAPE = (72, 80)
SMALL = {"patch_size": 8, "n_components": 48, "max_steps": 120, "random_state": 0, "device": "cuda"}


def scene(shift=0.0, shape=SHAPE):
    y, x = np.mgrid[: shape[0], : shape[1]]
    return 100 + 40 * np.sin((x + shift) / 2) + 25 * np.cos((x + 2 * y) / 3)


def scan(seed, dose=0.4, shape=SHAPE):
    return masks.random(shape, dose, seed=seed)


@pytest.fixture
def ordinary(monkeypatch):
    """Makes restorers that keep nothing on the GPU."""

    def make(*arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(live_module.LiveModel, "of", lambda *_, **__: None)
            restorer = FrameRestorer(*arguments, **options)
            restorer._on_device = lambda frame: None
        return restorer

    return make


@pytest.fixture(scope="module")
def model():
    return FrameRestorer(**SMALL).restore(scene(), scan(0)).model


def assert_nearly_equal(ours, theirs, picture):
    """Chains of the same random numbers part where rounding decides, which happens in very few patches."""
    for name in ("image", "std"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert mine.dtype == other.dtype
        assert mine.shape == other.shape
        apart = np.abs(mine.astype(float) - other) > 1e-3 * np.std(picture)
        assert apart.mean() < 0.02
    np.testing.assert_array_equal(ours.missing, theirs.missing)
    np.testing.assert_array_equal(ours.from_prior, theirs.from_prior)
    assert ours.noise_std == pytest.approx(theirs.noise_std, rel=1e-3)


def test_a_frame_is_the_average_of_its_patches(model):
    """From the same standardised pixels, by the graph, the very numbers of the ordinary restoration."""
    restorer = FrameRestorer(model, learn=0, calibrate=False, device="cuda")
    for seed in range(4):
        result = restorer.restore(scene(seed), scan(0))
        live = restorer._live
        values = live.device.values.get()
        observed = live.device.observed.get().astype(bool)
        np.testing.assert_array_equal(observed.reshape(SHAPE), ~result.missing)
        rows = PatchRows(values, observed, (8, 8), 1)
        samples = PatchSamples(2, 3, model.settings_.stream.child("restoration"))
        algorithm = patch_algorithm(model, LONG_BURN_IN)
        expected = restore_patches(rows, model.posterior_, algorithm.local, samples)
        form = live.form
        pixels = (expected.mean * form.scale + form.mean).reshape(SHAPE)
        where = result.missing
        np.testing.assert_allclose(result.image[where], pixels[where], rtol=1e-12, atol=1e-9)
        std = (expected.std * form.scale).reshape(SHAPE)
        np.testing.assert_allclose(result.std[where], std[where], rtol=1e-9, atol=1e-9)
    restoration = next(iter(live.device._restorations.values()))
    assert restoration.recording is not None


@pytest.mark.parametrize("learn", [0, 5])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8, np.uint16, np.int16])
def test_the_results_of_the_ordinary_way(dtype, learn, ordinary, model):
    ours = FrameRestorer(model, learn=learn, device="cuda")
    theirs = ordinary(model, learn=learn, device="cuda")
    for seed in range(4):
        picture = scene(0.3 * seed).round().astype(dtype)
        mine, other = (restorer.restore(picture, scan(seed)) for restorer in (ours, theirs))
        assert isinstance(mine, FrameResult)
        assert not isinstance(other, FrameResult)
        if learn == 0:
            assert_nearly_equal(mine, other, picture)
        difference = psnr(picture, mine.image, mine.missing) - psnr(picture, other.image, other.missing)
        assert abs(difference) < 0.2
    assert ours.model.n_steps_ == theirs.model.n_steps_ == 120 + 4 * learn
    assert ours.model.posterior_.noise_std == pytest.approx(theirs.model.posterior_.noise_std, rel=0.02)


def test_a_change_of_scene_as_in_the_ordinary_way(ordinary, model):
    """Both begin anew in the units of the new scene, of which graphs that were recorded before must know."""
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    other = 40 + 9 * np.sign(np.sin(y / 3.0)) * np.sign(np.sin(x / 2.3))
    ours, theirs = (make(model, device="cuda") for make in (FrameRestorer, ordinary))
    for seed in range(14):
        picture = scene() if seed < 5 else other
        mine, theirs_too = (restorer.restore(picture, scan(seed)) for restorer in (ours, theirs))
        assert ours.n_changes == theirs.n_changes == int(seed >= 5)
        assert mine.model.n_steps_ == theirs_too.model.n_steps_
    assert ours.model.n_steps_ == 8 * 64
    forms = [PictureForm.of_model(restorer.model) for restorer in (ours, theirs)]
    np.testing.assert_allclose(forms[0].mean, forms[1].mean)
    np.testing.assert_array_equal(forms[0].mean, ours._live.device.mean.get())
    scores = [psnr(picture, result.image, result.missing) for result in (mine, theirs_too)]
    assert abs(scores[0] - scores[1]) < 0.5


def test_a_new_start_that_is_not_taken_leaves_the_model_in_its_units(ordinary, model):
    """Another part of the same scene, far away: the new model is tried, and the other one goes on."""
    ours, theirs = (make(model, device="cuda") for make in (FrameRestorer, ordinary))
    rng = np.random.default_rng(0)
    scenes = [scene(), scene()[::-1] * 0.9 + rng.normal(size=SHAPE)]
    for seed in range(6):
        for restorer in (ours, theirs):
            restorer.restore(scenes[seed >= 4], scan(seed))
    assert ours.n_changes == theirs.n_changes
    assert ours.model.n_steps_ == theirs.model.n_steps_
    form = PictureForm.of_model(ours.model)
    np.testing.assert_array_equal(form.mean, ours._live.device.mean.get())


def test_the_first_steps_are_those_of_the_ordinary_way(ordinary, model):
    """Before rounding has parted the chains: the posterior after one step."""
    picture = scene(0.5)
    ours, theirs = FrameRestorer(model, learn=1, device="cuda"), ordinary(model, learn=1, device="cuda")
    ours.restore(picture, scan(1))
    theirs.restore(picture, scan(1))
    mine, other = ours.model.posterior_, theirs.model.posterior_
    np.testing.assert_allclose(mine.a, other.a, rtol=0.02, atol=2.0)
    np.testing.assert_allclose(
        mine.features.mu, other.features.mu, atol=0.02 * np.abs(other.features.mu).max()
    )


@pytest.mark.parametrize("doses", [(0.1, 0.6, 0.25, 0.9, 0.1), (0.4, 1.0, 0.4, 1.0, 1.0)])
def test_masks_of_any_density(doses, ordinary, model):
    """Other kernels serve other densities, and complete frames; each of them is recorded by itself."""
    ours, theirs = (make(model, task="denoise", learn=0, device="cuda") for make in (FrameRestorer, ordinary))
    for seed, dose in enumerate(doses):
        noisy = scene() + 20 * np.random.default_rng(seed).normal(size=SHAPE)
        assert_nearly_equal(*(r.restore(noisy, scan(seed, dose)) for r in (ours, theirs)), noisy)


def test_nan_is_missing_and_positions_are_scans(ordinary, model):
    picture = np.where(scan(1).missing, np.nan, scene())
    ours, theirs = (make(model, learn=0, device="cuda") for make in (FrameRestorer, ordinary))
    assert_nearly_equal(*(r.restore(picture) for r in (ours, theirs)), scene())
    assert_nearly_equal(*(r.restore(scene(), scan(2).positions) for r in (ours, theirs)), scene())
    hidden = np.ma.MaskedArray(scene(), scan(3).missing)
    assert_nearly_equal(*(r.restore(hidden) for r in (ours, theirs)), scene())


@pytest.mark.parametrize(
    ("axes", "order"), [({"channel_axis": -1}, (0, 1, 2)), ({"channel_axis": 0}, (2, 0, 1))]
)
def test_channels(axes, order, ordinary):
    colours = np.stack([scene(), 50 + 0.5 * scene(2.0)], axis=2).transpose(order).copy()
    options = SMALL | axes | {"max_steps": 60}
    options["calibrate"] = False
    ours, theirs = FrameRestorer(learn=0, **options), ordinary(learn=0, **options)
    for seed in range(3):
        assert_nearly_equal(*(r.restore(colours, scan(seed)) for r in (ours, theirs)), colours)


def test_only_what_is_asked_for_comes_out(model):
    cupy = pytest.importorskip("cupy")
    options = {"learn": 0, "calibrate": False, "device": "cuda"}
    both = FrameRestorer(model, **options).restore(scene(), scan(1))
    image = FrameRestorer(model, output="image", **options).restore(scene(), scan(1))
    assert image.std is None
    np.testing.assert_array_equal(image.image, both.image)
    restorer = FrameRestorer(model, output="std", to_host=False, **options)
    std = restorer.restore(cupy.asarray(scene()), scan(1))
    assert std.image is None
    assert isinstance(std.std, cupy.ndarray)
    np.testing.assert_array_equal(std.std.get(), both.std)


def test_results_keep_their_memory(model):
    """The memory of a result is used again only after the result is gone."""
    restorer = FrameRestorer(model, learn=2, device="cuda")
    results = [restorer.restore(scene(seed), scan(seed)) for seed in range(6)]
    copies = [result.image.copy() for result in results]
    steps = [result.model.n_steps_ for result in results]
    assert steps == [120 + 2 * n for n in range(1, 7)]
    del results[::2]
    gc.collect()
    for seed in range(6, 10):
        restorer.restore(scene(seed), scan(seed))
    for result, copy in zip(results, copies[1::2], strict=True):
        np.testing.assert_array_equal(result.image, copy)


@pytest.mark.parametrize(
    ("frame", "mask", "words"),
    [
        (scene(), np.ones(SHAPE, dtype=bool), "every pixel of the image is missing"),
        (scene(), np.zeros(SHAPE, dtype=bool), "no pixel is missing"),
        (np.where(scene() > 130, np.inf, scene()), scan(1), "infinite"),
        (1e4 * scene(), scan(1), "units of the model"),
        (scene()[:40], scan(1).missing[:40], "expected float64 of shape"),
        (scene().astype(np.float32), scan(1), "expected float64 of shape"),
        (scene(), scan(1).missing[:40], "mask"),
    ],
)
def test_frames_that_cannot_be_restored_change_nothing(frame, mask, words, model):
    restorer = FrameRestorer(model, device="cuda")
    restorer.restore(scene(), scan(0))
    before, latency = restorer.model, restorer.latency
    with pytest.raises(ValueError, match=words):
        restorer.restore(frame, mask)
    after = restorer.model
    assert after.n_steps_ == before.n_steps_
    np.testing.assert_array_equal(after.posterior_.a, before.posterior_.a)
    assert restorer.latency.n_restored == latency.n_restored
    restorer.restore(scene(), scan(2))


def test_without_a_recording(monkeypatch, model):
    """Where the kernels cannot be recorded, they are launched one by one."""
    recorded = FrameRestorer(model, device="cuda")
    monkeypatch.setattr(cuda_frames, "MOST_SHARE", 0.0)
    launched = FrameRestorer(model, device="cuda")
    for seed in range(3):
        ours, theirs = (restorer.restore(scene(), scan(seed)) for restorer in (recorded, launched))
        np.testing.assert_array_equal(ours.image, theirs.image)


def test_hidden_pixels_are_only_hidden_from_the_model(ordinary, model):
    """They keep their values and are not missing, and all deviations are corrected as in the ordinary way."""
    picture, mask = scene(), scan(1)
    plain = FrameRestorer(model, learn=0, calibrate=False, device="cuda").restore(picture, mask)
    ours, theirs = (make(model, learn=0, device="cuda") for make in (FrameRestorer, ordinary))
    for _ in range(3):
        mine, other = (restorer.restore(picture, mask) for restorer in (ours, theirs))
        np.testing.assert_array_equal(mine.missing, mask.missing)
        np.testing.assert_array_equal(mine.image[~mask.missing], picture[~mask.missing])
        assert (mine.std[~mask.missing] == 0).all()
        assert np.median(mine.std[mask.missing] / other.std[mask.missing]) == pytest.approx(1, rel=0.02)
    assert np.median(mine.std[mask.missing] / plain.std[mask.missing]) != pytest.approx(1, rel=0.01)
