"""Rows and batches: NaN and masks mean missing, and what stands at a missing entry is of no effect."""

import numpy as np
import pytest
from builders import random_mask, random_view
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from bpfa import ArrayRows, Batch, Rows
from bpfa._support.philox import Stream
from bpfa.backends.numpy import SpikeSlab
from bpfa.data import (
    ConcatRows,
    RowSource,
    StandardisedRows,
    as_rows,
    column_moments,
    open_rows,
    read_batches,
    sequential,
)

numbers = st.floats(-1e6, 1e6)


@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=2), elements=st.one_of(numbers, st.just(np.nan))))
def test_nan_is_missing(values):
    batch = Batch(values)
    np.testing.assert_array_equal(batch.observed, ~np.isnan(values))
    np.testing.assert_array_equal(batch.values, np.nan_to_num(values))
    assert batch.complete == (not np.isnan(values).any())
    assert (len(batch), batch.n_columns) == values.shape


@given(
    st.data(),
    st.sampled_from([np.float32, np.float64, np.int8, np.int64, np.uint16, bool]),
    st.sampled_from(
        [
            np.ascontiguousarray,
            np.asfortranarray,
            lambda a: np.repeat(a, 2, axis=1)[:, ::2],
            np.ndarray.tolist,
        ]
    ),
)
def test_any_real_array_will_do(data, dtype, layout):
    values = data.draw(arrays(dtype, array_shapes(min_dims=2, max_dims=2, max_side=5), fill=st.nothing()))
    values = np.nan_to_num(values, posinf=1, neginf=-1)
    batch = ArrayRows(layout(values)).take(np.arange(len(values)))
    np.testing.assert_array_equal(batch.values, values.astype(np.float64))
    # Single precision is kept, as data may be large; a list has no precision of its own.
    single = values.dtype == np.float32 and layout is not np.ndarray.tolist
    assert batch.values.dtype == (np.float32 if single else np.float64)


@pytest.mark.parametrize("junk", [0.0, 1e300, np.nan, np.inf, -np.inf])
def test_hidden_values_are_ignored(junk):
    rng = np.random.default_rng(0)
    view, observed, values = random_view(rng, 3, 4), random_mask(rng, 10, 4), rng.normal(size=(10, 4))
    rows = [ArrayRows(np.where(observed, values, at_missing), ~observed) for at_missing in (junk, 5.0)]
    ids = np.arange(10)
    draws = Stream.from_seed(0).rows(ids, step=1)
    ours, theirs = (SpikeSlab().sums(view, source.take(ids), draws) for source in rows)
    np.testing.assert_array_equal(ours.S, theirs.S)
    assert ours.SSE == theirs.SSE


def test_mask_and_nan_together():
    rows = ArrayRows([[1.0, np.nan], [3.0, 4.0]], missing=[[0, 0], [1, 0]])
    np.testing.assert_array_equal(rows.take(np.array([0, 1])).observed, [[True, False], [False, True]])


def test_take_keeps_ids_and_order():
    rows = ArrayRows(np.arange(10.0).reshape(5, 2))
    batch = rows.take(np.array([4, 1]))
    np.testing.assert_array_equal(batch.values, [[8.0, 9.0], [2.0, 3.0]])
    np.testing.assert_array_equal(batch.ids, [4, 1])


def test_a_source_of_rows_is_taken_as_it_is():
    rows = ArrayRows([[1.0]])
    assert isinstance(rows, Rows)
    assert as_rows(rows) is rows
    assert isinstance(as_rows([[1.0]]), ArrayRows)


def test_a_masked_array_hides_what_it_masks():
    masked = np.ma.masked_array([[1.0, 2.0], [3.0, np.inf]], mask=[[False, True], [False, True]])
    rows = ArrayRows(masked, missing=[[False, False], [True, False]])
    np.testing.assert_array_equal(rows.observed, [[True, False], [False, False]])


class TestForeignRows:
    """An object that has no more than the protocol demands."""

    class Foreign:
        n_rows, n_columns = 5, 2

        def take(self, ids):
            return Batch(np.outer(ids, [1.0, 2.0]), ids=ids)

    def test_it_is_wrapped_once(self):
        foreign = self.Foreign()
        assert isinstance(foreign, Rows)
        for wrap in (as_rows, open_rows):
            rows = wrap(foreign)
            assert isinstance(rows, RowSource)
            assert as_rows(rows) is rows
            assert (rows.name, rows.chunk_edges, rows.column_names) == ("Foreign", None, None)
            np.testing.assert_array_equal(rows.read(2, 4).values, [[2, 4], [3, 6]])

    def test_it_serves_wherever_rows_do(self):
        foreign = self.Foreign()
        values = np.outer(np.arange(5), [1.0, 2.0])
        np.testing.assert_array_equal(next(sequential(foreign)).values, values)
        np.testing.assert_array_equal(column_moments(foreign).mean, [2, 4])
        assert ConcatRows([foreign, ArrayRows(values)]).read(4, 7).ids.tolist() == [4, 5, 6]
        half = StandardisedRows(foreign, [0.0, 0.0], [2.0, 2.0])
        np.testing.assert_array_equal(half.read(0, 5).values, values / 2)
        batches = read_batches(foreign, 5, Stream.from_seed(0))
        assert sorted(next(batches).ids) == [0, 1, 2, 3, 4]

    def test_something_else_is_refused(self):
        with pytest.raises(TypeError, match="rows: list; expected Rows"):
            sequential([1.0])
