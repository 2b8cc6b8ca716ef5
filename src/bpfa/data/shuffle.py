"""Batches of rows in random order, from memory or from a file that is larger than memory.

From memory, an epoch is a uniform permutation of all rows, cut into batches.

From a file, a permutation of single rows would read a block of the disk for every row. Instead, rows are
shuffled at two levels: an epoch permutes the *chunks* of the file (`chunk_edges` of the source), reads them
in *windows* of several chunks, permutes the rows within each window, and cuts the windows, one after another,
into batches. A window has about 2^24 entries (64 MiB in single precision), and at least two chunks and four
batches; while one window is in use, the next one is read. A file that fits into one window is kept in memory
and treated like an array.

What this means for the statistics:

- Every row comes exactly once in an epoch. Averaged over epochs, every batch is a fair sample: if all chunks
  have the same length, every row is equally likely to be in the batch of a step, so the noisy gradient has
  the right mean.
- The rows of one chunk come in the same window. If the rows of a file are in random order, chunks are
  exchangeable and a batch is as good as a uniform sample. If a file is sorted, say by sample or donor, the
  rows of a chunk resemble each other, and the batches of a window share the mixture of the few chunks in
  it. With m chunks in a window, the share of a group whose overall share is p varies between windows with a
  variance of about p (1 - p) / m; if single rows were shuffled, it would be about p (1 - p) / rows.
  Consecutive batches stay on one side of the mean for the length of a window, and the fit follows them if its
  step size averages over less than a window.
- The files that NumPy writes, and HDF5 and Zarr arrays in small chunks, have chunks of 1 MiB and therefore
  about 64 chunks in a window. A file that stores many MiB together, such as Parquet with large row groups,
  may have only two.

What to do about a sorted file with large chunks: write it again with its rows in random order, which is best,
or with smaller chunks, so that a window has more of them. A smaller step size, which averages over more
windows, helps too.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array, check_instance, check_integer
from bpfa._support.philox import Stream
from bpfa.data.blocks import Piece, cut_into_batches
from bpfa.data.remote import RemoteRows, origin_of, pooled_ids
from bpfa.data.rows import ArrayRows, Batch, Rows, RowSource, as_source

__all__ = ["batch_ids", "order_of_rows", "read_batches", "sample_ids"]

# Entries of a window: 64 MiB in single precision. Two windows are in memory, the one in use and the next.
WINDOW_ENTRIES = 2**24
# A window has at least this many batches and chunks; otherwise it would not mix rows.
WINDOW_BATCHES, WINDOW_CHUNKS = 4, 2
# A sample comes from this many chunks, one from each of as many equal stretches of the file. A group of
# neighbouring rows that makes up more than 1/32 of the file is then always represented, and reading 64 chunks
# takes about a second.
SAMPLE_CHUNKS = 64


def batch_ids(
    n_rows: int, batch_size: int, stream: Stream, first_step: int = 1
) -> Iterator[NDArray[np.int64]]:
    """Yield the row ids of one batch after another without end, from `first_step` on, for rows in memory.

    Every epoch goes through a new permutation of the rows, cut into batches whose sizes differ by at most
    one; a batch of all rows keeps their order. Apart from `n_rows` and `batch_size`, the batch of a step
    depends only on the stream and the step.

    Parameters
    ----------
    n_rows : int
    batch_size : int
        Number of rows in a batch. If it is larger than `n_rows`, a batch is all rows.
    stream : Stream
    first_step : int

    Yields
    ------
    integer array

    See Also
    --------
    bpfa.data.read_batches : Read batches ahead.
    bpfa.data.ShuffledEpochs : Pass after pass in shuffled order.

    Examples
    --------
    >>> ids = batch_ids(5, 2, Stream.from_seed(0))
    >>> sorted(int(i) for _ in range(3) for i in next(ids))
    [0, 1, 2, 3, 4]
    """
    per_epoch = -(-n_rows // batch_size)
    epoch, skip = divmod(first_step - 1, per_epoch)
    shuffles = stream.child("batches")
    while True:
        order = order_of_rows(n_rows, per_epoch, shuffles, epoch)
        # The first of the batches have one row more than the others, as in `numpy.array_split`.
        smaller, n_larger = divmod(n_rows, per_epoch)
        for batch in range(skip, per_epoch):
            start = batch * smaller + min(batch, n_larger)
            yield order[start : start + smaller + (batch < n_larger)]
        epoch, skip = epoch + 1, 0


def order_of_rows(n_rows: int, n_batches: int, shuffles: Stream, epoch: int) -> NDArray[np.int64]:
    """Return the order in which an epoch goes through rows in memory: at random, unless it is a single batch.

    Examples
    --------
    >>> order_of_rows(4, 1, Stream.from_seed(0), epoch=2)
    array([0, 1, 2, 3])
    """
    if n_batches == 1:
        return np.arange(n_rows)
    return shuffles.generator(epoch).permutation(n_rows)


def read_batches(
    rows: Rows, batch_size: int, stream: Stream, first_step: int = 1
) -> Generator[Batch, None, None]:
    """Yield the batch of one step after another without end, from `first_step` on.

    Every epoch goes through all rows, in batches whose sizes differ by at most one. Which rows are in the
    batch of a step depends only on the stream, the step, `batch_size`, and the shape and chunks of the
    source; nothing is read for steps before `first_step`. A file is read by a thread, which ends when the
    generator is closed.

    Parameters
    ----------
    rows : Rows
    batch_size : int
        Number of rows in a batch. If it is larger than the source, a batch is the whole source.
    stream : Stream
    first_step : int

    Yields
    ------
    Batch

    See Also
    --------
    bpfa.data.batch_ids : The rows of each batch.
    bpfa.data.sequential : One block after the other.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> batches = read_batches(ArrayRows(np.eye(5)), 2, Stream.from_seed(0))
    >>> [len(next(batches)) for _ in range(4)]
    [2, 2, 1, 2]
    """
    source = as_source("rows", rows)
    batch_size = check_integer("batch_size", batch_size, low=1)
    check_instance("stream", stream, Stream)
    first_step = check_integer("first_step", first_step, low=1)
    edges = source.chunk_edges
    if edges is not None:
        n_windows = _n_windows(source, edges, batch_size)
        if n_windows > 1:
            plan = WindowPlan(edges, n_windows, batch_size, stream.child("batches"))
            return _from_windows(source, plan, first_step)
    return _from_memory(source, batch_size, stream, first_step)


def sample_ids(rows: Rows, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the sorted ids of n different rows drawn at random, or of all rows if there are fewer.

    In memory, all rows are equally likely. In a file, the rows come from one random chunk in each of 64 equal
    stretches of the file, or of more stretches if the sample needs more rows, so that a sorted file is
    represented from beginning to end. Of rows on other machines, those of their pool are equally likely.

    Parameters
    ----------
    rows : Rows
    n : int
    rng : numpy.random.Generator

    Returns
    -------
    integer array

    See Also
    --------
    bpfa.data.batch_ids : The rows of each batch.
    bpfa.data.sequential : One block after the other.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> len(sample_ids(ArrayRows(np.eye(5)), 3, np.random.default_rng(0)))
    3
    """
    source = as_source("rows", rows)
    n = min(check_integer("n", n, low=1), source.n_rows)
    origin = origin_of(source)
    if isinstance(origin, RemoteRows) and origin.sample_pool is not None:
        return pooled_ids(origin.sample_pool, n, rng)
    edges = source.chunk_edges
    if edges is None:
        return np.sort(rng.choice(source.n_rows, size=n, replace=False))
    n_chunks = len(edges) - 1
    n_strata = min(SAMPLE_CHUNKS, n_chunks)
    while True:
        strata = np.linspace(0, n_chunks, n_strata + 1).astype(np.int64)
        chunks = rng.integers(strata[:-1], strata[1:])
        if (edges[chunks + 1] - edges[chunks]).sum() >= n:
            break
        n_strata = min(2 * n_strata, n_chunks)
    pool = np.concatenate([np.arange(edges[chunk], edges[chunk + 1]) for chunk in chunks])
    return np.sort(rng.choice(pool, size=n, replace=False))


