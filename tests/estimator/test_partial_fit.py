"""Streams: learning from a part of the rows at a time."""

import numpy as np
import pytest
from small_table import HIDDEN, HOLED, N, X, assert_same_model, model, saved

from bpfa import BPFA, Batch

pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")


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

    @pytest.mark.parametrize(
        ("total_rows", "epochs"),
        [(None, [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]), (2048, np.arange(1, 9) / 8)],
    )
    def test_epochs_count_the_passes_over_the_stream(self, total_rows, epochs):
        """A call is a pass over its rows; if the length of the stream is known, it is a part of one."""
        rows = np.random.default_rng(0).normal(size=(1024, 3))
        streamed = BPFA(2, batch_size=256, total_rows=total_rows, random_state=0)
        for n_calls in (1, 2):
            streamed.partial_fit(rows)
            np.testing.assert_allclose(streamed.history_["epoch"], epochs[: 4 * n_calls])
            np.testing.assert_array_equal(streamed.history_["step"], np.arange(1, 4 * n_calls + 1))
            assert streamed.n_rows_seen_ == 1024 * n_calls


class TestInterruptedPart:
    """Ctrl-C while rows of a stream are read."""

    class Interrupting:
        """Rows that are read until the user has had enough."""

        def __init__(self, values, n_reads):
            self.values, self.n_left = values, n_reads
            self.n_rows, self.n_columns = values.shape

        def take(self, ids):
            self.n_left -= 1
            if self.n_left < 0:
                raise KeyboardInterrupt
            return Batch(self.values[ids], ids=ids)

    def fitted(self):
        values = np.random.default_rng(0).normal(size=(600, 5))
        model = BPFA(3, batch_size=100, random_state=0).partial_fit(values[:200])
        return model, values

    def test_before_its_first_step_it_leaves_the_model_as_it_was(self):
        model, values = self.fitted()
        before = model.components_.copy(), model.n_rows_seen_, model.n_steps_, model.stopped_by_
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(self.Interrupting(values[200:], 0))
        np.testing.assert_array_equal(model.components_, before[0])
        assert (model.n_rows_seen_, model.n_steps_, model.stopped_by_) == before[1:]

    def test_in_the_middle_it_counts_the_rows_that_it_has_seen(self):
        model, values = self.fitted()
        with pytest.raises(KeyboardInterrupt):
            # Its rows are read once before the first step, so that they are recognised later.
            model.partial_fit(self.Interrupting(values[200:], 3))
        assert (model.n_rows_seen_, model.n_steps_, model.stopped_by_) == (400, 4, "interrupt")
        assert model.partial_fit(values[400:]).n_rows_seen_ == 600
