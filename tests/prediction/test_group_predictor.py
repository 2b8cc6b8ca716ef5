"""The mixture of groups of like rows with the model of the whole table."""

import numpy as np
import pytest
from scipy.stats import norm, t

from bpfa.backends.registry import backend_of
from bpfa.data import Batch
from bpfa.model.row_features import FeatureGroups
from bpfa.model.row_groups import KeptRows
from bpfa.prediction.groups import GroupMixture, GroupPredictor, fit_kinds
from bpfa.prediction.predictions import Prediction
from bpfa.prediction.scores import RowScores

rng = np.random.default_rng(0)
ROWS = (
    rng.normal(size=(300, 1)) + 0.3 * rng.normal(size=(300, 4)) + np.where(np.arange(300) % 2, 4, -4)[:, None]
)
KEPT = KeptRows(ROWS.astype(np.float32), np.zeros((300, 4), np.float32))
MIXTURE = GroupMixture((15, 50), (5.0, 25.0), (0.25, 0.5))
BATCH = Batch([[4.0, 4.2, np.nan, np.nan], [-4.0, np.nan, -3.5, np.nan], [np.nan] * 4])
WHOLE = Prediction(np.zeros((3, 4)), np.full((3, 4), 2.0))


def predictor(mixture=MIXTURE, kept=KEPT):
    return GroupPredictor(mixture, kept, np.eye(4, dtype=np.float32), backend_of("cpu").row_groups)


def test_mean_and_deviation_are_those_of_draws():
    found = predictor().mixed(WHOLE, BATCH)
    mask = ~BATCH.observed
    whole = np.random.default_rng(1).normal(0.0, 2.0, size=(40_000, mask.sum()))
    draws = predictor().draws(whole, BATCH, mask, np.random.default_rng(2))
    error = 5 * found.std[mask] / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - found.mean[mask]) < error).all()
    np.testing.assert_allclose(draws.std(axis=0), found.std[mask], rtol=0.03)


def test_a_row_without_entries_is_that_of_the_whole_table():
    found = predictor().mixed(WHOLE, BATCH)
    np.testing.assert_array_equal(found.mean[2], WHOLE.mean[2])
    np.testing.assert_array_equal(found.std[2], WHOLE.std[2])


def test_the_score_of_a_single_entry_is_the_density_of_the_mixture():
    held_out = np.zeros((3, 4), bool)
    held_out[0, 2] = True
    truth = np.where(BATCH.observed, BATCH.values, 3.9)
    whole = RowScores(np.array([-1.5, 0.0, 0.0]), WHOLE.mean)
    found = predictor().scores(whole, BATCH, truth, held_out)
    ((rows, students),) = predictor().students(BATCH)
    assert rows.tolist() == [0, 1]
    density = 0.25 * np.exp(-1.5)
    for c, weight in enumerate(MIXTURE.weights):
        scale = np.sqrt(students.rows.square_scale[c, 0, 2])
        density += weight * t(students.rows.freedom[c, 0], students.rows.mean[c, 0, 2], scale).pdf(3.9)
    np.testing.assert_allclose(found.log_density, [np.log(density), 0.0, 0.0], rtol=1e-4)


def test_blocks_do_not_change_predictions(monkeypatch):
    batch = Batch(np.where(rng.random((50, 4)) < 0.3, np.nan, ROWS[:50]))
    whole = Prediction(np.zeros((50, 4)), np.ones((50, 4)))
    expected = predictor().mixed(whole, batch)
    monkeypatch.setattr("bpfa.prediction.groups.predictor.BLOCK_ROWS", 7)
    np.testing.assert_array_equal(predictor().mixed(whole, batch).mean, expected.mean)


def test_kept_rows_are_completed_again():
    variance = np.where(rng.random(ROWS.shape) < 0.2, 16.0, 0.0).astype(np.float32)
    variance[0] = 16.0
    kept = KeptRows(np.where(variance > 0, 0.0, ROWS).astype(np.float32), variance)
    again = predictor(GroupMixture((50,), (5.0,), (1.0,)), kept).completed_again()
    missing = variance > 0
    np.testing.assert_array_equal(again.values[~missing], kept.values[~missing])
    assert (again.variance[~missing] == 0).all()
    np.testing.assert_array_equal(again.values[0], kept.values[0])
    missing[0] = False
    errors = [((rows.values - ROWS)[missing] ** 2).mean() for rows in (kept, again)]
    assert errors[1] < 0.2 * errors[0]
    assert (again.variance[missing] < 16).mean() > 0.95


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="kept: 50 rows; expected more than the 50 members"):
        predictor(kept=KeptRows(KEPT.values[:50], KEPT.variance[:50]))


