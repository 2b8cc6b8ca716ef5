"""All rows of a source in their order, one block at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array, check_integer
from bpfa.data.rows import Batch, Rows, RowSource, as_source

__all__ = ["sequential"]

# Entries of a block by default: 4 MiB in single precision.
BLOCK_ENTRIES = 2**20

Piece = tuple[Array, NDArray[np.bool_], NDArray[np.int64]]
"""The values of a batch, which of them are observed, and the ids."""


def sequential(rows: Rows, block_rows: int | None = None) -> Iterator[Batch]:
    """Yield all rows of a source in their order, in batches of `block_rows`; the last one may be smaller.

    Every chunk of a file is read once, and at most one block and one chunk are in memory. The blocks of a
    file are the same as those of the same matrix in memory.

    Parameters
    ----------
    rows : Rows
    block_rows : int, optional
        By default as many rows as have 2^20 entries together.

    Yields
    ------
    Batch

    See Also
    --------
    bpfa.data.read_batches : Read batches ahead.
    bpfa.data.sample_ids : A sample of rows.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> [batch.ids.tolist() for batch in sequential(ArrayRows(np.eye(5)), block_rows=2)]
    [[0, 1], [2, 3], [4]]
    """
    source = as_source("rows", rows)
    if block_rows is None:
        block_rows = max(1, BLOCK_ENTRIES // source.n_columns)
    block_rows = check_integer("block_rows", block_rows, low=1)
    n_whole, rest = divmod(source.n_rows, block_rows)
    return cut_into_batches(_pieces(source, block_rows), [block_rows] * n_whole + [rest] * (rest > 0))


def _pieces(rows: RowSource, block_rows: int) -> Iterator[Piece]:
    """Yield the rows in their order, each time as many whole chunks as are needed for a block."""
    edges = rows.chunk_edges
    if edges is None:
        edges = np.append(np.arange(0, rows.n_rows, block_rows), rows.n_rows)
    start = 0
    for stop in edges[1:].tolist():
        if stop - start >= block_rows or stop == rows.n_rows:
            batch = rows.read(start, stop)
            yield batch.values, batch.observed, batch.ids
            start = stop


def cut_into_batches(pieces: Iterable[Piece], sizes: Iterable[int]) -> Iterator[Batch]:
    """Yield batches of these sizes, made of the rows of consecutive pieces."""
    rest = iter(pieces)
    piece, start = next(rest), 0
    for size in sizes:
        parts: list[Piece] = []
        while size > 0:
            if start == len(piece[2]):
                piece, start = next(rest), 0
            stop = min(start + size, len(piece[2]))
            # The arrays are copied: a view would keep the whole piece in memory for as long as its batch.
            parts.append(
                (piece[0][start:stop].copy(), piece[1][start:stop].copy(), piece[2][start:stop].copy())
            )
            size, start = size - (stop - start), stop
        whole = parts[0]
        if len(parts) > 1:
            values, observed, ids = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            whole = values, observed, ids
        yield Batch.unchecked(*whole)
