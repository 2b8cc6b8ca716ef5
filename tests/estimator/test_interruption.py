"""Fits that are interrupted or fail: what they keep, and what they leave unchanged."""

import pickle
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from small_table import HOLED, TRUTH, D, assert_same_model, model

from bpfa import BPFA, ArrayRows, Batch, NonFiniteError

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")


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


class TestFailedRefit:
    """A fit that fails in any of its stages leaves the model of an earlier fit as it was."""

    NAMES = tuple("abcdef")

    @pytest.fixture
    def named(self):
        return model(max_steps=10).fit(self.frame())

    def frame(self, **changes):
        return pd.DataFrame(HOLED, columns=list(self.NAMES)).assign(**changes)

    def assert_unchanged(self, named, before, imputed):
        after = vars(named)
        assert after.keys() == before.keys()
        assert (named.n_features_in_, tuple(named.feature_names_in_)) == (D, self.NAMES)
        np.testing.assert_array_equal(named.components_, before["components_"])
        assert named.history_.keys() == before["history_"].keys()
        for name, values in named.history_.items():
            np.testing.assert_array_equal(values, before["history_"][name], err_msg=name)
        pd.testing.assert_frame_equal(named.impute(self.frame()), imputed)

    def fail_at_step_three(self, progress, history):
        if progress.step == 3:
            raise RuntimeError("the callback failed")

    @pytest.mark.parametrize("n_columns", [D + 2, D - 2, D])
    @pytest.mark.parametrize("as_frame", [True, False])
    def test_bad_values_in_other_columns(self, named, n_columns, as_frame):
        before, imputed = deepcopy(vars(named)), named.impute(self.frame())
        bad = np.full((30, n_columns), np.inf)
        other = pd.DataFrame(bad, columns=[f"other {i}" for i in range(n_columns)]) if as_frame else bad
        with pytest.raises(ValueError, match="inf at row 0"):
            named.fit(other)
        self.assert_unchanged(named, before, imputed)

    def test_bad_values_in_a_source_of_rows(self, named):
        before, imputed = deepcopy(vars(named)), named.impute(self.frame())
        with pytest.raises(ValueError, match="overflow"):
            named.fit(ArrayRows(np.array([[1e200, 1.0], [-1e200, 2.0]])))
        self.assert_unchanged(named, before, imputed)

    @pytest.mark.parametrize(
        ("parameters", "named_in_error"),
        [
            ({"n_components": 0}, "n_components=0"),
            ({"patience": 2}, "patience=2"),
            ({"n_jobs": 0}, "n_jobs=0"),
        ],
    )
    def test_bad_parameters(self, named, parameters, named_in_error):
        before, imputed = deepcopy(vars(named)), named.impute(self.frame())
        good = named.get_params()
        with pytest.raises(ValueError, match=named_in_error):
            named.set_params(**parameters).fit(self.frame(new=1.0))
        self.assert_unchanged(named.set_params(**good), before, imputed)

    def test_a_callback_that_fails_in_the_middle_of_the_fit(self, named):
        before, imputed = deepcopy(vars(named)), named.impute(self.frame())
        with pytest.raises(RuntimeError, match="the callback failed"):
            named.fit(self.frame(new=1.0), callbacks=[self.fail_at_step_three])
        self.assert_unchanged(named, before, imputed)

    def test_partial_fit_with_other_columns(self, named):
        before, imputed = deepcopy(vars(named)), named.impute(self.frame())
        with pytest.raises(ValueError, match="feature names"):
            named.partial_fit(self.frame(new=1.0))
        self.assert_unchanged(named, before, imputed)
