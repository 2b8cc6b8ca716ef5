"""The choice of groups of like rows by hidden entries."""

import numpy as np
import pytest
from scipy.stats import t

from bpfa.model.row_groups import StudentMixture, StudentRows
from bpfa.selection.group_choice import (
    HiddenDensities,
    MixtureTrial,
    candidate_groups,
    entry_densities,
    mixture_weights,
)

N = 2000


def hidden(gains, errors=None, seed=0):
    """Densities of entries, two to a row, with groups that are better by these gains on average."""
    rng = np.random.default_rng(seed)
    whole = rng.normal(-1.0, 0.5, size=N)
    log_density = np.stack([whole, *(whole + rng.normal(gain, 0.5, size=N) for gain in gains)])
    error = np.ones_like(log_density) if errors is None else np.outer([1.0, *errors], np.ones(N))
    return HiddenDensities(log_density, error, np.arange(N) // 2)


def candidates(n):
    found = candidate_groups(10_000, 10)
    return type(found)(found.members[:n], found.prior_rows[:n], (1 / n,) * n)


def test_the_weights_are_those_of_the_largest_likelihood():
    log_density = np.random.default_rng(0).normal(size=(3, 500))
    weights = mixture_weights(log_density)
    np.testing.assert_allclose(weights.sum(), 1.0)

    def likelihood(weights):
        return np.logaddexp.reduce(np.log(weights)[:, None] + log_density, axis=0).mean()

    for change in np.random.default_rng(1).dirichlet(100 * weights + 1, size=50):
        assert likelihood(change) <= likelihood(weights) + 1e-9


def test_better_groups_are_taken():
    trial = MixtureTrial(candidates(2), hidden([0.3, -3.0]))
    assert trial.is_better
    assert trial.gain > 10 * trial.standard_error
    assert trial.mixture.members == candidates(2).members[:1]


@pytest.mark.parametrize("gains", [[-3.0], [-1.0, -2.0]])
def test_worse_groups_are_not(gains):
    assert not MixtureTrial(candidates(len(gains)), hidden(gains)).is_better


@pytest.mark.parametrize(("gains", "hopeless"), [([-3.0], True), ([-1.0, -2.0], True), ([0.1, -2.0], False)])
def test_a_first_look_tells_whether_to_go_on(gains, hopeless):
    assert MixtureTrial(candidates(len(gains)), hidden(gains)).seems_no_better == hopeless


def test_groups_with_larger_errors_are_not():
    """However much more probable the entries are."""
    assert not MixtureTrial(candidates(1), hidden([0.5], errors=[1.2])).is_better
    assert MixtureTrial(candidates(1), hidden([0.5], errors=[0.9])).is_better


def test_a_gain_is_judged_on_other_rows_than_it_was_learned_from():
    """Pure chance: of many components one suits any entries best, but not others."""
    rng = np.random.default_rng(0)
    log_density = rng.normal(-1.0, 0.01, size=(13, 30))
    trial = MixtureTrial(candidates(12), HiddenDensities(log_density, np.ones((13, 30)), np.arange(30)))
    own = np.logaddexp.reduce(np.log(mixture_weights(log_density) + 1e-300)[:, None] + log_density, axis=0)
    assert trial.gain < own.mean() - log_density[0].mean()


def test_entries_of_a_single_row_judge_nothing():
    log_density = np.array([[-1.0, -1.0], [0.0, 0.0]])
    trial = MixtureTrial(candidates(1), HiddenDensities(log_density, np.ones((2, 2)), np.zeros(2, int)))
    assert not trial.is_better


def test_groups_are_smaller_than_the_rows_that_are_kept():
    assert candidate_groups(45, 10) is None
    assert candidate_groups(46, 10).members == (15,) * 3
    assert set(candidate_groups(10**6, 10).members) == {15 * 2**i for i in range(8)}


def test_wide_tables_have_groups_with_the_features_of_the_model():
    wide, middle, narrow = (candidate_groups(1000, n) for n in (1000, 100, 20))
    assert not wide.members
    assert not wide.kinds
    assert wide.feature_members
    assert middle.members
    assert middle.kinds
    assert middle.feature_members
    assert not narrow.feature_members
    assert narrow.kinds
    assert candidate_groups(46, 1000) is None


def test_a_part_of_a_mixture_keeps_what_belongs_together():
    found = candidate_groups(1000, 100)
    n_groups, n_features = len(found.members), len(found.feature_members)
    places = np.array([1, n_groups, n_groups + n_features + 3])
    part = found.chosen(places, np.array([0.1, 0.2, 0.3]))
    assert part.members == (found.members[1],)
    assert part.weights == (0.1,)
    assert part.feature_members == (found.feature_members[0],)
    assert part.feature_weights == (0.2,)
    assert part.kinds == (found.kinds[3],)
    assert part.kind_prior_rows == (found.kind_prior_rows[3],)
    assert part.kind_weights == (0.3,)


def test_entries_have_the_density_of_their_kinds_together():
    """Two groups, and a division into two kinds of which a row is the first with probability 1/4."""
    rng = np.random.default_rng(0)
    groups, kinds = (
        StudentRows(*rng.uniform(1, 2, size=(2, 2, 1, 3)), np.full((2, 1), 7.0), np.zeros((2, 1)))
        for _ in range(2)
    )
    kinds = StudentRows(*list(vars(kinds).values())[:4], np.log([[0.25], [0.75]]))
    found = StudentMixture((groups, kinds))
    at = np.array([0]), np.array([2])
    density, error = entry_densities(found, np.array([1.3]), at)
    alone = [entry_densities(StudentMixture((part,)), np.array([1.3]), at) for part in (groups, kinds)]
    np.testing.assert_allclose(density[:2], alone[0][0])
    expected = [t(7, kinds.mean[k, 0, 2], np.sqrt(kinds.square_scale[k, 0, 2])).pdf(1.3) for k in range(2)]
    np.testing.assert_allclose(np.exp(density[2]), 0.25 * expected[0] + 0.75 * expected[1])
    np.testing.assert_allclose(error[2], 1.3 - 0.25 * kinds.mean[0, 0, 2] - 0.75 * kinds.mean[1, 0, 2])
