"""Rows that are prepared once: the same batches as those of the source, bit for bit."""

import numpy as np
import pytest

from bpfa import ArrayRows
from bpfa._support.philox import Stream
from bpfa.backends.protocol import Workspace
from bpfa.data import FewHeldOutRows, HeldOutRows, StandardisedRows, prepared
from bpfa.data.prepared import PreparedRows
from bpfa.data.rows import RowSource
from bpfa.data.shuffle import read_batches


def sources(dtype):
    values = np.random.default_rng(0).normal(3.0, 7.0, size=(50, 4)).astype(dtype)
    values[np.random.default_rng(1).random(values.shape) < 0.2] = np.nan
    rows = ArrayRows(values)
    hidden = HeldOutRows(rows, 0.3, Stream.from_seed(0))
    return (
        rows,
        StandardisedRows(rows, np.full(4, 3.0), np.full(4, 7.0)),
        StandardisedRows(hidden, [1] * 4, [2] * 4),
        FewHeldOutRows(rows, 0.1, Stream.from_seed(0)),
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("which", range(4))
def test_batches_have_the_same_bits(dtype, which):
    rows = sources(dtype)[which]
    stream = Stream.from_seed(5)
    found, expected = (read_batches(each, 16, stream) for each in (Workspace().place_rows(rows), rows))
    for _ in range(6):
        one, other = next(found), next(expected)
        assert one.values.dtype == other.values.dtype == dtype
        assert one.complete == other.complete
        for name in ("values", "observed", "ids"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_complete_batches_of_a_table_with_holes_are_complete():
    rows = prepared.prepared(ArrayRows([[1.0, np.nan], [3.0, 4.0]]))
    assert [rows.take(np.array(ids)).complete for ids in ([0], [1], [0, 1])] == [False, True, False]


@pytest.mark.parametrize("which", range(4))
def test_all_sources_of_a_fit_to_an_array_are_prepared(which):
    assert isinstance(prepared.prepared(sources(np.float64)[which]), PreparedRows)


def test_the_work_is_done_once():
    rows = sources(np.float64)[1]
    ready = prepared.prepared(rows)
    rows.mean[:] = np.nan
    assert np.isfinite(ready.take(np.arange(5)).values).all()


def test_large_tables_and_other_sources_are_left_alone(monkeypatch):
    class Ones(RowSource):
        def take(self, ids):
            raise AssertionError("the rows were read")

    class Changing(ArrayRows):
        """May return something else at every visit."""

    ones, changing = Ones(10, 2), Changing([[1.0]])
    assert prepared.prepared(ones) is ones
    assert prepared.prepared(changing) is changing
    rows = sources(np.float64)[1]
    assert isinstance(prepared.prepared(rows), PreparedRows)
    monkeypatch.setattr(prepared, "MOST_ENTRIES", 199)
    assert prepared.prepared(rows) is rows
