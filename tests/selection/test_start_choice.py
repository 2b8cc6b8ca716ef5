"""Data in which each row has a few of many features gets a start of its own, and other data does not."""

from dataclasses import replace

import numpy as np
import pytest

from bpfa import BPFA, draw_data
from bpfa.data import ArrayRows, HeldOutRows
from bpfa.estimator.parameters import check_parameters
from bpfa.estimator.planning import completed_settings, first_settings, fit_limits
from bpfa.inference.progress import NonFiniteError
from bpfa.selection.start_choice import Start
from bpfa.selection.start_trial import StartTrial


def sparse_rows(n_rows=1500, n_columns=20, n_features=40, seed=0):
    return draw_data(n_rows, n_columns, n_features, g_o=100.0, g_w=1.0, seed=seed).y


def hide(X, share=0.1):
    hidden = np.random.default_rng(1).random(X.shape) < share
    return np.where(hidden, np.nan, X), hidden


def start_of(X, **parameters):
    """How many features a fit has, and where they start."""
    settings = BPFA(max_steps=1, random_state=0, **parameters).fit(X).settings_
    return settings.n_features, settings.init


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("n_rows", "n_columns", "n_features"), [(1500, 20, 40), (2000, 30, 60)])
def test_features_that_outnumber_the_columns_are_seen(n_rows, n_columns, n_features, seed):
    X, _ = hide(sparse_rows(n_rows, n_columns, n_features, seed))
    assert start_of(X) == (2 * n_columns, "common")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_features_that_some_rows_have_are_seen_and_counted(seed):
    drawn = draw_data(2000, 40, 12, g_o=100.0, g_w=1.0, seed=seed)
    X, _ = hide(drawn.y)
    n_true = (drawn.z.mean(axis=0) > 0.01).sum()
    n_chosen, init = start_of(X)
    assert init == "rotated"
    assert abs(n_chosen - n_true) <= 0.2 * n_true


def test_they_are_found():
    X = sparse_rows()
    seen, hidden = hide(X)
    errors = {}
    for init in ("auto", "principal"):
        # Groups of like rows would make up for features that are not found.
        model = BPFA(max_steps=400, random_state=0, init=init, groups=False).fit(seen)
        errors[init] = np.mean((model.impute(seen) - X)[hidden] ** 2)
    # The noise alone is 0.01.
    assert errors["auto"] < 0.8 * errors["principal"]


@pytest.mark.parametrize(
    ("parameters", "start", "dropout", "steps"),
    [
        ({}, Start(40, "common"), 0.1, 500),
        ({"dropout": 0.0}, Start(40, "common"), 0.0, 500),
        ({"dropout": 0.3}, Start(40, "common"), 0.3, 500),
        ({}, Start(10, "principal"), 0.0, 100),
        ({"features": "factorised"}, Start(10, "principal"), 0.0, 100),
        # Who says where features start, or how many there are, is not second-guessed.
        ({"n_components": 40, "init": "common"}, None, 0.0, 2000),
        ({"n_components": 40}, None, 0.0, 2000),
    ],
)
def test_what_comes_with_them(parameters, start, dropout, steps):
    parameters = check_parameters(parameters)
    settings = first_settings(parameters, 1000, 20)
    start = start or Start(parameters.n_components, settings.init)
    settings = completed_settings(settings, parameters, start, 1000, 20)
    assert settings.options["dropout"] == dropout
    assert fit_limits(parameters, settings, 1000, 20).max_steps == steps


@pytest.mark.slow
def test_single_entries_are_not_fitted():
    """With more features than columns and no dropout the noise sinks step by step and predictions worsen.

    It takes all 500 steps to see. `test_what_comes_with_them` checks that a fit has dropout by default, and
    tests/backends/test_dropout.py what it does.
    """
    rng = np.random.default_rng(0)
    x = (rng.random((1000, 60)) < 0.04) * rng.normal(size=(1000, 60))
    X = x @ rng.normal(size=(60, 30)) + 0.3 * rng.normal(size=(1000, 30))
    seen, hidden = hide(X)
    errors = {}
    for share in (None, 0.0):
        model = BPFA(random_state=0, dropout=share).fit(seen)
        assert model.settings_.init == "common"
        errors[share] = np.mean((model.impute(seen) - X)[hidden] ** 2)
    assert errors[None] < 0.8 * errors[0.0]


