"""Rows in the chunks of a Dask collection, or of files that workers read, as a source of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bpfa._support.optional import library
from bpfa._support.philox import Stream
from bpfa.cluster.calls import Caller
from bpfa.cluster.parts import ChunkKind, surveyed, taken
from bpfa.cluster.plan import WINDOW_ENTRIES, ChunkPlan
from bpfa.cluster.site import Task
from bpfa.cluster.workspace import ClusterWorkspace, Team
from bpfa.data import Batch, RowSource
from bpfa.data.remote import PartRows, RemoteRows, rebased

__all__ = ["ChunkedRows"]

Result = TypeVar("Result")

# The most chunks that are looked at before a fit, one in each of as many equal stretches of the rows.
SURVEYED_CHUNKS = 64
# The rows that are brought here from these chunks, all samples being drawn among them, and the most entries
# that they may have unless that leaves fewer than the least number of rows.
POOL_ROWS, POOL_ENTRIES, LEAST_POOL_ROWS = 2**16, 2**24, 2**12
# Options of a local method that belong to the process in which it runs.
OF_A_PROCESS = ("n_jobs", "instruction_set")
# The most entries of samples that are remembered, because they are asked for more than once.
REMEMBERED_ENTRIES = 2**20


class ChunkedRows(RemoteRows):
    """Rows in chunks, each of which is read where it is used.

    Parameters
    ----------
    kind : ChunkKind
    chunks : sequence of dask.delayed.Delayed
        Each is an array, a frame of pandas or a Batch.
    caller : Caller
        Those who read chunks: the workers of a cluster, or this process.
    """

    def __init__(self, kind: ChunkKind, chunks: Sequence[Any], caller: Caller) -> None:
        edges = kind.edges
        # A single chunk is treated like an array in memory.
        super().__init__(
            int(edges[-1]),
            kind.n_columns,
            name=kind.name,
            chunk_edges=edges if len(chunks) > 1 else None,
            column_names=kind.column_names,
        )
        self.kind, self.chunks, self.caller = kind, list(chunks), caller
        self.device: str | None = None
        self.dtype: np.dtype[Any] = np.dtype(np.float64)
        self.n_chunks = len(chunks)
        self._pool: Batch | None = None
        self._remembered: dict[bytes, Batch] = {}
        self._team: tuple[RowSource, Team] | None = None
        n_strata = min(SURVEYED_CHUNKS, self.n_chunks)
        strata = np.linspace(0, self.n_chunks, n_strata + 1).astype(np.int64)
        rng = Stream.from_seed(0).child("pool").generator(0)
        self._surveyed: NDArray[np.int64] = rng.integers(strata[:-1], strata[1:])
        if self.n_chunks > 1:
            self.sample_pool = self._pool_ids(rng)

    @property
    def surveyed_whole(self) -> bool:
        """Whether `survey` sees every chunk without being asked to."""
        return len(self._surveyed) == self.n_chunks

    def _pool_ids(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the sorted ids of the rows of the pool, as many in proportion of every surveyed chunk."""
        edges = self.kind.edges
        n_pool = min(POOL_ROWS, max(LEAST_POOL_ROWS, POOL_ENTRIES // self.n_columns))
        lengths = edges[self._surveyed + 1] - edges[self._surveyed]
        share = min(1.0, n_pool / lengths.sum())
        counts = np.minimum(lengths, np.ceil(share * lengths).astype(np.int64))
        return np.concatenate(
            [
                edges[chunk] + np.sort(rng.permutation(length)[:count])
                for chunk, length, count in zip(self._surveyed, lengths, counts, strict=True)
            ]
        )

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the rows with these ids, read where they are unless they are in the pool."""
        ids = np.asarray(ids, dtype=np.int64)
        outside = ids[(ids < 0) | (ids >= self.n_rows)]
        if outside.size:
            raise ValueError(f"ids: {outside[0]}; {self.name} has rows 0 to {self.n_rows - 1}")
        if self._pool is not None and np.isin(ids, self._pool.ids, assume_unique=False).all():
            places = np.searchsorted(self._pool.ids, ids)
            return Batch.unchecked(self._pool.values[places], self._pool.observed[places], ids)
        key = ids.tobytes()
        if key not in self._remembered:
            batch = self._fetched(ids)
            if batch.values.size > REMEMBERED_ENTRIES:
                return batch
            while self._remembered and self._entries_remembered() + batch.values.size > REMEMBERED_ENTRIES:
                self._remembered.pop(next(iter(self._remembered)))
            self._remembered[key] = batch
        return self._remembered[key]

    def _entries_remembered(self) -> int:
        return sum(batch.values.size for batch in self._remembered.values())

    def _fetched(self, ids: NDArray[np.int64]) -> Batch:
        """Return rows from the chunks that they are in."""
        owner = np.searchsorted(self.kind.edges, ids, side="right") - 1
        order = np.argsort(owner, kind="stable")
        chunks = np.unique(owner)
        calls = [(chunk, ids[owner == chunk] - self.kind.edges[chunk]) for chunk in chunks.tolist()]
        found = self._call(lambda chunk, number, places: (taken, self.kind, chunk, number, places), calls)
        dtype = np.result_type(*(values.dtype for values, _ in found)) if found else np.float64
        values = np.empty((len(ids), self.n_columns), dtype=dtype)
        observed = np.empty(values.shape, dtype=bool)
        values[order] = np.concatenate([part for part, _ in found])
        observed[order] = np.concatenate([part for _, part in found])
        return Batch(values, observed, ids)

    def read(self, start: int, stop: int) -> Batch:
        """Return the rows from `start` up to `stop`, which are brought here."""
        return self._fetched(np.arange(start, stop))

    def survey(
        self, rows: RowSource, function: Callable[[RowSource], Result], *, whole: bool = False
    ) -> list[Result]:
        """Apply a function to chunks of `rows`, of which this is the origin, where they are."""
        template, first = rebased(rows, self.nothing()), self._pool is None and self.sample_pool is not None
        calls = []
        for chunk in range(self.n_chunks) if whole else np.unique(self._surveyed).tolist():
            start, stop = self.kind.edges[chunk : chunk + 2]
            places = np.empty(0, dtype=np.int64)
            if first and self.sample_pool is not None:
                low, high = np.searchsorted(self.sample_pool, (start, stop))
                places = self.sample_pool[low:high] - start
            calls.append((chunk, places))
        found = self._call(
            lambda chunk, number, places: (surveyed, self.kind, chunk, number, template, function, places),
            calls,
        )
        if first:
            values = np.concatenate([sample[0] for _, sample in found])
            observed = np.concatenate([sample[1] for _, sample in found])
            self._pool = Batch(values, observed, self.sample_pool)
        return [result for result, _ in found]

    def to_dask(self) -> Any:
        """Return the rows as a Dask array, with NaN where an entry is missing."""
        dask, dask_array = library("dask", "dask"), library("dask.array", "dask")
        values, n_columns = dask.delayed(_values, pure=False), self.n_columns
        parts = [
            dask_array.from_delayed(
                values(self.kind, chunk, number, self.dtype), (int(length), n_columns), self.dtype
            )
            for number, (chunk, length) in enumerate(zip(self.chunks, np.diff(self.kind.edges), strict=True))
        ]
        return dask_array.concatenate(parts)

    def nothing(self) -> PartRows:
        """Return no rows, in the place of which others put the rows that they have."""
        empty = np.empty((0, self.n_columns))
        return PartRows(empty, empty.astype(bool), 0, self.column_names)

    def _call(
        self, call: Callable[[Any, int, NDArray[np.int64]], tuple[Any, ...]], calls: list[tuple[int, Any]]
    ) -> list[Any]:
        """Return what functions say of chunks, in the order of the calls."""
        return self.caller.results(
            [call(self.chunks[number], number, places) for number, places in calls],
            [self.described(number) for number, _ in calls],
        )

    def described(self, number: int) -> str:
        """Return what errors call a chunk."""
        first, stop = self.kind.edges[number : number + 2]
        return f"{self.name}: {self.kind.called} {number} (rows {first} to {stop - 1})"

    @contextmanager
    def workspace(self, rows: RowSource, algorithm: Any, visits: Any) -> Iterator[ClusterWorkspace]:
        """Open a workspace in which an algorithm runs over `rows`.

        Chunks stay where they are held until `close` is called, or another run opens a workspace.
        """
        known = self._team
        if known is None or known[0] is not rows:
            self.close()
            known = self._team = rows, self._new_team(rows, algorithm, visits)
        yield ClusterWorkspace(known[1])

    def _new_team(self, rows: RowSource, algorithm: Any, visits: Any) -> Team:
        plan = ChunkPlan(
            tuple(np.diff(self.kind.edges).tolist()),
            self.n_columns,
            visits.batch_size,
            visits.stream,
            WINDOW_ENTRIES,
        )
        names = algorithm.backend.option_names(algorithm.local.kind)
        options = {name: getattr(algorithm.local, name) for name in names if name not in OF_A_PROCESS}
        task = Task(
            plan, self.kind, rebased(rows, self.nothing()), algorithm.name, options, self.device or "cpu"
        )
        return self.caller.team(task, self.chunks, self.described)

    def close(self) -> None:
        """Let those who hold chunks forget them."""
        if self._team is not None:
            self._team[1].close()
            self._team = None


def _values(kind: ChunkKind, chunk: Any, number: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the values of a chunk, NaN where an entry is missing."""
    rows = kind.rows(chunk, number)
    batch = rows.read(0, rows.n_rows)
    values: NDArray[Any] = np.where(batch.observed, batch.values, np.nan).astype(dtype, copy=False)
    return values
