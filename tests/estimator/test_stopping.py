"""When a fit ends, which model it keeps, and what its history records."""

import time

import numpy as np
import pandas as pd
from small_table import TRUTH, N, X, assert_same_model, assert_same_posterior, model

from bpfa import ArrayRows
from bpfa.data import HeldOutRows


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
