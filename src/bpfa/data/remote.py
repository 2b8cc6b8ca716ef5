"""Rows that are not in this process: they are looked at, and summed over, where they are."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bpfa.data.mapped import MappedRows
from bpfa.data.patches import PatchRows
from bpfa.data.rows import Batch, Rows, RowSource

__all__ = [
    "PartRows",
    "RemoteRows",
    "RowsLostError",
    "UnusableRowsError",
    "are_patches",
    "origin_of",
    "rebased",
]

Result = TypeVar("Result")


class RowsLostError(RuntimeError):
    """Rows that a fit needs cannot be reached any more; the fit ends with the last step that it has made."""


class UnusableRowsError(RowsLostError, ValueError):
    """Rows elsewhere turned out to hold something that the fit cannot use, after it had begun."""


class RemoteRows(RowSource):
    """Rows that are held elsewhere, in chunks, and of which only samples are brought here.

    A derived class takes samples (`take`), applies a function to every chunk where it is (`survey`), and
    opens a workspace in which the local steps of a run take place where the rows are (`workspace`).

    Attributes
    ----------
    n_chunks : int
        Into how many chunks the rows are divided.
    sample_pool : integer array or None
        Sorted ids of the rows among which samples are drawn; None if every row may be in a sample.
    of_patches : bool
        Whether the rows are patches of pictures.
    """

    n_chunks: int
    sample_pool: NDArray[np.int64] | None = None
    of_patches: bool = False

    @abstractmethod
    def survey(
        self, rows: RowSource, function: Callable[[RowSource], Result], *, whole: bool = False
    ) -> list[Result]:
        """Apply a function to chunks of `rows`, of which this is the origin, where they are.

        Parameters
        ----------
        rows : RowSource
        function : callable
            From the rows of a chunk, with the ids that they have in the whole, to something small.
        whole : bool
            Apply it to every chunk, even if there are so many that a sample of them would do.

        Returns
        -------
        list
            The results, in the order of the chunks.
        """

    @abstractmethod
    def workspace(self, rows: RowSource, algorithm: Any, visits: Any) -> AbstractContextManager[Any]:
        """Open a workspace in which an algorithm runs over `rows`, of which this is the origin.

        Parameters
        ----------
        rows : RowSource
        algorithm : Algorithm
        visits : ShuffledEpochs

        Returns
        -------
        context manager of a Workspace
        """

    @property
    @abstractmethod
    def surveyed_whole(self) -> bool:
        """Whether `survey` sees every chunk without being asked to."""


class PartRows(RowSource):
    """Some consecutive rows of a larger source, with the ids that they have there.

    Parameters
    ----------
    values : array, shape (n_rows, n_columns)
    observed : boolean array of the same shape
    first_id : int
        Id of the first of them.
    column_names : list of str, optional

    Examples
    --------
    >>> part = PartRows(np.eye(2), np.ones((2, 2), dtype=bool), first_id=10)
    >>> part.read(1, 2).ids, part.take(np.array([0])).values
    (array([11]), array([[1., 0.]]))
    """

    def __init__(
        self,
        values: NDArray[Any],
        observed: NDArray[np.bool_],
        first_id: int,
        column_names: list[str] | None = None,
    ) -> None:
        super().__init__(*values.shape, column_names=column_names)
        self._values, self._observed, self.first_id = values, observed, first_id

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the rows at these places, counted from the first row of this part."""
        return Batch(self._values[ids], self._observed[ids], ids + self.first_id)


def are_patches(rows: Any) -> bool:
    """Return whether rows are the patches of pictures, here or elsewhere, which overlap.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> are_patches(ArrayRows([[1.0]]))
    False
    """
    return isinstance(rows, PatchRows) or (isinstance(rows, RemoteRows) and rows.of_patches)


def origin_of(rows: Any) -> Any:
    """Return the source behind rows that are changed on their way out.

    Examples
    --------
    >>> from bpfa.data import ArrayRows, StandardisedRows
    >>> rows = ArrayRows([[1.0, 2.0]])
    >>> origin_of(StandardisedRows(rows, [0.0, 0.0], [1.0, 1.0])) is rows
    True
    """
    while isinstance(rows, MappedRows):
        rows = rows.rows
    return rows


def rebased(rows: Rows, origin: RowSource) -> RowSource:
    """Return the rows of another origin, changed on their way out as `rows` are.

    Parameters
    ----------
    rows : Rows
    origin : RowSource
        With the same columns.

    Returns
    -------
    RowSource

    Examples
    --------
    >>> from bpfa.data import ArrayRows, StandardisedRows
    >>> rows = StandardisedRows(ArrayRows([[1.0, 2.0]]), [1.0, 2.0], [1.0, 1.0])
    >>> rebased(rows, ArrayRows([[5.0, 5.0]])).read(0, 1).values
    array([[4., 3.]])
    """
    if not isinstance(rows, MappedRows):
        return origin
    moved = copy.copy(rows)
    moved.rows = rebased(rows.rows, origin)
    moved.n_rows, moved.chunk_edges = origin.n_rows, origin.chunk_edges
    return moved


def pooled_ids(pool: NDArray[np.int64], n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the sorted ids of at most n rows of a pool, drawn at random.

    Examples
    --------
    >>> len(pooled_ids(np.arange(10), 3, np.random.default_rng(0)))
    3
    """
    chosen: NDArray[np.int64] = np.sort(rng.choice(pool, size=min(n, len(pool)), replace=False))
    return chosen


def concatenated(batches: Sequence[Batch]) -> Batch:
    """Return the rows of several batches that have been checked already, one after another.

    Examples
    --------
    >>> concatenated([Batch([[1.0]], ids=[3]), Batch([[2.0]], ids=[1])]).ids
    array([3, 1])
    """
    if len(batches) == 1:
        return batches[0]
    return Batch.unchecked(
        np.concatenate([batch.values for batch in batches]),
        np.concatenate([batch.observed for batch in batches]),
        np.concatenate([batch.ids for batch in batches]),
    )
