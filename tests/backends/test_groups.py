"""Factor models of groups of like rows: the specification against exact results, the kernels against it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from bpfa.backends.cpu.groups import CpuGroups
from bpfa.backends.cuda import groups as cuda_groups
from bpfa.backends.cuda.groups import CudaGroups
from bpfa.backends.groups import GroupKernels, PatchSearch
from bpfa.backends.numpy.groups import NumpyGroups, best_rank, complete_rows, group_covariance
from bpfa.model.groups import GroupAverage, GroupModel, Windows


@pytest.fixture(params=[CpuGroups, pytest.param(CudaGroups, marks=pytest.mark.gpu)])
def kernels(request):
    """The kernels of a device, which are compared with the specification."""
    return request.param()


def group(rng, n_members=30, n_columns=12, rank=3, observed=0.5, noise=0.1, rest=0.0):
    """Return the windows of a table drawn from the model, the truth, and where its rows begin."""
    features = rng.normal(size=(rank, n_columns))
    truth = rng.normal(size=(n_members, rank)) @ features + rng.normal(size=n_columns)
    truth += np.sqrt(rest) * rng.normal(size=truth.shape)
    seen = truth + np.sqrt(noise) * rng.normal(size=truth.shape)
    mask = rng.random(truth.shape) < observed
    current = np.where(mask, seen, truth + 0.3 * rng.normal(size=truth.shape))
    windows = Windows(
        current.astype(np.float32).ravel(),
        seen.astype(np.float32).ravel(),
        mask.astype(np.uint8).ravel(),
        np.arange(n_columns)[None],
    )
    return windows, truth, np.arange(n_members)[None] * n_columns


def model_of(n_columns, *, noise=0.1, n_iterations=4, full=False, floor=1e-3, **settings):
    log_prior = None if full else np.zeros(n_columns + 1)
    return GroupModel(np.full(n_columns, noise, np.float32), floor, n_iterations, log_prior, **settings)


def test_rows_are_completed_by_exact_conditionals():
    """The joint Gaussian of (x, y) written out, and conditioned on y."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    covariance, center, noise = root @ root.T, rng.normal(size=4), np.array([0.1, 0.2, 0.3, 0.4])
    seen, observed = rng.normal(size=(1, 4)), np.array([[True, False, True, True]])
    found = complete_rows(center, covariance, seen, observed, noise)
    o = observed[0]
    both = np.block(
        [[covariance, covariance[:, o]], [covariance[o], covariance[np.ix_(o, o)] + np.diag(noise[o])]]
    )
    precision = np.linalg.inv(both)
    exact = np.linalg.inv(precision[:4, :4])
    mean = center - exact @ precision[:4, 4:] @ (seen[0, o] - center[o])
    np.testing.assert_allclose(found.mean[0], mean)
    np.testing.assert_allclose(found.variance[0], np.diag(exact))
    np.testing.assert_allclose(found.covariance, exact)


def test_em_never_lowers_the_likelihood():
    rng = np.random.default_rng(1)
    windows, _, first = group(rng, observed=0.7)
    entries = first[0][:, None] + windows.offsets
    rows, seen = windows.current[entries].astype(float), windows.seen[entries].astype(float)
    observed, noise = windows.observed[entries].astype(bool), np.full(12, 0.1)
    model = model_of(12, full=True, floor=1e-9)
    unknown, likelihoods = np.zeros((12, 12)), []
    for _ in range(12):
        center = rows.mean(axis=0)
        covariance, _ = group_covariance(
            (rows - center).T @ (rows - center) + unknown, len(rows), model, None
        )
        likelihoods.append(
            sum(
                multivariate_normal.logpdf(
                    seen[n, o], center[o], covariance[np.ix_(o, o)] + np.diag(noise[o])
                )
                for n, o in enumerate(observed)
            )
        )
        rows, _, unknown = complete_rows(center, covariance, seen, observed, noise)
    # The first step is a start from completed rows and no step of EM.
    assert (np.diff(likelihoods[1:]) > 0).all()


