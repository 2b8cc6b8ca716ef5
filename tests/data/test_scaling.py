"""Moments in one pass, rows of mean 0 and scale 1, and rows with entries hidden to be scored."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from bpfa import ArrayRows
from bpfa._support.philox import Stream
from bpfa.data import (
    FileRows,
    HeldOutRows,
    StandardisedRows,
    TableRows,
    column_moments,
    read_batches,
    sequential,
)

STREAM = Stream.from_seed(0)


class Stored(FileRows):
    """An array as if it were on disk, in chunks of three rows."""

    def __init__(self, array):
        super().__init__("stored", array.shape, array.dtype, column_names=[*"abcdefgh"][: array.shape[1]])
        self.array, self.chunk_edges = array, np.append(np.arange(0, len(array), 3), len(array))

    def _read(self, start, stop):
        return self.array[start:stop]


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr("bpfa.data.blocks.BLOCK_ENTRIES", 20)


@given(
    arrays(
        np.float64,
        array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12),
        elements=st.one_of(st.floats(-1e6, 1e6), st.just(np.nan)),
    ),
    st.integers(1, 5),
    st.sampled_from([0.0, 1e9]),
)
def test_moments_are_those_of_the_observed_entries(values, block_rows, shift):
    values = values + shift
    if np.isnan(values).all():
        with pytest.raises(ValueError, match="every entry is missing"):
            column_moments(Stored(values))
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bpfa.data.blocks.BLOCK_ENTRIES", block_rows * values.shape[1])
        moments = column_moments(Stored(values))
    for column in range(values.shape[1]):
        seen = values[~np.isnan(values[:, column]), column]
        assert moments.n_observed[column] == len(seen)
        if len(seen) == 0:
            assert (moments.mean[column], moments.std[column], moments.scale[column]) == (0, 0, 1)
            continue
        size = np.abs(seen).max()
        assert moments.mean[column] == pytest.approx(seen.mean(), rel=1e-12, abs=1e-12 * size + 1e-300)
        # Squares of numbers below 1e-150 are no numbers any more.
        assert moments.std[column] == pytest.approx(seen.std(), rel=1e-9, abs=1e-15 * size + 1e-150)
        if len(set(seen)) == 1:
            assert moments.scale[column] == 1


def test_a_mean_far_larger_than_the_standard_deviation(small_blocks):
    values = np.random.default_rng(0).normal(1e6, 1e-3, size=(5001, 2))
    moments = column_moments(ArrayRows(values))
    # About 1e-10 is one rounding of an entry, so 1e-7 of the standard deviation.
    np.testing.assert_allclose(moments.std, (values - values[0]).std(axis=0), rtol=1e-6)
    exact = [math.fsum(column) / len(values) for column in values.T.tolist()]
    np.testing.assert_allclose(moments.mean, exact, rtol=1e-15)
    np.testing.assert_array_equal(moments.scale, moments.std)


@pytest.mark.parametrize("constant", [0.1, 1e9 / 3, -1e-200, 7.0, 1e150])
def test_constant_columns_keep_their_scale(small_blocks, constant):
    moments = column_moments(ArrayRows(np.full((1003, 2), constant)))
    np.testing.assert_array_equal(moments.scale, 1.0)
    np.testing.assert_allclose(moments.mean, constant, rtol=1e-15)


def test_a_long_block_does_not_make_a_constant_column_vary():
    moments = column_moments(ArrayRows(np.full((200_003, 3), 0.1)))
    np.testing.assert_array_equal(moments.scale, 1.0)
    assert moments.mean[0] == pytest.approx(0.1, rel=1e-15)


def test_entries_apart_by_a_rounding_are_constant():
    values = np.full((100, 1), 0.1)
    values[::2] = np.nextafter(0.1, 1)
    np.testing.assert_array_equal(column_moments(ArrayRows(values)).scale, 1.0)


def test_single_precision_is_summed_in_double():
    values = np.random.default_rng(0).normal(1000.0, 0.1, size=(100_000, 2)).astype(np.float32)
    moments = column_moments(ArrayRows(values))
    np.testing.assert_allclose(moments.mean, values.astype(np.float64).mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(moments.std, values.astype(np.float64).std(axis=0), rtol=1e-10)


def test_infinities_and_overflow_are_refused():
    values = np.ones((10, 3))
    values[7, 2] = -np.inf
    with pytest.raises(ValueError, match=r"stored: -inf at row 7, column 'c'; expected finite numbers"):
        column_moments(Stored(values))
    values[:, 2] = np.where(np.arange(10) % 2, 1e200, -1e200)
    with pytest.raises(ValueError, match="the squares of column 2 overflow"):
        column_moments(Stored(values))
    with pytest.raises(TypeError, match="rows: ndarray"):
        column_moments(values)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("source", [ArrayRows, Stored])
def test_standardised_rows_have_mean_0_and_scale_1(source, dtype):
    rng = np.random.default_rng(0)
    values = (rng.normal(size=(500, 4)) * [1, 10, 1e-3, 1] + [0, 5, 1e3, 2]).astype(dtype)
    values[:, 3] = 2.0
    values[rng.random(values.shape) < 0.2] = np.nan
    rows = source(values)
    moments = column_moments(rows)
    standard = StandardisedRows(rows, moments.mean, moments.scale)
    again = column_moments(standard)
    np.testing.assert_allclose(again.mean, 0, atol=1e-6)
    np.testing.assert_allclose(again.std, [1, 1, 1, 0], atol=1e-6)
    ids = np.array([400, 3, 3])
    batch = standard.take(ids)
    expected = ((values[ids].astype(np.float64) - moments.mean) / moments.scale).astype(dtype)
    np.testing.assert_array_equal(batch.values, np.nan_to_num(expected))
    assert batch.values.dtype == dtype
    np.testing.assert_array_equal(batch.ids, ids)


def test_what_a_source_has_comes_through():
    rows = Stored(np.ones((10, 2)))
    for wrapped in (StandardisedRows(rows, [0, 0], [1, 1]), HeldOutRows(rows, 0.5, STREAM)):
        np.testing.assert_array_equal(wrapped.chunk_edges, rows.chunk_edges)
        assert wrapped.column_names == ["a", "b"]
        assert wrapped.name == "stored"
        np.testing.assert_array_equal(wrapped.read(4, 9).ids, np.arange(4, 9))
    wrapped = StandardisedRows(ArrayRows(np.ones((10, 2))), [0, 0], [1, 1])
    assert wrapped.chunk_edges is None
    assert wrapped.column_names is None


def test_hidden_entries_are_the_same_whenever_a_row_is_read(monkeypatch):
    rng = np.random.default_rng(0)
    values = np.where(rng.random((300, 70)) < 0.3, np.nan, rng.normal(size=(300, 70)))
    rows = HeldOutRows(Stored(values), 0.2, STREAM)
    batch, truth, hidden = rows.take_held_out(np.arange(300))
    np.testing.assert_array_equal(batch.observed, ~np.isnan(values) & ~hidden)
    np.testing.assert_array_equal(truth[hidden], values[hidden])
    assert not np.isnan(values[hidden]).any()
    assert (batch.values[hidden] == 0).all()
    # Each of 14,700 observed entries with probability 0.2: four standard errors.
    assert abs(hidden.sum() / (~np.isnan(values)).sum() - 0.2) < 4 * np.sqrt(0.2 * 0.8 / 14_700)
    # By rows and by columns too.
    assert np.isin(hidden.sum(axis=0), range(20, 70)).all()
    odd = np.array([299, 5, 5, 17])
    again, _, hidden_again = rows.take_held_out(odd)
    np.testing.assert_array_equal(hidden_again, hidden[odd])
    np.testing.assert_array_equal(again.observed, batch.observed[odd])
    monkeypatch.setattr("bpfa.data.held_out.DRAWS_AT_A_TIME", 500)
    np.testing.assert_array_equal(rows.read(30, 60).observed, batch.observed[30:60])
    for other in sequential(rows, 11):
        np.testing.assert_array_equal(other.observed, batch.observed[other.ids])
    other = next(read_batches(rows, 20, STREAM))
    np.testing.assert_array_equal(other.observed, batch.observed[other.ids])
    _, _, different = HeldOutRows(Stored(values), 0.2, Stream.from_seed(1)).take_held_out(np.arange(300))
    assert (different != hidden).any()


def test_nothing_or_all_can_be_hidden():
    rows = ArrayRows(np.ones((50, 3)))
    assert HeldOutRows(rows, 0.0, STREAM).take(np.arange(50)).complete
    assert not HeldOutRows(rows, 1.0, STREAM).take(np.arange(50)).observed.any()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda rows: StandardisedRows(rows, [0.0], [1.0, 1.0]), "mean: shape"),
        (lambda rows: StandardisedRows(rows, [0.0, 0.0], [1.0, 0.0]), "scale: 0 is the smallest"),
        (lambda rows: StandardisedRows([[1.0]], [0.0], [1.0]), "rows: list"),
        (lambda rows: HeldOutRows(rows, 1.5, STREAM), "fraction=1.5"),
        (lambda rows: HeldOutRows(rows, 0.5, 3), "stream: int"),
    ],
)
def test_bad_arguments(call, match):
    with pytest.raises((ValueError, TypeError), match=match):
        call(ArrayRows(np.ones((3, 2))))


def test_names_of_a_table_come_through():
    pandas = pytest.importorskip("pandas")
    rows = TableRows(pandas.DataFrame({"x": [1.0], "y": [2.0]}))
    assert HeldOutRows(rows, 0.1, STREAM).column_names == ["x", "y"]
