"""Switches of groups: which features their rows use, against likelihoods written out and drawn groups."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from bpfa.model.priors import Priors
from bpfa.model.row_features import FeatureGroups
from bpfa.model.row_switches import log_odds_of_use, sums_of_squares, use_evidence


def features(n_features=8, n_columns=40, g_o=4.0, seed=0):
    rng = np.random.default_rng(seed)
    phi, variance = rng.normal(size=(n_features, n_columns)), rng.uniform(0.5, 2, n_features)
    return FeatureGroups(phi, variance, g_o, np.array([30], np.int32))


def drawn_rows(groups, used, n_rows, seed):
    """Rows of a group that use some of the features."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(n_rows, len(used))) * np.sqrt(groups.weight_variance) * used
    noise = rng.normal(size=(n_rows, groups.phi.shape[1])) / np.sqrt(groups.g_o)
    return 3.0 + weights @ groups.phi + noise


def squares_of(groups, rows):
    weights = (rows - rows.mean(axis=0)) @ groups.regression.T
    return (weights**2).sum(axis=0)


def test_the_evidence_is_that_of_the_likelihoods_written_out():
    groups, n_rows = features(), 30
    rows = drawn_rows(groups, np.array([1, 0] * 4), n_rows, seed=1)
    squares = squares_of(groups, rows)
    known = np.diag(groups.weight_covariance)
    found = use_evidence(squares, n_rows, groups.weight_variance, known)
    # The rows less their mean are n - 1 independent ones, in the directions of an orthonormal basis.
    contrasts = np.linalg.svd(np.eye(n_rows) - 1 / n_rows)[2][: n_rows - 1] @ rows
    for k in range(8):
        others = np.delete(np.arange(8), k)
        without = (groups.phi[others].T * groups.weight_variance[others]) @ groups.phi[others]
        without += np.eye(40) / groups.g_o
        along = np.linalg.solve(without, groups.phi[k])
        precision = groups.phi[k] @ along
        variance = max(((contrasts @ along / precision) ** 2).mean() - 1 / precision, 0.0)
        both = without + variance * np.outer(groups.phi[k], groups.phi[k])
        ratio = sum(
            multivariate_normal(cov=both).logpdf(row) - multivariate_normal(cov=without).logpdf(row)
            for row in contrasts
        )
        np.testing.assert_allclose(found[k], ratio - np.log(n_rows - 1) / 2, rtol=1e-6, atol=1e-6)


def used_in_groups(share, seed, n_groups=60, n_rows=40):
    """Return which features drawn groups use, and which are found."""
    groups, rng = features(seed=seed), np.random.default_rng(seed)
    truth = rng.random((n_groups, 8)) < share
    squares = np.array(
        [squares_of(groups, drawn_rows(groups, used, n_rows, i)) for i, used in enumerate(truth)]
    )
    evidence = groups.uses(squares, float(n_rows))
    return truth, evidence + log_odds_of_use(evidence, Priors()) > 0


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_the_features_that_groups_use_are_found(share):
    truth, found = used_in_groups(share, seed=2)
    assert (truth == found).mean() > 0.98


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_groups_that_use_all_features_or_none_lose_and_gain_none(share):
    truth, found = used_in_groups(share, seed=3)
    assert (truth == found).mean() > 0.98


def test_squares_that_are_not_those_of_the_group_find_nothing():
    """The negative control: the squares of other groups tell nothing of what a group uses."""
    groups = features(seed=4)
    truth = np.random.default_rng(4).random((60, 8)) < 0.5
    squares = np.array([squares_of(groups, drawn_rows(groups, used, 40, i)) for i, used in enumerate(truth)])
    found = groups.uses(np.roll(squares, 1, axis=0), 40.0) > 0
    assert 0.35 < (truth == found).mean() < 0.65


def test_rare_features_need_more_evidence():
    evidence = np.full((50, 2), -9.0)
    evidence[:40, 0] = evidence[0, 1] = 9.0
    often, seldom = log_odds_of_use(evidence, Priors())
    assert seldom < -1 < 1 < often


def test_sums_of_squares_are_those_of_every_size():
    rng = np.random.default_rng(5)
    weights, added = rng.normal(size=(20, 3)), rng.random((20, 3))
    nearest = np.array([rng.permutation(20)[:9] for _ in range(4)], np.int32)
    found = sums_of_squares(weights, added, nearest, np.array([5, 9], np.int32))
    rows = nearest[2, :5]
    expected = ((weights[rows] - weights[rows].mean(axis=0)) ** 2).sum(axis=0) + added[rows].sum(axis=0)
    np.testing.assert_allclose(found[0, 2], expected)
