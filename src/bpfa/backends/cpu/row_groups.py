"""Groups of like rows of a table: C++ kernels on all threads (docs/math.md section 23)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.threads import one_blas_thread, thread_count
from bpfa.backends.cpu import _groups
from bpfa.backends.feature_rows import FeatureRows, predict_in_blocks
from bpfa.backends.row_groups import TWIN_ROWS, TWIN_TOLERANCE, RowGroupKernels
from bpfa.model.row_features import FeatureGroups, KeptWeights
from bpfa.model.row_groups import KeptRows, Queries, RowGroups, StudentRows
from bpfa.model.row_kinds import RowKinds, log_shares, observed_log_density

__all__ = ["CpuRowGroups"]

# How many numbers the largest array of a block of groups that use features may have: what fits in a cache.
BLOCK_NUMBERS = 2**19


class CpuRowGroups(RowGroupKernels):
    """Groups on the host, on several threads; the result does not depend on how many there are."""

    def nearest_rows(
        self, kept: KeptRows, queries: Queries, sizes: NDArray[np.int32], n_threads: int = 1
    ) -> NDArray[np.int32]:
        """Return the kept rows that are most like each query; see `RowGroupKernels`."""
        nearest = np.empty((len(queries), int(sizes[-1])), np.int32)
        _groups.nearest_rows(
            kept.values,
            kept.variance,
            kept.columns,
            queries.values,
            queries.observed,
            np.unique(sizes).astype(np.int32),
            TWIN_ROWS,
            TWIN_TOLERANCE,
            nearest,
            n_threads,
        )
        return nearest

    def student_rows(
        self,
        kept: KeptRows,
        queries: Queries,
        nearest: NDArray[np.int32],
        groups: RowGroups,
        n_threads: int = 1,
    ) -> StudentRows:
        """Return what the groups of every query predict for it; see `RowGroupKernels`."""
        shape = len(groups), len(queries)
        mean, square_scale = np.empty((2, *shape, queries.values.shape[1]), np.float32)
        sums = np.empty((3, *shape))
        _groups.student_rows(
            kept.values,
            kept.variance,
            queries.values,
            queries.observed,
            queries.scored,
            nearest,
            groups.covariance,
            groups.members,
            groups.prior_rows,
            groups.mean_rows,
            groups.scale_rows,
            groups.correlation_share,
            mean,
            square_scale,
            sums,
            n_threads,
        )
        own = groups.prior_rows.astype(np.float64) + groups.members + 2
        return StudentRows.of_sums(own, queries, mean, square_scale, sums)

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
        predict = FeatureRows(np, kept, weights, groups)
        # As for kernels, 0 stands for the usual number of threads.
        with one_blas_thread(), ThreadPoolExecutor(thread_count(n_threads or None)) as pool:
            return predict_in_blocks(predict, queries, nearest, groups, BLOCK_NUMBERS, pool.map)

    def kind_rows(self, kinds: RowKinds, queries: Queries, n_threads: int = 1) -> StudentRows:
        """Return what every kind of rows predicts for every query; see `RowGroupKernels`."""
        shape = len(kinds), len(queries)
        mean, square_scale = np.empty((2, *shape, queries.values.shape[1]), np.float32)
        sums = self._kind_rows(kinds, queries, mean, square_scale, n_threads)
        density = observed_log_density(kinds, queries.n_observed, sums[0], sums[3])
        return StudentRows.of_sums(kinds.freedom, queries, mean, square_scale, sums[:3], log_shares(density))

    def kind_densities(self, kinds: RowKinds, queries: Queries, n_threads: int = 1) -> Array:
        """Return the log density of observed entries and kinds; see `RowGroupKernels`."""
        sums = self._kind_rows(kinds, queries, None, None, n_threads)
        return observed_log_density(kinds, queries.n_observed, sums[0], sums[3])

    def kind_sums(
        self, kinds: RowKinds, queries: Queries, shares: Array, n_threads: int = 1
    ) -> tuple[Array, Array]:
        """Return sums over the rows of every kind; see `RowGroupKernels`."""
        first, second = np.empty_like(kinds.mean), np.empty_like(kinds.scale)
        _groups.kind_sums(
            kinds.mean,
            kinds.precision,
            kinds.freedom,
            queries.values,
            queries.observed,
            np.ascontiguousarray(shares, np.float64),
            first,
            second,
            n_threads,
        )
        return first, second

    @staticmethod
    def _kind_rows(
        kinds: RowKinds,
        queries: Queries,
        mean: NDArray[np.float32] | None,
        square_scale: NDArray[np.float32] | None,
        n_threads: int,
    ) -> Array:
        sums = np.empty((4, len(kinds), len(queries)))
        _groups.kind_rows(
            kinds.mean,
            kinds.precision,
            kinds.freedom,
            queries.values,
            queries.observed,
            queries.scored,
            mean,
            square_scale,
            sums,
            n_threads,
        )
        return sums