def gaussian_factors(rng):
    return rng.normal(size=(2000, 10)) @ rng.normal(size=(10, 30)) + rng.normal(size=(2000, 30))


def as_many_factors_as_columns(rng):
    return rng.normal(size=(2000, 30)) @ rng.normal(size=(30, 30)) + rng.normal(size=(2000, 30))


def heavy_tailed_factors(rng):
    return rng.standard_t(3, size=(2000, 10)) @ rng.normal(size=(10, 30)) + rng.normal(size=(2000, 30))


def noise(rng):
    return rng.normal(size=(2000, 30))


def heavy_tailed_noise(rng):
    return rng.standard_t(3, size=(2000, 30))


@pytest.mark.parametrize(
    "make", [gaussian_factors, as_many_factors_as_columns, heavy_tailed_factors, noise, heavy_tailed_noise]
)
def test_what_all_rows_have_in_common_starts_from_components(make):
    for seed in range(2):
        X, _ = hide(make(np.random.default_rng(seed)))
        n_chosen, init = start_of(X)
        assert init == "principal"
        assert n_chosen <= 20


class _Trial(StartTrial):
    """A trial whose errors after each number of steps are given, in units of the others."""

    def __init__(self, shares):
        self.shares, self.steps, self._hidden = shares, [], np.ones((100, 5), dtype=bool)

    def _errors_at(self, steps, init, n_features, dropout):
        for step, share in zip(steps, self.shares, strict=True):
            self.steps.append(step)
            yield step, share * np.ones((100, 5))


@pytest.mark.parametrize(
    ("shares", "last_step"),
    [
        # Better at once, or after more steps.
        ([1.2, 0.9, 0.8, 0.7, 0.6], 50),
        ([1.2, 1.1, 1.0, 0.9, 0.8], 200),
        # Too slow, or no longer getting better.
        ([1.3, 1.25, 1.2, 1.1, 0.5], 50),
        ([1.3, 1.1, 1.08, 0.9, 0.5], 100),
        # Open to the end.
        ([1.3, 1.2, 1.1, 1.02, 0.96], 400),
    ],
)
def test_a_trial_goes_on_while_it_is_undecided(shares, last_step):
    trial = _Trial(shares)
    errors = trial.errors_against(np.ones((100, 5)), 0.05, "common", 10)
    assert trial.steps[-1] == last_step
    assert errors[0, 0] == shares[len(trial.steps) - 1]


@pytest.fixture
def no_trial(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("a start was tried")

    monkeypatch.setattr("bpfa.selection.start_choice.StartTrial", refuse)


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_components": 5},
        {"init": "principal"},
        {"init": "random"},
        {"algorithm": "mf-ssvi"},
        {"features": "factorised"},
        {"revise": True, "held_out": 0.1},
    ],
)
@pytest.mark.usefixtures("no_trial")
def test_what_is_given_is_not_tried(parameters):
    start_of(sparse_rows(), **parameters)


@pytest.mark.usefixtures("no_trial")
def test_few_rows_and_many_columns_are_not_tried():
    assert start_of(sparse_rows(n_rows=299))[1] == "principal"
    assert start_of(sparse_rows(n_rows=300, n_columns=128, n_features=1))[1] == "principal"


@pytest.mark.usefixtures("no_trial")
def test_rows_that_come_a_few_at_a_time_start_from_components():
    assert BPFA(random_state=0).partial_fit(sparse_rows()).settings_.init == "principal"


def test_the_fit_is_the_same_for_any_number_of_threads():
    X, _ = hide(sparse_rows())
    one, two = (BPFA(max_steps=3, random_state=3, n_jobs=n).fit(X) for n in (1, 2))
    assert one.settings_ == two.settings_
    assert one.settings_.init == "common"
    assert np.array_equal(one.components_, two.components_)


