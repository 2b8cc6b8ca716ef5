"""BPFA: what it learns, what it gives back, how it stops, and how it goes on."""

import multiprocessing
import os
import pickle
import signal
import sys
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from bpfa import ALGORITHMS, BPFA, ArrayRows, Batch, Checkpoint, NonFiniteError, draw_data, open_rows
from bpfa._support.philox import Stream
from bpfa.data import HeldOutRows
from bpfa.estimator.storage import pack_posterior

N, D, K = 400, 6, 3
TRUTH = draw_data(N, D, K, g_o=400.0, g_w=1.0, seed=4)
SCALES, MEANS = np.array([1.0, 10.0, 0.1, 5.0, 2.0, 1000.0]), np.array([0.0, -50.0, 3.0, 0.0, 7.0, 1e5])
RNG = np.random.default_rng(0)
HIDDEN = RNG.random((N, D)) < 0.1


def in_units(y):
    """The data as a user has it: every column with a mean and a scale of its own."""
    return y * SCALES + MEANS


X = in_units(TRUTH.y)
HOLED = np.where(HIDDEN, np.nan, X)


def model(**parameters):
    return BPFA(**{"n_components": 6, "max_steps": 150, "batch_size": 100, "random_state": 0} | parameters)


@pytest.fixture(scope="module")
def fitted():
    return model().fit(HOLED)


def assert_same_posterior(a, b):
    ours, theirs = pack_posterior(a.posterior_)[0], pack_posterior(b.posterior_)[0]
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


def assert_same_model(a, b):
    assert_same_posterior(a, b)
    assert a.n_steps_ == b.n_steps_


def test_it_learns(fitted):
    np.testing.assert_allclose(fitted.mean_, np.nanmean(HOLED, axis=0), rtol=1e-9)
    np.testing.assert_allclose(fitted.scale_, np.nanstd(HOLED, axis=0), rtol=1e-9)
    # The true noise is 0.05 of the scale of each column; the prior of so small a data set adds to it, in
    # proportion to what each column's noise is taken for.
    noise = fitted.noise_std_ / SCALES
    assert np.sqrt((noise**2).mean()) < 0.12
    assert (noise < 0.25).all()
    assert 2 <= fitted.n_components_used_ <= 6
    assert fitted.components_.shape == (6, D)
    assert (np.diff(fitted.component_probabilities_) <= 0).all()
    assert fitted.n_steps_ == 150
    assert fitted.stopped_by_ == "max_steps"


def test_imputation_is_right_and_honest(fitted):
    filled, std = fitted.impute(HOLED, return_std=True)
    np.testing.assert_array_equal(filled[~HIDDEN], X[~HIDDEN])
    assert (std[~HIDDEN] == 0).all()
    error, scale = (filled - X)[HIDDEN], np.broadcast_to(SCALES, X.shape)[HIDDEN]
    spread = np.broadcast_to(np.std(X, axis=0), X.shape)[HIDDEN]
    assert np.mean((error / spread) ** 2) < 0.5
    # 95 % intervals over 240 entries: four binomial deviations are 0.056.
    covered = np.abs(error) < 1.96 * std[HIDDEN]
    assert covered.mean() > 0.95 - 0.056
    assert (std[HIDDEN] > 0.02 * scale).all()


def test_reconstruction_by_weights(fitted):
    weights = fitted.transform(X)
    assert weights.shape == (N, 6)
    restored = fitted.inverse_transform(weights)
    # What is left is the noise, 0.05 in the units of the columns, and what shrinking adds.
    assert np.sqrt(np.mean(((restored - X) / SCALES) ** 2)) < 0.1
    np.testing.assert_allclose(fitted.inverse_transform(sparse.csr_array(weights)), restored)


def test_weights_of_a_row_do_not_depend_on_its_neighbours(fitted):
    whole = fitted.transform(HOLED)
    np.testing.assert_array_equal(fitted.transform(HOLED[50:60]), whole[50:60])
    np.testing.assert_array_equal(fitted.transform(HOLED[::-1]), whole[::-1])
    np.testing.assert_array_equal(fitted.impute(HOLED[7:9]), fitted.impute(HOLED)[7:9])


