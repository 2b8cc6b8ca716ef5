"""The kernels of the GPU against the specification and the CPU; posterior, rows and pictures on a device."""

import gc
import re
from dataclasses import fields, replace

import numpy as np
import pytest
from builders import data_with_holes
from scipy.special import ndtri

import bpfa.backends.cuda.local
from bpfa import ArrayRows, Batch, algorithm, draw_data, inpaint, train
from bpfa._support.philox import MAX_ROW_ID, Stream
from bpfa.backends import numpy as local
from bpfa.backends.cuda.gibbs import Chain, correlated
from bpfa.backends.cuda.posterior import DevicePosterior
from bpfa.backends.cuda.rows import rows_on_device, uploaded
from bpfa.backends.cuda.runtime import CACHE_VARIABLE, OPTIONS, cupy_module, on_device, source_text
from bpfa.backends.cuda.staging import _staging, copied_to_device
from bpfa.backends.cuda.sums import DeviceSums
from bpfa.backends.cuda.view import DeviceView
from bpfa.backends.kernel_methods import GIBBS
from bpfa.inference.progress import NonFiniteError
from bpfa.inference.schedule import Schedule
from bpfa.inference.starts import random_posterior
from bpfa.inference.svi import svi_step
from bpfa.model.local import LocalState
from bpfa.model.view import GlobalView

pytestmark = pytest.mark.gpu

METHODS = {
    "gibbs": ("Gibbs", {"burn_in": 2, "n_samples": 2}),
    "gibbs two-step": ("Gibbs", {"burn_in": 2, "n_samples": 2, "blocked": False}),
    "gibbs, dropout": ("Gibbs", {"burn_in": 2, "n_samples": 2, "dropout": 0.3}),
    "spike-slab": ("SpikeSlab", {"n_sweeps": 3}),
    "mean-field": ("MeanField", {"n_sweeps": 3}),
}
# Rows, features, columns and share observed: odd ones, single ones, ones that need other places for the
# dictionary, and ones that fill whole groups of lanes.
SHAPES = [
    (1, 1, 1, 1.0),
    (1, 1, 1, 0.0),
    (3, 2, 5, 0.6),
    (40, 20, 7, 0.2),
    (33, 63, 31, 0.6),
    (34, 64, 32, 1.0),
    (35, 65, 33, 0.5),
    (9, 129, 64, 0.6),
    (17, 130, 65, 1.0),
    (300, 24, 16, 0.0),
]
LARGE = [
    (5, 300, 450, 0.9),
    (5, 300, 450, 1.0),
    (4, 1024, 64, 0.7),
    (3, 1024, 2048, 0.5),
    (3, 1024, 2048, 1.0),
]


def pair(name, **options):
    """The specification and the kernel of a method."""
    kind, settings = METHODS[name]
    return getattr(local, kind)(**settings), getattr(bpfa.backends.cuda.local, kind)(**settings, **options)


