"""Chains of Gibbs sampling on a device: what the kernels are given, and what they return."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from bpfa.backends.cuda.launch_shapes import MOSTLY_OBSERVED_SHARE, gibbs_rows_shape, gibbs_shape
from bpfa.backends.cuda.products import products_of_rows
from bpfa.backends.cuda.rows import C_TYPES, DeviceBatch
from bpfa.backends.cuda.runtime import CurrentDevice, cupy_module, kernel, launch
from bpfa.backends.cuda.step_arguments import StepOnDevice, number_arguments
from bpfa.backends.cuda.view import DeviceView

__all__ = ["Chain", "KeptSamples", "correlated"]

# For correlations.cu: rows of a block, the largest number of columns that they may have, and the largest
# number of tiles of eight features.
TENSOR_ROWS, TENSOR_COLUMNS, MOST_TILES = 256, 64, 32


class Launch(NamedTuple):
    """A kernel and how to launch it."""

    function: Any
    n_resident: int | None
    """Rows of the Gram matrix in shared memory, for gibbs_rows.cu; None for gibbs.cu."""
    n_blocks: int
    n_threads: int
    shared: int


@lru_cache(maxsize=256)
def _launch_for(
    device: int,
    n_rows: int,
    K: int,
    D: int,
    real: str,
    most_observed: int | None,
    mean_observed: float,
    two_step: bool,
    variance: bool,
) -> Launch:
    """Return the kernel for a batch; it is cached, because a search for every batch would delay the host."""
    missing = most_observed is not None
    limits: dict[str, Any] = {
        "real": real,
        "most_observed": most_observed,
        "memory": CurrentDevice.shared_memory(),
        "multiprocessors": CurrentDevice.multiprocessors(),
    }
    macros: dict[str, int] = {"MISSING": missing, "VARIANCE": variance}
    fitting = None if two_step else gibbs_rows_shape(n_rows, K, D, **limits)
    if fitting is not None:
        macros["OBSERVED" if missing else "FEATURE_TILES"] = fitting.observed or fitting.tiles
        if missing:
            macros["MOSTLY_OBSERVED"] = mean_observed > MOSTLY_OBSERVED_SHARE * fitting.observed
        name, threads, how = "gibbs_rows", fitting.most_threads, fitting[-3:]
    else:
        shape = gibbs_shape(n_rows, K, D, planes=1 + missing + two_step + variance, **limits)
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
        f"REAL={C_TYPES[real]}",
        *(f"{macro}={int(value)}" for macro, value in macros.items()),
        f"THREADS={threads}",
    )
    return Launch(function, None if fitting is None else fitting.n_resident, *how)


def correlated(batch: DeviceBatch, view: DeviceView) -> tuple[Any, Any]:
    """Return complete rows as a matrix, and its products with all features, rows x padded features."""
    cupy, n, D, KP = cupy_module(), len(batch), batch.n_columns, len(view.rows)
    if view.real != "float32" or D > TENSOR_COLUMNS or not CurrentDevice.tensor_cores():
        dense, _ = batch.dense(view.real)
        return dense, products_of_rows(dense, view.rows)
    dense, correlations = cupy.empty((n, D), np.float32), cupy.empty((n, KP), np.float32)
    n_steps, n_tiles, n_blocks = -(-D // 8), KP // 8, -(-n // TENSOR_ROWS)
    tile_bytes, room = 16 * 32 * n_steps, CurrentDevice.shared_memory() - 4 * D
    # If there are few rows, their blocks are repeated, each time for another part of the features.
    n_parts = max(1, CurrentDevice.multiprocessors() // n_blocks)
    tiles = min(MOST_TILES, room // tile_bytes, -(-n_tiles // n_parts))
    n_parts = -(-n_tiles // tiles)
    n_blocks = min(n_blocks, max(1, CurrentDevice.multiprocessors() // n_parts))
    launch(
        kernel("correlations.cu", "correlate_rows", "REAL=float", f"STEPS={n_steps}"),
        (n_blocks, n_parts), 512,
        batch.values.astype(np.float32, copy=False), batch.ids, batch.bases, batch.offsets, np.int64(n),
        D, KP, tiles, view.rows, dense, correlations, shared=tile_bytes * tiles + 4 * D,
    )  # fmt: skip
    return dense, correlations


class KeptSamples(NamedTuple):
    """The samples that the chains of some rows keep, all on the device."""

    counts: Any
    """How many features are on, samples x rows."""
    entries: Any
    """The features that are on and their weights, samples x rows x K; a row fills as many as it has on."""
    residuals: Any
    """Samples x rows x columns."""
    masks: Any
    """Which entries are observed, rows x words of sixteen columns each; None where nothing is missing."""
    squares: Any
    """For every row, the sum of its squared residuals over all samples."""
    n_observed: Any
    """For every row, how many entries are observed; None where nothing is missing."""


@dataclass(frozen=True)
class Chain:
    """Chains for rows under a view, with random numbers keyed by `key`, `step` and the ids of the rows."""

    view: DeviceView
    two_step: bool
    key: int
    step: int | StepOnDevice
    first_sweep: int = 1
    burn_in: int = 0
    n_samples: int = 1

    def kept_samples(self, batch: DeviceBatch, start: tuple[Any, Any] | None = None) -> KeptSamples:
        """Run the chains and return their kept samples."""
        cupy, real = cupy_module(), self.view.real
        (K, D), n = self.view.phi.shape, len(batch)
        entry_bytes = 8 if real == "float32" else 16
        kept = KeptSamples(
            counts=cupy.empty((self.n_samples, n), cupy.int32),
            entries=cupy.empty((self.n_samples, n, K, entry_bytes), cupy.uint8),
            residuals=cupy.empty((self.n_samples, n, D), real),
            masks=None if batch.complete else cupy.empty((n, -(-D // 16)), cupy.uint16),
            squares=cupy.empty(n),
            n_observed=None if batch.complete else cupy.empty(n, cupy.int32),
        )
        self._run(batch, start, kept)
        return kept

    def fill(self, kept: KeptSamples, batch: DeviceBatch) -> None:
        """Run the chains and write their samples into given memory; what is None there is not written."""
        self._run(batch, None, kept)

    def planes(
        self, batch: DeviceBatch, start: tuple[Any, Any] | None, *, posterior: bool, state: bool
    ) -> Any:
        """Run the chains and return z, x and x^2 summed over samples, or the last z and w; each rows x K."""
        cupy, shape = cupy_module(), (len(batch), self.view.n_features)
        sums = cupy.zeros((3, *shape), self.view.real) if posterior else None
        last = cupy.empty((2, *shape), self.view.real) if state else None
        self._run(batch, start, None, sums, last)
        return sums if posterior else last

    def _run(
        self,
        batch: DeviceBatch,
        start: tuple[Any, Any] | None,
        kept: KeptSamples | None,
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
        chosen = _launch_for(device, n, K, D, real, *counts, self.two_step, variance)
        dense = correlations = gram = phi2 = s = None
        if not missing:
            dense, correlations = correlated(batch, view)
            gram = view.gram if chosen.n_resident is None else view.gram_of_fours
            phi2, s = view.phi2_all, view.s_all
        start_z, start_w = (None, None) if start is None else start
        results = (None,) * 6 if kept is None else kept
        launch(
            chosen.function, chosen.n_blocks, chosen.n_threads,
            batch.values.astype(real, copy=False), batch.observed, batch.ids, batch.bases, batch.offsets,
            np.int64(n), K, D,
            view.tiles, view.v_tiles, view.rows, gram, phi2, s, view.logit2, view.precisions,
            dense, correlations,
            np.uint32(self.key & 0xFFFFFFFF), np.uint32(self.key >> 32), *number_arguments(self.step),
            self.first_sweep, self.burn_in, self.n_samples, start_z, start_w,
            *results, posterior, state, *(() if chosen.n_resident is None else (chosen.n_resident,)),
            shared=chosen.shared,
        )  # fmt: skip