def test_the_number_of_features_is_found():
    rng = np.random.default_rng(2)
    for rank in (0, 2, 5):
        sample = rng.normal(size=(400, rank)) @ (3 * rng.normal(size=(rank, 16))) + rng.normal(size=(400, 16))
        values = np.linalg.eigvalsh(np.cov(sample.T))[::-1]
        assert best_rank(values, 400, np.zeros(17), 1e-6) == rank
    # What all groups have learned together tips the balance.
    values = np.array([1.5, 1.0, 1.0, 1.0])
    assert best_rank(values, 40, np.zeros(5), 1e-6) == 0
    assert best_rank(values, 40, np.array([0.0, 50.0, 0.0, 0.0, 0.0]), 1e-6) == 1


@pytest.mark.parametrize("observed", [0.0, 0.2, 0.6, 0.95, 1.0])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(
    ("n_members", "n_columns"),
    [(30, 12), (1, 5), (3, 1), (9, 2), (7, 33), (50, 49), (40, 64), (20, 81), (60, 100)],
)
def test_the_kernel_is_the_specification(kernels, observed, full, n_members, n_columns):
    rng = np.random.default_rng(3)
    windows, _, first = group(rng, n_members, n_columns, observed=observed)
    model = model_of(n_columns, full=full)
    expected = NumpyGroups().fit_members(windows, first, n_members, model)
    found = kernels.fit_members(windows, first, n_members, model)
    np.testing.assert_array_equal(found.ranks, expected.ranks)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=0, atol=2e-3)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=2e-2, atol=1e-4)
    np.testing.assert_allclose(found.residuals, expected.residuals, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize("n_columns", [16, 40])
def test_features_of_equal_strength(kernels, n_columns):
    """Waves of all phases have two features with the same eigenvalue; equal rows have none."""
    phases = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    rows = np.cos(2 * np.pi * np.arange(n_columns) / 8 + phases[:, None]).astype(np.float32)
    for scale, rank in ((1.0, 2), (0.0, 0)):
        flat = (1 + scale * rows).ravel()
        windows = Windows(flat, flat, np.ones(flat.size, np.uint8), np.arange(n_columns)[None])
        first, model = np.arange(24)[None] * n_columns, model_of(n_columns, noise=0.01)
        expected, found = (k.fit_members(windows, first, 24, model) for k in (NumpyGroups(), kernels))
        assert found.ranks.tolist() == expected.ranks.tolist() == [rank]
        np.testing.assert_allclose(found.mean, expected.mean, rtol=0, atol=1e-3)
        np.testing.assert_allclose(found.variance, expected.variance, rtol=2e-2)


@pytest.mark.parametrize("full", [False, True])
def test_groups_of_many_columns(kernels, full):
    """A GPU keeps such a group in its main memory, because its shared memory is too small."""
    windows, _, first = group(np.random.default_rng(7), 24, 150, observed=0.6)
    model = model_of(150, full=full)
    expected, found = (k.fit_members(windows, first, 24, model) for k in (NumpyGroups(), kernels))
    np.testing.assert_array_equal(found.ranks, expected.ranks)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=0, atol=5e-3)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=2e-2, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("n_threads", [128, 256])
def test_the_shape_of_a_launch_changes_nothing(monkeypatch, n_threads):
    """What depends on the shared memory of a card: the number of threads, and where a group is kept."""
    windows, _, first = group(np.random.default_rng(10), 40, 50, observed=0.5)
    model = model_of(50)
    expected = NumpyGroups().fit_members(windows, first, 40, model)
    monkeypatch.setattr(cuda_groups, "THREADS", (n_threads,))
    for shared_memory in (cuda_groups.CurrentDevice.shared_memory(), 48 * 1024):
        monkeypatch.setattr(cuda_groups.CurrentDevice, "shared_memory", lambda size=shared_memory: size)
        found = CudaGroups().fit_members(windows, first, 40, model)
        np.testing.assert_array_equal(found.ranks, expected.ranks)
        np.testing.assert_allclose(found.mean, expected.mean, rtol=0, atol=2e-3)
        np.testing.assert_allclose(found.variance, expected.variance, rtol=2e-2, atol=1e-4)