def problem(seed, N, K, D, observed=0.6, expected_view=False, first_id=0):
    """Rows drawn from a sparse model, and a view near the one that made them."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(K, D)) * D**-0.5
    v = rng.uniform(0, 0.02, size=(K, D)) if expected_view else np.zeros((K, 1))
    view = GlobalView(phi, v, rng.normal(-1.5, 1.0, size=K), g_o=25.0, g_w=0.5)
    x = (rng.random((N, K)) < min(0.2, 10 / K)) * rng.normal(size=(N, K)) * 1.4
    values = x @ phi + rng.normal(size=(N, D)) * 0.2
    batch = Batch(values, rng.random((N, D)) < observed, np.arange(first_id, first_id + N))
    return view, batch, Stream.from_seed(seed).rows(batch.ids, step=seed + 3)


def assert_same_sums(ours, theirs, rtol):
    for field in fields(theirs):
        a, b = np.broadcast_arrays(getattr(ours, field.name), getattr(theirs, field.name))
        scale = max(1.0, float(np.abs(b).max(initial=0.0)))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale, err_msg=field.name)


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("expected_view", [False, True])
@pytest.mark.parametrize("name", METHODS)
def test_kernels_equal_the_specification(name, expected_view, started):
    for seed, (N, K, D, observed) in enumerate(SHAPES):
        check_against_specification(name, seed, N, K, D, observed, expected_view, started)


@pytest.mark.parametrize("shape", LARGE)
@pytest.mark.parametrize("name", METHODS)
def test_large_dictionaries_equal_the_specification(name, shape):
    N, K, D, observed = shape
    check_against_specification(name, 1, N, K, D, observed, False, False, joint=K * K * D < 1e8)


def check_against_specification(name, seed, N, K, D, observed, expected_view, started, joint=True):
    view, batch, draws = problem(seed, N, K, D, observed, expected_view)
    start = None
    if started:
        rng = np.random.default_rng(seed)
        start = LocalState((rng.random((N, K)) < 0.3).astype(float), rng.normal(size=(N, K)))
    spec, kernel = pair(name, dtype="float64")
    assert_same_sums(kernel.sums(view, batch, draws, start), spec.sums(view, batch, draws, start), 1e-8)
    if joint:
        assert_same_sums(
            *(method.sums(view, batch, draws, start, joint=True) for method in (kernel, spec)), 1e-8
        )
    moments = (method.row_moments(view, batch, draws, start) for method in (kernel, spec))
    for ours, theirs in zip(*moments, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)
    samples = (method.samples(view, batch, draws, 3, start) for method in (kernel, spec))
    for ours, theirs in zip(*samples, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("observed", [0.3, 1.0])
@pytest.mark.parametrize("name", METHODS)
def test_single_precision_rounds_and_no_more(name, observed):
    """Rows agree to rounding, but for the few whose coin falls within rounding of the edge."""
    view, batch, draws = problem(1, N=500, K=40, D=24, observed=observed)
    spec, kernel = pair(name)
    expected = spec.row_moments(view, batch, draws)
    found = zip(kernel.row_moments(view, batch, draws), expected, strict=True)
    error = np.max([np.abs(ours - theirs).max(axis=1) for ours, theirs in found], axis=0)
    assert (error > 1e-3).mean() < 0.01
    assert np.median(error) < 1e-5


@pytest.mark.parametrize("name", METHODS)
def test_rows_in_parts_add_up(name, monkeypatch):
    """Sums do not depend, but for rounding, on how many rows are worked on at a time; ids may be large."""
    view, batch, draws = problem(2, N=3000, K=20, D=9, first_id=MAX_ROW_ID - 3000)
    _, kernel = pair(name)
    whole = kernel.sums(view, batch, draws)
    monkeypatch.setattr(bpfa.backends.cuda.local, "PART_BYTES", 1)
    assert_same_sums(kernel.sums(view, batch, draws), whole, 1e-5)


@pytest.mark.parametrize("observed", [0.3, 1.0])
@pytest.mark.parametrize("name", METHODS)
def test_the_same_bits_twice(name, observed):
    view, batch, draws = problem(3, N=5000, K=70, D=20, observed=observed)
    _, kernel = pair(name)
    for joint in (False, True):
        first, second = (kernel.sums(view, batch, draws, joint=joint) for _ in range(2))
        for field in fields(first):
            np.testing.assert_array_equal(getattr(first, field.name), getattr(second, field.name))


@pytest.mark.parametrize("observed", [0.3, 1.0])
def test_a_row_does_not_depend_on_its_place(observed):
    """The rows of a warp read their columns in different orders, and have the same bits in either order."""
    view, batch, draws = problem(6, N=801, K=70, D=40, observed=observed)
    _, kernel = pair("gibbs")
    others = Batch(batch.values[1:], batch.observed[1:], batch.ids[1:])
    moved = kernel.row_moments(view, others, Stream.from_seed(6).rows(others.ids, draws.step))
    for ours, theirs in zip(moved, kernel.row_moments(view, batch, draws), strict=True):
        np.testing.assert_array_equal(ours, theirs[1:])


@pytest.mark.parametrize(("N", "K", "D"), [(1, 3, 2), (700, 40, 9), (130, 600, 64), (40_000, 70, 33)])
def test_correlations_of_complete_rows(N, K, D):
    view, batch, _ = problem(5, N, K, D, observed=1.0)
    with on_device("cuda"):
        seen, rows = DeviceView.of(view, "float32"), rows_on_device(ArrayRows(batch.values))
        chosen = np.random.default_rng(0).permutation(N)
        dense, found = (array.get() for array in correlated(rows.take(chosen), seen))
    np.testing.assert_array_equal(dense, batch.values[chosen].astype(np.float32))
    expected = dense.astype(float) @ view.phi.astype(np.float32).astype(float).T
    np.testing.assert_allclose(found[:, :K], expected, rtol=0, atol=2e-6 * np.abs(expected).max())
    assert (found[:, K:] == 0).all()


@pytest.mark.parametrize("n_samples", [2, 5])
@pytest.mark.parametrize("observed", [0.4, 1.0])
@pytest.mark.parametrize(("N", "K", "D"), [(1, 3, 2), (700, 40, 9), (3000, 300, 70), (130, 600, 64)])
def test_sums_of_samples_are_products_of_matrices(N, K, D, observed, n_samples):
    check_sums_of_samples(N, K, D, observed, n_samples)


def check_sums_of_samples(N, K, D, observed, n_samples):
    """Whatever made the samples: tensor cores split numbers in two, and must lose nothing by it."""
    cupy = cupy_module()
    view, batch, draws = problem(4, N, K, D, observed)
    # In some rows more features than a warp has lanes.
    view = GlobalView(view.phi, view.v, view.logit + 4.0, view.g_o, view.g_w)
    with on_device("cuda"):
        seen, rows = DeviceView.of(view, "float32"), uploaded(batch, "float32")
        kept = Chain(seen, False, draws.key, draws.step, burn_in=1, n_samples=n_samples).kept_samples(rows)
        sums = DeviceSums(
            seen, N, complete=rows.complete, joint=False, method=GIBBS, n_samples=n_samples, step=1
        )
        sums.add_kept(kept, rows)
        joint = DeviceSums(
            seen, N, complete=rows.complete, joint=True, method=GIBBS, n_samples=n_samples, step=1
        )
        joint.add_kept(kept, rows)
        x, r = matrix_of(kept, K), kept.residuals.get().reshape(-1, D).astype(float)
    o = np.tile(batch.observed, (n_samples, 1))
    assert (r[~o] == 0).all()
    assert N < 100 or (x != 0).sum(axis=1).max() > 32
    np.testing.assert_array_equal(sums.n.get(), (x != 0).sum(axis=0))
    for ours, theirs in [
        (sums.xd, x.T @ r),
        (sums.total_zw2, (x**2).sum(axis=0)),
        (sums.T, (x**2).T @ o if observed < 1 else (x**2).sum(axis=0)[:, None]),
        (sums.scalars, np.array([(r**2).sum(), batch.observed.sum()])),
    ]:
        np.testing.assert_allclose(cupy.asnumpy(ours), theirs, rtol=1e-6, atol=1e-6 * np.abs(theirs).max())
    for d, ours in zip((0, D - 1), (joint.xx[0], joint.xx[-1]), strict=True):
        theirs = (x * o[:, d : d + 1]).T @ x if observed < 1 else x.T @ x
        np.testing.assert_allclose(ours.get(), theirs, rtol=1e-6, atol=1e-6 * np.abs(theirs).max(initial=1.0))


def matrix_of(kept, K):
    """Return x of all samples as a matrix, samples and rows x features."""
    counts, real = kept.counts.get().ravel(), kept.residuals.dtype
    columns = kept.entries.get().reshape(len(counts), K, -1)
    features = columns[..., :4].view(np.int32)[..., 0]
    weights = columns[..., columns.shape[-1] - real.itemsize :].view(real)[..., 0]
    there = np.arange(K) < counts[:, None]
    matrix = np.zeros((len(counts), K))
    matrix[np.nonzero(there)[0], features[there]] = weights[there]
    return matrix


@pytest.mark.parametrize("n_matrices", [1, 5])
@pytest.mark.parametrize("K", [1, 2, 17, 64, 168, 200])
def test_factors_of_precisions(K, n_matrices):
    """With a kernel of our own where a matrix fits into shared memory, and by cuSOLVER."""
    rng = np.random.default_rng(K)
    A = rng.normal(size=(n_matrices, K, 2 * K))
    P = A @ A.swapaxes(1, 2) + np.eye(K)
    start = random_posterior(ArrayRows(rng.normal(size=(9, 5))), K, seed=0)
    posterior = DevicePosterior.of(start, "cuda", "float64")
    with on_device("cuda"):
        factors, transposed = replace(posterior, precision=cupy_module().asarray(P))._factors()
        np.testing.assert_allclose(factors.get(), np.linalg.cholesky(P), rtol=1e-10, atol=1e-12 * K)
        np.testing.assert_array_equal(transposed.get(), factors.get().swapaxes(1, 2))
        P[-1, 0, 0] = -1.0
        broken = replace(posterior, precision=cupy_module().asarray(P))._factors()[0].get()
    assert not np.isfinite(broken[-1]).all()


def test_normal_numbers_of_single_precision():
    cupy = cupy_module()
    source = (
        source_text("common.cuh")
        + """
    extern "C" __global__ void normals(const unsigned* words, float* out, int n) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) out[i] = normal_of_word(words[i], 0.0f);
    }"""
    )
    few = np.arange(3000, dtype=np.uint32)
    near_half = np.uint32(2**31) + few - np.uint32(1500)
    words = np.concatenate([few, ~few, near_half, np.random.default_rng(0).integers(2**32, size=10**6)])
    words = words.astype(np.uint32)
    out = cupy.empty(len(words), cupy.float32)
    function = cupy.RawKernel(source, "normals", options=OPTIONS)
    function((-(-len(words) // 256),), (256,), (cupy.asarray(words), out, np.int32(len(words))))
    expected = ndtri((words + 0.5) / 2**32)
    np.testing.assert_allclose(out.get(), expected, rtol=1e-6, atol=1e-9)


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
