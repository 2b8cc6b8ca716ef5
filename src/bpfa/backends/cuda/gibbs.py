"""Chains of Gibbs sampling on a device: what the kernel is given and what it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from bpfa.backends.cuda.products import products_of_rows
from bpfa.backends.cuda.rows import C_NAMES, DeviceBatch
from bpfa.backends.cuda.runtime import cupy_module, kernel, launch, properties
from bpfa.backends.cuda.step_arguments import StepOnDevice, number_arguments
from bpfa.backends.cuda.view import TILE_FEATURES, DeviceView, features_padded, tile_numbers

__all__ = ["Chain", "Kept", "RowsShape", "Shape", "correlated", "rows_shape_of", "shape_of"]

# The fewest threads of a block.
FEWEST_THREADS = 128
TILES_RESIDENT, TILES_STREAMED, TILES_GLOBAL = range(3)
# Memory that a block takes beside what it asks for.
BLOCK_OVERHEAD = 1024
# Most observed columns of a row that are kept in registers -> threads that a multiprocessor then has room
# for; a row with more has a list in shared memory.
LIST_THREADS = {"float32": 1024, "float64": 512}
REGISTER_THREADS = {
    "float32": {16: 640, 32: 512, 48: 640, 64: 512, 96: 384, 128: 256},
    "float64": {16: 384, 48: 256},
}
# Beyond so many columns a row has a warp, else half of one.
HALF_WARP_COLUMNS = 32
# Groups of 64 features whose correlations with a complete row are kept in registers, and threads.
MOST_GROUPS, COMPLETE_THREADS = 8, {"float32": 768, "float64": 256}

# Rows of a block of correlations.cu, the most columns that they have, and tiles of eight features.
TENSOR_ROWS, TENSOR_COLUMNS, MOST_TILES = 256, 64, 32

# For rows that fit gibbs_rows.cu: the most observed columns of one, or where it is complete the most features
# -> threads of a block.
ROWS_OBSERVED = {
    "float32": {16: 768, 28: 768, 32: 768, 40: 512, 64: 512, 96: 384, 128: 256},
    "float64": {16: 384, 48: 256},
}
# Rows that have so many of them in the mean are looked at as if all had all.
FULL_SHARE = 0.85
ROWS_COMPLETE = {"float32": {256: 768, 512: 512}, "float64": {256: 384, 512: 256}}


class RowsShape(NamedTuple):
    """How gibbs_rows.cu is launched."""

    observed: int
    """Observed columns of a row, or 0 where it is complete."""
    tiles: int
    """Tiles of sixteen features of a complete row, or 0."""
    n_resident: int
    """Rows of the Gram matrix in shared memory."""
    most_threads: int
    n_blocks: int
    n_threads: int
    shared: int
    """Bytes of shared memory."""


def rows_shape_of(
    n_rows: int,
    K: int,
    D: int,
    *,
    real: str,
    most_observed: int | None,
    memory: int,
    multiprocessors: int,
) -> RowsShape | None:
    """Return how to launch gibbs_rows.cu, or None where rows are too large for it.

    The parameters are those of `shape_of`.

    Examples
    --------
    >>> device = {"real": "float32", "memory": 232_448, "multiprocessors": 132}
    >>> rows_shape_of(255_025, 256, 64, most_observed=28, **device)[:4]
    (28, 0, 0, 768)
    >>> rows_shape_of(255_025, 256, 64, most_observed=None, **device)[:4]
    (0, 16, 172, 768)
    >>> rows_shape_of(15_000, 500, 450, most_observed=430, **device) is None
    True
    """
    size, KP = np.dtype(real).itemsize, features_padded(K)
    complete = most_observed is None
    threads = (ROWS_COMPLETE if complete else ROWS_OBSERVED)[real]
    room = next((n for n in threads if n >= (KP if most_observed is None else most_observed)), None)
    if room is None:
        return None
    # Numbers that a block has for all rows, and those of a row: see rows_complete.cuh and rows_observed.cuh.
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
    return RowsShape(observed, tiles, n_resident, threads[room], n_blocks, 32 * n_warps, shared)


class Shape(NamedTuple):
    """Which variant of the kernel is launched, and how."""

    tiles: int
    """Where the dictionary is, as in tiles.cuh."""
    observed: int
    """Observed columns of a row that have registers, or 0."""
    row_threads: int
    """Threads that work on a row."""
    groups: int
    """Groups of features of a complete row that have registers, or 0."""
    most_threads: int
    n_blocks: int
    n_threads: int
    shared: int
    """Bytes of shared memory."""


def shape_of(
    n_rows: int,
    K: int,
    D: int,
    *,
    real: str,
    most_observed: int | None,
    planes: int,
    memory: int,
    multiprocessors: int,
) -> Shape:
    """Return how to launch the kernel: dictionary and rows share the memory of a multiprocessor.

    Parameters
    ----------
    n_rows, K, D : int
    real : str
        Precision of the kernel.
    most_observed : int or None
        The most observed columns of any row, which need the dictionary; None for complete rows, which do not.
    planes : int
        Numbers that a row keeps for each feature.
    memory : int
        Bytes of shared memory that a block can have.
    multiprocessors : int

    Examples
    --------
    >>> device = {"real": "float32", "planes": 2, "memory": 232_448, "multiprocessors": 132}
    >>> shape_of(255_025, 256, 64, most_observed=28, **device)[:4]
    (0, 32, 16, 0)
    >>> shape_of(15_000, 500, 450, most_observed=430, **device)[:3]
    (1, 0, 16)
    >>> shape_of(100, 1024, 2048, most_observed=64, **device)[:3]
    (2, 64, 32)
    """
    size, KP = np.dtype(real).itemsize, features_padded(K)
    observed = groups = 0
    if most_observed is None:
        groups = KP // 64 if KP // 64 <= MOST_GROUPS else 0
        most_threads, own = COMPLETE_THREADS[real], 0 if groups else KP
    else:
        fitting = [n for n in REGISTER_THREADS[real] if n >= most_observed]
        observed = fitting[0] if fitting else 0
        most_threads = REGISTER_THREADS[real][observed] if observed else LIST_THREADS[real]
        own = -(-4 * observed // size) if observed else 2 * (-(-D // 4) * 4)
    row_threads = 32 if observed > HALF_WARP_COLUMNS else 16
    # The rows of a warp begin in different banks, as in gibbs.cu.
    row = (-(-(planes * KP + -(-own // 4) * 4) // 32) * 32 + 16) * size
    tile, n_tiles = tile_numbers(D) * size, -(-K // TILE_FEATURES)
    fewest = FEWEST_THREADS // row_threads
    tiles, dictionary = TILES_GLOBAL, 0
    if most_observed is not None and n_tiles * tile + 2 * fewest * row <= memory:
        tiles, dictionary = TILES_RESIDENT, n_tiles * tile
    elif most_observed is not None and 2 * tile + fewest * row <= memory:
        tiles, dictionary = TILES_STREAMED, 2 * tile
    # Rows of a block: what fits, but no more than spread the rows over all multiprocessors. Two to a warp.
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
    return Shape(tiles, observed, row_threads, groups, most_threads, n_blocks, n_threads, shared)


class Plan(NamedTuple):
    """A kernel and how to launch it."""

    function: Any
    n_resident: int | None
    """Rows of the Gram matrix in shared memory, for gibbs_rows.cu; None for gibbs.cu."""
    n_blocks: int
    n_threads: int
    shared: int


@lru_cache(maxsize=256)
def _plan(
    device: int,
    n_rows: int,
    K: int,
    D: int,
    real: str,
    most_observed: int | None,
    mean_observed: float,
    two_step: bool,
    variance: bool,
) -> Plan:
    """Return the kernel for some rows; kept, as to find it anew for every batch takes the host too long."""
    missing = most_observed is not None
    limits: dict[str, Any] = {
        "real": real,
        "most_observed": most_observed,
        "memory": properties.shared_memory(),
        "multiprocessors": properties.multiprocessors(),
    }
    macros: dict[str, int] = {"MISSING": missing, "VARIANCE": variance}
    fitting = None if two_step else rows_shape_of(n_rows, K, D, **limits)
    if fitting is not None:
        macros["OBSERVED" if missing else "FEATURE_TILES"] = fitting.observed or fitting.tiles
        if missing:
            macros["MOSTLY_OBSERVED"] = mean_observed > FULL_SHARE * fitting.observed
        name, threads, how = "gibbs_rows", fitting.most_threads, fitting[-3:]
    else:
        shape = shape_of(n_rows, K, D, planes=1 + missing + two_step + variance, **limits)
        macros |= {
            "TWO_STEP": two_step,
            "TILES": shape.tiles,
            "OBSERVED": shape.observed,
            "ROW_LANES": shape.row_threads,
            "GROUPS": shape.groups,
        }
        name, threads, how = "gibbs", shape.most_threads, shape[-3:]
    function = kernel(
        f"{name}.cu",
        name,
        f"REAL={C_NAMES[real]}",
        *(f"{macro}={int(value)}" for macro, value in macros.items()),
        f"THREADS={threads}",
    )
    return Plan(function, None if fitting is None else fitting.n_resident, *how)


def correlated(batch: DeviceBatch, view: DeviceView) -> tuple[Any, Any]:
    """Return complete rows as a matrix, and its product with all features, rows x padded features."""
    cupy, n, D, KP = cupy_module(), len(batch), batch.n_columns, len(view.rows)
    if view.real != "float32" or D > TENSOR_COLUMNS or not properties.tensor_cores():
        dense, _ = batch.dense(view.real)
        return dense, products_of_rows(dense, view.rows)
    dense, correlations = cupy.empty((n, D), np.float32), cupy.empty((n, KP), np.float32)
    n_steps, n_tiles, n_blocks = -(-D // 8), KP // 8, -(-n // TENSOR_ROWS)
    tile_bytes, room = 16 * 32 * n_steps, properties.shared_memory() - 4 * D
    # Few rows: several blocks share the features.
    n_parts = max(1, properties.multiprocessors() // n_blocks)
    tiles = min(MOST_TILES, room // tile_bytes, -(-n_tiles // n_parts))
    n_parts = -(-n_tiles // tiles)
    n_blocks = min(n_blocks, max(1, properties.multiprocessors() // n_parts))
    launch(
        kernel("correlations.cu", "correlate_rows", "REAL=float", f"STEPS={n_steps}"),
        (n_blocks, n_parts), 512,
        batch.values.astype(np.float32, copy=False), batch.ids, batch.bases, batch.offsets, np.int64(n),
        D, KP, tiles, view.rows, dense, correlations, shared=tile_bytes * tiles + 4 * D,
    )  # fmt: skip
    return dense, correlations


class Kept(NamedTuple):
    """The kept samples of the chains of some rows; n_samples x rows x ... each."""

    counts: Any
    """Features that are on."""
    entries: Any
    """The features and their weights, of which there is room for K."""
    residuals: Any
    masks: Any
    """Sixteen columns to a word, rows x words; None where nothing is missing."""
    squares: Any
    """Sum of squared residuals over the samples, of every row."""
    n_observed: Any
    """Of every row; None where nothing is missing."""


@dataclass(frozen=True)
class Chain:
    """Chains for rows under a view, keyed by `key`, `step` and the ids of the rows."""

    view: DeviceView
    two_step: bool
    key: int
    step: int | StepOnDevice
    first_sweep: int = 1
    burn_in: int = 0
    n_samples: int = 1

    def kept(self, batch: DeviceBatch, start: tuple[Any, Any] | None = None) -> Kept:
        """Run the chains and return their kept samples."""
        cupy, real = cupy_module(), self.view.real
        (K, D), n = self.view.phi.shape, len(batch)
        entry_bytes = 8 if real == "float32" else 16
        kept = Kept(
            counts=cupy.empty((self.n_samples, n), cupy.int32),
            entries=cupy.empty((self.n_samples, n, K, entry_bytes), cupy.uint8),
            residuals=cupy.empty((self.n_samples, n, D), real),
            masks=None if batch.complete else cupy.empty((n, -(-D // 16)), cupy.uint16),
            squares=cupy.empty(n),
            n_observed=None if batch.complete else cupy.empty(n, cupy.int32),
        )
        self._run(batch, start, kept)
        return kept

    def planes(
        self, batch: DeviceBatch, start: tuple[Any, Any] | None, *, posterior: bool, state: bool
    ) -> Any:
        """Run the chains and return sums over samples of z, x and x^2, or the last z and w; each rows x K."""
        cupy, shape = cupy_module(), (len(batch), self.view.n_features)
        sums = cupy.zeros((3, *shape), self.view.real) if posterior else None
        last = cupy.empty((2, *shape), self.view.real) if state else None
        self._run(batch, start, None, sums, last)
        return sums if posterior else last

    def _run(
        self,
        batch: DeviceBatch,
        start: tuple[Any, Any] | None,
        kept: Kept | None,
        posterior: Any = None,
        state: Any = None,
    ) -> None:
        view, n = self.view, len(batch)
        if n == 0:
            return
        (K, D), real, missing = view.phi.shape, view.real, not batch.complete
        device = cupy_module().cuda.runtime.getDevice()
        variance = missing and view.v is not None
        counts = batch.most_observed, batch.mean_observed
        plan = _plan(device, n, K, D, real, *counts, self.two_step, variance)
        dense = correlations = gram = phi2 = s = None
        if not missing:
            dense, correlations = correlated(batch, view)
            gram = view.gram if plan.n_resident is None else view.gram_of_fours
            phi2, s = view.phi2_all, view.s_all
        start_z, start_w = (None, None) if start is None else start
        results = (None,) * 6 if kept is None else kept
        launch(
            plan.function, plan.n_blocks, plan.n_threads,
            batch.values.astype(real, copy=False), batch.observed, batch.ids, batch.bases, batch.offsets,
            np.int64(n), K, D,
            view.tiles, view.v_tiles, view.rows, gram, phi2, s, view.logit2, view.precisions,
            dense, correlations,
            np.uint32(self.key & 0xFFFFFFFF), np.uint32(self.key >> 32), *number_arguments(self.step),
            self.first_sweep, self.burn_in, self.n_samples, start_z, start_w,
            *results, posterior, state, *(() if plan.n_resident is None else (plan.n_resident,)),
            shared=plan.shared,
        )  # fmt: skip
