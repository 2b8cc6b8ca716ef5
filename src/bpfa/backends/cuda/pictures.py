"""Restore a picture from its patches on a GPU, so that only the picture is copied to the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.philox import Stream
from bpfa.backends.cuda.gibbs import Chain, KeptSamples
from bpfa.backends.cuda.local import Gibbs
from bpfa.backends.cuda.posterior import DevicePosterior
from bpfa.backends.cuda.rows import C_TYPES, DeviceBatch, DeviceRows
from bpfa.backends.cuda.runtime import cupy_module, kernel, launch, on_device
from bpfa.backends.cuda.view import DeviceView, blocks_of
from bpfa.data.overlap import EMPTY_WEIGHT, NOISE_SHARE, Restored
from bpfa.data.patches import PatchRows
from bpfa.model.posterior import GlobalPosterior

__all__ = ["PatchAverage", "PatchSamples", "restore_patches"]

# Largest number of bytes for the predictions and samples of a strip of patches.
STRIP_BYTES = 2**31


class PatchSamples(NamedTuple):
    """How patches are predicted."""

    n_draws: int
    """Draws from the posterior."""
    n_samples: int
    """Samples of each patch under each of them."""
    stream: Stream


def restore_patches(
    rows: PatchRows, posterior: GlobalPosterior, local: Gibbs, samples: PatchSamples
) -> Restored:
    """Restore a picture from its patches, with the same draws as `bpfa.images.restore`.

    Parameters
    ----------
    rows : PatchRows
    posterior : GlobalPosterior
    local : Gibbs
        How the chains run.
    samples : PatchSamples
    """
    with on_device(local.device):
        cupy, source = cupy_module(), DeviceRows.of_patches(rows)
        on_card = DevicePosterior.of(posterior, local.device, local.dtype)
        average = PatchAverage(rows, local, posterior.n_features, samples)
        average.run(on_card, source, source.counts)
        mean = average.first / average.weight
        std = cupy.sqrt(cupy.maximum(average.second / average.weight - mean**2, 0.0))
        return Restored(mean.get(), std.get(), average.informed.get().astype(bool))


class PatchAverage:
    """The predictions of all patches, and the sums over them for every pixel, in memory that is kept.

    Parameters
    ----------
    rows : PatchRows
        The patches; only where they are matters here.
    local : Gibbs
        How the chains run.
    K : int
    samples : PatchSamples
    """

    def __init__(self, rows: PatchRows, local: Gibbs, K: int, samples: PatchSamples) -> None:
        cupy = cupy_module()
        self.rows, self.local = rows, local
        self.n_draws, self.n_samples, self.stream = samples
        self.macro = f"REAL={C_TYPES[local.dtype]}"
        height, width = rows.shape[1:3]
        over_y, over_x = _covering(rows.y, rows.size[0], height), _covering(rows.x, rows.size[1], width)
        self.places = [cupy.asarray(array.astype(np.int32)) for array in (rows.y, rows.x, *over_y, *over_x)]
        self.weight, self.first, self.second = (cupy.empty(rows.shape) for _ in range(3))
        self.informed = cupy.empty(rows.shape, cupy.uint8)
        self.noise = cupy.empty(1)
        n_columns = rows.n_columns
        patches = STRIP_BYTES // (12 * K * self.n_samples + 16 * n_columns)
        self.strips = [
            (strip, int(np.searchsorted(rows.y, strip.y[0])), cupy.asarray(strip.ids))
            for strip in rows.strips(max(patches, len(rows.x)))
        ]
        most = max(len(strip.ids) for strip, *_ in self.strips)
        n_kept = self.n_samples * most
        entry_bytes = 8 if local.dtype == "float32" else 16
        # Nothing but the features that are on is needed of a sample, and every draw overwrites the last one.
        self.kept = KeptSamples(
            counts=cupy.empty(n_kept, cupy.int32),
            entries=cupy.empty((n_kept, K, entry_bytes), cupy.uint8),
            residuals=None,
            masks=None,
            squares=None,
            n_observed=None,
        )
        self.mean, self.squares = cupy.empty((2, most, n_columns), local.dtype)

    def run(self, posterior: DevicePosterior, source: DeviceRows, n_observed: Any) -> None:
        """Predict all patches and add them up; the host does not wait for it.

        Parameters
        ----------
        posterior : DevicePosterior
        source : DeviceRows
        n_observed : array of int32 or None
            The number of observed entries of every patch; None where nothing is missing.
        """
        for array in (self.weight, self.first, self.second, self.informed):
            array.fill(0)
        draws = self.stream.child("global")
        views = [posterior.sampled(draws.globals(m)) for m in range(self.n_draws)]
        for strip, first_y, ids in self.strips:
            self._predict(views, source.taken(ids))
            counts = None if n_observed is None else n_observed[int(strip.ids[0]) :]
            self._add(strip.slice, first_y, first_y + len(strip.y), counts)

    def _predict(self, views: Sequence[DeviceView], batch: DeviceBatch) -> None:
        """Predict the patches of a strip: the mean of the draws, and their squared deviations from it."""
        (K, D), local, n = views[0].phi.shape, self.local, len(batch)
        key = self.stream.child("local").key
        for m, view in enumerate(views):
            sweeps = {"burn_in": local.burn_in, "n_samples": self.n_samples}
            Chain(view, not local.blocked, key, m, **sweeps).fill(self.kept, batch)
            for sample in range(self.n_samples):
                launch(
                    kernel("images.cu", "add_prediction", self.macro), blocks_of(32 * n), 256,
                    self.kept.counts[sample * n :], self.kept.entries[sample * n :], view.rows,
                    view.precisions, np.int64(n), K, D, m * self.n_samples + sample,
                    self.mean, self.squares, self.noise,
                )  # fmt: skip

    def _add(self, picture: int, first_y: int, last_y: int, n_observed: Any) -> None:
        """Add the patches of a strip to the sums of the pixels."""
        rows, n_predictions = self.rows, self.n_draws * self.n_samples
        _, height, width, n_channels = rows.shape
        launch(
            kernel("images.cu", "fold_patches", self.macro), blocks_of(height * width * n_channels), 256,
            self.mean, self.squares, n_observed, n_predictions, self.noise, NOISE_SHARE, EMPTY_WEIGHT,
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
