"""Which rows of which chunks a step visits, if the rows are in chunks on many machines.

Every process that holds rows works this out for itself: it follows from the seed, the chunks and the size of
a batch alone, and nothing about it is sent. An epoch visits every row once, as follows.

- Consecutive chunks are grouped into *strata* with the same number of chunks, give or take one. A *window*
  has one chunk of every stratum, chosen anew in every epoch, so that a file whose rows are sorted is
  represented from its beginning to its end at all times. A window has about 2^26 entries, and at least four
  batches and 16 chunks. The steps of a window visit its chunks only; the chunks of the next window are read
  meanwhile.
- The rows of every chunk are in a random order of their own. Every step takes from every chunk of its window
  as many rows as belong to its share of the window: the batch is a stratified sample.
- Consecutive strata are grouped into *leaves*, whose number is a power of two. The rows of a step that belong
  to one leaf are summed in one go, and the sums of the leaves are added up along a fixed binary tree
  (`bpfa.cluster.tree`). So the sums do not depend on which worker has which leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.philox import Stream
from bpfa.data.shuffle import order_of_rows

__all__ = ["ChunkPlan", "Part", "StepPlace"]

Ints = NDArray[np.int64]

# Entries of a window, over all workers: 256 MiB in single precision, besides as many bytes of masks.
WINDOW_ENTRIES = 2**26
# The least number of batches of a window, so that rows are mixed, and of chunks, so that workers share it.
WINDOW_BATCHES, WINDOW_CHUNKS = 4, 16
# The rows of a leaf in a step. A call of the kernels costs about as much as ten rows.
LEAF_ROWS = 512


class StepPlace(NamedTuple):
    """Where a step is: its epoch, the window in the epoch, and the part of the window."""

    epoch: int
    window: int
    part: int
    n_parts: int


class Part(NamedTuple):
    """The rows of a chunk that a step visits: these places of its random order."""

    leaf: int
    chunk: int
    start: int
    stop: int


@dataclass(frozen=True)
class ChunkPlan:
    """The plan of all steps over rows in chunks.

    Parameters
    ----------
    lengths : tuple of int
        Rows of every chunk, each at least one.
    n_columns : int
    batch_size : int
    stream : Stream
    window_entries : int
        Entries of a window.
    leaf_rows : int
        The fewest rows of a leaf in a step.

    Examples
    --------
    >>> plan = ChunkPlan((10, 10, 10), 2, batch_size=9, stream=Stream.from_seed(0))
    >>> plan.per_epoch, plan.n_windows, plan.n_leaves
    (4, 1, 1)
    >>> [sum(part.stop - part.start for part in plan.parts(step)) for step in (1, 2, 3, 4)]
    [8, 8, 7, 7]
    """

    lengths: tuple[int, ...]
    n_columns: int
    batch_size: int
    stream: Stream
    window_entries: int = WINDOW_ENTRIES
    leaf_rows: int = LEAF_ROWS

    @cached_property
    def edges(self) -> Ints:
        """The id of the first row of every chunk, and the number of rows."""
        return np.cumsum([0, *self.lengths])

    @cached_property
    def n_rows(self) -> int:
        """Number of rows N."""
        return int(self.edges[-1])

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return len(self.lengths)

    @property
    def per_epoch(self) -> int:
        """Number of steps in an epoch."""
        return -(-self.n_rows // self.batch_size)

    @cached_property
    def n_leaves(self) -> int:
        """Number of leaves of the tree of sums: a power of two."""
        most = min(self.n_strata, max(1, min(self.batch_size, self.n_rows) // self.leaf_rows))
        return 1 << (most.bit_length() - 1)

    @cached_property
    def n_strata(self) -> int:
        """Number of strata, which is the number of chunks of a window."""
        by_size = -(-self.n_rows * self.n_columns // self.window_entries)
        by_batches = self.n_rows // (WINDOW_BATCHES * self.batch_size)
        n_windows = max(1, min(by_size, by_batches, self.n_chunks // WINDOW_CHUNKS))
        return -(-self.n_chunks // n_windows)

    @cached_property
    def n_windows(self) -> int:
        """Number of windows of an epoch: the chunks of the largest stratum."""
        return int(np.diff(self.strata).max())

    @cached_property
    def strata(self) -> Ints:
        """The first chunk of every stratum, and the number of chunks."""
        return np.linspace(0, self.n_chunks, self.n_strata + 1).astype(np.int64)

    @cached_property
    def leaf_of_chunk(self) -> Ints:
        """The leaf that each chunk belongs to; it is the same in every step."""
        stratum = np.searchsorted(self.strata, np.arange(self.n_chunks), side="right") - 1
        leaves: Ints = stratum * self.n_leaves // self.n_strata
        return leaves

    def place(self, step: int) -> StepPlace:
        """Return where a step is; the first step is 1."""
        epoch, number = divmod(step - 1, self.per_epoch)
        first = _epoch(self, epoch).first_steps
        window = int(np.searchsorted(first, number, side="right")) - 1
        return StepPlace(epoch, window, number - int(first[window]), int(first[window + 1] - first[window]))

    def chunks(self, epoch: int, window: int) -> Ints:
        """Return the sorted chunks of a window."""
        return np.flatnonzero(_epoch(self, epoch).window_of_chunk == window)

    def following(self, place: StepPlace) -> tuple[int, int]:
        """Return epoch and number of the window after that of a step."""
        last = place.window == self.n_windows - 1
        return (place.epoch + 1, 0) if last else (place.epoch, place.window + 1)

    def parts(self, step: int) -> list[Part]:
        """Return which rows of which chunks a step visits."""
        place = self.place(step)
        chunks = self.chunks(place.epoch, place.window)
        lengths = np.diff(self.edges)[chunks]
        n = int(lengths.sum())
        start, stop = (
            _shares(lengths, number * (n // place.n_parts) + min(number, n % place.n_parts))
            for number in (place.part, place.part + 1)
        )
        leaves = self.leaf_of_chunk[chunks]
        return [
            Part(*numbers)
            for numbers in zip(leaves.tolist(), chunks.tolist(), start.tolist(), stop.tolist(), strict=True)
            if numbers[3] > numbers[2]
        ]

    def order(self, epoch: int, chunk: int) -> Ints:
        """Return the random order of the rows of a chunk in an epoch, as places in the chunk."""
        batches = self.stream.child("batches")
        if self.n_chunks == 1:
            return order_of_rows(self.n_rows, self.per_epoch, batches, epoch)
        return batches.child(f"epoch {epoch}").generator(chunk).permutation(self.lengths[chunk])


class _Epoch(NamedTuple):
    """Which window each chunk is in, and the number, within the epoch, of the first step of every window."""

    window_of_chunk: Ints
    first_steps: Ints


@lru_cache(maxsize=8)
def _epoch(plan: ChunkPlan, epoch: int) -> _Epoch:
    n_windows, rng = plan.n_windows, plan.stream.child("windows").generator(epoch)
    windows = rng.permuted(np.tile(np.arange(n_windows), (plan.n_strata, 1)), axis=1)
    stratum = np.repeat(np.arange(plan.n_strata), np.diff(plan.strata))
    place = np.arange(plan.n_chunks) - plan.strata[stratum]
    window_of_chunk = windows[stratum, place]
    rows = np.cumsum(np.bincount(window_of_chunk, weights=plan.lengths, minlength=n_windows))
    first = np.append(0, np.round(rows * plan.per_epoch / plan.n_rows).astype(np.int64))
    # Every window has a step, even if its chunks are short.
    number = np.arange(n_windows + 1)
    first = np.maximum.accumulate(first - number) + number
    first = np.minimum(first, plan.per_epoch - number[::-1])
    return _Epoch(window_of_chunk, first)


def _shares(lengths: Ints, n: int) -> Ints:
    """Return how many rows of every chunk are among the first n rows of a window.

    Row r of chunk c comes at the moment (r + (c + 1/2) / m) / n_c, with m chunks of n_c rows each. Chunks of
    any length are thus used up evenly, and those of equal length do not all give a row at the same moment.

    Examples
    --------
    >>> _shares(np.array([4, 4, 2]), 5), _shares(np.array([4, 4, 2]), 10)
    (array([2, 2, 1]), array([4, 4, 2]))
    """
    total, m = int(lengths.sum()), len(lengths)
    offset = (np.arange(m) + 0.5) / m
    # The rows that certainly come before this moment, and for every chunk a few that come close to it.
    slack = m * lengths // total + 2
    sure = np.clip(np.floor(lengths * (n / total) - offset).astype(np.int64) - slack, 0, lengths)
    close = np.minimum(2 * slack + 2, lengths - sure)
    chunk = np.repeat(np.arange(m), close)
    row = np.arange(len(chunk)) - np.repeat(np.cumsum(close) - close, close) + sure[chunk]
    first = np.argsort((row + offset[chunk]) / lengths[chunk], kind="stable")[: n - int(sure.sum())]
    shares: Ints = sure + np.bincount(chunk[first], minlength=m)
    return shares
