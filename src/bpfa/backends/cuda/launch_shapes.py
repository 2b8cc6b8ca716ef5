"""How the two kernels of Gibbs sampling are launched: which variant, how many blocks, how much shared memory.

gibbs_rows.cu is the faster kernel and serves rows that fit into it; gibbs.cu serves all others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bpfa.backends.cuda.view import TILE_FEATURES, features_padded, tile_numbers

__all__ = ["MOSTLY_OBSERVED_SHARE", "GibbsRowsShape", "GibbsShape", "gibbs_rows_shape", "gibbs_shape"]

# The fewest threads of a block.
FEWEST_THREADS = 128
# Where gibbs.cu keeps the dictionary, as in tiles.cuh: all of it in shared memory, two tiles of it at a time
# in shared memory, or in global memory.
TILES_RESIDENT, TILES_STREAMED, TILES_GLOBAL = range(3)
# Bytes of shared memory that a block takes in addition to what it asks for.
BLOCK_OVERHEAD = 1024
# For gibbs.cu: threads that a multiprocessor has room for, by the largest number of observed columns that a
# row keeps in registers. A row with more of them keeps a list in shared memory.
LIST_THREADS = {"float32": 1024, "float64": 512}
REGISTER_THREADS = {
    "float32": {16: 640, 32: 512, 48: 640, 64: 512, 96: 384, 128: 256},
    "float64": {16: 384, 48: 256},
}
# A row with more observed columns than this has a whole warp, and any other row has half of one.
HALF_WARP_COLUMNS = 32
# For complete rows in gibbs.cu: the largest number of groups of 64 features whose correlations with the row
# are kept in registers, and the threads that a multiprocessor then has room for.
MOST_GROUPS, COMPLETE_THREADS = 8, {"float32": 768, "float64": 256}

# For gibbs_rows.cu: threads of a block, by the largest number of observed columns of a row, or by the largest
# number of features where rows are complete.
ROWS_OBSERVED = {
    "float32": {16: 768, 28: 768, 32: 768, 40: 512, 64: 512, 96: 384, 128: 256},
    "float64": {16: 384, 48: 256},
}
ROWS_COMPLETE = {"float32": {256: 768, 512: 512}, "float64": {256: 384, 512: 256}}
# If rows have on average more than this share of the observed columns that there is room for, gibbs_rows.cu
# processes that many columns of every row, without asking whether the row has them.
MOSTLY_OBSERVED_SHARE = 0.85


class GibbsRowsShape(NamedTuple):
    """How gibbs_rows.cu is launched."""

    observed: int
    """Observed columns that a row has room for, or 0 where rows are complete."""
    tiles: int
    """Tiles of sixteen features, where rows are complete, or 0."""
    n_resident: int
    """Rows of the Gram matrix that are kept in shared memory."""
    most_threads: int
    n_blocks: int
    n_threads: int
    shared: int
    """Bytes of shared memory of a block."""


def gibbs_rows_shape(
    n_rows: int,
    K: int,
    D: int,
    *,
    real: str,
    most_observed: int | None,
    memory: int,
    multiprocessors: int,
) -> GibbsRowsShape | None:
    """Return how to launch gibbs_rows.cu, or None where rows are too large for it.

    The parameters are those of `gibbs_shape`.

    Examples
    --------
    >>> device = {"real": "float32", "memory": 232_448, "multiprocessors": 132}
    >>> gibbs_rows_shape(255_025, 256, 64, most_observed=28, **device)[:4]
    (28, 0, 0, 768)
    >>> gibbs_rows_shape(255_025, 256, 64, most_observed=None, **device)[:4]
    (0, 16, 172, 768)
    >>> gibbs_rows_shape(15_000, 500, 450, most_observed=430, **device) is None
    True
    """
    size, KP = np.dtype(real).itemsize, features_padded(K)
    complete = most_observed is None
    threads = (ROWS_COMPLETE if complete else ROWS_OBSERVED)[real]
    room = next((n for n in threads if n >= (KP if most_observed is None else most_observed)), None)
    if room is None:
        return None
    # How many numbers a block stores for all of its rows, and for each row, as in rows_complete.cuh and
    # rows_observed.cuh.
    if complete:
        for_all, row = 4 * KP, KP // 32 * 32 + 16
    else:
        columns = -(-room // 16) * 16
        stride = 1 << (KP - 1).bit_length()
        for_all = (D + 1) * stride + max(0, stride - 1024 // size) + KP
        row = -(-(2 * KP + columns + -(-4 * columns // size)) // 32) * 32 + 16
    for_all, pair = for_all * size, 2 * row * size
    fewest = FEWEST_THREADS // 32
    possible = min((memory - for_all) // pair, threads[room] // 32)
    if possible < fewest:
        return None
    n_warps = min(possible, max(-(-n_rows // (2 * multiprocessors)), fewest))
    n_resident = min(KP, (memory - for_all - n_warps * pair) // (KP * size)) if complete else 0
    shared = for_all + n_resident * KP * size + n_warps * pair
    n_blocks = min(-(-n_rows // (2 * n_warps)), multiprocessors)
    observed, tiles = (0, KP // 16) if complete else (room, 0)
    return GibbsRowsShape(observed, tiles, n_resident, threads[room], n_blocks, 32 * n_warps, shared)


class GibbsShape(NamedTuple):
    """Which variant of gibbs.cu is launched, and how."""

    tiles: int
    """Where the dictionary is kept, as in tiles.cuh."""
    observed: int
    """Observed columns that a row keeps in registers, or 0."""
    row_threads: int
    """Threads that work on a row."""
    groups: int
    """Groups of features that a complete row keeps in registers, or 0."""
    most_threads: int
    n_blocks: int
    n_threads: int
    shared: int
    """Bytes of shared memory of a block."""


def gibbs_shape(
    n_rows: int,
    K: int,
    D: int,
    *,
    real: str,
    most_observed: int | None,
    planes: int,
    memory: int,
    multiprocessors: int,
) -> GibbsShape:
    """Return how to launch gibbs.cu, where the dictionary and the rows share the memory of a multiprocessor.

    Parameters
    ----------
    n_rows, K, D : int
    real : str
        Precision of the kernel, "float32" or "float64".
    most_observed : int or None
        The largest number of observed columns of any row, for which the dictionary is needed; None for
        complete rows, which do without it.
    planes : int
        Numbers that a row keeps for each feature.
    memory : int
        Bytes of shared memory that a block can have.
    multiprocessors : int

    Examples
    --------
    >>> device = {"real": "float32", "planes": 2, "memory": 232_448, "multiprocessors": 132}
    >>> gibbs_shape(255_025, 256, 64, most_observed=28, **device)[:4]
    (0, 32, 16, 0)
    >>> gibbs_shape(15_000, 500, 450, most_observed=430, **device)[:3]
    (1, 0, 16)
    >>> gibbs_shape(100, 1024, 2048, most_observed=64, **device)[:3]
    (2, 64, 32)
    """
    size, KP = np.dtype(real).itemsize, features_padded(K)
    observed, groups, most_threads, own = _row_storage(KP, D, real, most_observed)
    row_threads = 32 if observed > HALF_WARP_COLUMNS else 16
    # The two rows of a warp begin in different banks, as in gibbs.cu.
    row = (-(-(planes * KP + -(-own // 4) * 4) // 32) * 32 + 16) * size
    fewest = FEWEST_THREADS // row_threads
    tiles, dictionary = TILES_GLOBAL, 0
    if most_observed is not None:
        tiles, dictionary = _dictionary_place(K, tile_numbers(D) * size, fewest * row, memory)
    # A block has as many rows as fit, but not so many that some multiprocessors have none. A warp has two.
    limit = min(most_threads, 256) if most_observed is None else most_threads
    possible = min((memory - dictionary) // row, limit // row_threads) // 2 * 2
    if possible < 2:
        raise ValueError(
            f"n_components={K}: a row of {D} columns needs {2 * row:,} bytes of shared memory, and the GPU "
            f"has {memory:,}; expected fewer features, or device='cpu'"
        )
    wanted = max(-(-n_rows // multiprocessors), fewest)
    n_slots = max(2, min(possible, -(-wanted // 2) * 2))
    shared, n_threads = dictionary + n_slots * row, n_slots * row_threads
    together = max(1, min(most_threads // n_threads, memory // (shared + BLOCK_OVERHEAD)))
    n_blocks = min(-(-n_rows // n_slots), multiprocessors * together)
    return GibbsShape(tiles, observed, row_threads, groups, most_threads, n_blocks, n_threads, shared)


def _row_storage(KP: int, D: int, real: str, most_observed: int | None) -> tuple[int, int, int, int]:
    """Return what a row keeps in registers, how many threads fit then, and its numbers in shared memory.

    What it keeps in registers is `observed` and `groups` of `GibbsShape`. The numbers in shared memory are
    those in addition to the planes of features.
    """
    if most_observed is None:
        groups = KP // 64 if KP // 64 <= MOST_GROUPS else 0
        return 0, groups, COMPLETE_THREADS[real], 0 if groups else KP
    fitting = [n for n in REGISTER_THREADS[real] if n >= most_observed]
    if not fitting:
        return 0, 0, LIST_THREADS[real], 2 * (-(-D // 4) * 4)
    return fitting[0], 0, REGISTER_THREADS[real][fitting[0]], -(-4 * fitting[0] // np.dtype(real).itemsize)


def _dictionary_place(K: int, tile: int, fewest_rows: int, memory: int) -> tuple[int, int]:
    """Return where the dictionary is kept, and the bytes of shared memory that it takes there.

    `tile` is the number of bytes of a tile, and `fewest_rows` that of the fewest rows of a block.
    """
    n_tiles = -(-K // TILE_FEATURES)
    if n_tiles * tile + 2 * fewest_rows <= memory:
        return TILES_RESIDENT, n_tiles * tile
    if 2 * tile + fewest_rows <= memory:
        return TILES_STREAMED, 2 * tile
    return TILES_GLOBAL, 0
