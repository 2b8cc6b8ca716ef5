"""Groups of like rows that use the features of the model, against the same distribution written out."""

import numpy as np
import pytest

from bpfa.backends.numpy.row_groups import StudentGroup, student_given_observed
from bpfa.model.row_features import NOISE_ROWS, FeatureGroups, KeptWeights, feature_rows
from bpfa.model.row_groups import KeptRows, Queries


def example(n_rows=80, n_columns=9, n_features=3, seed=0, switched=False):
    rng = np.random.default_rng(seed)
    phi, variance = rng.normal(size=(n_features, n_columns)), rng.uniform(0.5, 2, n_features)
    weights = rng.normal(size=(n_rows, n_features)) * np.sqrt(variance)
    # The two last features are not used.
    weights[:, 1:] *= 0 if switched else 1
    values = weights @ phi + 0.3 * rng.normal(size=(n_rows, n_columns)) + 1
    missing = rng.random(values.shape) < 0.1
    unknown = np.where(missing, 0.004 if switched else 0.4, 0.0)
    kept = KeptRows(values.astype(np.float32), unknown.astype(np.float32))
    members = np.array([20, 40], np.int32)
    return kept, FeatureGroups(phi, variance, 9.0, members, switched=(switched, switched))


def group_written_out(kept, groups, rows, used):
    """The scale matrix over all columns, from the definitions."""
    values, size = kept.values[rows].astype(float), len(rows)
    weights = values @ groups.regression.T
    scatter = (weights - weights.mean(axis=0)).T @ (weights - weights.mean(axis=0))
    scatter += size * np.linalg.inv(
        groups.g_o * groups.phi @ groups.phi.T + np.diag(1 / groups.weight_variance)
    )
    for row in kept.variance[rows]:
        scatter += groups.regression @ np.diag(row) @ groups.regression.T
    covariance = (scatter + groups.prior_rows * np.diag(groups.weight_variance)) / (size + groups.prior_rows)
    covariance[~used] = covariance[:, ~used] = 0
    residual = values - weights @ groups.phi
    squares = ((residual - residual.mean(axis=0)) ** 2).sum() + (kept.variance[rows] > 0).sum() / groups.g_o
    squares += size * np.trace(groups.phi.T @ groups.weight_covariance @ groups.phi)
    D = values.shape[1]
    noise = (squares + NOISE_ROWS * D / groups.g_o) / ((size + NOISE_ROWS) * D)
    scale = (groups.phi.T @ covariance @ groups.phi + noise * np.eye(D)) * (size + 1) / size
    return StudentGroup(values.mean(axis=0), scale, groups.prior_rows + size + 2)


@pytest.mark.parametrize("switched", [False, True])
@pytest.mark.parametrize("n_observed", [1, 5, 9])
def test_predictions_are_those_of_the_distribution_written_out(n_observed, switched):
    kept, groups = example(switched=switched)
    used = np.array([True, not switched, not switched])
    rng = np.random.default_rng(1)
    observed = np.zeros((1, 9), bool)
    observed[0, rng.permutation(9)[:n_observed]] = True
    scored = ~observed & (rng.random((1, 9)) < 0.6)
    queries = Queries.of(kept.values[:1] + 0.1, observed, scored)
    nearest = rng.permutation(80)[None, :40].astype(np.int32)
    found = feature_rows(kept, KeptWeights.of(kept, groups), queries, nearest, groups)
    for c, size in enumerate(groups.members):
        group = group_written_out(kept, groups, nearest[0, :size], used)
        expected = student_given_observed(group, queries.values[0].astype(float), observed[0], scored[0])
        np.testing.assert_allclose(found.mean[c, 0], expected.mean, rtol=1e-5)
        np.testing.assert_allclose(found.square_scale[c, 0], expected.square_scale, rtol=1e-5)
        np.testing.assert_allclose(found.log_density[c, 0], expected.log_density, rtol=1e-5, atol=1e-9)
        assert found.freedom[c, 0] == expected.freedom
        if n_observed == 9:
            assert found.log_density[c, 0] == 0
