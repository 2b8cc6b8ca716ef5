"""Groups that use the features of the model: blocks of rows give what the specification gives for each."""

import numpy as np
import pytest

from bpfa.backends.cpu import row_groups
from bpfa.backends.cpu.row_groups import CpuRowGroups
from bpfa.backends.cuda.row_groups import CudaRowGroups
from bpfa.backends.numpy.row_groups import NumpyRowGroups
from bpfa.model.row_features import FeatureGroups, KeptWeights
from bpfa.model.row_groups import KeptRows, Queries

DEVICES = [CpuRowGroups(), pytest.param(CudaRowGroups(), marks=pytest.mark.gpu)]


def problem(n_columns, n_features, missing=0.1, seed=0):
    """Kept rows, rows with all, none, one and some of their entries observed, and groups of several sizes."""
    rng = np.random.default_rng(seed)
    phi, variance = rng.normal(size=(n_features, n_columns)), rng.uniform(0.5, 2, n_features)
    used = rng.random((200, n_features)) < 0.5
    values = (used * rng.normal(size=used.shape)) @ phi + 0.3 * rng.normal(size=(200, n_columns)) + 1
    unknown = np.where(rng.random(values.shape) < missing, 0.4, 0.0)
    kept = KeptRows(values.astype(np.float32), unknown.astype(np.float32))
    observed = rng.random((30, n_columns)) < 0.6
    observed[0], observed[1] = True, False
    observed[2] = np.arange(n_columns) == 0
    scored = ~observed & (rng.random(observed.shape) < 0.5)
    queries = Queries.of(kept.values[:30] + np.float32(0.1), observed, scored)
    groups = FeatureGroups(
        phi, variance, 9.0, np.array([10, 20, 20, 45], np.int32),
        switched=(False, False, True, True), log_odds=rng.normal(size=n_features),
    )  # fmt: skip
    nearest = np.array([rng.permutation(200)[:50] for _ in range(30)], np.int32)
    return kept, KeptWeights.of(kept, groups), queries, nearest, groups


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize(("n_columns", "n_features"), [(1, 1), (9, 3), (40, 12), (7, 11)])
@pytest.mark.parametrize("device", DEVICES)
def test_blocks_equal_the_specification(n_columns, n_features, missing, device):
    given = problem(n_columns, n_features, missing)
    expected, found = NumpyRowGroups().feature_rows(*given), device.feature_rows(*given)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.square_scale, expected.square_scale, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found.log_density, expected.log_density, rtol=1e-7, atol=1e-8)
    np.testing.assert_array_equal(found.freedom, expected.freedom)


def test_results_depend_neither_on_threads_nor_on_blocks(monkeypatch):
    given = problem(40, 12)
    expected = CpuRowGroups().feature_rows(*given, n_threads=1)
    monkeypatch.setattr(row_groups, "BLOCK_NUMBERS", 4000)
    for n_threads in (0, 1, 2, 3):
        found = CpuRowGroups().feature_rows(*given, n_threads=n_threads)
        for name in ("mean", "square_scale", "log_density"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("n_columns", [7, 40, 100])
def test_results_of_a_row_do_not_depend_on_the_other_rows(n_columns):
    kept, weights, queries, nearest, groups = problem(n_columns, 12)
    together = CpuRowGroups().feature_rows(kept, weights, queries, nearest, groups)
    for q in range(len(queries)):
        alone = CpuRowGroups().feature_rows(kept, weights, queries.part(q, q + 1), nearest[q : q + 1], groups)
        for name in ("mean", "square_scale", "log_density"):
            np.testing.assert_array_equal(getattr(alone, name)[:, 0], getattr(together, name)[:, q])
