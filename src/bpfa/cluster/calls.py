"""Those who read chunks and sum over their rows: this process, or the workers of a cluster (`workers.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NoReturn, Protocol

from bpfa.backends.registry import check_device
from bpfa.cluster.plan import ChunkPlan
from bpfa.cluster.site import Site, Task, Work
from bpfa.cluster.tree import total
from bpfa.cluster.workspace import Team
from bpfa.data.remote import RowsLostError, UnusableRowsError

__all__ = ["Caller", "ThisProcess", "refuse_chunk"]

Call = tuple[Any, ...]
"""A function and its arguments, some of which may be `dask.delayed.Delayed`."""
Described = Callable[[int], str]
"""From the number of a chunk to what errors call it."""


class Caller(Protocol):
    """Those who can be asked to do something with chunks."""

    def results(self, calls: Sequence[Call], names: Sequence[str]) -> list[Any]:
        """Return the results of calls, in their order; `names` are what errors call their chunks."""

    def device(self, device: str) -> str:
        """Return on which kind of device they run the local steps, if the user says `device`."""

    def team(self, task: Task, chunks: Sequence[Any], described: Described) -> Team:
        """Return those who hold the rows of a fit."""


def refuse_chunk(name: str, error: BaseException) -> NoReturn:
    """Raise the error that a chunk cannot be read.

    Errors about what is in a chunk name the chunk already, and say what was expected.
    """
    if isinstance(error, RowsLostError):
        raise error
    if isinstance(error, (ValueError, TypeError)):
        raise UnusableRowsError(str(error)) from error
    raise RowsLostError(f"{name}: cannot be read ({type(error).__name__}: {error})") from error


class ThisProcess:
    """The process itself reads the chunks, one by one, and holds those of the present and the next window.

    Parameters
    ----------
    n_jobs : int, optional
        Number of threads of the local steps.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self._n_jobs = n_jobs

    def results(self, calls: Sequence[Call], names: Sequence[str]) -> list[Any]:
        """Return the results of calls, each of which is made when the one before has ended."""
        found = []
        for (function, *arguments), name in zip(calls, names, strict=True):
            computed = [_computed(argument, name) for argument in arguments]
            try:
                found.append(function(*computed))
            except Exception as error:
                refuse_chunk(name, error)
        return found

    def device(self, device: str) -> str:
        """Return the device of this process."""
        return check_device(device)

    def team(self, task: Task, chunks: Sequence[Any], described: Described) -> Team:
        """Return a team of one."""
        return _TeamOfOne(Site(task, self._n_jobs), chunks, described)


def _computed(argument: Any, name: str) -> Any:
    """Return an argument, computed in this process if it is a chunk of a collection."""
    if not hasattr(argument, "__dask_graph__"):
        return argument
    try:
        return argument.compute()
    except Exception as error:
        refuse_chunk(name, error)


class _TeamOfOne:
    """A team whose only member is this process."""

    def __init__(self, site: Site, chunks: Sequence[Any], described: Described) -> None:
        self._site, self._chunks, self._described = site, chunks, described
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="bpfa-read")
        self._reading: dict[int, Future[None]] = {}
        self._window: tuple[int, int] | None = None
        plan = site.task.plan
        # Everything may stay in memory if there is no more of it than two windows.
        self._keeps_all = plan.n_rows * plan.n_columns <= 2 * plan.window_entries

    @property
    def plan(self) -> ChunkPlan:
        """Which rows each step visits."""
        return self._site.task.plan

    def sums(self, work: Work) -> Any:
        """Return the sums over all rows of a step."""
        place = self.plan.place(work.step)
        if (place.epoch, place.window) != self._window:
            self._window = place.epoch, place.window
            self._enter(
                self.plan.chunks(*self._window).tolist(),
                self.plan.chunks(*self.plan.following(place)).tolist(),
            )
        n_leaves = self.plan.n_leaves
        return total([self._site.nodes(work, list(range(n_leaves)))], n_leaves)

    def _enter(self, chunks: list[int], following: list[int]) -> None:
        """Read the chunks of a window, and begin to read those of the next one."""
        if not self._keeps_all:
            wanted = {*chunks, *following}
            self._site.drop([chunk for chunk in self._site.held() if chunk not in wanted])
        held = set(self._site.held())
        for chunk in [*chunks, *following]:
            if chunk not in held and chunk not in self._reading:
                self._reading[chunk] = self._reader.submit(self._read, chunk)
        for chunk in chunks:
            if chunk in self._reading:
                self._reading.pop(chunk).result()
        for chunk in [chunk for chunk, reading in self._reading.items() if reading.done()]:
            self._reading.pop(chunk).result()

    def _read(self, chunk: int) -> None:
        name = self._described(chunk)
        computed = _computed(self._chunks[chunk], name)
        try:
            self._site.hold(computed, chunk)
        except ValueError as error:
            refuse_chunk(name, error)

    def close(self) -> None:
        """Forget the rows."""
        self._reader.shutdown(wait=True, cancel_futures=True)
        self._site.drop(self._site.held())
