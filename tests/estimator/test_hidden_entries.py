"""What a model is judged by: entries that its fit has not seen, or figures that say otherwise."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from small_table import HIDDEN, HOLED, X, model, saved

from bpfa import BPFA, SeenInFitWarning
from bpfa._support.philox import Stream
from bpfa.data import ArrayRows, FewHeldOutRows
from bpfa.estimator import visible
from bpfa.estimator.hidden_entries import HELD_OUT, SEEN, UNKNOWN
from bpfa.estimator.model_file import read_outcome, write_outcome
from bpfa.estimator.publishing import publish

RNG = np.random.default_rng(0)
SETTINGS = {"n_components": 80, "max_steps": 60, "noise": "shared", "random_state": 0}


@pytest.fixture(scope="module")
def wide():
    """A table of few rows and of more features than can be learned from it; the fit sees part of it."""
    n_rows, n_columns, n_features = 280, 400, 300
    features = RNG.normal(size=(n_features, n_columns)) * np.linspace(1, 0.1, n_features)[:, None]
    weights = RNG.normal(size=(n_rows, n_features)) * (RNG.random((n_rows, n_features)) < 0.5)
    full = weights @ features
    full += 0.3 * full.std() * RNG.normal(size=full.shape)
    hidden = RNG.random(full.shape) < 0.03
    return full, hidden, np.where(hidden, np.nan, full)


@pytest.fixture(scope="module")
def wide_model(wide):
    return BPFA(**SETTINGS).fit(wide[2])


def test_figures_of_the_data_of_a_fit_are_those_of_entries_that_it_has_not_seen(wide, wide_model):
    full, hidden, data = wide
    n_observed = (~hidden).sum()
    own, true = wide_model.calibration(data), wide_model.calibration(full, hidden)
    assert set(own["entries"]) == set(true["entries"]) == {HELD_OUT}
    assert own["n_entries"][0] == pytest.approx(0.01 * n_observed, rel=0.1)
    assert true["n_entries"][0] == hidden.sum()
    # The entries of a row depend on one another, which doubles the variance at most.
    share = true["coverage"]
    error = np.sqrt(2 * share * (1 - share) * (1 / own["n_entries"] + 1 / true["n_entries"]))
    assert (np.abs(own["coverage"] - true["coverage"]) < 3 * error).all()
    explained = [
        wide_model.variance_explained(*table)["variance_explained"][1] for table in ((data,), (full, hidden))
    ]
    assert explained[0] == pytest.approx(explained[1], abs=0.06)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own, true = wide_model.held_out_score(data), wide_model.held_out_score(full, hidden)
    assert own.mse == pytest.approx(true.mse, rel=0.15)


def test_figures_of_entries_that_the_fit_has_seen_say_so(wide, wide_model):
    """The control: without held-out entries the model says that it covers more than it does."""
    full, hidden, data = wide
    every = BPFA(**SETTINGS, held_out=0.0).fit(data)
    seen, true = every.calibration(data, n_draws=39), every.calibration(full, hidden, n_draws=39)
    assert set(seen["entries"]) == {SEEN}
    assert set(true["entries"]) == {HELD_OUT}
    assert seen["coverage"][2] > true["coverage"][2] + 0.03
    # Other rows, some of the rows, another order, and the values of entries that were missing in the fit.
    for rows in (data[:50], data[::-1], full, data.astype(np.float32).astype(float)[::2]):
        expected = HELD_OUT if rows.shape == (140, 400) else SEEN
        assert wide_model.variance_explained(rows, n_draws=1)["entries"][1] == expected


@pytest.mark.parametrize("score", [BPFA.score, BPFA.held_out_score])
def test_a_score_of_entries_that_the_fit_has_seen_warns(fitted, score):
    for rows in (HOLED, X, HOLED[100:]):
        with pytest.warns(SeenInFitWarning, match="these entries were seen in the fit") as warned:
            score(fitted, rows)
        assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        score(fitted, X[::-1] + 1e-3)
        fitted.held_out_score(X, HIDDEN)


def test_a_search_scores_other_rows_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(cross_val_score(model(max_steps=20), X, cv=3)).all()


@pytest.mark.usefixtures("in_a_folder_of_its_own")
def test_a_saved_model_knows_what_it_has_seen(fitted):
    again = BPFA.load(saved(fitted))
    assert set(again.calibration(HOLED[::-1])["entries"]) == {SEEN}
    np.testing.assert_array_equal(again._outcome.sketch.hashes, fitted._outcome.sketch.hashes)


@pytest.mark.usefixtures("in_a_folder_of_its_own")
def test_what_an_early_model_has_seen_is_unknown(fitted):
    outcome = replace(fitted._outcome, sketch=None)
    write_outcome("early.bpfa", fitted.get_params(), outcome, with_rows=True)
    parameters, read = read_outcome("early.bpfa")
    early = BPFA(**parameters)
    publish(early, read)
    assert set(early.calibration(HOLED[::-1])["entries"]) == {UNKNOWN}
    assert early.variance_explained(HOLED[::-1])["entries"].tolist() == ["observed", UNKNOWN]


def test_all_parts_of_a_stream_have_been_seen():
    stream = model()
    for part in (X[:150], X[150:300]):
        stream.partial_fit(part)
    for rows, label in ((X[:150], SEEN), (X[200:300], SEEN), (X[300:], HELD_OUT)):
        assert set(stream.calibration(rows)["entries"]) == {label}


def test_held_out_entries_have_no_part_in_the_moments_of_the_columns():
    """Neither in the mean nor in the scale, however far out they are."""
    fitted = model(held_out=0.2, max_steps=1).fit(X)
    mask = visible.held_out_rows(ArrayRows(X), fitted.settings_).take_held_out(np.arange(len(X)))[2]
    assert 0.15 < mask.mean() < 0.25
    seen = np.where(mask, np.nan, X)
    np.testing.assert_allclose(fitted.mean_, np.nanmean(seen, axis=0), rtol=1e-9)
    np.testing.assert_allclose(fitted.scale_, np.nanstd(seen, axis=0), rtol=1e-9)
    far = model(held_out=0.2, max_steps=1).fit(np.where(mask, X + 1e6, X))
    np.testing.assert_array_equal(far.components_, fitted.components_)


class TestFewHeldOut:
    def entries(self, table, share=0.01, **options):
        rows = FewHeldOutRows(ArrayRows(table), share, Stream.from_seed(0), **options)
        return rows.take_held_out(np.arange(len(table)))[2]

    def test_they_are_the_same_in_any_batch(self):
        table = RNG.normal(size=(500, 30))
        rows, ids = FewHeldOutRows(ArrayRows(table), 0.02, Stream.from_seed(0)), RNG.permutation(500)
        whole = rows.take_held_out(np.arange(500))[2]
        np.testing.assert_array_equal(rows.take_held_out(ids)[2], whole[ids])
        np.testing.assert_array_equal(rows.take(ids).observed, ~whole[ids])
        assert whole.sum() == 300

    def test_no_row_loses_its_only_entries(self):
        lonely = np.full((2000, 10), np.nan)
        lonely[np.arange(2000), RNG.integers(10, size=2000)] = 1.0
        assert not self.entries(lonely, 0.3).any()
        lonely[:, 0], lonely[:, 1] = 1.0, 2.0
        held_out = self.entries(lonely, 0.3)
        assert held_out.any()
        assert (~np.isnan(lonely) & ~held_out).any(axis=1).all()

    @pytest.mark.parametrize("share", [0.5, "auto"])
    def test_no_column_loses_its_only_entries(self, share, monkeypatch):
        """Also not where a large share is held out and scored."""
        monkeypatch.setattr(visible, "default_held_out", lambda n_observed: 0.5)
        table = RNG.normal(size=(200, 12))
        table[1:, :8] = np.nan
        fitted = BPFA(2, max_steps=2, held_out=share, random_state=0).fit(table)
        assert np.isfinite(fitted.noise_std_).all()
        np.testing.assert_allclose(fitted.mean_[:8], table[0, :8])
        assert set(fitted.calibration(table)["entries"]) == {HELD_OUT}

    def test_the_fit_does_not_see_them(self, monkeypatch):
        monkeypatch.setattr(visible, "default_held_out", lambda n_observed: 0.1)
        first = model(max_steps=20).fit(X)
        assert (first.settings_.held_out, first.settings_.diagnostic) == (0.1, True)
        assert np.isnan(first.history_["held_out_mse"]).all()
        mask = visible.held_out_rows(ArrayRows(X), first.settings_).take_held_out(np.arange(len(X)))[2]
        other = model(max_steps=20).fit(np.where(mask, X * 2 + 1, X))
        np.testing.assert_array_equal(first.components_, other.components_)

    def test_small_tables_keep_every_entry(self, fitted):
        assert (fitted.settings_.held_out, fitted.settings_.diagnostic) == (0.0, False)

    @pytest.mark.usefixtures("in_a_folder_of_its_own")
    def test_a_fit_is_resumed_to_the_same_bits(self, monkeypatch):
        monkeypatch.setattr(visible, "default_held_out", lambda n_observed: 0.1)
        whole = model(max_steps=20).fit(X)
        model(max_steps=8, random_state=0).fit(X, checkpoint="a.bpfa")
        resumed = model(max_steps=20, random_state=None).fit(X, checkpoint="a.bpfa", resume=True)
        np.testing.assert_array_equal(resumed.components_, whole.components_)