def test_a_fit_that_goes_on_keeps_its_start(tmp_path, monkeypatch):
    X, _ = hide(sparse_rows())
    path = tmp_path / "a.bpfa"
    whole = BPFA(max_steps=6, random_state=0).fit(X)
    BPFA(max_steps=3, random_state=0).fit(X, checkpoint=path)
    # Nor does it try again: other versions may choose otherwise.
    monkeypatch.setattr("bpfa.selection.start_choice.clearly_smaller", lambda *arguments: False)
    further = BPFA(max_steps=6, random_state=0).fit(X, checkpoint=path, resume=True)
    assert further.settings_.init == "common"
    assert np.array_equal(further.components_, whole.components_)


def test_a_fit_that_goes_on_is_not_told_another_start(tmp_path):
    X, path = sparse_rows(400), tmp_path / "a.bpfa"
    for init in ("random", "common"):
        BPFA(max_steps=2, random_state=0, init=init).fit(X, checkpoint=path)
        with pytest.raises(ValueError, match=f"fitted with init='{init}'"):
            BPFA(max_steps=4, random_state=0).fit(X, checkpoint=path, resume=True)
        path.unlink()


def test_the_trial_hides_what_the_fit_hides(monkeypatch):
    shares = []

    def noted(self, init, n_features, dropout=0.0):
        shares.append((init, dropout))
        return self.dense

    def noted_against(self, others, least_gain, init, n_features, dropout=0.0):
        return noted(self, init, n_features, dropout)

    monkeypatch.setattr("bpfa.selection.start_choice.StartTrial.errors", noted)
    monkeypatch.setattr("bpfa.selection.start_choice.StartTrial.errors_against", noted_against)
    for share in (None, 0.0, 0.4):
        start_of(sparse_rows(400), dropout=share)
    assert [share for init, share in shares if init == "common"] == [0.1, 0.0, 0.4]
    assert [share for init, share in shares if init == "rotated"] == [0.0] * 3


def test_the_choice_is_told(caplog):
    with caplog.at_level("INFO", logger="bpfa"):
        n_chosen, init = start_of(sparse_rows())
    assert f"init='auto': {init}, {n_chosen} features" in caplog.text


def test_what_is_held_out_is_not_looked_at():
    X = sparse_rows()
    # Means and scales are those of all entries: they are put out of play.
    parameters = {"max_steps": 1, "random_state": 0, "held_out": 0.1, "standardize": False}
    first = BPFA(**parameters).fit(X)
    seen = HeldOutRows(ArrayRows(X), 0.1, first.settings_.stream).take(np.arange(len(X))).observed
    # Far from any row, so that a look at them would spoil all predictions.
    second = BPFA(**parameters).fit(np.where(seen, X, 1e3))
    assert first.settings_.init == second.settings_.init == "common"
    assert first.settings_.n_features == second.settings_.n_features


def test_a_short_fit_that_fails_is_not_better(monkeypatch):
    def fail(*arguments, **options):
        raise NonFiniteError(1, None, "not finite")

    monkeypatch.setattr("bpfa.selection.start_trial.train", fail)
    assert start_of(sparse_rows())[1] == "principal"


@pytest.mark.parametrize(
    ("init", "n_columns", "steps"),
    [("principal", 1000, 20), ("principal", 5000, 50), ("rotated", 1000, 20), ("rotated", 4000, 80)],
)
def test_steps_of_a_fit_with_sparse_columns(init, n_columns, steps):
    """It has ten epochs, but at least 20 steps, or 20 epochs of up to 100 steps from rotated components."""
    parameters = check_parameters({})
    settings = replace(first_settings(parameters, n_columns, 60), sparse="columns")
    settings = completed_settings(settings, parameters, Start(10, init), n_columns, 60)
    assert fit_limits(parameters, settings, n_columns, 60).max_steps == steps