def test_sparse_output(fitted):
    dense = fitted.transform(HOLED)
    as_sparse = BPFA.load(saved(fitted)).set_params(sparse_output=True).transform(HOLED)
    assert sparse.issparse(as_sparse)
    assert as_sparse.format == "csr"
    np.testing.assert_array_equal(as_sparse.toarray(), dense)
    assert as_sparse.nnz < dense.size


def saved(fitted):
    fitted.save("model.bpfa")
    return "model.bpfa"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm(algorithm):
    features = "factorised" if ALGORITHMS[algorithm].view == "expected" else "auto"
    fitted = model(algorithm=algorithm, features=features).fit(HOLED)
    filled = fitted.impute(HOLED)
    error = ((filled - X) / X.std(axis=0))[HIDDEN]
    assert np.mean(error**2) < 0.5
    assert fitted.score(X) > np.mean(-np.log(X.std(axis=0))) - 0.5 * np.log(2 * np.pi * np.e)


def test_constant_and_missing_columns_survive():
    odd = HOLED.copy()
    odd[:, 1], odd[:, 3], odd[5] = 42.0, np.nan, np.nan
    fitted = model(max_steps=30).fit(odd)
    filled, std = fitted.impute(odd, return_std=True)
    assert np.isfinite(filled).all()
    assert np.isfinite(std).all()
    np.testing.assert_allclose(filled[:, 1], 42.0, atol=0.5)
    assert np.isfinite(fitted.transform(odd)).all()
    assert np.isfinite(fitted.transform(np.full((2, D), np.nan))).all()
    assert fitted.scale_[1] == fitted.scale_[3] == 1.0


def test_standardising_is_undone():
    """The same data in other units gives the same model in other units."""
    plain, scaled = model().fit(TRUTH.y), model().fit(X)
    np.testing.assert_allclose(
        plain.components_ * SCALES, scaled.components_, rtol=1e-3, atol=1e-3 * SCALES.min()
    )
    restored = plain.inverse_transform(plain.transform(TRUTH.y))
    other = scaled.inverse_transform(scaled.transform(X))
    assert np.sqrt(np.mean(((in_units(restored) - other) / SCALES) ** 2)) < 0.05
    # A density is divided by the scale of its column: the mean logarithm over the entries that are scored.
    _, _, scored = HeldOutRows(ArrayRows(X), 0.1, Stream.from_seed(0)).take_held_out(np.arange(N))
    units = (scored @ np.log(SCALES)).sum() / scored.sum()
    np.testing.assert_allclose(plain.score(TRUTH.y), scaled.score(X) + units, atol=0.05)


def test_without_standardising():
    fitted = model(standardize=False).fit(TRUTH.y)
    assert not fitted.mean_.any()
    assert (fitted.scale_ == 1).all()
    with pytest.raises(TypeError, match="standardize='no'"):
        model(standardize="no").fit(TRUTH.y)


def test_score_hides_what_it_scores(fitted):
    """A tenth of the entries, the same ones each time; to a model that has seen them it is no easier."""
    score = fitted.held_out_score(X)
    assert score.n_entries == pytest.approx(0.1 * X.size, rel=0.15)
    assert fitted.score(X) == score.log_likelihood == fitted.score(X)
    given = fitted.held_out_score(X, HIDDEN)
    assert given.n_entries == HIDDEN.sum()
    assert given.mse < 0.5
    # In the units of the data a density is divided by the scale.
    worse = model(n_components=1, max_steps=2).fit(HOLED)
    assert worse.score(X) < fitted.score(X)
    with pytest.raises(ValueError, match="is missing; expected its value"):
        fitted.held_out_score(HOLED, HIDDEN)


