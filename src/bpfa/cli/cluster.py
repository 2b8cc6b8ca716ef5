"""The options --scheduler and --workers: the cluster that a command uses, if any."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import typer
from rich.table import Table

import bpfa
from bpfa._support.optional import library
from bpfa.cli.declared import WrongOption, option
from bpfa.cluster.collections import PURPOSE
from bpfa.cluster.health import greeted, problems_of

__all__ = ["CLUSTER", "SCHEDULER", "client_of", "cluster_facts", "cluster_table"]

SCHEDULER = option(
    "scheduler",
    str | None,
    None,
    metavar="ADDRESS",
    help="Address of a Dask scheduler, such as tcp://10.0.0.1:8786, whose workers do the work.",
)
CLUSTER = (
    SCHEDULER,
    option("workers", int | None, None, help="Start so many worker processes on this machine. [x>=1]"),
)
"""Which machines do the work; by default this process alone."""

# Seconds to wait for a scheduler that does not answer.
TIMEOUT = 10


@contextmanager
def client_of(context: typer.Context) -> Iterator[Any]:
    """Yield a client of the cluster that a command is to use, or None."""
    scheduler, workers = context.params["scheduler"], context.params.get("workers")
    if scheduler is None and workers is None:
        yield None
        return
    if scheduler is not None and workers is not None:
        raise WrongOption("--scheduler and --workers: expected at most one of them")
    distributed = library("distributed", "dask", purpose=PURPOSE)
    if scheduler is not None:
        with _connected(distributed, scheduler) as client:
            yield client
        return
    if workers is None or workers < 1:
        raise WrongOption(f"--workers {workers}: expected an integer >= 1")
    threads = max(1, (os.cpu_count() or 1) // workers)
    with (
        distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=threads,
            dashboard_address=":0",
            silence_logs=logging.ERROR,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@contextmanager
def _connected(distributed: Any, address: str) -> Iterator[Any]:
    """Yield a client of a scheduler, or raise an error that says that there is none."""
    try:
        client = distributed.Client(address, timeout=TIMEOUT)
    except (OSError, TimeoutError, ValueError) as error:
        raise ValueError(
            f"--scheduler {address}: no answer ({str(error).splitlines()[0]}); expected the address of a "
            "running Dask scheduler"
        ) from error
    with client:
        yield client


def cluster_facts(client: Any) -> dict[str, Any]:
    """Return what the workers of a cluster are, what is wrong with them, and how long a step takes."""
    addresses = list(client.nthreads())
    if not addresses:
        raise ValueError("--scheduler: the scheduler has no workers; expected at least one")
    members = greeted(client, addresses)
    dask_array = library("dask.array", "dask", purpose=PURPOSE)
    values = np.random.default_rng(0).normal(size=(2048 * len(addresses), 16)).astype(np.float32)
    lazy = dask_array.from_array(values, chunks=(1024, 16))
    seconds: list[float] = []

    def note(progress: Any, history: Any) -> None:
        seconds.append(time.perf_counter())

    problems = problems_of(members)
    if not problems:
        bpfa.BPFA(
            8, max_steps=30, batch_size=len(values), random_state=0, groups=False, features="factorised"
        ).fit(lazy, client=client, callbacks=[note])
    return {
        "workers": {address: member._asdict() for address, member in members.items()},
        "problems": problems,
        "step_milliseconds": 1e3 * float(np.median(np.diff(seconds))) if seconds else None,
    }


def cluster_table(facts: dict[str, Any]) -> Table:
    """Return the workers of a cluster as a table for people."""
    table = Table.grid(padding=(0, 2))
    for address, member in facts["workers"].items():
        card = member["card"] or "no GPU"
        table.add_row(
            address,
            f"bpfa {member['version']}",
            f"{member['n_threads']} threads",
            f"{member['memory'] / 2**30:.1f} GiB",
            member["instruction_set"],
            card,
        )
    for problem in facts["problems"]:
        table.add_row("PROBLEM", problem)
    if facts["step_milliseconds"] is not None:
        table.add_row("a step of 2,048 rows a worker", f"{facts['step_milliseconds']:.1f} ms")
    return table
