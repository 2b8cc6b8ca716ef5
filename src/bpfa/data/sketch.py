"""A small sample of the entries that a fit has seen, by which they are recognised again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.data.blocks import sequential
from bpfa.data.mapped import MappedRows
from bpfa.data.rows import Batch, Rows

__all__ = ["EntrySketch", "SketchedRows", "mixed"]

Hashes = NDArray[np.uint64]

# The most hashes that are kept: 32 KiB.
MOST_HASHES = 4096
# The most pairs of columns that are hashed in a row, so that a wide row takes little more time than others.
MOST_PAIRS = 8
# Multipliers of the SplitMix64 generator, used to mix bits.
SPLITMIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def mixed(hashes: Hashes, bits: Hashes) -> Hashes:
    """Return hashes into which further bits have been mixed, by the steps of SplitMix64."""
    with np.errstate(over="ignore"):
        hashes = (hashes ^ bits) + SPLITMIX[0]
        hashes = (hashes ^ (hashes >> np.uint64(30))) * SPLITMIX[1]
        hashes = (hashes ^ (hashes >> np.uint64(27))) * SPLITMIX[2]
    return hashes ^ (hashes >> np.uint64(31))


@dataclass(frozen=True)
class EntrySketch:
    """A sample of pairs of entries, neighbours in a row, that a fit has seen.

    A pair is kept as a hash of its two values and of its column, so that it is recognised wherever its row is
    in another table, and whatever else of the row is missing there. In a table of measurements two values
    together are nearly always unique. Those that are not say nothing, and are left out of every comparison.

    The sample consists of the pairs with the smallest hashes. It therefore depends neither on the order of
    the rows nor on how they are divided into parts, and for every pair with a small hash it is known whether
    the fit has seen it.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> sketch = EntrySketch().with_rows(ArrayRows(X[:50]))
    >>> for rows in (X[:50], X[40:60], X[50:]):
    ...     sketch.compared(rows, np.ones(rows.shape, dtype=bool))
    (250, 250)
    (100, 50)
    (250, 0)
    """

    hashes: Hashes = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    """Sorted and all different."""
    repeated: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=bool))
    """Which of these pairs the fit has seen more than once."""

    def with_pairs(self, pairs: Hashes) -> Self:
        """Return the sketch after more pairs have been seen."""
        if len(self.hashes) == MOST_HASHES:
            pairs = pairs[pairs <= self.hashes[-1]]
        known = np.concatenate([self.hashes, pairs])
        weights = np.concatenate([1 + self.repeated, np.ones(len(pairs), dtype=np.int64)])
        return self._of(known, weights)

    def merged(self, other: EntrySketch) -> Self:
        """Return the sketch of the rows of this sketch and of other rows."""
        known = np.concatenate([self.hashes, other.hashes])
        weights = 1 + np.concatenate([self.repeated, other.repeated])
        return self._of(known, weights)

    def _of(self, known: Hashes, weights: NDArray[np.int64]) -> Self:
        hashes, place = np.unique(known, return_inverse=True)
        counts = np.bincount(place, weights=weights, minlength=len(hashes))
        return type(self)(hashes[:MOST_HASHES], counts[:MOST_HASHES] > 1)

    def with_rows(self, rows: Rows) -> Self:
        """Return the sketch after these rows have been seen."""
        sketched = SketchedRows(rows, self)
        sketched.finish()
        return sketched.sketch  # type: ignore[return-value]

    def compared(self, values: Array, observed: NDArray[np.bool_], where: object = True) -> tuple[int, int]:
        """Count the pairs of some rows of which it is known whether the fit has seen them, and those seen.

        Parameters
        ----------
        values : array, shape (rows, columns)
        observed : boolean array of the same shape
        where : boolean array of the same shape, optional
            Count only pairs of which at least one entry is in one of these places.

        Returns
        -------
        (int, int)
        """
        pairs = _pairs(values, observed, where)
        limit = self.hashes[-1] if len(self.hashes) == MOST_HASHES else np.uint64(2**64 - 1)
        pairs = pairs[pairs <= limit]
        place = np.searchsorted(self.hashes, pairs)
        inside = place < len(self.hashes)
        found = np.zeros(len(pairs), dtype=bool)
        found[inside] = self.hashes[place[inside]] == pairs[inside]
        undecided = np.zeros(len(pairs), dtype=bool)
        undecided[found] = self.repeated[place[found]]
        return int((~undecided).sum()), int((found & ~undecided).sum())


def _pairs(values: Array, observed: NDArray[np.bool_], where: object = True) -> Hashes:
    """Return a hash of each pair of neighbouring entries that are both observed, in some of the columns.

    The last column is followed by the first.
    """
    n_columns = values.shape[1]
    left = np.unique(np.linspace(0, n_columns - 1, min(n_columns, MOST_PAIRS)).round().astype(np.int64))
    right = (left + 1) % n_columns
    chosen = np.broadcast_to(np.asarray(where, dtype=bool), observed.shape)
    used = observed[:, left] & observed[:, right] & (chosen[:, left] | chosen[:, right])
    # The same numbers have the same bits in double precision, once -0 has become 0.
    bits = [(values[:, side].astype(np.float64) + 0.0).view(np.uint64) for side in (left, right)]
    hashes: Hashes = mixed(mixed(left.astype(np.uint64), bits[0]), bits[1])[used]
    return hashes


class SketchedRows(MappedRows):
    """Rows of another source, which are added to a sketch when they are read from beginning to end.

    Parameters
    ----------
    rows : Rows
    sketch : EntrySketch
        A sketch of earlier rows.
    first_id : int
        Id of the first row.

    Examples
    --------
    >>> from bpfa.data import ArrayRows, column_moments
    >>> rows = SketchedRows(ArrayRows(np.random.default_rng(0).normal(size=(100, 5))), EntrySketch())
    >>> n_observed = column_moments(rows).n_observed
    >>> len(rows.sketch.hashes)
    500
    """

    def __init__(self, rows: Rows, sketch: EntrySketch, first_id: int = 0) -> None:
        super().__init__(rows)
        self.sketch, self._next_id, self._end = sketch, first_id, first_id + rows.n_rows

    def mapped(self, batch: Batch) -> Batch:
        """Return the batch unchanged, and add it to the sketch if it follows the rows seen so far."""
        if len(batch) and batch.ids[0] == self._next_id and (np.diff(batch.ids) == 1).all():
            self._next_id += len(batch)
            self.sketch = self.sketch.with_pairs(_pairs(batch.values, batch.observed))
        return batch

    def finish(self) -> EntrySketch:
        """Return the sketch of all rows, after reading those that have not been read yet."""
        if self._next_id < self._end:
            for _ in sequential(self):
                pass
        return self.sketch