def with_kinds():
    """Groups, groups with features, and a division into kinds."""
    mixture = GroupMixture((15,), (5.0,), (0.25,), (50,), (0.25,), (2,), (4.0,), (0.25,))
    kernels = backend_of("cpu").row_groups
    kinds = fit_kinds(KEPT, np.cov(ROWS.T).astype(np.float32), 2, [4.0], kernels, np.random.default_rng(0))
    features = FeatureGroups(np.ones((1, 4)), np.array([16.0]), 10.0, np.zeros(0, np.int32))
    return GroupPredictor(mixture, KEPT, np.eye(4, dtype=np.float32), kernels, 1, kinds, features)


def test_kinds_are_found():
    (kinds,) = with_kinds()._kinds
    np.testing.assert_allclose(np.sort(kinds.mean[:, 0]), [-4, 4], atol=0.3)
    np.testing.assert_allclose(np.exp(kinds.log_weights), 0.5, atol=0.05)


def test_mean_and_deviation_with_kinds_are_those_of_draws():
    found = with_kinds().mixed(WHOLE, BATCH)
    mask = ~BATCH.observed
    whole = np.random.default_rng(1).normal(0.0, 2.0, size=(40_000, mask.sum()))
    draws = with_kinds().draws(whole, BATCH, mask, np.random.default_rng(2))
    error = 5 * found.std[mask] / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - found.mean[mask]) < error).all()
    np.testing.assert_allclose(draws.std(axis=0), found.std[mask], rtol=0.03)


def test_the_joint_density_of_a_mixture_integrates_to_one():
    """Over one entry; the density of the model of the whole table is that of its prediction."""
    grid = np.linspace(-30, 40, 7001)
    batch = Batch(np.tile([[4.0, 4.2, np.nan, 3.5]], (len(grid), 1)))
    held_out = np.zeros(batch.values.shape, bool)
    held_out[:, 2] = True
    truth = np.where(held_out, grid[:, None], batch.values)
    whole = RowScores(norm.logpdf(grid, 0.0, 2.0), np.zeros(truth.shape))
    found = with_kinds().scores(whole, batch, truth, held_out)
    density = np.exp(found.log_density)
    np.testing.assert_allclose(density.sum() * (grid[1] - grid[0]), 1.0, rtol=1e-3)
    prediction = with_kinds().mixed(Prediction(np.zeros((1, 4)), np.full((1, 4), 2.0)), batch_of(batch, 1))
    np.testing.assert_allclose((density @ grid) / density.sum(), prediction.mean[0, 2], rtol=1e-3)


def batch_of(batch, n):
    return Batch(batch.values[:n], batch.observed[:n], batch.ids[:n])


def test_kinds_alone_need_no_rows():
    whole = with_kinds()
    alone = whole.mixture.without_rows()
    np.testing.assert_allclose((alone.global_weight, alone.kind_weights[0]), (0.5, 0.5))
    found = GroupPredictor(
        alone, None, np.eye(4, dtype=np.float32), backend_of("cpu").row_groups, 1, whole._kinds
    )
    assert np.isfinite(found.mixed(WHOLE, BATCH).mean).all()
    assert MIXTURE.without_rows() is None


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(ValueError, match="kept: 0 rows"):
        predictor(kept=None)
    with pytest.raises(ValueError, match="kinds: 0 divisions"):
        predictor(GroupMixture(kinds=(2,), kind_prior_rows=(1.0,), kind_weights=(0.5,)))


def test_kinds_do_not_take_a_column_for_constant_that_seldom_varies():
    # In 3 of 1,000 rows, of any kind, the last column is 10, and 0 in the others.
    rows = np.column_stack([KEPT.values[np.arange(1000) % 300], np.zeros(1000)]).astype(np.float32)
    rows[[10, 301, 700], -1] = 10.0
    rows -= rows.mean(axis=0)
    kept, covariance = KeptRows(rows, np.zeros_like(rows)), np.cov(rows.T).astype(np.float32)
    kernels = backend_of("cpu").row_groups
    (kinds,) = fit_kinds(kept, covariance, 4, [1.0], kernels, np.random.default_rng(0))
    mixture = GroupMixture(kinds=(4,), kind_prior_rows=(1.0,), kind_weights=(1.0,))
    groups = GroupPredictor(mixture, None, covariance, kernels, kinds=[kinds])
    holed = np.where(np.arange(5) == 4, np.nan, rows)
    found = groups.mixed(Prediction(np.zeros_like(holed), np.ones_like(holed)), Batch(holed))
    error = (rows - found.mean)[:, -1] / found.std[:, -1]
    # An entry of 10 is 18 standard deviations of the column from its mean.
    assert np.abs(error).max() < 2.5 * rows[:, -1].max() / rows[:, -1].std()
