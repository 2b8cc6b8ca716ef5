"""Models in which every column uses a few features: a fit to the transposed table, in the user's shape."""

import logging

import numpy as np
import pandas as pd
import pytest

from bpfa import BPFA, BPFAImputer
from bpfa.data import ArrayRows
from bpfa.data.rows import RowSource
from bpfa.data.transposed import MOST_ENTRIES, transposed
from bpfa.estimator import planning, sides
from bpfa.selection import start_choice
from bpfa.selection.column_noise import column_noise
from bpfa.selection.component_count import component_count
from bpfa.selection.start_trial import StartTrial

N, D, K, NOISE = 60, 150, 4, 0.3


def drawn(n_rows=N, seed=0, n_columns=D):
    """Return scores, loadings of which three in four are zero, a table with them, and its noise."""
    rng = np.random.default_rng(7)
    loadings = rng.normal(size=(K, n_columns)) * (rng.random((K, n_columns)) < 0.25)
    scale, mean = np.exp(rng.normal(size=n_columns)), 10 * rng.normal(size=n_columns)
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n_rows, K))
    noise = NOISE * rng.normal(size=(n_rows, n_columns))
    return scores, loadings * scale, (scores @ loadings + noise) * scale + mean, NOISE * scale


SCORES, LOADINGS, WHOLE, STD = drawn()
HIDDEN = np.random.default_rng(1).random(WHOLE.shape) < 0.1
X = np.where(HIDDEN, np.nan, WHOLE)


def model(**given):
    return BPFA(
        **{"sparse": "columns", "n_components": 8, "max_steps": 150, "random_state": 0, "n_jobs": 1} | given
    )


def _cosines(found, true):
    found, true = (a / STD / np.linalg.norm(a / STD, axis=1, keepdims=True) for a in (found, true))
    return found @ true.T


@pytest.fixture(scope="module")
def fitted():
    return model().fit(X)


