"""The rows that one process holds for a fit, and the sums over them: the work of a worker, without Dask."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.philox import RowDraws
from bpfa.cluster.parts import ChunkKind
from bpfa.cluster.plan import ChunkPlan, Part
from bpfa.cluster.tree import Nodes, largest_nodes
from bpfa.data import Batch, RowSource
from bpfa.data.remote import UnusableRowsError, are_patches, concatenated, origin_of, rebased
from bpfa.inference.algorithms import Algorithm, algorithm
from bpfa.model.local import local_sums
from bpfa.model.view import GlobalView

__all__ = ["MissingChunksError", "Site", "Task", "Work"]


@dataclass(frozen=True)
class Task:
    """What a fit asks of everyone who holds rows of it; it is sent once.

    Parameters
    ----------
    plan : ChunkPlan
    kind : ChunkKind
    rows : RowSource
        How rows are changed on their way out; see `bpfa.data.remote.rebased`.
    algorithm : str
        Name of the algorithm.
    options : dict
        Options of its local method, without the number of threads.
    device : str
        Where the local method runs.
    """

    plan: ChunkPlan
    kind: ChunkKind
    rows: RowSource
    algorithm: str
    options: dict[str, Any]
    device: str

    def make_algorithm(self, n_jobs: int | None) -> Algorithm:
        """Return the algorithm in this process, with so many threads if its device has threads."""
        threads = {"n_jobs": n_jobs} if self.device == "cpu" else {}
        return algorithm(self.algorithm, device=self.device, **self.options, **threads)


class Work(NamedTuple):
    """A step, as it is sent to everyone who holds rows."""

    step: int
    key: int
    """Of the stream of the rows' random numbers."""
    joint: bool
    phi: NDArray[Any]
    v: NDArray[Any]
    logit: NDArray[Any]
    g_o: float
    g_w: float

    @property
    def view(self) -> GlobalView:
        """The view of the globals, in double precision, which may have been sent in single precision."""
        phi, v, logit = (array.astype(np.float64) for array in (self.phi, self.v, self.logit))
        return GlobalView(phi, v, logit, self.g_o, self.g_w)


class MissingChunksError(LookupError):
    """Chunks that a step needs are not held here."""

    def __init__(self, chunks: list[int]) -> None:
        super().__init__(f"chunks {chunks} are not held")
        self.chunks = chunks


class _Form(NamedTuple):
    """What `Algorithm.check_suits` asks of a posterior."""

    joint: bool


class _Whole:
    """All rows of a chunk, in the precision of the kernels, which would convert the rows of every batch."""

    def __init__(self, whole: Batch, dtype: np.dtype[Any]) -> None:
        self._values, self._observed = whole.values.astype(dtype, copy=False), whole.observed
        self._ids = whole.ids

    def take(self, places: NDArray[np.int64]) -> Batch:
        """Return the rows at these places."""
        # `ndarray.take` copies whole rows, and is faster than an index.
        values, observed = self._values.take(places, axis=0), self._observed.take(places, axis=0)
        return Batch.unchecked(values, observed, self._ids.take(places))


class Site:
    """Chunks of rows in memory, in the units of the model, and the sums over those that a step visits.

    Parameters
    ----------
    task : Task
    n_jobs : int, optional
        Number of threads.
    """

    def __init__(self, task: Task, n_jobs: int | None = None) -> None:
        self.task, self._algorithm = task, task.make_algorithm(n_jobs)
        single = getattr(self._algorithm.local, "dtype", None) == "float32"
        self._dtype = np.dtype(np.float32 if single else np.float64)
        self._held: dict[int, _Whole | RowSource] = {}
        self._orders: dict[int, tuple[int, NDArray[np.int64]]] = {}
        self._lock = Lock()

    def hold(self, chunk: Any, number: int) -> None:
        """Take a chunk into memory."""
        part = rebased(self.task.rows, self.task.kind.rows(chunk, number))
        held: _Whole | RowSource = part
        # Patches overlap, and are copied out of their pictures only when they are visited.
        if not are_patches(origin_of(part)):
            held = _Whole(part.read(0, part.n_rows), self._dtype)
        with self._lock:
            self._held[number] = held

    def drop(self, chunks: list[int]) -> None:
        """Forget chunks that are not needed soon."""
        with self._lock:
            for chunk in chunks:
                self._held.pop(chunk, None)
                self._orders.pop(chunk, None)

    def held(self) -> list[int]:
        """Return the chunks in memory."""
        with self._lock:
            return sorted(self._held)

    def nodes(self, work: Work, leaves: list[int]) -> Nodes[Any]:
        """Return the sums over those rows of a step that are in some leaves of the tree.

        Raises
        ------
        MissingChunksError
            If chunks with such rows are not in memory.
        """
        parts: dict[int, list[Part]] = {leaf: [] for leaf in leaves}
        for part in self.task.plan.parts(work.step):
            if part.leaf in parts:
                parts[part.leaf].append(part)
        with self._lock:
            held = {part.chunk: self._held.get(part.chunk) for some in parts.values() for part in some}
        missing = sorted(chunk for chunk, rows in held.items() if rows is None)
        if missing:
            raise MissingChunksError(missing)
        epoch, view = self.task.plan.place(work.step).epoch, work.view
        nodes: Nodes[Any] = {}
        for leaf in leaves:
            batches = [
                rows.take(self._order(epoch, part.chunk)[part.start : part.stop])
                for part in parts[leaf]
                if (rows := held[part.chunk]) is not None
            ]
            sums = self._sums(work, view, concatenated(batches)) if batches else None
            # Added up at once, so that the sums of few leaves are in memory, and in the cache.
            nodes = largest_nodes({**nodes, (leaf, leaf + 1): sums})
        return nodes

    def _sums(self, work: Work, view: GlobalView, batch: Batch) -> Any:
        try:
            self._algorithm.check_suits(_Form(work.joint), batch)
        except ValueError as error:
            raise UnusableRowsError(str(error)) from error
        draws = RowDraws(work.key, batch.ids, work.step)
        return local_sums(self._algorithm.local, view, batch, draws, joint=work.joint)

    def _order(self, epoch: int, chunk: int) -> NDArray[np.int64]:
        """Return the order of the rows of a chunk, which is drawn once in an epoch."""
        known = self._orders.get(chunk)
        if known is None or known[0] != epoch:
            known = self._orders[chunk] = epoch, self.task.plan.order(epoch, chunk)
        return known[1]