def test_samples_look_like_the_data():
    fitted = model().fit(X)
    rows = fitted.sample(5000, random_state=0)
    assert rows.shape == (5000, D)
    np.testing.assert_array_equal(fitted.sample(5, random_state=1), fitted.sample(5, random_state=1))
    assert (np.abs(rows.mean(axis=0) - X.mean(axis=0)) < 0.2 * X.std(axis=0)).all()
    ratio = rows.std(axis=0) / X.std(axis=0)
    assert ((ratio > 0.7) & (ratio < 1.4)).all()


class TestFrames:
    NAMES = tuple(f"protein {i}" for i in range(D))

    def test_pandas(self, fitted):
        frame = pd.DataFrame(HOLED, columns=list(self.NAMES), index=[f"cell {i}" for i in range(N)])
        named = model(max_steps=150).fit(frame)
        assert_same_model(named, fitted)
        np.testing.assert_array_equal(named.feature_names_in_, self.NAMES)
        weights = named.set_output(transform="pandas").transform(frame)
        assert list(weights.columns) == [f"bpfa{k}" for k in range(6)]
        assert list(weights.index) == list(frame.index)
        filled, std = named.impute(frame, return_std=True)
        assert tuple(filled.columns) == self.NAMES
        assert list(std.index) == list(frame.index)
        np.testing.assert_array_equal(filled.to_numpy(), fitted.impute(HOLED))
        with pytest.raises(ValueError, match="feature names"):
            named.transform(frame.rename(columns={"protein 0": "other"}))

    def test_polars(self, fitted):
        frame = pl.DataFrame(
            np.where(np.isnan(HOLED), None, HOLED).tolist(), schema=list(self.NAMES), orient="row"
        )
        named = model().fit(frame)
        assert_same_model(named, fitted)
        weights = named.set_output(transform="polars").transform(frame)
        assert weights.columns == [f"bpfa{k}" for k in range(6)]
        filled = named.impute(frame)
        assert isinstance(filled, pl.DataFrame)
        np.testing.assert_array_equal(filled.to_numpy(), fitted.impute(HOLED))


class TestSources:
    def test_rows_and_files_give_the_same_model(self, fitted, tmp_path):
        np.save(tmp_path / "x.npy", HOLED)
        for source in (ArrayRows(HOLED), open_rows(tmp_path / "x.npy"), np.load("x.npy", mmap_mode="r")):
            again = model().fit(source)
            assert_same_model(again, fitted)
            np.testing.assert_array_equal(again.transform(source), fitted.transform(HOLED))

    def test_mask_beside_the_data(self, fitted):
        assert_same_model(model().fit(X, missing=HIDDEN), fitted)

    def test_sparse_needs_a_choice(self):
        with pytest.raises((TypeError, ValueError), match="absent"):
            model().fit(sparse.csr_array(TRUTH.y))
        counts = np.where(HIDDEN, 0.0, TRUTH.y)
        for absent, dense in (("zero", counts), ("missing", np.where(HIDDEN, np.nan, TRUTH.y))):
            chosen = model(max_steps=5).fit(open_rows(sparse.csr_array(counts), absent=absent))
            assert_same_model(chosen, model(max_steps=5).fit(dense))

    def test_wrong_columns(self, fitted):
        with pytest.raises(ValueError, match="expecting 6 features"):
            fitted.transform(HOLED[:, 1:])
        with pytest.raises(ValueError, match="expecting 6 features"):
            fitted.transform(ArrayRows(HOLED[:, 1:]))

    def test_anndata(self, fitted):
        anndata = pytest.importorskip("anndata")
        cells = anndata.AnnData(HOLED.copy())
        cells.var_names = [f"gene {i}" for i in range(D)]
        named = model().fit(cells)
        assert_same_model(named, fitted)
        named.annotate(cells, imputed=True)
        np.testing.assert_array_equal(cells.obsm["X_bpfa"], fitted.transform(HOLED))
        np.testing.assert_array_equal(cells.varm["bpfa_components"], fitted.components_.T)
        np.testing.assert_array_equal(cells.layers["bpfa_imputed"], fitted.impute(HOLED))
        np.testing.assert_array_equal(cells.uns["bpfa"]["mean"], fitted.mean_)
        # New cells of another scale are projected with that of the fit.
        few = cells[:5].copy()
        named.annotate(few)
        np.testing.assert_array_equal(few.obsm["X_bpfa"], fitted.transform(HOLED)[:5])
        few.var_names = [f"other {i}" for i in range(D)]
        with pytest.raises(ValueError, match="column 0 is 'other 0'; expected 'gene 0'"):
            named.annotate(few)


