"""Batches from files: every row once an epoch, in an order that a seed repeats, read ahead by one thread."""

import itertools
import threading
import time

import numpy as np
import pytest

from bpfa import ArrayRows, Batch
from bpfa._support.philox import Stream
from bpfa.data import (
    ConcatRows,
    FileRows,
    MemmapRows,
    batch_ids,
    read_batches,
    sample_ids,
    sequential,
)
from bpfa.data import shuffle as shuffle_module

N, D = 203, 3
X = np.arange(N * D, dtype=np.float64).reshape(N, D)
STREAM = Stream.from_seed(1)


class Slow(FileRows):
    """A file that counts its reads, and may fail or take its time."""

    def __init__(self, chunk_rows=7, seconds=0.0, fails_at=None):
        super().__init__("slow.file", X.shape, X.dtype)
        self.chunk_edges = np.append(np.arange(0, N, chunk_rows), N)
        self.reads, self.threads = [], set()
        self.seconds, self.fails_at = seconds, fails_at

    def _read(self, start, stop):
        time.sleep(self.seconds)
        self.reads.append((start, stop))
        self.threads.add(threading.current_thread().name)
        if self.fails_at is not None and start <= self.fails_at < stop:
            raise OSError("the disk is on fire")
        return X[start:stop]


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    """About 40 rows in a window: five or six windows an epoch."""
    monkeypatch.setattr("bpfa.data.shuffle.WINDOW_ENTRIES", 40 * D)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def some(rows, n, batch_size=10, stream=STREAM, first_step=1):
    batches = read_batches(rows, batch_size, stream, first_step)
    taken = list(itertools.islice(batches, n))
    batches.close()
    return taken


def ids_of(batches):
    return [batch.ids.tolist() for batch in batches]


def uneven():
    """Chunks of different lengths, as those of several files are."""
    rows = Slow()
    rows.chunk_edges = np.unique(np.append(np.cumsum([0, 1, 30, 2, 2, 17, 9, 40, 1, 1, 8]), [150, 180, N]))
    return rows


@pytest.mark.parametrize("source", [Slow, lambda: Slow(1), lambda: Slow(50), uneven])
@pytest.mark.parametrize("batch_size", [1, 7, 10, 49])
def test_an_epoch_has_every_row_once(source, batch_size):
    per_epoch = -(-N // batch_size)
    batches = some(source(), 3 * per_epoch, batch_size)
    sizes = [len(batch) for batch in batches]
    in_memory = list(itertools.islice(batch_ids(N, batch_size, STREAM), 3 * per_epoch))
    assert sizes == [len(ids) for ids in in_memory]
    epochs = [batches[i * per_epoch : (i + 1) * per_epoch] for i in range(3)]
    orders = [np.concatenate([batch.ids for batch in epoch]) for epoch in epochs]
    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(N))
    assert not np.array_equal(orders[0], orders[1])
    for batch in batches:
        np.testing.assert_array_equal(batch.values, X[batch.ids])
        assert batch.complete


def test_memory_has_the_batches_it_always_had():
    assert ids_of(some(ArrayRows(X), 50)) == [
        ids.tolist() for ids in itertools.islice(batch_ids(N, 10, STREAM), 50)
    ]


def test_a_file_that_fits_into_a_window_is_read_once_and_is_as_memory(monkeypatch):
    monkeypatch.setattr("bpfa.data.shuffle.WINDOW_ENTRIES", N * D)
    rows = Slow()
    assert ids_of(some(rows, 50)) == ids_of(some(ArrayRows(X), 50))
    assert rows.reads == [(0, N)]


@pytest.mark.parametrize("source", [Slow, uneven])
def test_a_resumed_run_sees_the_same_batches_and_reads_no_others(source):
    whole = ids_of(some(source(), 60))
    for first_step in (2, 4, 5, 20, 21, 22, 23, 47):
        rows = source()
        assert ids_of(some(rows, 5, first_step=first_step)) == whole[first_step - 1 : first_step + 4]
        # Windows of some 40 rows: five batches of ten are in three of them, and one more is read ahead; a
        # window of uneven chunks may be twice as long.
        assert sum(stop - start for start, stop in rows.reads) < (200 if source is Slow else 320)
    assert ids_of(some(source(), 60)) == whole
    assert ids_of(some(source(), 60, stream=Stream.from_seed(2))) != whole


