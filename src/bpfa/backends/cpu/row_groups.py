"""Groups of like rows of a table: C++ kernels on all threads (docs/math.md section 23)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpfa.backends.cpu import _groups
from bpfa.backends.row_groups import TWIN_ROWS, TWIN_TOLERANCE, RowGroupKernels
from bpfa.model.row_groups import KeptRows, Queries, RowGroups, StudentRows, student_log_density

__all__ = ["CpuRowGroups"]


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
        freedom = own[:, None] + queries.observed.sum(axis=1)
        n_scored = (queries.scored & ~queries.observed & 1).sum(axis=1)
        return StudentRows(mean, square_scale, freedom, student_log_density(freedom, n_scored, *sums))
