"""The workers of a client of Dask as those who read chunks and hold the rows of fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bpfa._support.optional import library
from bpfa.cluster.calls import Call, Described, refuse_chunk
from bpfa.cluster.connection import RETRIES, Connection, scheduler_answers
from bpfa.cluster.health import check_members
from bpfa.cluster.site import Task
from bpfa.cluster.workers import WorkerTeam
from bpfa.cluster.workspace import Team

__all__ = ["Cluster"]

# The chunks that are looked at, or sampled, at a time.
CALLS_AT_A_TIME = 256


class Cluster:
    """The workers of a client of `dask.distributed`.

    Parameters
    ----------
    client : distributed.Client
    n_jobs : int, optional
        Number of threads of the local steps on a worker; by default as many as the worker has.
    """

    def __init__(self, client: Any, n_jobs: int | None = None) -> None:
        self._connection, self._n_jobs = Connection(client), n_jobs

    def results(self, calls: Sequence[Call], names: Sequence[str]) -> list[Any]:
        """Return the results of calls, which are made on any workers."""
        dask = library("dask", "dask")
        found: list[Any] = []
        client = self._connection.client
        # A worker without bpfa would be lost by the first task that it cannot read, without a word.
        self._connection.some_members()
        for first in range(0, len(calls), CALLS_AT_A_TIME):
            some = calls[first : first + CALLS_AT_A_TIME]
            with scheduler_answers(client):
                tasks = [dask.delayed(function, pure=False)(*arguments) for function, *arguments in some]
                futures = client.compute(tasks, retries=RETRIES)
                for future, name in zip(futures, names[first:], strict=False):
                    error = future.exception()
                    if error is not None:
                        # The scheduler would remember the failure for as long as someone knows the future.
                        client.cancel(futures)
                        refuse_chunk(name, error)
                    found.append(future.result())
        return found

    def device(self, device: str) -> str:
        """Return on which kind of device the workers run the local steps."""
        return check_members(self._connection.some_members(), device)

    def team(self, task: Task, chunks: Sequence[Any], described: Described) -> Team:
        """Return the workers as a team that holds the rows of a fit."""
        return WorkerTeam(self._connection, task, chunks, described, self._n_jobs)
