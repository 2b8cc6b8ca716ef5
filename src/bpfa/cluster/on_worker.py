"""What runs in the workers of a cluster: their sites, and a step that is passed on along a route."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bpfa.cluster.allocator import keep_freed_memory, return_freed_memory
from bpfa.cluster.site import MissingChunksError, Site, Task, Work
from bpfa.cluster.tree import Nodes, largest_nodes

__all__ = ["Answer", "Route", "close_site", "drop_chunks", "hold", "open_site", "passed_on", "take_step"]

Route = dict[str, Any]
"""From the address of a worker to the route behind it: those to whom it passes a step on."""


class _Place(NamedTuple):
    """The site of a fit, and the thread that computes its sums beside those that read chunks."""

    site: Site
    thread: ThreadPoolExecutor


PLACES: dict[str, _Place] = {}
"""The sites of this process, by the number of their fit."""


@dataclass
class Answer:
    """What a worker, and those behind it on a route, have found in a step."""

    nodes: Nodes[Any] = field(default_factory=dict)
    missing: dict[str, list[int]] = field(default_factory=dict)
    """Chunks that a worker does not hold, by its address."""
    errors: dict[str, Exception] = field(default_factory=dict)
    """What a worker could not compute, by its address."""
    silent: list[str] = field(default_factory=list)
    """Workers that did not answer."""

    def add(self, other: Answer) -> None:
        """Add the answer of another worker."""
        self.nodes = largest_nodes({**self.nodes, **other.nodes})
        self.missing |= other.missing
        self.errors |= other.errors
        self.silent += other.silent


def open_site(fit: str, task: Task, n_jobs: int | None, dask_worker: Any = None) -> str:
    """Prepare this worker for a fit; return its address."""
    if fit not in PLACES:
        n_jobs = n_jobs or int(dask_worker.state.nthreads)
        keep_freed_memory()
        PLACES[fit] = _Place(Site(task, n_jobs), ThreadPoolExecutor(1, thread_name_prefix="bpfa-sums"))
    return str(dask_worker.address)


def close_site(fit: str) -> None:
    """Forget all that this worker holds for a fit."""
    place = PLACES.pop(fit, None)
    if place is not None:
        place.thread.shutdown(wait=False, cancel_futures=True)
        if not PLACES:
            return_freed_memory()


def hold(fit: str, chunk: Any, number: int) -> None:
    """Take a chunk into the memory of this worker, unless the fit has ended."""
    place = PLACES.get(fit)
    if place is not None:
        place.site.hold(chunk, number)


def drop_chunks(fit: str, chunks: Mapping[str, list[int]], dask_worker: Any = None) -> None:
    """Forget chunks that are not needed soon."""
    if fit in PLACES:
        PLACES[fit].site.drop(chunks.get(dask_worker.address, []))


async def take_step(
    fit: str, work: Work, leaves: Mapping[str, list[int]], route: Route, dask_worker: Any = None
) -> Answer:
    """Pass a step on along a route, compute the sums of this worker, and return both.

    Parameters
    ----------
    fit : str
    work : Work
    leaves : mapping
        The leaves of the tree that each worker computes, by its address.
    route : Route
        With the address of this worker.
    dask_worker : Worker
        Passed by Dask.
    """
    address = dask_worker.address
    behind = [
        asyncio.ensure_future(passed_on(dask_worker, other, (fit, work, leaves, {other: further})))
        for other, further in route[address].items()
    ]
    place, answer = PLACES.get(fit), Answer()
    if place is None:
        answer.silent.append(address)
    else:
        loop = asyncio.get_running_loop()
        try:
            answer.nodes = await loop.run_in_executor(
                place.thread, place.site.nodes, work, leaves.get(address, [])
            )
        except MissingChunksError as error:
            answer.missing[address] = error.chunks
        except Exception as error:
            answer.errors[address] = error
    for other in behind:
        answer.add(await other)
    return answer


async def passed_on(asker: Any, address: str, arguments: tuple[Any, ...]) -> Answer:
    """Return the answer of another worker, which a worker or the client asks without the scheduler."""
    from distributed.protocol import pickle

    dumps: Any = pickle.dumps
    try:
        reply = await asker.rpc(address).run(
            function=dumps(take_step), args=dumps(arguments), kwargs=dumps({}), wait=True
        )
    except OSError:
        return Answer(silent=[address])
    if reply["status"] != "OK":
        return Answer(errors={address: RuntimeError(str(reply.get("exception_text")))})
    answer: Answer = reply["result"]
    return answer