class TestModel:
    def test_everything_has_the_shape_of_the_table(self, fitted):
        n_features = len(fitted.components_)
        assert fitted.components_.shape == fitted.loading_probabilities_.shape == (n_features, D)
        assert K <= n_features <= 8
        assert fitted.transform(X).shape == (N, n_features)
        assert fitted.n_features_in_ == D
        assert fitted.n_rows_seen_ == N
        assert fitted.noise_std_.shape == (D,)
        assert fitted.settings_.sparse == "columns"
        assert fitted.inverse_transform(fitted.transform(X)).shape == (N, D)
        assert fitted.sample(3, random_state=0).shape == (3, D)

    def test_loadings_are_sparse_and_scores_dense(self, fitted):
        probabilities = fitted.loading_probabilities_
        assert ((probabilities >= 0) & (probabilities <= 1)).all()
        assert (fitted.transform(X) != 0).all()
        np.testing.assert_allclose(fitted.component_probabilities_, 1, atol=1e-3)
        explained = (fitted.components_ / fitted.scale_)[: fitted.n_components_used_] ** 2
        assert (np.diff(explained.sum(axis=1)) <= 1e-3).all(), "the one that explains most first"

    def test_the_best_of_five_random_starts_has_found_the_loadings(self):
        # Fewer than half of all random starts find every loading (18 of 40); from the others, two features
        # remain mixtures of the same two loadings. Those predict worse, so that whoever starts at random
        # several times finds the loadings by keeping the fit that predicts hidden entries best.
        fits = [model(init="random", max_steps=1000, random_state=seed).fit(X) for seed in range(5)]
        found = min(fits, key=lambda fit: (((fit.impute(X) - WHOLE) / STD)[HIDDEN] ** 2).mean())
        # Every loading that generated the data belongs to one of the features that were found.
        probabilities, cosines = found.loading_probabilities_, _cosines(found.components_, LOADINGS)
        assert (np.abs(cosines).max(axis=0) > 0.9).all()
        pairs = np.abs(cosines).argmax(axis=0)
        above_noise = np.abs(LOADINGS) > STD
        assert probabilities[pairs][above_noise].mean() > 0.95
        assert probabilities[pairs][LOADINGS == 0].mean() < 0.4

    def test_scores_have_variance_one(self, fitted):
        # Those of the features that the data needs; the others are nothing but noise.
        large = np.argsort(-np.linalg.norm(fitted.components_ / STD, axis=1))[:K]
        np.testing.assert_allclose((fitted.transform(X)[:, large] ** 2).mean(axis=0), 1, atol=0.25)

    def test_hidden_entries_are_predicted_with_the_right_spread(self, fitted):
        filled, std = fitted.impute(X, return_std=True)
        np.testing.assert_array_equal(filled[~HIDDEN], X[~HIDDEN])
        error = (filled - WHOLE)[HIDDEN] / np.broadcast_to(STD, X.shape)[HIDDEN]
        # The noise alone would give 1, the mean of every column about 12.
        assert 0.9 < (error**2).mean() < 1.6
        covered = np.abs(filled - WHOLE)[HIDDEN] < 1.96 * std[HIDDEN]
        assert 0.9 < covered.mean() < 0.98

    def test_uncertain_loadings_widen_the_predictions(self, fitted):
        few = model().fit(X[:20])
        _, std = few.impute(X[:20], return_std=True)
        assert (std / few.noise_std_)[HIDDEN[:20]].mean() > 1.1
        assert few.posterior_.features.variance.mean() > 1.5 * fitted.posterior_.features.variance.mean()

    def test_coverage_with_few_rows(self):
        """Means, noise and loadings are estimated from about 20 entries of every column."""
        rng = np.random.default_rng(3)
        loadings = rng.normal(size=(5, 1500)) * (rng.random((5, 1500)) < 0.4)
        signal = rng.normal(size=(30, 5)) @ loadings
        whole = signal + signal.std() * rng.gamma(4.0, 0.25, size=1500) * rng.normal(size=signal.shape)
        hidden = rng.random(whole.shape) < 0.3
        filled, std = (
            model(n_components=5)
            .fit(np.where(hidden, np.nan, whole))
            .impute(np.where(hidden, np.nan, whole), return_std=True)
        )
        assert 0.93 < (np.abs(filled - whole) < 1.96 * std)[hidden].mean() < 0.97

    def test_new_rows(self, fitted):
        scores, _, whole, _ = drawn(n_rows=40, seed=5)
        hidden = np.random.default_rng(2).random(whole.shape) < 0.3
        filled, std = fitted.impute(np.where(hidden, np.nan, whole), return_std=True)
        error = ((filled - whole) / STD)[hidden]
        assert (error**2).mean() < 1.8
        assert 0.88 < (np.abs(filled - whole) < 1.96 * std)[hidden].mean() < 0.98
        # The scores are those that generated the rows, up to a rotation.
        found = fitted.transform(whole)
        explained = found @ np.linalg.lstsq(found, scores, rcond=None)[0]
        assert ((explained - scores) ** 2).mean() < 0.05
        assert np.isfinite(fitted.score(whole))

    def test_diagnostics(self, fitted):
        new = drawn(n_rows=40, seed=5)[2]
        calibration = fitted.calibration(new).set_index("level")
        assert 0.9 < calibration.loc[0.95, "coverage"] < 0.98
        # What would be left if scores and loadings were known.
        noise = (STD**2 / (STD**2 + (LOADINGS**2).sum(axis=0))).mean()
        assert 1 - fitted.variance_explained(new)["variance_explained"].min() < 1.5 * noise
        assert len(fitted.component_summary(new)) == len(fitted.components_)

    def test_a_column_that_varies_less_counts_the_same(self, fitted):
        other = model().fit(X / 1000)
        np.testing.assert_allclose(other.components_ * 1000, fitted.components_, rtol=1e-3, atol=1e-4)

    @pytest.mark.parametrize("algorithm", ["mf-ssvi", "titsias-svi", "mimno-svi"])
    def test_other_algorithms(self, algorithm):
        filled = model(algorithm=algorithm).fit(X).impute(X)
        error = (filled - WHOLE)[HIDDEN] / np.broadcast_to(STD, X.shape)[HIDDEN]
        assert (error**2).mean() < 3

    def test_held_out_entries_are_scored_and_never_seen(self):
        found = model(held_out=0.2, max_steps=100).fit(X)
        scores = found.history_["held_out_mse"]
        assert np.isfinite(scores).sum() == 2
        assert scores[-1] < 0.7

    def test_empty_and_constant_columns(self):
        odd = X.copy()
        odd[:, 0], odd[:, 1] = np.nan, 7.0
        odd[3, 1] = np.nan
        with pytest.warns(UserWarning, match="no entry of column x0 is observed"):
            found = model(max_steps=20).fit(odd)
        filled = found.impute(odd)
        assert np.isnan(filled[:, 0]).all()
        assert filled[3, 1] == 7.0

    def test_imputer(self):
        filled = BPFAImputer(sparse="columns", max_steps=20, n_components=4, random_state=0).fit_transform(X)
        assert filled.shape == X.shape
        assert not np.isnan(filled).any()


