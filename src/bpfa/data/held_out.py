"""Rows of another source with some entries held out, so that predictions of them can be scored."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array, check_instance, check_mask, check_number
from bpfa._support.philox import Stream
from bpfa.data.mapped import MappedRows
from bpfa.data.rows import Batch, Rows
from bpfa.data.shuffle import sample_ids

__all__ = ["FewHeldOutRows", "HeldOutRows", "MaskedRows", "RowsWithHeldOut"]

# Random numbers drawn at a time: each takes about forty bytes of memory while it is computed.
DRAWS_AT_A_TIME = 2**18


class RowsWithHeldOut(MappedRows):
    """Rows of another source without some of their observed entries; derived classes say without which."""

    @abstractmethod
    def mask(self, batch: Batch) -> NDArray[np.bool_]:
        """Return which observed entries of a batch of the other source are held out.

        Parameters
        ----------
        batch : Batch

        Returns
        -------
        boolean array of the shape of the batch

        See Also
        --------
        bpfa.data.HeldOutRows.take_held_out : Rows, and which of their entries are held out.

        Examples
        --------
        >>> from bpfa.data import ArrayRows
        >>> rows = MaskedRows(ArrayRows([[1.0, 2.0]]), [[True, False]])
        >>> rows.mask(rows.rows.read(0, 1))
        array([[ True, False]])
        """

    def ids_with_held_out(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the sorted ids of at most n random rows, most of which have an entry that is held out.

        Parameters
        ----------
        n : int
        rng : Generator

        Returns
        -------
        integer array

        See Also
        --------
        bpfa.data.sample_ids : Ids of random rows.
        bpfa.data.HeldOutRows.take_held_out : Rows, and which of their entries are held out.

        Examples
        --------
        >>> from bpfa.data import ArrayRows
        >>> rows = FewHeldOutRows(ArrayRows(np.ones((100, 4))), 0.01, Stream.from_seed(0))
        >>> ids = rows.ids_with_held_out(3, np.random.default_rng(0))
        >>> bool(rows.mask(rows.rows.take(ids)).any(axis=1).all())
        True
        """
        return sample_ids(self, n, rng)

    def take_held_out(self, ids: NDArray[np.int64]) -> tuple[Batch, Array, NDArray[np.bool_]]:
        """Return the rows without the held-out entries, all their values, and which entries are held out.

        Parameters
        ----------
        ids : integer array

        Returns
        -------
        Batch
            The rows without the held-out entries.
        array
            All values, the held-out ones included.
        boolean array
            True where an entry is held out.

        See Also
        --------
        bpfa.data.HeldOutRows.mask : Which entries of a batch are held out.
        bpfa.held_out_score : How well a posterior predicts held-out entries.

        Examples
        --------
        >>> from bpfa.data import ArrayRows
        >>> rows = MaskedRows(ArrayRows([[1.0, 2.0]]), [[True, False]])
        >>> batch, values, held_out = rows.take_held_out(np.array([0]))
        >>> batch.values, values, held_out
        (array([[0., 2.]]), array([[1., 2.]]), array([[ True, False]]))
        """
        batch = self.rows.take(ids)
        held_out = self.mask(batch)
        return batch.without(held_out), batch.values, held_out

    def mapped(self, batch: Batch) -> Batch:
        """Return the batch without the held-out entries."""
        held_out = self.mask(batch)
        return batch.without(held_out) if held_out.any() else batch


