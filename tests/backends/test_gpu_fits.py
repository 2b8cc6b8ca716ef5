"""Runs on a GPU: fits, rows and copies, pictures, arrays that are there already, and what can go wrong."""

import gc
import re
from dataclasses import fields

import numpy as np
import pytest
from builders import data_with_holes

import bpfa
from bpfa import ArrayRows, Batch, algorithm, draw_data, inpaint, train
from bpfa._support.philox import Stream
from bpfa.backends.cuda.posterior import DevicePosterior
from bpfa.backends.cuda.rows import rows_on_device
from bpfa.backends.cuda.runtime import CACHE_VARIABLE, cupy_module, on_device
from bpfa.backends.cuda.staging import _staging, copied_to_device
from bpfa.inference.progress import NonFiniteError
from bpfa.inference.schedule import Schedule
from bpfa.inference.starts import random_posterior
from bpfa.inference.svi import svi_step

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("share", [0.0, 0.4])
@pytest.mark.parametrize("features", ["factorised", "joint"])
@pytest.mark.parametrize(
    "name", ["gibbs-ssvi", "mimno-svi", "titsias-ssvi", "titsias-svi", "mf-ssvi", "mf-svi"]
)
def test_a_fit_equals_that_of_the_cpu(name, features, share):
    """For the first steps, to rounding: the same rows, the same draws of the globals and of every row."""
    if features == "joint" and name.endswith("-svi") and share:
        pytest.skip("an expected view of joint features needs complete rows")
    y = data_with_holes(share=share)
    options = {
        "algorithm": name,
        "features": features,
        "n_steps": 4,
        "batch_size": 200,
        "seed": 1,
        "dtype": "float64",
    }
    if not name.startswith("mf"):
        options["weight_precision"] = "active"
    runs = [list(train(y, 8, device=device, **options)) for device in ("cpu", "cuda")]
    for ours, theirs in zip(*runs, strict=True):
        a, b = ours.posterior, theirs.posterior
        for values in ("a", "b", "c", "d", "e", "f"):
            np.testing.assert_allclose(getattr(b, values), getattr(a, values), rtol=1e-7, err_msg=values)
        for field in fields(a.features):
            want = getattr(a.features, field.name)
            got = np.broadcast_to(getattr(b.features, field.name), want.shape)
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7 * np.abs(want).max())
        np.testing.assert_allclose(theirs.posterior.noise_std, ours.posterior.noise_std, rtol=1e-7)
        assert theirs.posterior.n_active() == ours.posterior.n_active()


@pytest.mark.parametrize("features", ["factorised", "joint"])
def test_a_long_fit_finds_what_the_cpu_finds(features):
    y = data_with_holes(N=2000)
    noise = []
    for device in ("cpu", "cuda"):
        model = bpfa.BPFA(
            10, features=features, max_steps=300, standardize=False, device=device, random_state=0
        )
        # Every column has a noise of its own: the root of the mean of their squares is that of the data.
        noise.append(float(np.sqrt((model.fit(y).noise_std_ ** 2).mean())))
        assert np.isfinite(model.history_["noise_std"]).all()
        assert model.history_["n_active"][-1] == model.posterior_.n_active()
    np.testing.assert_allclose(noise, 0.1, atol=0.02)


def test_a_fit_repeats_itself_to_the_bit():
    y = data_with_holes()
    models = [bpfa.BPFA(8, max_steps=60, device="cuda", random_state=0).fit(y) for _ in range(2)]
    np.testing.assert_array_equal(models[0].components_, models[1].components_)
    np.testing.assert_array_equal(models[0].impute(y), models[1].impute(y))


def test_a_fit_goes_on_where_it_stopped(tmp_path):
    y, path = data_with_holes(), tmp_path / "model.bpfa"
    whole = bpfa.BPFA(8, max_steps=40, device="cuda", random_state=0).fit(y)
    bpfa.BPFA(8, max_steps=25, device="cuda", random_state=0).fit(y).save(path)
    resumed = bpfa.BPFA(8, max_steps=40, device="cuda", random_state=0).fit(y, resume=path)
    np.testing.assert_array_equal(whole.components_, resumed.components_)