def test_each_chunk_is_read_once_an_epoch_and_one_window_ahead_at_most():
    rows = Slow()
    batches = read_batches(rows, 10, STREAM)
    next(batches)
    time.sleep(0.2)
    assert len(rows.reads) <= 2 * 7  # two windows
    for _ in range(N // 10):
        next(batches)
    batches.close()
    first_epoch = rows.reads[: len(rows.chunk_edges) - 1]
    assert sorted(first_epoch) == list(itertools.pairwise(rows.chunk_edges.tolist()))
    assert {name[:9] for name in rows.threads} == {"bpfa-read"}


def test_missing_entries_come_through():
    hidden = np.random.default_rng(0).random(X.shape) < 0.3
    rows = Slow()
    rows._read = lambda start, stop: np.where(hidden, np.nan, X)[start:stop]
    for batch in some(rows, 21):
        np.testing.assert_array_equal(batch.observed, ~hidden[batch.ids])
        np.testing.assert_array_equal(batch.values, np.where(hidden, 0, X)[batch.ids])


def test_single_and_double_precision_in_one_window(tmp_path):
    single, double = X[:100].astype(np.float32), X[100:] + 1e-9
    np.save(tmp_path / "single.npy", single)
    np.save(tmp_path / "double.npy", double)
    rows = ConcatRows([MemmapRows(tmp_path / "single.npy"), MemmapRows(tmp_path / "double.npy")])
    rows.chunk_edges = np.arange(0, N + 1, 7)
    for batch in some(rows, 21):
        np.testing.assert_array_equal(batch.values, np.vstack([single, double])[batch.ids])


def test_the_windows_of_a_sorted_file_mix_many_chunks(monkeypatch):
    """The share of a group varies between windows as the documentation of the shuffle says: p (1 - p) / m."""
    n, m = 20_000, 10
    monkeypatch.setattr("bpfa.data.shuffle.WINDOW_ENTRIES", 1000)

    class Sorted(FileRows):
        def _read(self, start, stop):
            return (np.arange(start, stop) < 0.3 * n).astype(float)[:, None]

    rows = Sorted("sorted", (n, 1), np.dtype(float))
    rows.chunk_edges = np.arange(0, n + 1, 1000 // m)
    # A batch of 100 is a tenth of a window: the batches of a window together are the window.
    shares = np.array([batch.values.mean() for batch in some(rows, 2000, batch_size=100)])
    windows = shares.reshape(-1, 10).mean(axis=1)
    assert abs(windows.mean() - 0.3) < 1e-9
    # Drawn without replacement from 200 chunks, hence the last factor; 200 windows know it to about 10 %.
    expected = 0.3 * 0.7 / m * (200 - m) / 199
    assert 0.7 < windows.var() / expected < 1.4
    # Within a window the batches are shuffled by rows.
    within = shares.reshape(-1, 10) - windows[:, None]
    assert within.var() < 0.3 * 0.7 / 100


def test_windows_are_limited_by_size_batches_and_chunks():
    def n_windows(chunk_rows, batch_size):
        rows = Slow(chunk_rows)
        return shuffle_module._n_windows(rows, rows.chunk_edges, batch_size)

    assert n_windows(chunk_rows=7, batch_size=1) == 6  # 203 rows, 40 in a window
    assert n_windows(chunk_rows=7, batch_size=16) == 3  # 64 rows at least
    assert n_windows(chunk_rows=40, batch_size=1) == 3  # six chunks
    assert n_windows(chunk_rows=7, batch_size=N) == 1


def test_windows_of_uneven_chunks_are_about_equal():
    """A few long chunks among many short ones would make windows of equal numbers of chunks very unequal."""
    edges = np.concatenate([[0], np.cumsum([1] * 400 + [100] * 4)])
    plan = shuffle_module.WindowPlan(edges, 4, 10, STREAM)
    for _, order, _ in itertools.islice(plan.windows(1), 100):
        assert len(order) <= 200 + 100


def test_no_two_windows_have_the_same_order():
    plan = shuffle_module.WindowPlan(np.arange(0, 401, 10), 4, 10, STREAM)
    orders = [tuple(order) for _, order, _ in itertools.islice(plan.windows(1), 12)]
    assert {len(order) for order in orders} == {100}
    assert len(set(orders)) == 12


def test_every_row_is_as_likely_in_the_first_batch():
    counts = np.zeros(N)
    for seed in range(400):
        plan = shuffle_module.WindowPlan(Slow().chunk_edges, 5, 10, Stream.from_seed(seed))
        chunks, order, _ = next(plan.windows(1))
        ids = np.concatenate([np.arange(*plan.edges[chunk : chunk + 2]) for chunk in chunks])
        counts[ids[order[:10]]] += 1
    assert abs(counts[: N // 2].sum() / counts.sum() - 0.5) < 0.05
    assert counts.max() < 60


def test_an_error_of_the_reading_thread_is_raised_and_names_the_file():
    batches = read_batches(Slow(fails_at=100), 10, STREAM)
    with pytest.raises(ValueError, match=r"slow.file: cannot be read \(the disk is on fire\)"):
        list(itertools.islice(batches, 30))


def test_infinity_is_refused_with_its_place():
    rows = Slow()
    rows._read = lambda start, stop: np.where(np.isin(X, X[123, 1]), np.inf, X)[start:stop]
    with pytest.raises(ValueError, match=r"slow.file: inf at row 123, column 1; expected finite"):
        some(rows, 21)


def test_closing_stops_the_thread_before_the_window_is_read():
    rows = Slow(chunk_rows=1, seconds=0.01)
    batches = read_batches(rows, 5, STREAM)
    next(batches)
    n_read, started = len(rows.reads), time.perf_counter()
    batches.close()
    assert len(rows.reads) <= n_read + 2
    assert time.perf_counter() - started < 0.2


def test_a_generator_that_is_dropped_or_interrupted_leaves_nothing():
    batches = read_batches(Slow(), 5, STREAM)
    next(batches)
    del batches
    batches = read_batches(Slow(), 5, STREAM)
    next(batches)
    with pytest.raises(KeyboardInterrupt):
        batches.throw(KeyboardInterrupt)
    del batches


def test_a_batch_does_not_keep_its_window():
    batch = some(Slow(), 1)[0]
    assert batch.values.base is None or batch.values.base.nbytes <= batch.values.nbytes


@pytest.mark.parametrize("block_rows", [1, 5, 7, 64, 1000])
@pytest.mark.parametrize("source", [Slow, uneven, lambda: ArrayRows(X)])
def test_sequential_is_the_same_for_every_source(source, block_rows):
    rows = source()
    batches = list(sequential(rows, block_rows))
    assert [len(batch) for batch in batches[:-1]] == [min(block_rows, N)] * (len(batches) - 1)
    np.testing.assert_array_equal(np.concatenate([batch.ids for batch in batches]), np.arange(N))
    np.testing.assert_array_equal(np.concatenate([batch.values for batch in batches]), X)
    if isinstance(rows, Slow):
        assert sum(stop - start for start, stop in rows.reads) == N
        # Small chunks are read together.
        assert all(stop - start >= block_rows for start, stop in rows.reads[:-1])


def test_sequential_has_a_block_size_of_its_own():
    assert ids_of(sequential(ArrayRows(X))) == [list(range(N))]


def test_a_sample_of_memory_is_uniform():
    ids = sample_ids(ArrayRows(X), 20, np.random.default_rng(3))
    expected = np.sort(np.random.default_rng(3).choice(N, size=20, replace=False))
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_array_equal(sample_ids(ArrayRows(X), N + 5, np.random.default_rng(3)), np.arange(N))


@pytest.mark.parametrize("source", [Slow, uneven, lambda: Slow(1), lambda: Slow(1000)])
@pytest.mark.parametrize("n", [1, 20, 150, N, N + 1])
def test_a_sample_of_a_file_has_the_size_asked_for(source, n):
    ids = sample_ids(source(), n, np.random.default_rng(0))
    assert len(ids) == len(np.unique(ids)) == min(n, N)
    np.testing.assert_array_equal(ids, np.sort(ids))


def test_a_sample_of_a_file_has_few_chunks_from_end_to_end():
    rows = Slow()
    rows.n_rows, rows.chunk_edges = 100_000, np.arange(0, 100_001, 100)
    for seed in range(20):
        ids = sample_ids(rows, 2000, np.random.default_rng(seed))
        chunks = np.unique(ids // 100)
        assert len(chunks) <= 64
        # Each of 32 equal parts of a sorted file is in it.
        assert len(np.unique(ids * 32 // 100_000)) == 32


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: read_batches(X, 10, STREAM), "rows"),
        (lambda: read_batches(ArrayRows(X), 0, STREAM), "batch_size"),
        (lambda: read_batches(ArrayRows(X), 10, 0), "stream"),
        (lambda: read_batches(ArrayRows(X), 10, STREAM, 0), "first_step"),
        (lambda: sequential(X), "rows"),
        (lambda: sequential(ArrayRows(X), 0), "block_rows"),
        (lambda: sample_ids(X, 3, np.random.default_rng(0)), "rows"),
        (lambda: sample_ids(ArrayRows(X), 0, np.random.default_rng(0)), "n=0"),
        (lambda: Slow().take(np.array([0, N])), f"ids: {N}; slow.file has rows 0 to {N - 1}"),
        (lambda: Slow().take(np.array([-1])), "ids: -1"),
        (lambda: ConcatRows([Slow()]).take(np.array([N])), f"ids: {N}"),
        (lambda: Batch([[np.inf]], ids=[12]), "inf at row 12, column 0"),
    ],
)
def test_bad_arguments_are_refused_at_once(call, match):
    with pytest.raises((ValueError, TypeError), match=match):
        call()