class HeldOutRows(RowsWithHeldOut):
    """Rows of another source, with each observed entry held out with the same probability.

    Whether an entry is held out depends only on the stream, its row id and its column. The mask therefore
    takes no memory, and is the same every time a row is read.

    Parameters
    ----------
    rows : Rows
    fraction : float
        Probability that an entry is held out, from 0 to 1.
    stream : Stream
    spared : boolean array, shape (n_columns,), optional
        True for columns of which nothing is held out.

    See Also
    --------
    bpfa.data.FewHeldOutRows : The same for few entries of many rows.
    bpfa.BPFA.held_out_score : The same for chosen entries.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rows = HeldOutRows(ArrayRows(np.ones((1000, 10))), 0.2, Stream.from_seed(0))
    >>> batch, truth, held_out = rows.take_held_out(np.arange(1000))
    >>> round(float(held_out.mean()), 1), bool((batch.observed == ~held_out).all()), truth[0, 0]
    (0.2, True, np.float64(1.0))
    """

    def __init__(
        self, rows: Rows, fraction: float, stream: Stream, spared: NDArray[np.bool_] | None = None
    ) -> None:
        super().__init__(rows)
        self._spared = spared
        self.fraction = check_number("fraction", fraction, low=0.0, high=1.0)
        check_instance("stream", stream, Stream)
        self._stream = stream.child("hidden")

    def mask(self, batch: Batch) -> NDArray[np.bool_]:
        """Return which observed entries of a batch are held out."""
        held_out = np.empty(batch.observed.shape, dtype=bool)
        # The generator draws numbers for 64 columns at a time.
        step = max(1, DRAWS_AT_A_TIME // (-(-self.n_columns // 64) * 64))
        for start in range(0, len(batch), step):
            draws = self._stream.rows(batch.ids[start : start + step], step=0)
            held_out[start : start + step] = draws.uniform(1, self.n_columns) < self.fraction
        if self._spared is not None:
            held_out[:, self._spared] = False
        return held_out & batch.observed


class FewHeldOutRows(RowsWithHeldOut):
    """Rows of another source, with a few places held out that are drawn once, when the source is made.

    To look up a few places takes far less time than to draw a random number for every entry whenever a row is
    read. A row never loses all of its observed entries: if all of them are in places that were drawn, none is
    held out.

    Parameters
    ----------
    rows : Rows
    share : float
        The share of all places, observed or not, that are drawn. The same share of the observed entries is
        held out, apart from chance.
    stream : Stream
    spared : boolean array, shape (n_columns,), optional
        True for columns of which nothing is held out.

    See Also
    --------
    bpfa.data.HeldOutRows : Rows of which some entries are kept from the fit.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rows = FewHeldOutRows(ArrayRows(np.ones((1000, 10))), 0.01, Stream.from_seed(0))
    >>> batch, truth, held_out = rows.take_held_out(np.arange(1000))
    >>> int(held_out.sum()), bool((batch.observed == ~held_out).all())
    (100, True)
    """

    def __init__(
        self, rows: Rows, share: float, stream: Stream, spared: NDArray[np.bool_] | None = None
    ) -> None:
        super().__init__(rows)
        check_number("share", share, low=0.0, high=1.0)
        n_places = self.n_rows * self.n_columns
        rng = stream.child("hidden").generator(0)
        places = np.sort(rng.choice(n_places, size=round(share * n_places), replace=False))
        ids, columns = np.divmod(places, self.n_columns)
        if spared is not None:
            ids, columns = ids[~spared[columns]], columns[~spared[columns]]
        self._ids, self._columns = ids, columns

    @property
    def n_places(self) -> int:
        """Number of places that were drawn, observed or not."""
        return len(self._ids)

    def ids_with_held_out(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the sorted ids of at most n random rows in which a place was drawn."""
        ids = np.unique(self._ids)
        return np.sort(rng.choice(ids, size=min(n, len(ids)), replace=False))

    def mask(self, batch: Batch) -> NDArray[np.bool_]:
        """Return which observed entries of a batch are held out."""
        held_out = np.zeros(batch.observed.shape, dtype=bool)
        first, last = (np.searchsorted(self._ids, batch.ids, side) for side in ("left", "right"))
        counts = last - first
        touched = np.flatnonzero(counts)
        # The places of the first row, then those of the second, and so on.
        places = np.arange(counts.sum()) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        held_out[np.repeat(np.arange(len(batch)), counts), self._columns[places]] = True
        held_out &= batch.observed
        emptied = (held_out[touched] == batch.observed[touched]).all(axis=1)
        held_out[touched[emptied]] = False
        return held_out


class MaskedRows(RowsWithHeldOut):
    """Rows of another source, with the given entries held out.

    Parameters
    ----------
    rows : Rows
    held_out : boolean array-like, shape (n_rows, n_columns)
        True where an entry is held out. Such an entry must be observed, or it could not be scored.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rows = MaskedRows(ArrayRows([[1.0, 2.0]]), [[True, False]])
    >>> rows.take(np.array([0])).observed
    array([[False,  True]])
    """

    def __init__(self, rows: Rows, held_out: Any) -> None:
        super().__init__(rows)
        self.held_out = check_mask("held_out", held_out, (rows.n_rows, rows.n_columns))

    def mask(self, batch: Batch) -> NDArray[np.bool_]:
        """Return which entries of a batch are held out."""
        held_out = self.held_out[batch.ids]
        unknown = held_out & ~batch.observed
        if unknown.any():
            row, column = np.argwhere(unknown)[0]
            raise ValueError(
                f"held_out: the entry at row {batch.ids[row]}, column {column} is missing; expected its value"
            )
        return held_out
