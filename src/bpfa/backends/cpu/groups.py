"""Factor models of groups of like rows: C++ kernels on all threads (docs/math.md section 18)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bpfa.backends.cpu import _groups
from bpfa.model.groups import GroupAverage, GroupModel, Members, Windows

__all__ = ["CpuGroups"]


class CpuGroups:
    """Groups on the host, on several threads; the result does not depend on how many there are."""

    @staticmethod
    def find_members(
        values: NDArray[np.float32],
        slices: NDArray[np.int32],
        y: NDArray[np.int32],
        x: NDArray[np.int32],
        size: tuple[int, int],
        *,
        reach: int,
        slice_reach: int,
        distance_weight: float,
        n_members: int,
        n_threads: int = 1,
    ) -> NDArray[np.int64]:
        """Return where the patches most similar to each reference patch begin; see `GroupKernels`."""
        first = np.empty((len(y), len(x), n_members), np.int64)
        _groups.find_members(
            values, slices, y, x, *size, reach, slice_reach, distance_weight, first, n_threads
        )
        return first

    @staticmethod
    def add_groups(
        windows: Windows,
        first: NDArray[np.int64],
        blocks: NDArray[np.int64],
        model: GroupModel,
        average: GroupAverage,
        n_threads: int = 1,
    ) -> None:
        """Fit all groups and add what they say of their members to the average; see `GroupKernels`."""
        ranks = np.empty(len(first), np.int32)
        _groups.fit_groups(
            windows.current,
            windows.seen,
            windows.observed,
            windows.offsets,
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
            average.residuals,
            n_threads,
        )
        average.count(ranks)

    @staticmethod
    def fit_members(
        windows: Windows, first: NDArray[np.int64], n_kept: int, model: GroupModel, n_threads: int = 1
    ) -> Members:
        """Fit all groups and return what they say of their first members; see `GroupKernels`."""
        n_columns = len(windows.offsets)
        mean, variance = np.zeros((2, len(first), n_kept, n_columns), np.float32)
        ranks, residuals = np.empty(len(first), np.int32), np.zeros((2, n_columns))
        _groups.fit_members(
            windows.current,
            windows.seen,
            windows.observed,
            windows.offsets,
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