class TestStopping:
    def test_epochs_and_steps(self):
        assert model(max_steps=None, max_epochs=2).fit(X).n_steps_ == 8
        assert model(max_steps=5, max_epochs=2).fit(X).n_steps_ == 5
        few = X[:40]
        assert model(max_steps=None, batch_size=None, init="random").fit(few).n_steps_ == 2000
        # More features than components that say what the noise is have to be learned from the start.
        assert model(max_steps=None, batch_size=None).fit(few).n_steps_ == 2000
        assert model(n_components=4, max_steps=None, batch_size=None).fit(few).n_steps_ == 100
        assert model(max_steps=None, max_epochs=3, algorithm="gibbs").fit(X).n_steps_ == 3

    def test_time(self):
        began = time.perf_counter()
        fitted = model(max_steps=None, max_time=0.3).fit(X)
        assert fitted.stopped_by_ == "max_time"
        assert 0.3 <= fitted.history_["seconds"][-1] < 1.0
        assert time.perf_counter() - began < 3

    def test_patience(self):
        fitted = model(max_steps=100_000, held_out=0.1, patience=3).fit(X)
        assert fitted.stopped_by_ == "patience"
        scores = fitted.history_["held_out_log_likelihood"]
        taken = scores[~np.isnan(scores)]
        assert len(taken) == fitted.n_steps_ // 50
        best = int(np.argmax(taken))
        assert len(taken) - 1 - best <= 3 + 10
        assert (taken[-3:] <= taken[:-3].max() + 1e-4).all()

    def test_patience_keeps_the_best_model(self):
        options = {"held_out": 0.1, "step_decay": 0.5}
        waited = model(max_steps=100_000, patience=2, **options).fit(X)
        scores = waited.history_["held_out_log_likelihood"]
        assert waited.best_step_ == waited.history_["step"][np.nanargmax(scores)] < waited.n_steps_
        ended_there = model(max_steps=waited.best_step_, **options).fit(X)
        assert_same_posterior(waited, ended_there)
        # Who only watches the score keeps the last model.
        watched = model(max_steps=waited.n_steps_, **options).fit(X)
        assert watched.best_step_ == watched.n_steps_
        assert (watched.components_ != waited.components_).any()

    @pytest.mark.parametrize("stop", [-70, -20])
    def test_a_resumed_fit_knows_the_best_model_before_it(self, stop):
        options = {"held_out": 0.1, "step_decay": 0.5, "patience": 2}
        whole = model(max_steps=100_000, **options).fit(X)
        stopped_at = whole.n_steps_ + stop
        model(max_steps=stopped_at, **options).fit(X, checkpoint="a.bpfa")
        resumed = model(max_steps=100_000, **options).fit(X, checkpoint="a.bpfa", resume=True)
        assert (resumed.n_steps_, resumed.best_step_) == (whole.n_steps_, whole.best_step_)
        assert_same_model(resumed, whole)
        assert_same_model(BPFA.load("a.bpfa"), whole)

    def test_callback(self):
        seen = []

        def stop(progress, history):
            seen.append((progress.step, history.seconds))
            return progress.step == 7

        fitted = model().fit(X, callbacks=[stop])
        assert (fitted.n_steps_, fitted.stopped_by_, len(seen)) == (7, "callback", 7)

    def test_history(self, fitted):
        history = pd.DataFrame(fitted.history_)
        assert list(history["step"]) == list(range(1, 151))
        np.testing.assert_allclose(history["epoch"], np.arange(1, 151) / 4)
        assert (np.diff(history["seconds"]) > 0).all()
        np.testing.assert_allclose(history["step_size"], np.arange(21, 171.0) ** -0.6)
        assert history["noise_std"].iloc[-1] == fitted.posterior_.noise_std
        assert history["held_out_log_likelihood"].isna().all()

    def test_held_out_entries_are_not_seen(self):
        """Other values at the hidden entries change the scores and nothing else."""
        first = model(held_out=0.2, standardize=False).fit(TRUTH.y)
        _, _, hidden = HeldOutRows(ArrayRows(TRUTH.y), 0.2, first.settings_.stream).take_held_out(
            np.arange(N)
        )
        assert 0.15 < hidden.mean() < 0.25
        other = model(held_out=0.2, standardize=False).fit(np.where(hidden, TRUTH.y + 0.5, TRUTH.y))
        assert_same_model(first, other)
        scores = [each.history_["held_out_log_likelihood"][49] for each in (first, other)]
        assert scores[0] > scores[1]


