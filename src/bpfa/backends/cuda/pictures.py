"""Restore a picture from its patches on a GPU, so that only the picture is copied to the host."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpfa._support.philox import Stream
from bpfa.backends.cuda.gibbs import Chain
from bpfa.backends.cuda.local import Gibbs
from bpfa.backends.cuda.posterior import DevicePosterior
from bpfa.backends.cuda.rows import C_TYPES, DeviceRows
from bpfa.backends.cuda.runtime import cupy_module, kernel, launch, on_device
from bpfa.backends.cuda.view import blocks_of
from bpfa.data.overlap import EMPTY_WEIGHT, NOISE_SHARE, Restored
from bpfa.data.patches import PatchRows
from bpfa.model.posterior import GlobalPosterior

__all__ = ["restore_patches"]

# Largest number of bytes for the predictions and samples of a strip of patches.
STRIP_BYTES = 2**31


def restore_patches(
    rows: PatchRows,
    posterior: GlobalPosterior,
    local: Gibbs,
    *,
    n_draws: int,
    stream: Stream,
) -> Restored:
    """Restore a picture from its patches, with the same draws as `bpfa.images.restore`.

    Parameters
    ----------
    rows : PatchRows
    posterior : GlobalPosterior
    local : Gibbs
        How the chains run.
    n_draws : int
    stream : Stream
    """
    with on_device(local.device):
        restoration = _Restoration(rows, posterior, local, n_draws, stream)
        return restoration.average()


class _Restoration:
    """A restoration in progress: the draws, and the sums over patches for every pixel, all on the device."""

    def __init__(
        self,
        rows: PatchRows,
        posterior: GlobalPosterior,
        local: Gibbs,
        n_draws: int,
        stream: Stream,
    ) -> None:
        cupy = cupy_module()
        self.rows, self.local, self.n_draws = rows, local, n_draws
        self.key = stream.child("local").key
        self.source = DeviceRows.of_patches(rows)
        on_card = DevicePosterior.of(posterior, local.device, local.dtype)
        self.views = [on_card.sampled(stream.child("global").globals(m)) for m in range(n_draws)]
        self.noise = float(np.mean([1 / view.precisions[0].get() for view in self.views]))
        self.macro = f"REAL={C_TYPES[local.dtype]}"
        height, width = rows.shape[1:3]
        over_y, over_x = _covering(rows.y, rows.size[0], height), _covering(rows.x, rows.size[1], width)
        self.places = [cupy.asarray(array.astype(np.int32)) for array in (rows.y, rows.x, *over_y, *over_x)]
        self.weight, self.first, self.second = (cupy.zeros(rows.shape) for _ in range(3))
        self.informed = cupy.zeros(rows.shape, cupy.uint8)

    def average(self) -> Restored:
        """Add up the strips of all slices and return the restored picture."""
        cupy, rows = cupy_module(), self.rows
        K, D = self.views[0].phi.shape
        patches = STRIP_BYTES // (12 * K + 16 * D)
        for strip in rows.strips(max(patches, len(rows.x))):
            first_y = int(np.searchsorted(rows.y, strip.y[0]))
            self._add(strip.slice, first_y, first_y + len(strip.y), strip.ids)
        mean = self.first / self.weight
        std = cupy.sqrt(cupy.maximum(self.second / self.weight - mean**2, 0.0))
        return Restored(mean.get(), std.get(), self.informed.get().astype(bool))

    def _add(self, picture: int, first_y: int, last_y: int, ids: NDArray[np.int64]) -> None:
        """Predict the patches of a strip and add them to the picture."""
        cupy, rows, local = cupy_module(), self.rows, self.local
        K, D = self.views[0].phi.shape
        batch = self.source.take(ids)
        mean, squares = cupy.empty((2, len(ids), D), local.dtype)
        for m, view in enumerate(self.views):
            chain = Chain(view, not local.blocked, self.key, m, burn_in=local.burn_in)
            kept = chain.kept_samples(batch)
            launch(
                kernel("images.cu", "add_prediction", self.macro), blocks_of(32 * len(ids)), 256,
                kept.counts, kept.entries, view.rows, np.int64(len(ids)), K, D, m, mean, squares,
            )  # fmt: skip
        n_observed = cupy.full(len(ids), D, cupy.int32) if kept.n_observed is None else kept.n_observed
        _, height, width, n_channels = rows.shape
        launch(
            kernel("images.cu", "fold_patches", self.macro), blocks_of(height * width * n_channels), 256,
            mean, squares, n_observed, self.n_draws, NOISE_SHARE * self.noise, EMPTY_WEIGHT,
            picture, first_y, last_y, len(rows.x), *self.places, height, width, n_channels, *rows.size,
            self.weight, self.first, self.second, self.informed,
        )  # fmt: skip


def _covering(
    starts: NDArray[np.int64], size: int, length: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each position along an axis the indices of the first and the last patch that cover it.

    Examples
    --------
    >>> _covering(np.array([0, 2, 3]), 3, 6)
    (array([0, 0, 0, 1, 1, 2]), array([0, 0, 1, 2, 2, 2]))
    """
    places = np.arange(length)
    return np.searchsorted(starts, places - size, side="right"), np.searchsorted(
        starts, places, side="right"
    ) - 1
