"""The training loop alone: a plan is run to its end, to an interrupt, or to an error."""

from dataclasses import replace

import numpy as np
import pytest
from small_table import HOLED, N, model

from bpfa import ArrayRows, Checkpoint
from bpfa.estimator.findings import Findings
from bpfa.estimator.inputs import Table
from bpfa.estimator.parameters import check_parameters
from bpfa.estimator.planning import look_at, plan_fit
from bpfa.fitting.history import History
from bpfa.fitting.limits import Limits
from bpfa.fitting.plan import Standing
from bpfa.fitting.run import Outcome, run

N_STEPS = 12


@pytest.fixture(scope="module")
def plan():
    return planned()


def planned(**parameters):
    rows = ArrayRows(HOLED)
    checked = check_parameters(model(**{"max_steps": N_STEPS} | parameters).get_params())
    names = np.array(list("abcdef"), dtype=object)
    return plan_fit(Findings(look_at(Table(rows, names), checked, None), checked, None), None)


def raise_at(step, error):
    def callback(progress, history):
        if progress.step == step:
            raise error

    return callback


def assert_same_steps(outcome, other):
    np.testing.assert_array_equal(outcome.posterior.features.mean, other.posterior.features.mean)
    for name in set(History.COLUMNS) - {"seconds"}:
        np.testing.assert_array_equal(outcome.history[name], other.history[name], err_msg=name)


def test_outcome(plan):
    outcome = run(plan)
    assert isinstance(outcome, Outcome)
    assert (outcome.n_steps, outcome.best_step, outcome.stopped_by) == (N_STEPS, N_STEPS, "max_steps")
    assert (outcome.error, outcome.last) == (None, None)
    assert outcome.settings is plan.settings
    assert outcome.scale is plan.scale
    assert outcome.n_rows_seen == N
    assert outcome.column_names.tolist() == list("abcdef")
    assert outcome.posterior.n_features == 6


def test_history(plan):
    history = run(plan).history
    assert tuple(history) == History.COLUMNS
    np.testing.assert_array_equal(history["step"], np.arange(1, N_STEPS + 1))
    np.testing.assert_allclose(history["epoch"], np.arange(1, N_STEPS + 1) / 4)
    assert (np.diff(history["seconds"]) > 0).all()
    assert np.isnan(history["held_out_mse"]).all()
    assert (history["noise_std"] > 0).all()
    assert (history["n_active"] > 0).all()


def test_a_plan_can_be_run_twice(plan):
    assert_same_steps(run(plan), run(plan))


def test_held_out_entries_are_scored_at_intervals():
    history = run(planned(max_steps=120, held_out=0.1)).history
    scored = np.isfinite(history["held_out_log_likelihood"])
    assert history["step"][scored].tolist() == [50, 100]
    np.testing.assert_array_equal(np.isfinite(history["held_out_mse"]), scored)


def test_an_interrupt_is_part_of_the_outcome(plan):
    interrupt, saved = KeyboardInterrupt(), []
    outcome = run(plan, callbacks=[raise_at(5, interrupt)], save=saved.append)
    assert outcome.error is interrupt
    assert (outcome.n_steps, outcome.stopped_by) == (5, "interrupt")
    # The outcome is saved even though the run did not reach its end.
    assert saved == [outcome]
    assert_same_steps(outcome, run(replace(plan, limits=Limits(5, None, None))))


def test_an_interrupt_before_the_first_step_is_raised(plan, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("bpfa.fitting.run.train", interrupted)
    saved = []
    with pytest.raises(KeyboardInterrupt):
        run(plan, save=saved.append)
    assert saved == []


def test_other_errors_are_raised(plan):
    saved = []
    with pytest.raises(RuntimeError, match="the callback failed"):
        run(plan, callbacks=[raise_at(5, RuntimeError("the callback failed"))], save=saved.append)
    assert saved == []


def test_every_callback_is_called(plan):
    calls = []

    def stop(progress, history):
        calls.append(("stop", progress.step))
        return progress.step == 3

    outcome = run(plan, callbacks=[stop, lambda progress, history: calls.append(("last", len(history)))])
    assert calls == [(name, step) for step in (1, 2, 3) for name in ("stop", "last")]
    assert (outcome.n_steps, outcome.stopped_by) == (3, "callback")


def test_saves_while_it_runs(plan):
    saved = []
    outcome = run(plan, checkpoint=Checkpoint("unused", every_steps=5), save=saved.append)
    assert [each.n_steps for each in saved] == [5, 10, N_STEPS]
    assert [each.stopped_by for each in saved] == [None, None, "max_steps"]
    assert [len(each.history["step"]) for each in saved] == [5, 10, N_STEPS]
    assert saved[-1] is outcome


def test_continues_from_where_an_earlier_run_ended(plan):
    whole, first = run(plan), run(replace(plan, limits=Limits(7, None, None)))
    standing = Standing(first.n_steps, first.posterior, first.history)
    assert_same_steps(run(replace(plan, standing=standing)), whole)


def test_a_run_that_has_reached_its_limit_makes_no_step(plan):
    first = run(plan)
    standing = Standing(first.n_steps, first.posterior, first.history)
    calls = []
    again = run(replace(plan, standing=standing), callbacks=[lambda *step: calls.append(step)])
    assert calls == []
    assert (again.n_steps, again.stopped_by) == (N_STEPS, "max_steps")
    assert_same_steps(again, first)


class TestFullDisk:
    """A save that fails costs a warning, and not the model."""

    CHECKPOINT = Checkpoint("a.bpfa", every_steps=1)

    def saves(self, fails_until):
        saved = []

        def save(outcome):
            saved.append(outcome.n_steps)
            if len(saved) <= fails_until:
                raise OSError(28, "No space left on device")

        return saved, save

    def test_one_warning_while_it_runs(self, plan):
        saved, save = self.saves(fails_until=N_STEPS)
        with pytest.warns(UserWarning, match="the fit goes on") as caught:
            outcome = run(plan, checkpoint=self.CHECKPOINT, save=save)
        assert [str(warning.message) for warning in caught] == [
            "checkpoint not saved; the fit goes on (a.bpfa: [Errno 28] No space left on device)"
        ]
        assert saved == [*range(1, N_STEPS + 1), N_STEPS]
        assert_same_steps(outcome, run(plan))

    def test_another_warning_at_the_end(self, plan):
        _, save = self.saves(fails_until=N_STEPS + 1)
        with pytest.warns(UserWarning, match="checkpoint not saved") as caught:
            outcome = run(plan, checkpoint=self.CHECKPOINT, save=save)
        assert [str(warning.message).split(" (")[0] for warning in caught] == [
            "checkpoint not saved; the fit goes on",
            "checkpoint not saved; the file does not hold the end of the fit",
        ]
        assert outcome.n_steps == N_STEPS

    def test_an_interrupted_run_keeps_its_outcome(self, plan):
        _, save = self.saves(fails_until=100)
        with pytest.warns(UserWarning, match="does not hold the end of the fit"):
            outcome = run(
                plan, callbacks=[raise_at(3, KeyboardInterrupt())], checkpoint=Checkpoint("a.bpfa"), save=save
            )
        assert (outcome.n_steps, outcome.stopped_by) == (3, "interrupt")
