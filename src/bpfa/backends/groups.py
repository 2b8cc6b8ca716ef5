"""What a device offers for groups of like rows (docs/math.md section 19).

A device implements `GroupKernels`. The methods that are not abstract suit devices that work on arrays in the
memory of the host; another device overrides `average_patches`, so that a whole round stays in its memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bpfa.model.groups import GroupAverage, GroupModel, Members, Windows

__all__ = ["GroupKernels", "PatchSearch"]

# Largest number of members whose places are held in memory at a time, and of rows of references that are
# worked on at a time.
MOST_MEMBERS, MOST_ROWS = 2**22, 16


@dataclass(frozen=True)
class PatchSearch:
    """Which patches of a picture have a group, and where its members are sought.

    The references of row i are in slice `slices[i]` and begin at `y[i]` and at every x of `x`. Their
    candidates begin at most `reach` pixels away along both axes and at most `slice_reach` slices away. They
    are ordered by the mean squared difference plus `distance_weight` times the squared distance in pixels and
    slices; the reference is always the first.

    Parameters
    ----------
    shape : tuple of int
        Slices, height, width and channels of the picture.
    slices, y : int32 arrays, shape (rows,)
    x : int32 array, shape (references,)
    size : pair of int
        Height and width of a patch.
    reach, slice_reach : int
    distance_weight : float
    n_members : int
        Number of members of a group, including the reference.
    """

    shape: tuple[int, ...]
    slices: NDArray[np.int32]
    y: NDArray[np.int32]
    x: NDArray[np.int32]
    size: tuple[int, int]
    reach: int
    slice_reach: int
    distance_weight: float
    n_members: int

    def rows(self, start: int, stop: int) -> PatchSearch:
        """Return the same for some rows of references."""
        return replace(self, slices=self.slices[start:stop], y=self.y[start:stop])


class GroupKernels(ABC):
    """Groups of like rows on one kind of device.

    `n_threads` is the number of threads, on which the result does not depend; a device without threads
    ignores it.
    """

    def on(self, device: str) -> GroupKernels:
        """Return the kernels for one device of this kind, such as "cuda:1"."""
        return self

    @abstractmethod
    def find_members(
        self, values: NDArray[np.float32], search: PatchSearch, n_threads: int = 1
    ) -> NDArray[np.int64]:
        """Return where the members of each group begin in the flattened picture.

        The result has the shape (rows, references, members). It is -1 where there are not enough candidates.
        """

    @abstractmethod
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
        """Fit one part of all groups and add what they say of their members to the average.

        `first` has the shape (groups, members), with -1 after the last member of a group. Block b consists of
        the groups from `blocks[b]` to `blocks[b + 1]`, which one thread works on.
        """

    @abstractmethod
    def fit_members(
        self,
        windows: Windows,
        first: NDArray[np.int64],
        n_kept: int,
        model: GroupModel,
        n_threads: int = 1,
    ) -> Members:
        """Fit the first part of all groups and return what they say of their first `n_kept` members."""

    def average_patches(
        self,
        windows: Windows,
        search: PatchSearch,
        models: Sequence[GroupModel],
        n_threads: int = 1,
        tell: Callable[[float], None] = lambda share: None,
    ) -> GroupAverage:
        """Find the groups of all references, fit them, and return the average of what they say of each pixel.

        There is a model for each part of the rows. Memory does not grow with the number of groups. `tell` is
        called with the share that is done.
        """
        n_parts, n_columns = windows.offsets.shape
        average = GroupAverage(windows.current.size, n_columns, n_parts)
        picture, n_rows = windows.current.reshape(search.shape), len(search.y)
        step = int(np.clip(MOST_MEMBERS // (len(search.x) * search.n_members), 1, MOST_ROWS))
        for start in range(0, n_rows, step):
            first = self.find_members(picture, search.rows(start, start + step), n_threads)
            blocks = np.arange(len(first) + 1, dtype=np.int64) * len(search.x)
            members = first.reshape(-1, search.n_members)
            for part, model in enumerate(models):
                self.add_groups(windows, members, blocks, model, average, part, n_threads)
            tell(min(1.0, (start + step) / n_rows))
        return average