class TestFiles:
    def test_round_trip(self, fitted, tmp_path):
        fitted.save(tmp_path / "model.bpfa")
        loaded = BPFA.load(tmp_path / "model.bpfa")
        np.testing.assert_array_equal(loaded.impute(X), fitted.impute(X))
        np.testing.assert_array_equal(loaded.loading_probabilities_, fitted.loading_probabilities_)
        assert loaded.settings_ == fitted.settings_

    def test_a_resumed_fit_has_the_same_bits(self, tmp_path):
        path = tmp_path / "model.bpfa"
        whole = model(max_steps=30).fit(X)
        model(max_steps=10).fit(X, checkpoint=path)
        resumed = model(max_steps=30).fit(X, checkpoint=path, resume=True)
        np.testing.assert_array_equal(resumed.components_, whole.components_)
        assert resumed.n_steps_ == 30

    def test_another_side_is_not_resumed(self, tmp_path):
        path = tmp_path / "model.bpfa"
        model(max_steps=3).fit(X, checkpoint=path)
        with pytest.raises(ValueError, match="fitted with sparse='columns'"):
            model(max_steps=5, sparse="rows").fit(X, checkpoint=path, resume=True)

    def test_patience_is_not_resumed(self, tmp_path):
        path = tmp_path / "model.bpfa"
        model(max_steps=3, held_out=0.1, patience=2).fit(X, checkpoint=path)
        with pytest.raises(ValueError, match="patience=2 with sparse='columns'"):
            model(max_steps=5, held_out=0.1, patience=2).fit(X, checkpoint=path, resume=True)

    def test_a_refit_of_rows_has_no_probabilities(self, tmp_path):
        found = model(max_steps=3).fit(X).set_params(sparse="rows").fit(X)
        assert not hasattr(found, "loading_probabilities_")


