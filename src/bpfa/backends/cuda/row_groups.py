"""Groups of like rows of a table, and kinds of rows, on a GPU (docs/math.md section 23)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa.backends.cpu.row_groups import CpuRowGroups
from bpfa.backends.cuda.runtime import CurrentDevice, cupy_module, kernel, launch, on_device
from bpfa.backends.feature_rows import FeatureRows, predict_in_blocks
from bpfa.backends.row_groups import TWIN_ROWS, TWIN_TOLERANCE
from bpfa.model.row_features import FeatureGroups, KeptWeights
from bpfa.model.row_groups import KeptRows, Queries, RowGroups, StudentRows
from bpfa.model.row_kinds import RowKinds, log_shares, observed_log_density

__all__ = ["CudaRowGroups"]

# Threads of a block, and how many blocks there are for each multiprocessor.
THREADS, BLOCKS = 128, 8
# How many distances are sorted at a time, and of how many rows; a grid has at most 2^16 - 1 blocks for them.
MOST_KEYS, MOST_QUERIES = 2**25, 2**15
# How many numbers the largest array of a block of groups that use features may have.
MOST_NUMBERS = 2**26


class CudaRowGroups(CpuRowGroups):
    """Groups and kinds on a GPU. The sums by which kinds are found are taken on the host.

    Parameters
    ----------
    device : str
    """

    def __init__(self, device: str = "cuda") -> None:
        self.device = device

    def on(self, device: str) -> CudaRowGroups:
        """Return the kernels for one of several GPUs."""
        return CudaRowGroups(device)

    def nearest_rows(
        self, kept: KeptRows, queries: Queries, sizes: NDArray[np.int32], n_threads: int = 1
    ) -> NDArray[np.int32]:
        """Return the kept rows that are most like each query; see `RowGroupKernels`."""
        if sizes[-1] >= len(kept):
            raise ValueError("sizes: expected fewer than there are kept rows")
        with on_device(self.device):
            cupy = cupy_module()
            columns, values, variance = (cupy.asarray(a) for a in (kept.columns, kept.values, kept.variance))
            step = max(1, min(MOST_KEYS // len(kept), MOST_QUERIES))
            found = [
                _nearest(columns, values, variance, queries.part(start, start + step), int(sizes[-1])).get()
                for start in range(0, len(queries), step)
            ]
        return np.concatenate([*found, np.zeros((0, int(sizes[-1])), np.int32)])

    def student_rows(
        self,
        kept: KeptRows,
        queries: Queries,
        nearest: NDArray[np.int32],
        groups: RowGroups,
        n_threads: int = 1,
    ) -> StudentRows:
        """Return what the groups of every query predict for it; see `RowGroupKernels`."""
        n_columns, shape = queries.values.shape[1], (len(groups), len(queries))
        with on_device(self.device):
            cupy = cupy_module()
            mean, square_scale = cupy.empty((2, *shape, n_columns), cupy.float32)
            sums, n_blocks = cupy.empty((3, *shape)), _n_blocks(len(queries))
            launch(
                kernel("row_groups.cu", "student_rows"), n_blocks, THREADS,
                cupy.asarray(kept.values), cupy.asarray(kept.variance), *_placed(queries),
                cupy.asarray(nearest), nearest.shape[1], cupy.asarray(groups.covariance),
                cupy.asarray(groups.members), cupy.asarray(groups.prior_rows), len(groups), len(queries),
                n_columns, float(groups.mean_rows), float(groups.scale_rows),
                float(groups.correlation_share), mean, square_scale, sums,
                cupy.empty(n_blocks * (2 * n_columns**2 + 7 * n_columns)),
            )  # fmt: skip
            found = mean.get(), square_scale.get(), sums.get()
        own = groups.prior_rows.astype(np.float64) + groups.members + 2
        return StudentRows.of_sums(own, queries, *found)

    def feature_rows(
        self,
        kept: KeptRows,
        weights: KeptWeights,
        queries: Queries,
        nearest: NDArray[np.int32],
        groups: FeatureGroups,
        n_threads: int = 1,
    ) -> StudentRows:
        """Return what the groups that use the features of the model predict; see `RowGroupKernels`."""
        with on_device(self.device):
            predict = FeatureRows(cupy_module(), kept, weights, groups)
            return predict_in_blocks(predict, queries, nearest, groups, MOST_NUMBERS)

    def kind_rows(self, kinds: RowKinds, queries: Queries, n_threads: int = 1) -> StudentRows:
        """Return what every kind of rows predicts for every query; see `RowGroupKernels`."""
        n_columns, shape = queries.values.shape[1], (len(kinds), len(queries))
        with on_device(self.device):
            cupy = cupy_module()
            mean, square_scale = cupy.empty((2, *shape, n_columns), cupy.float32)
            results, n_blocks = cupy.empty((4, *shape)), _n_blocks(shape[0] * shape[1])
            launch(
                kernel("row_groups.cu", "kind_rows"), n_blocks, THREADS,
                *(cupy.asarray(a) for a in (kinds.mean, kinds.precision, kinds.freedom)), len(kinds),
                *_placed(queries), len(queries), n_columns, mean, square_scale, results,
                cupy.empty(n_blocks * (2 * n_columns**2 + 4 * n_columns)),
            )  # fmt: skip
            found, sums = (mean.get(), square_scale.get()), results.get()
        density = observed_log_density(kinds, queries.n_observed, sums[0], sums[3])
        return StudentRows.of_sums(kinds.freedom, queries, *found, sums[:3], log_shares(density))


def _n_blocks(n_items: int) -> int:
    return max(1, min(n_items, BLOCKS * CurrentDevice.multiprocessors()))


def _placed(queries: Queries) -> tuple[Any, Any, Any]:
    """Return the rows in the memory of the device."""
    cupy = cupy_module()
    values, observed, scored = (cupy.asarray(a) for a in (queries.values, queries.observed, queries.scored))
    return values, observed, scored


def _nearest(columns: Any, values: Any, variance: Any, queries: Queries, n_members: int) -> Any:
    """Return the nearest rows of some queries without the queries themselves, as int32."""
    cupy = cupy_module()
    own, observed, _ = _placed(queries)
    n_kept, n_columns = values.shape
    keys = cupy.empty((len(queries), n_kept), cupy.uint64)
    launch(
        kernel("row_groups.cu", "row_keys"), (-(-n_kept // 256), len(queries)), 256,
        columns, n_kept, n_columns, own, observed, keys,
    )  # fmt: skip
    keys.sort(axis=1)
    nearest = (keys[:, : n_members + 1] & cupy.uint64(0xFFFFFFFF)).astype(cupy.int32)
    first = nearest[:, :TWIN_ROWS]
    common = (observed[:, None, :] != 0) & (variance[first] == 0)
    close = cupy.abs(values[first] - own[:, None, :]) <= TWIN_TOLERANCE * (1 + cupy.abs(own[:, None, :]))
    enough = 2 * common.sum(axis=2) >= cupy.maximum(1, observed.sum(axis=1, dtype=cupy.int64))[:, None]
    twins = (close | ~common).all(axis=2) & enough
    left_out = cupy.where(twins.any(axis=1), twins.argmax(axis=1), n_members)[:, None]
    places = cupy.arange(n_members)[None, :]
    return cupy.take_along_axis(nearest, places + (places >= left_out), axis=1)
