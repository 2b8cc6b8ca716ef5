"""The workers of a cluster as those who hold the rows of a fit, and what happens if one is lost."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from bpfa._support.optional import library
from bpfa.cluster import on_worker
from bpfa.cluster.calls import Described, refuse_chunk
from bpfa.cluster.connection import LOOK_SECONDS, RETRIES, WAIT_SECONDS, Connection, scheduler_answers
from bpfa.cluster.health import check_members
from bpfa.cluster.plan import ChunkPlan
from bpfa.cluster.sharing import balanced, route_through
from bpfa.cluster.site import Task, Work
from bpfa.cluster.tree import Nodes, total
from bpfa.data.remote import RowsLostError

__all__ = ["WorkerTeam"]

# How often a step is repeated with workers that fail to answer although the scheduler knows them.
MOST_ATTEMPTS = 5
# Seconds after which a worker that does not answer directly is asked through the scheduler.
REACH_SECONDS = 3.0
# The share of the memory of a worker that chunks may take.
MEMORY_SHARE = 0.25


class WorkerTeam:
    """The workers that hold the rows of one fit.

    Parameters
    ----------
    connection : Connection
    task : Task
    chunks : sequence of dask.delayed.Delayed
    described : callable
        From the number of a chunk to what errors call it.
    n_jobs : int or None
        Number of threads of the local steps on a worker; as many as the worker has if it is None.
    """

    def __init__(
        self,
        connection: Connection,
        task: Task,
        chunks: Sequence[Any],
        described: Described,
        n_jobs: int | None,
    ) -> None:
        self._connection, self._client, self._n_jobs = connection, connection.client, n_jobs
        self._task, self._chunks, self._described = task, chunks, described
        self._fit = uuid.uuid4().hex
        self._worker_of_leaf: list[str] = []
        self._open: set[str] = set()
        self._held: dict[str, set[int]] = {}
        self._reading: dict[tuple[str, int], Any] = {}
        self._window: tuple[int, int] | None = None
        self._direct = True
        self._asker = ThreadPoolExecutor(8, thread_name_prefix="bpfa-ask")

    @property
    def plan(self) -> ChunkPlan:
        """Which rows each step visits."""
        return self._task.plan

    def sums(self, work: Work) -> Any:
        """Return the sums over all rows of a step, however many workers are lost on the way."""
        place = self.plan.place(work.step)
        if (place.epoch, place.window) != self._window:
            self._window = place.epoch, place.window
            self._share_out()
            self._read_window(work.step)
        nodes: Nodes[Any] = {}
        for attempt in range(MOST_ATTEMPTS):
            self._await_chunks(work.step)
            answer = self._asked(work, nodes)
            for error in answer.errors.values():
                raise (
                    error
                    if isinstance(error, RowsLostError)
                    else RowsLostError(
                        f"a worker could not make step {work.step} ({type(error).__name__}: {error})"
                    )
                ) from error
            nodes |= answer.nodes
            if not (answer.missing or answer.silent):
                return total([nodes], self.plan.n_leaves)
            self._recover(work.step, answer, drop_silent=attempt > 1)
        raise RowsLostError(
            f"step {work.step} failed {MOST_ATTEMPTS} times, because workers do not answer; expected a "
            "connection between all workers"
        )

    def _asked(self, work: Work, known: Nodes[Any]) -> on_worker.Answer:
        """Ask the workers for the sums of a step, as far as they are not known yet."""
        done = {leaf for first, last in known for leaf in range(first, last)}
        leaves: dict[str, list[int]] = {}
        for leaf, address in enumerate(self._worker_of_leaf):
            if leaf not in done:
                leaves.setdefault(address, []).append(leaf)
        routes = route_through(list(leaves))
        answer = on_worker.Answer()
        if self._direct:
            with scheduler_answers(self._client):
                replies = self._client.sync(self._asked_directly, work, leaves, routes)
        else:
            replies = self._replies(
                on_worker.take_step, work, leaves, routes, workers=list(routes), needed=list(leaves)
            )
        for address, reply in replies.items():
            if isinstance(reply, on_worker.Answer):
                answer.add(reply)
            else:
                answer.silent.append(address)
        return answer

    async def _asked_directly(
        self, work: Work, leaves: dict[str, list[int]], routes: on_worker.Route
    ) -> dict[str, Any]:
        """Ask the first workers of the routes over connections that stay open, without the scheduler."""
        asking = {
            asyncio.ensure_future(
                on_worker.passed_on(self._client, address, (self._fit, work, leaves, {address: behind}))
            ): address
            for address, behind in routes.items()
        }
        answers: dict[str, Any] = {}
        while asking:
            done, _ = await asyncio.wait(asking, timeout=LOOK_SECONDS)
            answers |= {asking.pop(answered): answered.result() for answered in done}
            if not done:
                present = await self._client.scheduler.ncores()
                lost = [address for address in leaves if address not in present]
                if lost:
                    for unanswered in asking:
                        unanswered.cancel()
                    return answers | dict.fromkeys(lost)
        return answers

    async def _reaches(self, addresses: list[str]) -> bool:
        """Return whether this process can connect to workers; it need not be in the same network."""
        calls = [self._client.rpc(address).identity() for address in addresses]
        try:
            await asyncio.wait_for(asyncio.gather(*calls), REACH_SECONDS)
        except (OSError, TimeoutError):
            return False
        return True

    def _replies(
        self, function: Any, *arguments: Any, workers: list[str], needed: list[str] | None = None
    ) -> dict[str, Any]:
        """Run a function of this fit on workers, and return their replies, or exceptions in their place.

        Workers that have been lost are not waited for: the scheduler would try for half a minute to connect
        to one that died just before it was asked. Whoever `needed` names must not be lost either.
        """
        call: Any = self._client.run
        asking: Future[dict[str, Any]] = self._asker.submit(
            call, function, self._fit, *arguments, workers=workers, on_error="return"
        )
        addresses = workers if needed is None else needed
        with scheduler_answers(self._client):
            while True:
                try:
                    return asking.result(timeout=LOOK_SECONDS)
                except TimeoutError:
                    if asking.done():
                        raise
                    present = self._client.nthreads()
                    lost = [address for address in addresses if address not in present]
                    if lost:
                        return dict.fromkeys(lost)

    def _recover(self, step: int, answer: on_worker.Answer, *, drop_silent: bool) -> None:
        """Share out again what lost workers had, and read again what is missing."""
        for address, chunks in answer.missing.items():
            self._held[address] -= set(chunks)
        present = self._connection.members()
        for address in answer.silent:
            if drop_silent or address not in present or not self._responds(address):
                self._forget(address)
        self._share_out()
        self._read_window(step)

    def _responds(self, address: str) -> bool:
        """Return whether a worker knows this fit; one that was restarted has forgotten it."""
        return self._replies(_knows, workers=[address]).get(address) is True

    def _forget(self, address: str) -> None:
        self._open.discard(address)
        self._held.pop(address, None)
        for key in [key for key in self._reading if key[0] == address]:
            self._reading.pop(key).cancel()

    def _share_out(self) -> None:
        """Share out the leaves of the tree among the workers that there are now."""
        began = time.monotonic()
        self._open_new_workers()
        while not self._open:
            if time.monotonic() - began > WAIT_SECONDS:
                raise RowsLostError("client: no worker answers; expected at least one")
            time.sleep(LOOK_SECONDS)
            self._open_new_workers()
        before, n_leaves = self._worker_of_leaf, self.plan.n_leaves
        held = [] if before else self._held_by_users(n_leaves)
        self._worker_of_leaf = balanced(before, sorted(self._open), n_leaves, held)
        if not before:
            self._say(len(self._open))

    def _open_new_workers(self) -> None:
        """Forget workers that are gone, and prepare those that are new."""
        present = self._connection.some_members()
        for address in [address for address in self._open if address not in present]:
            self._forget(address)
        new = [address for address in present if address not in self._open]
        if new:
            check_members({address: present[address] for address in new}, self._task.device)
            answers = self._replies(on_worker.open_site, self._task, self._n_jobs, workers=new)
            for address, answer in answers.items():
                if answer == address:
                    self._open.add(address)
                    self._held[address] = set()
                    self._direct = self._direct and self._client.sync(self._reaches, [address])
                elif isinstance(answer, (ValueError, TypeError, ImportError)):
                    raise RowsLostError(f"worker {address}: {answer}") from answer

    def _held_by_users(self, n_leaves: int) -> list[dict[str, int]]:
        """Count the chunks of every leaf that each worker holds already, because the user persisted them."""
        found: list[dict[str, int]] = [{} for _ in range(n_leaves)]
        keys = [chunk.key for chunk in self._chunks]
        with scheduler_answers(self._client):
            owners = self._client.sync(self._client.scheduler.who_has, keys=keys)
        for chunk, key in enumerate(keys):
            for address in owners.get(key, ()):
                counts = found[int(self.plan.leaf_of_chunk[chunk])]
                counts[address] = counts.get(address, 0) + 1
        return found

    def _say(self, n_workers: int) -> None:
        """Say how the rows are shared out, and what to do if workers are left over."""
        logger, n_leaves = logging.getLogger("bpfa"), self.plan.n_leaves
        logger.info(
            "%d workers hold %d chunks of %d rows; a step takes %d rows in %d shares",
            min(n_workers, n_leaves),
            self.plan.n_chunks,
            self.plan.n_rows,
            self.plan.batch_size,
            n_leaves,
        )
        if n_workers > n_leaves:
            logger.warning(
                "%d of %d workers have nothing to do: batch_size=%d and %d chunks make %d shares; a larger "
                "batch_size, or more chunks, make more",
                n_workers - n_leaves,
                n_workers,
                self.plan.batch_size,
                self.plan.n_chunks,
                n_leaves,
            )

    def _owner(self, chunk: int) -> str:
        return self._worker_of_leaf[int(self.plan.leaf_of_chunk[chunk])]

    def _read_window(self, step: int) -> None:
        """Let the workers read the chunks of the window of a step, then those of the next one."""
        place = self.plan.place(step)
        now = self.plan.chunks(place.epoch, place.window).tolist()
        soon = self.plan.chunks(*self.plan.following(place)).tolist()
        self._make_room({*now, *soon})
        for chunks in (now, soon):
            wanted: dict[str, list[int]] = {}
            for chunk in chunks:
                address = self._owner(chunk)
                if chunk not in self._held[address] and (address, chunk) not in self._reading:
                    wanted.setdefault(address, []).append(chunk)
            for address, missing in wanted.items():
                self._read(address, missing)

    def _read(self, address: str, chunks: list[int]) -> None:
        """Let a worker read chunks, without waiting for it."""
        dask = library("dask", "dask")
        tasks = [
            dask.delayed(on_worker.hold, pure=False)(
                self._fit, self._chunks[chunk], chunk, dask_key_name=f"bpfa-hold-{chunk}-{uuid.uuid4().hex}"
            )
            for chunk in chunks
        ]
        with scheduler_answers(self._client):
            futures = self._client.compute(
                tasks, workers=[address], allow_other_workers=False, retries=RETRIES
            )
        self._reading |= {(address, chunk): future for chunk, future in zip(chunks, futures, strict=True)}

    def _make_room(self, wanted: set[int]) -> None:
        """Let workers forget chunks that are not needed soon, where memory is short."""
        surplus: dict[str, list[int]] = {}
        for address, held in self._held.items():
            rows = sum(self.plan.lengths[chunk] for chunk in held | wanted if self._owner(chunk) == address)
            if rows * self.plan.n_columns * 5 > MEMORY_SHARE * self._connection.known[address].memory:
                surplus[address] = sorted(held - wanted)
            # What belongs to other workers now is not needed here.
            gone = sorted(chunk for chunk in held if self._owner(chunk) != address)
            surplus[address] = sorted({*surplus.get(address, []), *gone})
        surplus = {address: chunks for address, chunks in surplus.items() if chunks}
        if surplus:
            self._replies(on_worker.drop_chunks, surplus, workers=list(surplus))
            for address, chunks in surplus.items():
                self._held[address] -= set(chunks)

    def _await_chunks(self, step: int) -> None:
        """Wait until the chunks of a step are read, while workers may come and go."""
        import distributed

        wait: Any = distributed.wait
        place = self.plan.place(step)
        needed = set(self.plan.chunks(place.epoch, place.window).tolist())
        while waiting := {key: future for key, future in self._reading.items() if key[1] in needed}:
            with scheduler_answers(self._client):
                try:
                    with self._client.as_current():
                        wait(list(waiting.values()), timeout=LOOK_SECONDS)
                except TimeoutError:
                    present = self._connection.members()
                    if any(address not in present for address in self._open):
                        self._share_out()
                        self._read_window(step)
            for (address, chunk), future in waiting.items():
                if (address, chunk) in self._reading and future.done():
                    self._finish(address, chunk, future)

    def _finish(self, address: str, chunk: int, future: Any) -> None:
        """Note that a chunk has been read, or raise the error that says why it could not be."""
        del self._reading[address, chunk]
        if address not in self._open:
            return
        # The state is known here. To ask for the result would wait for ever if its worker has been lost.
        if future.status == "finished":
            self._held[address].add(chunk)
        elif future.status == "error":
            error = future.exception()
            # The scheduler would remember the failure for as long as someone knows the future.
            future.cancel()
            if type(error).__name__ != "KilledWorker":
                refuse_chunk(self._described(chunk), error)

    def close(self) -> None:
        """Let the workers forget the rows; that some do not answer any more does not matter."""
        for future in self._reading.values():
            future.release()
        self._reading.clear()
        self._asker.shutdown(wait=False)
        try:
            if self._client.status == "running":
                self._client.run(
                    on_worker.close_site, self._fit, workers=sorted(self._open), on_error="ignore"
                )
        except (OSError, TimeoutError, RuntimeError):
            logging.getLogger("bpfa").info("the workers could not be told that the fit has ended")


def _knows(fit: str) -> bool:
    return fit in on_worker.PLACES