class TestRefused:
    def test_partial_fit(self, fitted):
        with pytest.raises(ValueError, match="sparse='columns': partial_fit"):
            model().partial_fit(X)
        copy = model(max_steps=3).fit(X)
        with pytest.raises(ValueError, match="fitted with sparse='columns'"):
            copy.partial_fit(X)

    def test_gibbs(self):
        with pytest.raises(ValueError, match="sparse='columns': not available for algorithm='gibbs'"):
            model(algorithm="gibbs").fit(X)

    def test_a_table_that_is_too_large_for_memory(self):
        class Endless(RowSource):
            def take(self, ids):
                raise AssertionError("read")

        with pytest.raises(ValueError, match="too many to transpose"):
            transposed(Endless(MOST_ENTRIES // 100, 101))


class TestAuto:
    def test_tall_tables_have_sparse_rows_without_a_trial(self, monkeypatch):
        monkeypatch.setattr(sides, "_score", None)
        tall = X.T
        automatic, rows = (model(sparse=side, max_steps=5).fit(tall) for side in ("auto", "rows"))
        np.testing.assert_array_equal(automatic.components_, rows.components_)
        assert automatic.settings_.sparse == "rows"

    @pytest.mark.parametrize("better", ["rows", "columns"])
    def test_wide_tables_are_tried(self, better, monkeypatch, caplog):
        scores = {"rows": -1.0, "columns": -1.0 + (better == "columns")}
        monkeypatch.setattr(sides, "_score", lambda side, *others: scores[side])
        with caplog.at_level(logging.INFO, logger="bpfa"):
            found = model(sparse="auto", max_steps=5).fit(X)
        assert found.settings_.sparse == better
        assert f"sparse='auto': {better}" in caplog.text
        wanted = model(sparse=better, max_steps=5).fit(X)
        np.testing.assert_array_equal(found.components_, wanted.components_)

    def test_the_trial_recognises_sparse_columns(self):
        # A column uses about two of 15 features.
        rng = np.random.default_rng(0)
        loadings = rng.normal(size=(15, 300)) * (rng.random((15, 300)) < 0.15)
        signal = rng.normal(size=(80, 15)) @ loadings
        y = signal + 0.5 * signal.std() * rng.normal(size=signal.shape)
        found = model(sparse="auto", n_components=None, max_steps=30).fit(y)
        assert found.settings_.sparse == "columns"

    def test_everything_is_found_out_once(self, monkeypatch):
        """The trial and the fit after it count the factors once, and find the noise of each side once."""
        counted, analysed = [], []

        def noted(function, shapes):
            def note(rows, *arguments):
                shapes.append((rows.n_rows, rows.n_columns))
                return function(rows, *arguments)

            return note

        for module in (start_choice, sides):
            monkeypatch.setattr(module, "component_count", noted(component_count, counted))
        monkeypatch.setattr(planning, "column_noise", noted(column_noise, analysed))
        found = model(sparse="auto", n_components=None, max_steps=20, groups=False).fit(X)
        assert found.settings_.sparse == "columns"
        assert counted == [(N, D)]
        assert analysed == [(N, D), (D, N)]

    def test_a_small_part_of_a_table_is_counted_anew(self, monkeypatch):
        counted = []

        def count(rows, largest, stream):
            counted.append((rows.n_rows, largest))
            return component_count(rows, largest, stream)

        monkeypatch.setattr(sides, "component_count", count)
        monkeypatch.setattr(sides, "MOST_TRIED", 3000)
        monkeypatch.setattr(sides, "FEWEST_TRIED_ROWS", 20)
        found = model(sparse="auto", n_components=None, max_steps=3).fit(X)
        assert len(counted) == 1
        n_tried, largest = counted[0]
        assert n_tried < N
        assert largest <= found.settings_.n_features

    @pytest.mark.parametrize(("n_features", "tried"), [(4, False), (60, True)])
    def test_more_features_than_rows_are_tried_only_if_many_factors_stand_out(
        self, n_features, tried, monkeypatch
    ):
        rng = np.random.default_rng(0)
        loadings = rng.normal(size=(n_features, 600)) * (rng.random((n_features, 600)) < 2 / n_features)
        y = rng.normal(size=(30, n_features)) @ loadings + 0.1 * rng.normal(size=(30, 600))
        starts = []

        class NotedTrial(StartTrial):
            def _errors_at(self, steps, init, *arguments):
                starts.append(init)
                return super()._errors_at(steps, init, *arguments)

        monkeypatch.setattr(start_choice, "StartTrial", NotedTrial)
        model(n_components=None, max_steps=2).fit(y)
        assert ("common" in starts) == tried
        assert "rotated" in starts

    def test_a_resumed_fit_keeps_the_choice(self, tmp_path, monkeypatch):
        path = tmp_path / "model.bpfa"
        model(max_steps=3, sparse="columns").fit(X, checkpoint=path)
        monkeypatch.setattr(sides, "_score", None)
        found = model(max_steps=5, sparse="auto").fit(X, checkpoint=path, resume=True)
        assert found.settings_.sparse == "columns"

    def test_few_rows(self, monkeypatch):
        monkeypatch.setattr(sides, "_score", None)
        assert model(sparse="auto", max_steps=2).fit(X[:10]).settings_.sparse == "rows"


class TestTransposed:
    def test_a_frame_keeps_its_names(self):
        frame = pd.DataFrame(X, columns=[f"gene {d}" for d in range(D)])
        found = model(max_steps=3).fit(frame)
        assert found.feature_names_in_.tolist() == frame.columns.tolist()
        assert found.impute(frame).columns.tolist() == frame.columns.tolist()

    def test_missing_entries_stay_missing(self):
        turned = transposed(ArrayRows(X))
        np.testing.assert_array_equal(turned.observed, ~HIDDEN.T)
        np.testing.assert_allclose(turned.values, X.T, rtol=1e-6)