def _n_windows(rows: RowSource, edges: NDArray[np.int64], batch_size: int) -> int:
    by_size = -(-rows.n_rows * rows.n_columns // WINDOW_ENTRIES)
    by_batches = rows.n_rows // (WINDOW_BATCHES * batch_size)
    by_chunks = (len(edges) - 1) // WINDOW_CHUNKS
    return max(1, min(by_size, by_batches, by_chunks))


def _from_memory(
    rows: RowSource, batch_size: int, stream: Stream, first_step: int
) -> Generator[Batch, None, None]:
    if rows.chunk_edges is not None:
        whole = rows.read(0, rows.n_rows)
        rows = ArrayRows(whole.values, ~whole.observed)
    for ids in batch_ids(rows.n_rows, batch_size, stream, first_step):
        yield rows.take(ids)


@dataclass(frozen=True)
class WindowPlan:
    """Which chunks each window consists of, and in which order their rows come; all without reading any."""

    edges: NDArray[np.int64]
    n_windows: int
    batch_size: int
    stream: Stream

    @property
    def n_rows(self) -> int:
        """Number of rows N."""
        return int(self.edges[-1])

    @property
    def per_epoch(self) -> int:
        """Number of batches in an epoch."""
        return -(-self.n_rows // self.batch_size)

    def size(self, batch: int) -> int:
        """Return the number of rows of a batch, counted from the start of its epoch, as in `batch_ids`."""
        return self.n_rows // self.per_epoch + (batch < self.n_rows % self.per_epoch)

    def sizes(self, first_step: int) -> Iterator[int]:
        """Yield the size of the batch of one step after another without end."""
        for step in itertools.count(first_step):
            yield self.size((step - 1) % self.per_epoch)

    def windows(self, first_step: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], int]]:
        """Yield, for one window after another without end, its chunks, the order of their rows, and how many
        of these rows to skip.
        """
        first_epoch, n_before = divmod(first_step - 1, self.per_epoch)
        skip = sum(self.size(batch) for batch in range(n_before))
        lengths = np.diff(self.edges)
        for epoch in itertools.count(first_epoch):
            order = self.stream.generator(epoch).permutation(len(lengths))
            # A chunk belongs to the window in which its first row would be if all windows were equally long.
            starts = np.cumsum(lengths[order]) - lengths[order]
            window_of = starts * self.n_windows // self.n_rows
            within = self.stream.child(f"epoch {epoch}")
            for window in np.unique(window_of).tolist():
                chunks = np.sort(order[window_of == window])
                n = int(lengths[chunks].sum())
                if skip < n:
                    yield chunks, within.generator(window).permutation(n), skip
                skip = max(0, skip - n)