def test_a_prior_covariance(kernels):
    rng = np.random.default_rng(4)
    windows, _, first = group(rng, 6, 10)
    prior = np.cov(rng.normal(size=(10, 50))).astype(np.float32)
    model = model_of(10, full=True, prior=prior, prior_rows=20.0)
    expected, found = (k.fit_members(windows, first, 2, model) for k in (NumpyGroups(), kernels))
    np.testing.assert_allclose(found.mean, expected.mean, rtol=0, atol=1e-3)
    without = kernels.fit_members(windows, first, 2, model_of(10, full=True))
    assert np.abs(found.mean - without.mean).max() > 0.01


def test_overlapping_groups_are_averaged_the_same_for_any_threads(kernels):
    rng = np.random.default_rng(5)
    flat, observed = rng.normal(size=(2, 400)).astype(np.float32), rng.integers(0, 2, 400).astype(np.uint8)
    windows = Windows(flat[0], flat[1], observed, np.array([[0, 1, 20, 21], [1, 2, 3, 4]]))
    first = rng.integers(0, 379, size=(30, 8))
    first[3, 5:] = -1
    blocks = np.array([0, 10, 11, 30])
    averages = []
    for used, n_threads in ((NumpyGroups(), 1), (kernels, 1), (kernels, 2), (kernels, 3)):
        average = GroupAverage(400, 4, 2)
        for part in range(2):
            used.add_groups(windows, first, blocks, model_of(4), average, part, n_threads)
        averages.append(average)
    expected, one, two, three = averages
    np.testing.assert_array_equal(one.rank_counts, expected.rank_counts)
    np.testing.assert_allclose(one.value(flat[0]), expected.value(flat[0]), rtol=0, atol=1e-3)
    np.testing.assert_allclose(one.variance, expected.variance, rtol=0.02, atol=1e-3)
    np.testing.assert_allclose(one.residuals, expected.residuals, rtol=0.02, atol=1e-3)
    for other in (two, three):
        np.testing.assert_array_equal(other.sums, one.sums)
        np.testing.assert_array_equal(other.residuals, one.residuals)


def picture_problem(shape=(2, 24, 27, 2)):
    """Return the windows of a smooth picture, half of it observed, and a search for its patches."""
    rng = np.random.default_rng(8)
    z, y, x, c = np.indices(shape)
    picture = np.sin(y / 3 + z) + np.cos(x / 4) + 0.5 * c + 0.1 * rng.normal(size=shape)
    observed = (rng.random(shape) < 0.5).astype(np.uint8)
    current = np.where(observed, picture, picture + 0.2 * rng.normal(size=shape)).astype(np.float32)
    places = np.ravel_multi_index(np.indices((1, 4, 4, 1)), shape).reshape(1, -1)
    flat = current.ravel(), picture.astype(np.float32).ravel(), observed.ravel()
    windows = Windows(*flat, np.concatenate([places, places + 1]))
    starts = np.arange(0, 21, 5, dtype=np.int32)
    slices, y = np.repeat(np.arange(2, dtype=np.int32), len(starts)), np.tile(starts, 2)
    return windows, PatchSearch(
        shape, slices, y, np.append(starts, 23).astype(np.int32), (4, 4), 6, 1, 1e-3, 20
    )


def test_a_round_is_the_same_as_its_steps(kernels, monkeypatch):
    windows, search = picture_problem()
    models = [model_of(16, noise=noise) for noise in (0.01, 0.02)]
    shares = []
    found = kernels.average_patches(windows, search, models, 1, shares.append)
    expected = GroupKernels.average_patches(NumpyGroups(), windows, search, models)
    assert shares[-1] == 1
    np.testing.assert_array_equal(found.rank_counts, expected.rank_counts)
    np.testing.assert_allclose(found.value(windows.current), expected.value(windows.current), atol=2e-3)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=0.02, atol=1e-4)
    np.testing.assert_allclose(found.residuals, expected.residuals, rtol=0.01)
    again = kernels.average_patches(windows, search, models)
    np.testing.assert_array_equal(again.sums, found.sums)
    np.testing.assert_array_equal(again.residuals, found.residuals)
    # In strips of one row of references.
    monkeypatch.setattr(cuda_groups, "TERM_BYTES", 1)
    monkeypatch.setattr("bpfa.backends.groups.MOST_MEMBERS", 1)
    strips = kernels.average_patches(windows, search, models, 1, shares.append)
    assert len(shares) > len(search.y)
    np.testing.assert_allclose(strips.sums, found.sums, rtol=1e-4, atol=1e-3)


