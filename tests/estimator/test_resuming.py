"""Fits that are saved while they run, and continued to the same bits."""

import multiprocessing
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_table import HOLED, X, assert_same_model, model

from bpfa import ALGORITHMS, BPFA, Checkpoint, open_rows
from bpfa.estimator.model_file import read_outcome, write_outcome

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")


@pytest.mark.parametrize("stop", [-70, -20])
def test_a_resumed_fit_knows_the_best_model_before_it(stop):
    options = {"held_out": 0.1, "step_decay": 0.5, "patience": 2}
    whole = model(max_steps=100_000, **options).fit(X)
    stopped_at = whole.n_steps_ + stop
    model(max_steps=stopped_at, **options).fit(X, checkpoint="a.bpfa")
    resumed = model(max_steps=100_000, **options).fit(X, checkpoint="a.bpfa", resume=True)
    assert (resumed.n_steps_, resumed.best_step_) == (whole.n_steps_, whole.best_step_)
    assert_same_model(resumed, whole)
    assert_same_model(BPFA.load("a.bpfa"), whole)


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


@pytest.mark.parametrize("kind", ["other values", "one value", "one entry missing", "rows exchanged"])
def test_other_data_of_the_same_shape_is_refused(kind):
    """Without standardisation the means and scales say nothing about the data."""
    other = HOLED.copy()
    if kind == "other values":
        other = other + 1
    elif kind == "one value":
        other[-1, -1] = 7.0
    elif kind == "one entry missing":
        row, column = np.argwhere(~np.isnan(other))[0]
        other[row, column] = np.nan
    else:
        other = other[::-1]
    model(standardize=False, max_steps=5).fit(HOLED, checkpoint="a.bpfa")
    before = Path("a.bpfa").read_bytes()
    with pytest.raises(ValueError, match=r"resume: a\.bpfa was fitted to other data; expected the same rows"):
        model(standardize=False, max_steps=8).fit(other, checkpoint="a.bpfa", resume=True)
    assert Path("a.bpfa").read_bytes() == before


def test_the_same_data_in_another_container_is_the_same_data():
    np.save("x.npy", HOLED)
    whole = model(standardize=False, max_steps=8).fit(HOLED)
    model(standardize=False, max_steps=5).fit(HOLED, checkpoint="a.bpfa")
    resumed = model(standardize=False, max_steps=8).fit(open_rows("x.npy"), resume="a.bpfa")
    assert_same_model(resumed, whole)


def test_files_without_a_digest_are_resumed():
    begun = model(max_steps=5).fit(HOLED)
    write_outcome("a.bpfa", begun.get_params(), replace(begun._outcome, data_digest=None))
    assert model(max_steps=8).fit(HOLED, checkpoint="a.bpfa", resume=True).n_steps_ == 8
    assert read_outcome("a.bpfa")[1].data_digest is not None


def test_a_saved_fit_is_not_replaced_silently():
    model(max_steps=5).fit(HOLED, checkpoint="a.bpfa")
    with pytest.warns(UserWarning, match=r"a\.bpfa'?: a fit of 5 steps, which this fit will replace"):
        model(max_steps=3).fit(HOLED, checkpoint="a.bpfa")
    assert BPFA.load("a.bpfa").n_steps_ == 3
    # A fit that goes on from another file replaces it too; one that goes on from this file does not.
    model(max_steps=4).fit(HOLED, checkpoint="b.bpfa")
    with pytest.warns(UserWarning, match=r"b\.bpfa'?: a fit of 4 steps, which this fit will replace"):
        model(max_steps=6).fit(HOLED, checkpoint="b.bpfa", resume="a.bpfa")
    model(max_steps=7).fit(HOLED, checkpoint="b.bpfa", resume=os.path.abspath("b.bpfa"))


def test_the_warning_comes_before_the_work():
    model(max_steps=5).fit(HOLED, checkpoint="a.bpfa")
    before = Path("a.bpfa").read_bytes()
    # Warnings are errors in these tests.
    with pytest.raises(UserWarning, match="a fit of 5 steps"):
        model(max_steps=10**9).fit(HOLED, checkpoint="a.bpfa")
    assert Path("a.bpfa").read_bytes() == before


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