def test_other_kinds_of_fit():
    """The sampler, a start by the sampler and a stream of rows predict better than the mean."""
    y, truth = data_with_holes(N=300), draw_data(300, 12, 5, g_o=100.0, g_w=1.0, seed=0).y
    missing = np.isnan(y)

    def error_of(model):
        return np.mean((model.impute(y) - truth)[missing] ** 2) / truth[missing].var()

    sampled = bpfa.BPFA(6, algorithm="gibbs", max_steps=5, device="cuda", random_state=0).fit(y)
    assert error_of(sampled) < 0.6
    model = bpfa.BPFA(6, init="gibbs", max_steps=5, held_out=0.1, device="cuda", random_state=0).fit(y)
    assert error_of(model) < 0.6
    assert model.transform(y).shape == (300, 6)
    assert np.isfinite(model.score(y))
    streamed = bpfa.BPFA(6, total_rows=300, batch_size=20, device="cuda", random_state=0)
    for part in np.array_split(y, 3):
        streamed.partial_fit(part)
    assert streamed.n_steps_ == 15
    assert error_of(streamed) < 0.6


def test_rows_on_the_device_are_those_of_the_source():
    y = data_with_holes(N=50)
    with on_device("cuda"):
        batch = rows_on_device(ArrayRows(y)).take(np.array([3, 48, 3]))
        values, mask = batch.dense("float64", with_mask=True)
    np.testing.assert_allclose(values.get(), np.nan_to_num(y[[3, 48, 3]]), rtol=1e-6)
    np.testing.assert_array_equal(mask.get() != 0, ~np.isnan(y[[3, 48, 3]]))


def test_data_that_does_not_fit_is_copied_by_batches(monkeypatch):
    y = data_with_holes()
    options = {"n_steps": 5, "seed": 0, "batch_size": 100, "device": "cuda"}
    *_, inside = train(y, 6, **options)
    monkeypatch.setattr(bpfa.backends.cuda.rows, "MEMORY_SHARE", 0.0)
    *_, outside = train(y, 6, **options)
    np.testing.assert_array_equal(inside.posterior.a, outside.posterior.a)


def test_copies_that_overlap_with_steps_are_whole(monkeypatch):
    """No batch is written over while the device still reads it, whatever the order of sizes."""
    y = data_with_holes(N=40_000)
    options = {"n_steps": 60, "seed": 0, "batch_size": 3000, "device": "cuda"}
    *_, inside = train(y, 40, **options)
    monkeypatch.setattr(bpfa.backends.cuda.rows, "MEMORY_SHARE", 0.0)
    for _ in range(2):
        *_, outside = train(y, 40, **options)
        np.testing.assert_array_equal(inside.posterior.a, outside.posterior.a)


def test_a_block_on_its_way_is_not_given_away():
    cupy = cupy_module()
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=size) for size in rng.integers(1, 200_000, size=60)]
    with on_device("cuda"):
        slow = cupy.ones((3000, 3000))
        found = []
        for array in arrays:
            for _ in range(3):
                slow = slow @ slow * 1e-4
            found.append(copied_to_device(array) + 0.0)
    for ours, theirs in zip(found, arrays, strict=True):
        np.testing.assert_array_equal(ours.get(), theirs)


def test_a_step_that_is_not_finite_keeps_the_last_good_state():
    y = data_with_holes()
    rows, chosen, stream = ArrayRows(y), algorithm("gibbs-ssvi", device="cuda"), Stream.from_seed(0)
    posterior = DevicePosterior.of(random_posterior(rows, 6, seed=0), "cuda", "float32")
    schedule = Schedule()
    batch = rows.take(np.arange(100))
    good = svi_step(posterior, batch, chosen, step=1, rho=schedule(1), stream=stream)
    huge = Batch(np.where(batch.observed, 1e38, 0.0).astype(np.float32), batch.observed, batch.ids)
    kept = svi_step(good, huge, chosen, step=2, rho=schedule(2), stream=stream)
    np.testing.assert_array_equal(kept.host().a, good.host().a)
    with pytest.raises(ValueError, match="step 2"):
        kept.check_finite()
    with pytest.raises(NonFiniteError):
        svi_step(kept, batch, chosen, step=50, rho=0.1, stream=stream)


