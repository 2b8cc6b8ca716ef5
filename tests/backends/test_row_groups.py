"""Groups of like rows of a table: exact distributions, and kernels that equal their specification."""

import numpy as np
import pytest
from scipy.stats import invgamma, invwishart, multivariate_normal, multivariate_t, norm

from bpfa.backends.cpu.row_groups import CpuRowGroups
from bpfa.backends.cuda import row_groups as cuda_row_groups
from bpfa.backends.cuda.row_groups import CudaRowGroups
from bpfa.backends.numpy.row_groups import (
    NumpyRowGroups,
    StudentGroup,
    group_posterior,
    nearest_to,
    student_given_observed,
)
from bpfa.model.row_groups import KeptRows, Queries, RowGroups
from bpfa.model.row_kinds import RowKinds

KERNELS = [NumpyRowGroups(), CpuRowGroups()]
# Every kind of device that is compared with the specification.
DEVICES = [CpuRowGroups(), pytest.param(CudaRowGroups(), marks=pytest.mark.gpu)]
# The kernels compute in single precision.
CLOSE = {"rtol": 2e-4, "atol": 2e-4}


def covariance(n_columns, seed=0):
    factors = np.random.default_rng(seed).normal(size=(n_columns, n_columns))
    return (factors @ factors.T / n_columns + np.eye(n_columns)).astype(np.float32)


def table(n_rows, n_columns, missing=0.1, seed=1):
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(covariance(n_columns))
    values = (rng.normal(size=(n_rows, n_columns)) @ root.T + 3).astype(np.float32)
    variance = np.where(rng.random(values.shape) < missing, 0.5, 0.0).astype(np.float32)
    return KeptRows(values, variance)


def groups(n_columns, members=(5, 5, 20, 50), prior_rows=(3.0, 30.0, 3.0, 10.0), **prior):
    return RowGroups(
        covariance(n_columns), np.array(members, np.int32), np.array(prior_rows, np.float32), **prior
    )


def queries_near(kept, n=24, seed=2):
    """Rows with all, some, one and none of their entries observed."""
    rng = np.random.default_rng(seed)
    values = kept.values[:n] + np.float32(0.2) * rng.normal(size=kept.values[:n].shape).astype(np.float32)
    observed = rng.random(values.shape) < 0.7
    observed[0], observed[1], observed[2] = True, False, False
    observed[2, 0] = True
    scored = ~observed & (rng.random(values.shape) < 0.5)
    return Queries.of(values, observed, scored)


def test_the_density_of_a_row_is_the_integral_over_mean_and_variance():
    rows = np.array([[0.3], [1.1], [-0.4], [0.8]])
    prior = RowGroups(np.array([[2.0]], np.float32), np.array([4]), np.array([3.0]), 0.5, np.inf, 1.0)
    group = group_posterior(rows, np.zeros_like(rows), 3.0, prior)
    # In one dimension IW(nu + D + 1, nu C) is an inverse gamma distribution. Integrals are sums over a grid.
    mean, variance = np.linspace(-8, 8, 801), np.exp(np.linspace(-5, 6, 801))[:, None]
    weights = (
        norm.pdf(mean, 0, np.sqrt(variance / 0.5)) * invgamma.pdf(variance, 5 / 2, scale=6 / 2) * variance
    )
    for row in rows:
        weights = weights * norm.pdf(row, mean, np.sqrt(variance))
    expected = (weights * norm.pdf(0.9, mean, np.sqrt(variance))).sum() / weights.sum()
    found = multivariate_t(group.mean, group.scale, group.freedom).pdf([0.9])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_density_of_a_row_of_two_columns_is_the_mean_over_the_posterior():
    """Draws of the covariance from its posterior, by the formulas of conjugate analysis."""
    rng = np.random.default_rng(0)
    rows, prior = (
        rng.normal(size=(6, 2)),
        groups(2, (6,), (4.0,), mean_rows=0.7, scale_rows=np.inf, correlation_share=1.0),
    )
    group = group_posterior(rows, np.zeros_like(rows), 4.0, prior)
    m, M, kappa = rows.mean(axis=0), 6, 0.7
    psi = 4.0 * prior.covariance + (rows - m).T @ (rows - m) + kappa * M / (kappa + M) * np.outer(m, m)
    draws = invwishart(4.0 + 2 + 1 + M, psi).rvs(5_000, random_state=0)
    x = np.array([0.5, -0.2])
    center, wider = M * m / (kappa + M), (kappa + M + 1) / (kappa + M)
    densities = np.array([multivariate_normal.pdf(x, center, wider * sigma) for sigma in draws])
    found = multivariate_t(group.mean, group.scale, group.freedom).pdf(x)
    assert abs(found - densities.mean()) < 4 * densities.std() / np.sqrt(len(densities))


