"""Factor models of groups of like rows on a GPU (docs/math.md section 19).

A whole round stays in the memory of the device: the search for members, the models of all groups, and the
average of what they say. Nothing is added up in an order that depends on chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa.backends.cpu.groups import CpuGroups
from bpfa.backends.cuda.runtime import CurrentDevice, available_memory, cupy_module, kernel, launch, on_device
from bpfa.backends.cuda.view import blocks_of
from bpfa.backends.groups import GroupKernels, PatchSearch
from bpfa.model.groups import GroupAverage, GroupModel, Members, Windows

__all__ = ["CudaGroups"]

# Threads that fit one group: as many as rotate all pairs of 64 rows at once, or half as many, which need less
# shared memory; and those of the search.
THREADS, SEARCH_THREADS = (256, 128), 256
# Largest number of groups that a multiprocessor fits at a time; with more, a thread has too few registers.
MOST_BLOCKS = 3
# Largest number of bytes for what groups say of their members before it is averaged, and its largest share of
# the available memory.
TERM_BYTES, TERM_SHARE = 2**31, 0.25
# How many groups at a time are fitted in the memory of the device where shared memory is too small, for each
# multiprocessor.
SCRATCH_BLOCKS = 2


class _Shape(NamedTuple):
    """How a group is fitted: by how many threads, and in which memory."""

    n_columns: int
    n_threads: int
    n_bytes: int
    in_shared: bool

    @classmethod
    def of(cls, n_columns: int, n_members: int) -> _Shape:
        """Return the shape with the most threads that fits into shared memory."""
        for n_threads in THREADS:
            n_bytes = _group_bytes(n_columns, n_members, n_threads)
            if n_bytes <= CurrentDevice.shared_memory():
                return cls(n_columns, n_threads, n_bytes, True)
        return cls(n_columns, THREADS[0], _group_bytes(n_columns, n_members, THREADS[0]), False)

    @property
    def macros(self) -> tuple[str, ...]:
        """Macros of groups.cu. A block takes 1 KiB of shared memory for itself."""
        fitting = CurrentDevice.multiprocessor_memory() // (self.n_bytes + 1024)
        blocks = min(fitting, MOST_BLOCKS) if self.in_shared else SCRATCH_BLOCKS
        return (
            f"COLUMNS={self.n_columns}",
            f"THREADS={self.n_threads}",
            f"BLOCKS={blocks}",
            f"SCRATCH={int(not self.in_shared)}",
        )


def _group_bytes(n_columns: int, n_members: int, n_threads: int) -> int:
    """Return how much memory a group needs, as group_memory.cuh lays it out."""
    D, M, warps = n_columns, n_members, n_threads // 32
    padded = -(-D // 4) * 4
    row = padded + 4 if padded % 32 == 0 else padded
    factor_rows = D // 2 + 1
    factors = -(-warps * (factor_rows * (factor_rows + 1) // 2) // 4) * 4
    n_rows = D + max(D, 2 * warps) + 2 * D + 2 * warps + 8 + M
    return 4 * (n_rows * row + factors + warps * padded + 4 + M * (-(-D // 32) + 1))


@dataclass(frozen=True)
class _Windows:
    """The flat arrays of `Windows` in the memory of the device."""

    current: Any
    seen: Any
    observed: Any
    offsets: Any

    @classmethod
    def of(cls, windows: Windows) -> _Windows:
        cupy = cupy_module()
        return cls(
            cupy.asarray(windows.current, cupy.float32),
            cupy.asarray(windows.seen, cupy.float32),
            cupy.asarray(windows.observed, cupy.uint8),
            cupy.asarray(windows.offsets, cupy.int64),
        )


class _Slots(NamedTuple):
    """The members of some groups in the order of where they begin, for entries to collect what they say."""

    slots: Any
    """Place of every member in that order."""
    begins: Any
    """First place of the members that begin at each entry from `lowest` on, and the end of the last ones."""
    lowest: int
    n_starts: int

    @classmethod
    def of(cls, first: Any, size: int, lowest: int, n_starts: int) -> _Slots:
        """Sort members that begin at `lowest` or up to n_starts - 1 entries later."""
        cupy, n = cupy_module(), first.size
        keys, slots = cupy.empty(n, cupy.int64), cupy.empty(n, cupy.int32)
        begins = cupy.empty(n_starts + 1, cupy.int32)
        launch(
            kernel("group_average.cu", "member_keys"), blocks_of(n), 256,
            first, np.int64(n), np.int64(size), keys,
        )  # fmt: skip
        keys.sort()
        launch(kernel("group_average.cu", "member_slots"), blocks_of(n), 256, keys, np.int64(n), slots)
        launch(
            kernel("group_average.cu", "first_slots"), blocks_of(n_starts + 1), 256,
            keys, np.int64(n), np.int64(lowest), np.int64(n_starts), begins,
        )  # fmt: skip
        return cls(slots, begins, lowest, n_starts)


class CudaGroups(GroupKernels):
    """Groups on a GPU.

    Parameters
    ----------
    device : str
    """

    def __init__(self, device: str = "cuda") -> None:
        self.device = device

    def on(self, device: str) -> CudaGroups:
        """Return the kernels for one of several GPUs."""
        return CudaGroups(device)

    def find_members(
        self, values: NDArray[np.float32], search: PatchSearch, n_threads: int = 1
    ) -> NDArray[np.int64]:
        """Return where the members of each group begin in the flattened picture; see `GroupKernels`."""
        with on_device(self.device):
            if _search_bytes(search) > CurrentDevice.shared_memory():
                return CpuGroups().find_members(values, search, n_threads)
            found: NDArray[np.int64] = _find(cupy_module().asarray(values, np.float32), search).get()
            return found

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
        _check_members(windows, first)
        with on_device(self.device):
            sums = _Sums(windows, average)
            lowest = int(first[first >= 0].min())
            n_starts = int(first.max()) - lowest + 1
            step = _groups_at_once(first.shape[1], windows.offsets.shape[1])
            for start in range(0, len(first), step):
                members = cupy_module().asarray(first[start : start + step], np.int64)
                slots = _Slots.of(members, windows.current.size, lowest, n_starts)
                sums.add(members, slots, model, part)
            sums.store(average)

    def fit_members(
        self, windows: Windows, first: NDArray[np.int64], n_kept: int, model: GroupModel, n_threads: int = 1
    ) -> Members:
        """Fit the first part of all groups and return what they say; see `GroupKernels`."""
        _check_members(windows, first)
        cupy = cupy_module()
        with on_device(self.device):
            n_columns = windows.offsets.shape[1]
            mean, variance = cupy.zeros((2, len(first), n_kept, n_columns), cupy.float32)
            ranks, residuals = _fit(
                _Windows.of(windows), 0, cupy.asarray(first, np.int64), model, kept=(n_kept, mean, variance)
            )
            return Members(mean.get(), variance.get(), ranks.get(), _total(residuals).get())

    def average_patches(
        self,
        windows: Windows,
        search: PatchSearch,
        models: Sequence[GroupModel],
        n_threads: int = 1,
        tell: Callable[[float], None] = lambda share: None,
    ) -> GroupAverage:
        """Find the groups of all references, fit them, and return the average of what they say of each pixel.

        See `GroupKernels`; only the average is copied to the host.
        """
        with on_device(self.device):
            if _search_bytes(search) > CurrentDevice.shared_memory():
                return super().average_patches(windows, search, models, n_threads, tell)
            n_parts, n_columns = windows.offsets.shape
            average = GroupAverage(windows.current.size, n_columns, n_parts)
            sums, n_rows = _Sums(windows, average), len(search.y)
            picture = sums.windows.current.reshape(search.shape)
            step = max(1, _groups_at_once(search.n_members, n_columns) // len(search.x))
            for start in range(0, n_rows, step):
                strip = search.rows(start, start + step)
                first = _find(picture, strip).reshape(-1, search.n_members)
                slots = _Slots.of(first, windows.current.size, *_starts(strip))
                for part, model in enumerate(models):
                    sums.add(first, slots, model, part)
                tell(min(1.0, (start + step) / n_rows))
            sums.store(average)
            return average


class _Sums:
    """The sums of a `GroupAverage` on the device, while groups are added."""

    def __init__(self, windows: Windows, average: GroupAverage) -> None:
        cupy = cupy_module()
        self.windows = _Windows.of(windows)
        self.reach = int(windows.offsets.max()) + 1
        self.sums = cupy.asarray(average.sums)
        self.residuals = cupy.asarray(average.residuals)
        self.ranks: list[Any] = []

    def add(self, first: Any, slots: _Slots, model: GroupModel, part: int) -> None:
        """Fit some groups and add what they say of their members."""
        cupy, size = cupy_module(), self.windows.current.size
        n_columns = self.windows.offsets.shape[1]
        terms = cupy.empty((first.size, n_columns, 4), cupy.float32)
        ranks, residuals = _fit(self.windows, part, first, model, terms=(slots.slots, terms))
        n_entries = min(slots.n_starts - 1 + self.reach, size - slots.lowest)
        launch(
            kernel("group_average.cu", "add_terms"), blocks_of(n_entries), 256,
            terms, slots.begins, self.windows.offsets[part], n_columns, np.int64(slots.lowest),
            np.int64(slots.n_starts), np.int64(n_entries), np.int64(size), self.sums,
        )  # fmt: skip
        _total(residuals, self.residuals[part])
        self.ranks.append(ranks)

    def store(self, average: GroupAverage) -> None:
        """Copy the sums to the host."""
        average.sums[:] = self.sums.get()
        average.residuals[:] = self.residuals.get()
        for ranks in self.ranks:
            average.count(ranks.get())


def _check_members(windows: Windows, first: NDArray[np.int64]) -> None:
    """Refuse members that are not inside the flat arrays, which a kernel would read all the same."""
    last = int(first.max()) + int(windows.offsets.max())
    if last >= windows.current.size or (first[:, 0] < 0).any():
        raise ValueError(
            f"first: a member reaches entry {last} of {windows.current.size}; expected members inside the "
            "arrays, and at least one in each group"
        )


def _search_bytes(search: PatchSearch) -> int:
    """Return how much shared memory the search for the members of one group needs."""
    n_candidates = (2 * search.slice_reach + 1) * (2 * search.reach + 1) ** 2
    n_numbers = search.size[0] * search.size[1] * search.shape[3]
    return 8 * search.n_members + 4 * (n_numbers + n_candidates) + 128


def _find(values: Any, search: PatchSearch) -> Any:
    """Return where the members of each group begin, on the device."""
    cupy = cupy_module()
    n_rows, n_x = len(search.y), len(search.x)
    first = cupy.empty((n_rows, n_x, search.n_members), cupy.int64)
    launch(
        kernel("group_search.cu", "find_members"), n_rows * n_x, SEARCH_THREADS,
        values, *search.shape, *(cupy.asarray(places) for places in (search.slices, search.y, search.x)), n_x,
        *search.size, search.reach, search.slice_reach, float(search.distance_weight), search.n_members,
        first,
        shared=_search_bytes(search),
    )  # fmt: skip
    return first


def _starts(search: PatchSearch) -> tuple[int, int]:
    """Return the first entry at which a member can begin, and how many entries after it are possible."""
    n_slices, height, width, n_channels = search.shape
    first_slice = max(int(search.slices.min()) - search.slice_reach, 0)
    last_slice = min(int(search.slices.max()) + search.slice_reach, n_slices - 1)
    top, bottom = 0, height - 1
    if first_slice == last_slice:
        top = max(int(search.y.min()) - search.reach, top)
        bottom = min(int(search.y.max()) + search.reach, bottom)
    line = width * n_channels
    lowest = (first_slice * height + top) * line
    return lowest, (last_slice * height + bottom + 1) * line - lowest


def _groups_at_once(n_members: int, n_columns: int) -> int:
    """Return how many groups can store what they say of their members."""
    budget = min(TERM_BYTES, int(TERM_SHARE * available_memory()[0]))
    return max(1, budget // (16 * n_members * n_columns))


def _fit(
    windows: _Windows,
    part: int,
    first: Any,
    model: GroupModel,
    *,
    terms: tuple[Any, Any] = (None, None),
    kept: tuple[int, Any, Any] = (0, None, None),
) -> tuple[Any, Any]:
    """Fit groups, and return the number of features and the residuals of each.

    Parameters
    ----------
    windows : _Windows
    part : int
    first : array, shape (groups, members)
    model : GroupModel
    terms : pair of arrays
        The slot of every member, and what is stored there for the average.
    kept : int and two arrays
        Of how many members of a group the mean and the variance are stored, and where.
    """
    cupy = cupy_module()
    (n_groups, n_members), n_columns = first.shape, windows.offsets.shape[1]
    ranks = cupy.empty(n_groups, cupy.int32)
    residuals = cupy.empty((n_groups, 2, n_columns), cupy.float32)
    shape = _Shape.of(n_columns, n_members)
    n_blocks, scratch, shared = n_groups, None, shape.n_bytes
    if not shape.in_shared:
        n_blocks, shared = min(n_groups, SCRATCH_BLOCKS * CurrentDevice.multiprocessors()), 0
        scratch = cupy.empty((n_blocks, -(-shape.n_bytes // 16) * 4), cupy.float32)
    floor, noise = float(model.floor), np.asarray(model.noise, np.float32)
    launch(
        kernel("groups.cu", "fit_groups", *shape.macros), n_blocks, shape.n_threads,
        windows.current, windows.seen, windows.observed, windows.offsets[part],
        first, np.int64(n_groups), n_members,
        cupy.asarray(noise), _optional(model.log_prior, np.float64), _optional(model.prior, np.float32),
        float(model.prior_rows), floor, float(model.weight_share), 0.01 * (float(noise.min()) + floor),
        model.n_iterations, *terms, *kept, ranks, residuals,
        scratch, np.int64(0 if scratch is None else scratch.shape[1]), shared=shared,
    )  # fmt: skip
    return ranks, residuals


def _optional(values: Any, dtype: Any) -> Any:
    """Return an array on the device, or None."""
    return None if values is None else cupy_module().asarray(values, dtype)


def _total(residuals: Any, sums: Any = None) -> Any:
    """Add the residuals of all groups to sums, in double precision, and return these."""
    cupy = cupy_module()
    if sums is None:
        sums = cupy.zeros(residuals.shape[1:])
    launch(
        kernel("group_average.cu", "add_residuals"), sums.size, 256, residuals, np.int64(len(residuals)), sums
    )
    return sums