@pytest.mark.parametrize("features", ["factorised", "joint"])
def test_out_of_memory_says_what_fits(features):
    """And what it says does fit."""
    pool, y = cupy_module().get_default_memory_pool(), data_with_holes(N=40_000)
    options = {"n_steps": 2, "features": features, "device": "cuda", "seed": 0}
    # Memory that copies go through outlives a test, and keeps what was allocated together with it.
    _staging.cache_clear()
    gc.collect()
    pool.free_all_blocks()
    pool.set_limit(size=pool.used_bytes() + 100 * 2**20)
    try:
        with pytest.raises(MemoryError, match="batch_size of") as raised:
            list(train(y, 200, batch_size=40_000, **options))
        rows = int(re.search(r"batch_size of ([\d,]+) fits", str(raised.value))[1].replace(",", ""))
        assert 1000 < rows < 40_000
        del raised
        gc.collect()
        pool.free_all_blocks()
        list(train(y, 200, batch_size=rows, **options))
    finally:
        pool.set_limit(size=0)


def test_a_cache_that_cannot_be_written_is_no_obstacle(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv(CACHE_VARIABLE, str(blocked))
    with on_device("cuda"), pytest.warns(RuntimeWarning, match=CACHE_VARIABLE):
        bpfa.backends.cuda.runtime.kernel("rows.cu", "gather_rows", "REAL=float", "UNUSED=1")


def test_unknown_gpus_are_refused():
    with pytest.raises(ValueError, match="cuda:99"):
        algorithm("gibbs-ssvi", device="cuda:99")


def picture(size=48):
    y, x = np.mgrid[:size, :size] / size
    return 100 * np.sin(7 * x + 3 * y) + 50 * np.cos(11 * y)


@pytest.mark.parametrize("kind", [{}, {"channel_axis": 2}, {"stack_axis": 0}])
def test_a_picture_is_that_of_the_cpu(kind):
    image = picture()
    if "channel_axis" in kind:
        image = np.stack([image, image[::-1]], axis=2)
    if "stack_axis" in kind:
        image = np.stack([image, image.T])
    missing = np.random.default_rng(0).random(image.shape) < 0.4
    options = {"n_components": 24, "max_steps": 3, "n_draws": 4, "random_state": 0, "patch_size": 6, **kind}
    ours, theirs = (inpaint(image, missing, device=device, **options) for device in ("cpu", "cuda"))
    assert np.corrcoef(ours.image[missing], theirs.image[missing])[0, 1] > 0.99
    assert np.median(np.abs(ours.image - theirs.image)) < 0.5
    np.testing.assert_array_equal(ours.from_prior, theirs.from_prior)
    np.testing.assert_allclose(np.median(theirs.std[missing]), np.median(ours.std[missing]), rtol=0.1)


def test_a_picture_in_strips_is_the_same(monkeypatch):
    image = picture()
    missing = np.random.default_rng(0).random(image.shape) < 0.4
    options = {"n_components": 24, "max_steps": 20, "n_draws": 3, "random_state": 0, "device": "cuda"}
    whole = inpaint(image, missing, **options)
    monkeypatch.setattr(bpfa.backends.cuda.pictures, "STRIP_BYTES", 1)
    np.testing.assert_allclose(inpaint(image, missing, **options).image, whole.image, rtol=1e-9)
    assert np.abs(whole.image - image)[missing].mean() < 20


def test_arrays_of_the_device_are_used_where_they_are():
    cupy = cupy_module()
    y = data_with_holes().astype(np.float32)
    there = cupy.asarray(y)
    *_, ours = train(there, 6, n_steps=5, seed=0, device="cuda")
    *_, theirs = train(y, 6, n_steps=5, seed=0, device="cuda")
    np.testing.assert_array_equal(ours.posterior.a, theirs.posterior.a)
    model = bpfa.BPFA(6, max_steps=5, device="cuda", random_state=0).fit(there)
    filled = model.impute(there, n_draws=2)
    assert isinstance(filled, cupy.ndarray)
    np.testing.assert_allclose(filled.get()[~np.isnan(y)], y[~np.isnan(y)], rtol=1e-6)
    torch = pytest.importorskip("torch")
    assert model.impute(torch.as_tensor(y, device="cuda"), n_draws=2).is_cuda