@pytest.mark.parametrize("n_observed", [0, 1, 3])
def test_entries_given_others_are_those_of_the_joint_distribution(n_observed):
    rng = np.random.default_rng(0)
    group = StudentGroup(rng.normal(size=5), covariance(5).astype(float), 6.0)
    values, observed, scored = rng.normal(size=5), np.zeros(5, bool), np.zeros(5, bool)
    observed[[4, 0, 2][:n_observed]] = True
    scored[[1, 3]] = True
    found = student_given_observed(group, values, observed, scored)

    def log_density(chosen):
        if not chosen.any():
            return 0.0
        scale = group.scale[np.ix_(chosen, chosen)]
        return multivariate_t(group.mean[chosen], scale, group.freedom).logpdf(values[chosen])

    expected = log_density(observed | scored) - log_density(observed)
    np.testing.assert_allclose(found.log_density, expected)
    single = np.zeros(5, bool)
    single[1] = True
    one = student_given_observed(group, values, observed, single)
    marginal = multivariate_t(one.mean[[1]], one.square_scale[[1]][:, None], one.freedom)
    np.testing.assert_allclose(marginal.logpdf(values[[1]]), one.log_density)


@pytest.mark.parametrize("kernels", KERNELS)
def test_a_strong_prior_gives_the_normal_distribution_of_the_whole_table(kernels):
    kept, prior = (
        table(100, 4),
        groups(4, (20,), (1e7,), mean_rows=1e7, scale_rows=np.inf, correlation_share=1.0),
    )
    queries = queries_near(kept, 6)
    nearest = kernels.nearest_rows(kept, queries, prior.members)
    found = kernels.student_rows(kept, queries, nearest, prior)
    C = prior.covariance.astype(float)
    for q, o in enumerate(queries.observed.astype(bool)):
        gain = C[:, o] @ np.linalg.inv(C[np.ix_(o, o)]) if o.any() else np.zeros((4, 0))
        mean, spread = gain @ queries.values[q, o], np.diag(C - gain @ C[o])
        np.testing.assert_allclose(found.mean[0, q, ~o], mean[~o], rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(found.square_scale[0, q, ~o], spread[~o], rtol=1e-3)


def test_a_group_of_all_rows_is_the_regression_on_the_whole_table():
    rng = np.random.default_rng(0)
    values = (rng.normal(size=(4000, 3)) @ np.linalg.cholesky(covariance(3)).T).astype(np.float32)
    kept = KeptRows(values, np.zeros_like(values))
    prior = groups(3, (3999,), (1e-3,))
    queries = Queries.of(np.array([[1.0, -1.0, 0.0]]), np.array([[True, True, False]]))
    nearest = CpuRowGroups().nearest_rows(kept, queries, prior.members)
    found = CpuRowGroups().student_rows(kept, queries, nearest, prior)
    members = values[nearest[0]].astype(float)
    weights = np.linalg.lstsq(np.c_[np.ones(3999), members[:, :2]], members[:, 2], rcond=None)[0]
    np.testing.assert_allclose(found.mean[0, 0, 2], weights @ [1.0, 1.0, -1.0], rtol=1e-3)


@pytest.mark.parametrize("n_columns", [1, 2, 7, 16, 24, 40])
@pytest.mark.parametrize("prior", [{}, {"mean_rows": 3.0, "scale_rows": np.inf, "correlation_share": 1.0}])
@pytest.mark.parametrize("device", DEVICES)
def test_the_kernels_equal_the_specification(n_columns, prior, device):
    kept, chosen = table(300, n_columns), groups(n_columns, **prior)
    queries = queries_near(kept)
    sizes = np.unique(chosen.members).astype(np.int32)
    both = NumpyRowGroups(), device
    found = [kernels.nearest_rows(kept, queries, sizes) for kernels in both]
    # Where nothing is observed, all distances are equal.
    for q in np.flatnonzero(queries.observed.any(axis=1)):
        for size in sizes:
            assert set(found[0][q, :size]) == set(found[1][q, :size])
    numpy, other = (kernels.student_rows(kept, queries, found[0], chosen) for kernels in both)
    for name in ("mean", "square_scale", "freedom", "log_density"):
        np.testing.assert_allclose(getattr(other, name), getattr(numpy, name), **CLOSE, err_msg=name)


def test_threads_do_not_change_bits():
    kept, chosen = table(3000, 9), groups(9, (15, 150), (5.0, 5.0))
    queries = queries_near(kept, 200)
    nearest = [CpuRowGroups().nearest_rows(kept, queries, chosen.members, n) for n in (1, 2, 3)]
    found = [CpuRowGroups().student_rows(kept, queries, nearest[0], chosen, n) for n in (1, 2, 3)]
    for other, student in zip(nearest[1:], found[1:], strict=True):
        np.testing.assert_array_equal(other, nearest[0])
        for name in ("mean", "square_scale", "log_density"):
            np.testing.assert_array_equal(getattr(student, name), getattr(found[0], name))


@pytest.mark.parametrize("kernels", [NumpyRowGroups(), *DEVICES])
def test_a_row_is_not_like_itself(kernels):
    """Not even if it is in the sample with other entries missing than now."""
    kept = table(400, 8, missing=0.2)
    rng = np.random.default_rng(3)
    observed = (kept.variance[:50] == 0) & (rng.random((50, 8)) < 0.8)
    queries = Queries.of(kept.values[:50], observed)
    nearest = kernels.nearest_rows(kept, queries, np.array([10], np.int32))
    known = 2 * observed.sum(axis=1) >= 1
    assert not (nearest[known] == np.arange(50)[known, None]).any()


@pytest.mark.parametrize("kernels", [NumpyRowGroups(), *DEVICES])
def test_of_equal_rows_only_one_is_left_out(kernels):
    values = np.repeat(np.arange(40, dtype=np.float32), 3)[:, None] + np.zeros((1, 3), np.float32)
    kept = KeptRows(values, np.zeros_like(values))
    queries = Queries.of(values[:3], np.ones((3, 3), bool))
    nearest = kernels.nearest_rows(kept, queries, np.array([2], np.int32))
    assert {tuple(sorted(rows)) for rows in nearest} == {(1, 2)}


def test_distances_are_those_of_observed_entries():
    kept = KeptRows(np.array([[0, 9], [5, 0], [1, 9]], np.float32), np.zeros((3, 2), np.float32))
    near = nearest_to(kept, np.array([0.2, 0.0], np.float32), np.array([True, False]), 2)
    assert near.tolist() == [0, 2]


def test_arguments_of_the_wrong_shape_are_refused():
    kept, chosen = table(30, 4), groups(4, (5,), (1.0,))
    queries = queries_near(kept, 5)
    with pytest.raises(ValueError, match="sizes: expected fewer"):
        CpuRowGroups().nearest_rows(kept, queries, np.array([30], np.int32))
    with pytest.raises(ValueError, match="nearest: expected numbers of kept rows"):
        CpuRowGroups().student_rows(kept, queries, np.full((5, 5), 30, np.int32), chosen)
    with pytest.raises(ValueError, match="queries: expected the columns"):
        CpuRowGroups().nearest_rows(kept, queries_near(table(30, 3), 5), np.array([5], np.int32))


def kinds(n_columns, n_kinds=3, seed=4):
    rng = np.random.default_rng(seed)
    scale = np.array([covariance(n_columns, seed + k).astype(float) for k in range(n_kinds)])
    return RowKinds(
        np.log(rng.dirichlet(np.ones(n_kinds))),
        rng.normal(size=(n_kinds, n_columns)) + 3,
        scale,
        rng.uniform(5, 50, n_kinds),
    )


@pytest.mark.parametrize("n_columns", [1, 2, 7, 24, 40])
@pytest.mark.parametrize("device", DEVICES)
def test_kernels_of_kinds_equal_the_specification(n_columns, device):
    queries, chosen = queries_near(table(300, n_columns)), kinds(n_columns)
    both = NumpyRowGroups(), device
    numpy, cpu = (kernels.kind_rows(chosen, queries) for kernels in both)
    for name in ("mean", "square_scale", "freedom", "log_density", "log_share"):
        np.testing.assert_allclose(
            getattr(cpu, name), getattr(numpy, name), rtol=2e-6, atol=2e-6, err_msg=name
        )
    numpy, cpu = (kernels.kind_densities(chosen, queries) for kernels in both)
    np.testing.assert_allclose(cpu, numpy, rtol=1e-9, atol=1e-9)
    shares = np.random.default_rng(0).dirichlet(np.ones(3), len(queries)).T
    for one, other in zip(*(kernels.kind_sums(chosen, queries, shares) for kernels in both), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-9)


def test_threads_do_not_change_the_bits_of_kinds():
    queries, chosen = queries_near(table(3000, 9), 2000), kinds(9, 5)
    shares = np.random.default_rng(0).dirichlet(np.ones(5), len(queries)).T
    one, other = (CpuRowGroups().kind_rows(chosen, queries, n) for n in (1, 3))
    for name in ("mean", "square_scale", "log_density", "log_share"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for a, b in zip(*(CpuRowGroups().kind_sums(chosen, queries, shares, n) for n in (1, 3)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_one_kind_is_the_group_of_all_rows():
    """The sums over rows without holes give what `group_posterior` says of these rows."""
    rows, prior = table(60, 4, missing=0).values, groups(4, (60,), (5.0,))
    start = RowKinds(np.zeros(1), np.full((1, 4), 2.0), np.eye(4)[None], np.array([10.0]))
    sums = CpuRowGroups().kind_sums(start, Queries.of(rows, np.ones(rows.shape, bool)), np.ones((1, 60)))
    found = RowKinds.of_sums(np.array([60.0]), *sums, start.mean, 5.0, prior)
    expected = group_posterior(rows.astype(float), np.zeros(rows.shape), 5.0, prior)
    np.testing.assert_allclose(found.mean[0], expected.mean, rtol=1e-6)
    np.testing.assert_allclose(found.scale[0], expected.scale, rtol=1e-5, atol=1e-6)
    assert found.freedom[0] == expected.freedom


@pytest.mark.gpu
def test_bits_on_a_gpu_do_not_depend_on_the_blocks(monkeypatch):
    kept, chosen, several = table(3000, 9), groups(9, (15, 150), (5.0, 5.0)), kinds(9, 5)
    queries = queries_near(kept, 500)

    def predicted():
        nearest = CudaRowGroups().nearest_rows(kept, queries, chosen.members)
        found = CudaRowGroups().student_rows(kept, queries, nearest, chosen)
        return nearest, found, CudaRowGroups().kind_rows(several, queries)

    one = predicted()
    monkeypatch.setattr(cuda_row_groups, "BLOCKS", 1)
    monkeypatch.setattr(cuda_row_groups, "MOST_KEYS", 3000 * 7)
    other = predicted()
    np.testing.assert_array_equal(one[0], other[0])
    for a, b in zip(one[1:], other[1:], strict=True):
        for name in ("mean", "square_scale", "log_density"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
