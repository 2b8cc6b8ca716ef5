"""All rows of a source in order, a block at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array, check_instance, check_integer
from bpfa.data.rows import Batch, Rows, chunk_edges, read

__all__ = ["sequential"]

# Entries of a block: 4 MiB in single precision.
BLOCK_ENTRIES = 2**20

Piece = tuple[Array, NDArray[np.bool_], NDArray[np.int64]]
"""Values, what is observed, and ids of some rows."""


def sequential(rows: Rows, block_rows: int | None = None) -> Iterator[Batch]:
    """Yield all rows of a source in order, in batches of `block_rows`, the last of what is left.

    Every chunk of a file is read once, and no more than a block and a chunk is in memory. The blocks are the
    same for a file as for the same matrix in memory.

    Parameters
    ----------
    rows : Rows
    block_rows : int, optional
        As many as make 2^20 entries by default.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> [batch.ids.tolist() for batch in sequential(ArrayRows(np.eye(5)), block_rows=2)]
    [[0, 1], [2, 3], [4]]
    """
    check_instance("rows", rows, Rows)
    if block_rows is None:
        block_rows = max(1, BLOCK_ENTRIES // rows.n_columns)
    block_rows = check_integer("block_rows", block_rows, low=1)
    whole, rest = divmod(rows.n_rows, block_rows)
    return cut(_pieces(rows, block_rows), [block_rows] * whole + [rest] * (rest > 0))


def _pieces(rows: Rows, block_rows: int) -> Iterator[Piece]:
    """Yield the rows in order, as many whole chunks at a time as make a block."""
    edges = chunk_edges(rows)
    if edges is None:
        edges = np.append(np.arange(0, rows.n_rows, block_rows), rows.n_rows)
    start = 0
    for stop in edges[1:].tolist():
        if stop - start >= block_rows or stop == rows.n_rows:
            batch = read(rows, start, stop)
            yield batch.values, batch.observed, batch.ids
            start = stop


def cut(pieces: Iterable[Piece], sizes: Iterable[int]) -> Iterator[Batch]:
    """Yield batches of these sizes from the rows of consecutive pieces."""
    rest = iter(pieces)
    piece, start = next(rest), 0
    for size in sizes:
        parts: list[Piece] = []
        while size > 0:
            if start == len(piece[2]):
                piece, start = next(rest), 0
            stop = min(start + size, len(piece[2]))
            # Copies, so that neither a batch that is kept nor a batch half made keeps a whole piece in
            # memory.
            parts.append(
                (piece[0][start:stop].copy(), piece[1][start:stop].copy(), piece[2][start:stop].copy())
            )
            size, start = size - (stop - start), stop
        yield Batch(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