@pytest.mark.gpu
def test_a_window_that_is_too_large_for_a_gpu_is_searched_by_the_host():
    windows, search = picture_problem()
    far = replace(search, reach=400)
    expected = CpuGroups().find_members(windows.current.reshape(search.shape), far)
    found = CudaGroups().find_members(windows.current.reshape(search.shape), far)
    np.testing.assert_array_equal(found, expected)
    models = [model_of(16, n_iterations=1)] * 2
    averages = [k.average_patches(windows, far, models) for k in (CpuGroups(), CudaGroups())]
    values = [average.value(windows.current) for average in averages]
    np.testing.assert_allclose(values[1], values[0], atol=1e-3)


@pytest.mark.gpu
def test_members_outside_the_arrays_are_refused_by_the_gpu():
    windows, _, first = group(np.random.default_rng(9))
    with pytest.raises(
        ValueError, match=r"first: a member reaches entry 361 of 360; expected members inside"
    ):
        CudaGroups().fit_members(windows, first + 2, 1, model_of(12))


@pytest.mark.parametrize("shape", [(1, 20, 23, 1), (1, 9, 40, 3), (3, 12, 11, 2), (1, 5, 5, 1)])
def test_the_nearest_patches_are_found(kernels, shape):
    values = np.random.default_rng(6).normal(size=shape).astype(np.float32)
    y = np.arange(0, shape[1] - 3, 2, dtype=np.int32)
    slices = (np.arange(len(y)) % shape[0]).astype(np.int32)
    x = np.array([0, 1, shape[2] - 4], np.int32)
    search = PatchSearch(shape, slices, y, x, (4, 4), 6, 1, 0.01, 15)
    expected = NumpyGroups().find_members(values, search)
    for n_threads in (1, 2):
        found = kernels.find_members(values, search, n_threads)
        np.testing.assert_array_equal(found, expected)
    reference = ((slices[:, None] * shape[1] + y[:, None]) * shape[2] + x) * shape[3]
    np.testing.assert_array_equal(found[..., 0], reference)


def test_equal_patches_are_ordered_by_distance_and_place(kernels):
    values = np.tile(np.arange(4, dtype=np.float32), (1, 16, 5))[..., None]
    places = np.array([3, 6], np.int32)
    for weight in (0.0, 0.01):
        search = PatchSearch(values.shape, np.zeros(2, np.int32), places, places, (4, 4), 5, 0, weight, 20)
        expected = NumpyGroups().find_members(values, search)
        np.testing.assert_array_equal(kernels.find_members(values, search), expected)


@pytest.mark.parametrize("observed", [0.7, 1.0])
def test_intervals_of_groups_drawn_from_the_model_are_honest(observed):
    """EM has converged, so that nothing but the number of rows limits what is known of mean and features."""
    squares, variances, inside, known = [], [], [], []
    model = model_of(24, noise=0.3, n_iterations=200, floor=1e-4)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        windows, truth, first = group(rng, 100, 24, rank=3, observed=observed, noise=0.3, rest=0.1)
        found = CpuGroups().fit_members(windows, first, 100, model)
        error = np.square(found.mean[0] - truth)
        squares.append(error.mean())
        variances.append(found.variance.mean())
        inside.append(np.mean(error < 1.96**2 * found.variance[0]))
        # The variance if mean and features were known, by the exact conditional.
        entries = first[0][:, None] + windows.offsets
        covariance = np.cov(truth.T)
        exact = complete_rows(
            truth.mean(axis=0),
            covariance,
            windows.seen[entries].astype(float),
            windows.observed[entries].astype(bool),
            np.full(24, 0.3),
        )
        known.append(exact.variance.mean())
    assert 0.94 < np.mean(inside) < 0.96
    assert np.mean(variances) == pytest.approx(np.mean(squares), rel=0.05)
    # What is not known of the group is not a trifle.
    assert np.mean(squares) > 1.1 * np.mean(known)