class TestInterruption:
    def interrupted(self, exception=KeyboardInterrupt, **kwargs):
        def stop(progress, history):
            if progress.step == 20:
                raise exception

        unfinished = model()
        with pytest.raises(exception):
            unfinished.fit(HOLED, callbacks=[stop], **kwargs)
        return unfinished

    def test_ctrl_c_keeps_the_model(self):
        unfinished = self.interrupted()
        assert (unfinished.n_steps_, unfinished.stopped_by_) == (20, "interrupt")
        assert np.isfinite(unfinished.impute(HOLED)).all()

    def test_ctrl_c_saves_the_checkpoint(self, fitted):
        self.interrupted(checkpoint="a.bpfa")
        assert BPFA.load("a.bpfa").n_steps_ == 20
        assert_same_model(model().fit(HOLED, resume="a.bpfa"), fitted)

    @pytest.mark.parametrize("last_good", [1, 7])
    def test_failure_keeps_the_last_good_state(self, last_good):
        """The rows turn out too large for floating point in the middle of a fit."""

        class SpoiltRows(ArrayRows):
            factor = 1.0

            def take(self, ids):
                batch = super().take(ids)
                return Batch(self.factor * batch.values, batch.observed, batch.ids)

        rows = SpoiltRows(TRUTH.y)

        def spoil(progress, history):
            if progress.step == last_good:
                rows.factor = 1e200

        failing = model(standardize=False, batch_size=10)
        with np.errstate(all="ignore"), pytest.raises(NonFiniteError) as failure:
            failing.fit(rows, callbacks=[spoil])
        assert failure.value.step == last_good + 1
        assert (failing.n_steps_, failing.stopped_by_) == (last_good, "failure")
        assert_same_model(failing, model(standardize=False, batch_size=10, max_steps=last_good).fit(TRUTH.y))

    def test_failure_of_the_first_step_leaves_no_model(self):
        bad = TRUTH.y.copy()
        bad[3] = 1e30
        failing = model(standardize=False, batch_size=10)
        with np.errstate(all="ignore"), pytest.raises(NonFiniteError) as failure:
            failing.fit(bad)
        assert failure.value.step == 1
        assert not hasattr(failing, "posterior_")

    def test_failed_fit_leaves_the_earlier_one(self, fitted):
        again = pickle.loads(pickle.dumps(fitted))
        with pytest.raises(ValueError, match="inf at row 0"):
            again.fit(np.full((5, D + 1), np.inf))
        np.testing.assert_array_equal(again.impute(HOLED), fitted.impute(HOLED))


