"""The kernels of the GPU against the specification."""

from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest
from kernel_problems import METHODS, assert_same_sums, method_pair, sparse_problem
from scipy.special import ndtri

import bpfa.backends.cuda.local
from bpfa import ArrayRows, Batch
from bpfa._support.philox import MAX_ROW_ID, Stream
from bpfa.backends.cuda.gibbs import Chain, correlated
from bpfa.backends.cuda.posterior import DevicePosterior
from bpfa.backends.cuda.rows import rows_on_device, uploaded
from bpfa.backends.cuda.runtime import OPTIONS, cupy_module, on_device, source_text
from bpfa.backends.cuda.sums import DeviceSums
from bpfa.backends.cuda.view import DeviceView
from bpfa.backends.kernel_methods import GIBBS
from bpfa.inference.starts import random_posterior
from bpfa.model.local import LocalState
from bpfa.model.view import GlobalView

pytestmark = pytest.mark.gpu

pair = partial(method_pair, bpfa.backends.cuda.local)
# Rows, features, columns and share observed: odd numbers, single ones, numbers that need other places for the
# dictionary, and numbers that fill whole groups of lanes.
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


def problem(seed, N, K, D, *given, **options):
    """A problem whose rows use ten features where there are many, as the largest shapes have."""
    return sparse_problem(seed, N, K, D, *given, **options, used=min(0.2, 10 / K))


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
