"""Factor models of groups of like rows: C++ kernels on all threads (docs/math.md section 19)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpfa.backends.cpu import _groups
from bpfa.backends.groups import GroupKernels, PatchSearch
from bpfa.model.groups import GroupAverage, GroupModel, Members, Windows

__all__ = ["CpuGroups"]


class CpuGroups(GroupKernels):
    """Groups on the host, on several threads; the result does not depend on how many there are."""

    def find_members(
        self, values: NDArray[np.float32], search: PatchSearch, n_threads: int = 1
    ) -> NDArray[np.int64]:
        """Return where the members of each group begin in the flattened picture; see `GroupKernels`."""
        first = np.empty((len(search.y), len(search.x), search.n_members), np.int64)
        _groups.find_members(
            values,
            search.slices,
            search.y,
            search.x,
            *search.size,
            search.reach,
            search.slice_reach,
            search.distance_weight,
            first,
            n_threads,
        )
        return first

    def add_groups(
        self,
        windows: Windows,
        first: NDArray[np.int64],
        blocks: NDArray[np.int64],
        model: GroupModel,
        average: GroupAverage,
        part: int = 0,
        n_threads: int = 1,
    ) -> None:
        """Fit one part of all groups and add what they say of their members; see `GroupKernels`."""
        ranks = np.empty(len(first), np.int32)
        _groups.fit_groups(
            windows.current,
            windows.seen,
            windows.observed,
            windows.offsets[part],
            first,
            model.noise,
            model.log_prior,
            model.prior,
            model.prior_rows,
            model.floor,
            model.weight_share,
            model.n_iterations,
            blocks,
            average.sums,
            ranks,
            average.residuals[part],
            n_threads,
        )
        average.count(ranks)

    def fit_members(
        self, windows: Windows, first: NDArray[np.int64], n_kept: int, model: GroupModel, n_threads: int = 1
    ) -> Members:
        """Fit the first part of all groups and return what they say; see `GroupKernels`."""
        n_columns = windows.offsets.shape[1]
        mean, variance = np.zeros((2, len(first), n_kept, n_columns), np.float32)
        ranks, residuals = np.empty(len(first), np.int32), np.zeros((2, n_columns))
        _groups.fit_members(
            windows.current,
            windows.seen,
            windows.observed,
            windows.offsets[0],
            first,
            model.noise,
            model.log_prior,
            model.prior,
            model.prior_rows,
            model.floor,
            model.n_iterations,
            mean,
            variance,
            ranks,
            residuals,
            n_threads,
        )
        return Members(mean, variance, ranks, residuals)