@pytest.mark.parametrize("algorithm", ["gibbs-ssvi", "titsias-ssvi", "mf-svi", "gibbs"])
def test_resumed_fit_has_the_same_bits(algorithm):
    features = "factorised" if ALGORITHMS[algorithm].view == "expected" else "auto"
    held_out = {"held_out": 0.1} if algorithm != "gibbs" else {}
    options = {"algorithm": algorithm, "features": features, **held_out}
    whole = model(max_steps=60, **options).fit(HOLED)
    model(max_steps=23, **options).fit(HOLED, checkpoint="a.bpfa")
    resumed = model(max_steps=60, **options).fit(HOLED, checkpoint="a.bpfa", resume=True)
    assert_same_model(resumed, whole)
    assert_same_model(BPFA.load("a.bpfa"), whole)
    np.testing.assert_array_equal(resumed.history_["noise_std"], whole.history_["noise_std"])
    np.testing.assert_array_equal(resumed.history_["held_out_mse"], whole.history_["held_out_mse"])
    # A fit that has reached its end already is returned as it is.
    assert_same_model(model(max_steps=60, **options).fit(HOLED, resume="a.bpfa"), whole)


def test_resume_is_checked():
    with pytest.raises(ValueError, match="expected checkpoint=path"):
        model().fit(HOLED, resume=True)
    with pytest.raises(FileNotFoundError):
        model().fit(HOLED, resume="nothing.bpfa")
    model(max_steps=5).fit(HOLED, checkpoint="a.bpfa")
    with pytest.raises(ValueError, match="was fitted with n_features=6, not 5"):
        model(n_components=5).fit(HOLED, resume="a.bpfa")
    with pytest.raises(ValueError, match="was fitted to other data"):
        model().fit(HOLED + 1, resume="a.bpfa")
    # Without a seed the one in the file is the one to go on with.
    assert model(random_state=None, max_steps=8).fit(HOLED, resume="a.bpfa").n_steps_ == 8


def test_checkpoints_come_when_they_are_due(monkeypatch):
    written = []
    monkeypatch.setattr(
        "bpfa.estimator.estimator.write_outcome", lambda path, given, outcome: written.append(outcome.n_steps)
    )
    model(max_steps=25).fit(HOLED, checkpoint=Checkpoint("a.bpfa", every_steps=10))
    assert written == [10, 20, 25]
    written.clear()
    model(max_steps=3).fit(HOLED, checkpoint=Checkpoint("a.bpfa", every_minutes=0))
    assert written == [1, 2, 3, 3]
    assert Checkpoint("a").every_minutes == 5.0
    with pytest.raises(ValueError, match="every_steps=0"):
        Checkpoint("a", every_steps=0)


def fit_with_checkpoints():
    """Fit in this folder, saving after every step and going on from the file that is there."""
    every_step = Checkpoint("a.bpfa", every_steps=1)
    model(max_steps=400, n_jobs=1).fit(HOLED, checkpoint=every_step, resume=True)


def steps_saved():
    return BPFA.load("a.bpfa").n_steps_ if os.path.exists("a.bpfa") else 0


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork on Windows")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_killed_ten_times_and_resumed():
    """kill -9 at ten random moments; the file is whole each time and the end is the same to the bit."""
    rng, context = np.random.default_rng(11), multiprocessing.get_context("fork")
    steps = [0]
    for _ in range(10):
        process = context.Process(target=fit_with_checkpoints)
        process.start()
        # Wait until it is at work, so that the kill lands among its saves.
        while process.is_alive() and steps_saved() == steps[-1]:
            time.sleep(rng.uniform(0.0, 0.02))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        steps.append(steps_saved())
    assert steps == sorted(set(steps))
    assert steps[-1] < 400
    process = context.Process(target=fit_with_checkpoints)
    process.start()
    process.join()
    assert process.exitcode == 0
    assert_same_model(BPFA.load("a.bpfa"), model(max_steps=400).fit(HOLED))