def _from_windows(rows: RowSource, plan: WindowPlan, first_step: int) -> Generator[Batch, None, None]:
    stop = Event()
    with ThreadPoolExecutor(1, thread_name_prefix="bpfa-read") as reader:

        def windows() -> Iterator[Piece]:
            pending: Future[Piece] | None = None
            for chunks, order, skip in plan.windows(first_step):
                # While a window is in use, the next one is read, and no more than that.
                following = reader.submit(_read_window, rows, plan.edges, chunks, order, skip, stop)
                if pending is not None:
                    yield pending.result()
                pending = following

        try:
            yield from cut_into_batches(windows(), plan.sizes(first_step))
        finally:
            stop.set()


def _read_window(
    rows: RowSource,
    edges: NDArray[np.int64],
    chunks: NDArray[np.int64],
    order: NDArray[np.int64],
    skip: int,
    stop: Event,
) -> Piece:
    """Read the chunks of a window, and return their rows in this order, without the first `skip`."""
    n = len(order)
    place_of = np.empty(n, dtype=np.int64)
    place_of[order] = np.arange(n)
    # Zeros take no memory before they are written to, as with np.empty; but what np.empty finds in memory may
    # not be a number, and NumPy would warn when it converts that to double precision.
    values: Array = np.zeros((n, rows.n_columns), dtype=np.float32)
    observed, ids = np.empty((n, rows.n_columns), dtype=bool), np.empty(n, dtype=np.int64)
    first = 0
    for chunk in chunks:
        if stop.is_set():
            break
        batch = rows.read(int(edges[chunk]), int(edges[chunk + 1]))
        # Single precision, until a chunk has double precision.
        values = values.astype(np.result_type(values, batch.values), copy=False)
        places = place_of[first : first + len(batch)]
        values[places], observed[places], ids[places] = batch.values, batch.observed, batch.ids
        first += len(batch)
    return values[skip:], observed[skip:], ids[skip:]