class TestPartialFit:
    def test_streams_learn(self):
        streamed = model(total_rows=N, batch_size=50)
        for _ in range(10):
            for start in range(0, N, 100):
                streamed.partial_fit(HOLED[start : start + 100])
        assert streamed.n_steps_ == 80
        assert streamed.n_rows_seen_ == 4000
        error = ((streamed.impute(HOLED) - X) / X.std(axis=0))[HIDDEN]
        assert np.mean(error**2) < 0.6
        assert streamed.posterior_.n_rows >= N

    def test_rows_seen_so_far_are_the_whole_by_default(self):
        streamed = model().partial_fit(X[:100]).partial_fit(X[100:150])
        assert streamed.posterior_.n_rows == 150
        np.testing.assert_allclose(streamed.mean_, X[:100].mean(axis=0))

    def test_continues_after_loading(self):
        whole = model().partial_fit(X[:100]).partial_fit(X[100:200])
        first = model().partial_fit(X[:100])
        again = BPFA.load(saved(first)).partial_fit(X[100:200])
        assert_same_model(whole, again)

    def test_sampler_has_none(self):
        assert not hasattr(model(algorithm="gibbs"), "partial_fit")


def test_loaded_model_is_the_same(fitted):
    again = BPFA.load(saved(fitted))
    assert_same_model(again, fitted)
    assert again.get_params() == fitted.get_params()
    for name in ("components_", "noise_std_", "mean_", "scale_", "component_probabilities_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(fitted, name))
    np.testing.assert_array_equal(again.impute(HOLED), fitted.impute(HOLED))
    np.testing.assert_array_equal(again.transform(HOLED), fitted.transform(HOLED))
    assert again.score(X) == fitted.score(X)


def test_threads_do_not_change_bits(fitted):
    for n_jobs in (1, 2):
        assert_same_model(model(n_jobs=n_jobs).fit(HOLED), fitted)


def test_random_states():
    seeds = [model(max_steps=3, random_state=np.random.RandomState(s)).fit(X) for s in (0, 0, 1)]
    assert_same_model(seeds[0], seeds[1])
    assert (seeds[0].components_ != seeds[2].components_).any()
    unseeded = [model(max_steps=3, random_state=None).fit(X) for _ in range(2)]
    assert (unseeded[0].components_ != unseeded[1].components_).any()


WRONG = {
    "n_components": [0, -1, 1.5, "many"],
    "algorithm": ["gibs", None],
    "features": ["both", 1],
    "weight_precision": ["idle"],
    "priors": [3, "paper"],
    "batch_size": [0, 2.5],
    "max_epochs": [0, -1, "two", np.nan],
    "max_steps": [0, 1.5],
    "max_time": [0, -1, np.inf],
    "step_delay": [-1],
    "step_decay": [1.5, "fast"],
    "burn_in": [-1, 0.5],
    "n_samples": [0],
    "init": ["zeros", None],
    "standardize": ["yes", 3],
    "noise": ["rows", 3],
    "held_out": [-0.1, 1.0, "some"],
    "patience": [0, 3],
    "device": ["tpu"],
    "n_jobs": [0, "all"],
    "random_state": [-1, "seed"],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in WRONG.items() for v in values])
def test_wrong_parameters_are_named(name, value):
    parameters = {
        "max_steps": 2,
        "random_state": 0,
        "held_out": 0.5 if name == "patience" and value == 0 else 0.0,
    }
    with pytest.raises((ValueError, TypeError), match=name if name != "random_state" else "seed"):
        BPFA(**parameters | {name: value}).fit(X)


def test_variational_option():
    with pytest.raises(ValueError, match="n_sweeps"):
        model(algorithm="mf-svi", n_sweeps=0, features="factorised").fit(X)


class TestProgressBar:
    def test_silent_in_pipes(self, capfd):
        model(max_steps=3, verbose=1).fit(X)
        assert capfd.readouterr() == ("", "")

    def test_in_a_terminal(self):
        from io import StringIO

        from rich.console import Console

        from bpfa.fitting.history import History
        from bpfa.fitting.limits import Limits
        from bpfa.fitting.progress_bar import progress_bar

        text = StringIO()
        console = Console(file=text, force_terminal=True, width=140)
        history = History({name: np.full(1, 7.0) for name in History.COLUMNS})
        with progress_bar(Limits(14, None, None), verbose=1, console=console) as show:
            show(history, n_rows_seen=700.0)
        shown = text.getvalue()
        for part in ("step 7", "100 rows/s", "noise 7", "7.0 features", "held-out 7.0000"):
            assert part in shown
