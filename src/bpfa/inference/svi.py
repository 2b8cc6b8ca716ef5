"""The general loop of stochastic variational inference: the paper's Algorithm 1."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing
from functools import partial
from itertools import count
from typing import Any, TypeVar

from bpfa._support.checks import check_instance, check_integer
from bpfa._support.philox import Stream
from bpfa.backends.cuda.graphs import StepGraphs
from bpfa.backends.cuda.posterior import DevicePosterior
from bpfa.data import Rows, read_batches
from bpfa.inference.algorithms import Algorithm
from bpfa.inference.progress import NonFiniteError, Progress
from bpfa.inference.schedule import Schedule
from bpfa.model.posterior import GlobalPosterior

__all__ = ["svi", "svi_step"]

Moving = TypeVar("Moving", bound=GlobalPosterior | DevicePosterior)


def _epochs(step: int, n_rows: int, batch_size: int) -> float:
    """Return how often the rows have been visited after a step."""
    per_epoch = -(-n_rows // batch_size)
    whole, batches_since = divmod(step, per_epoch)
    # The first batches of an epoch have one row more where the batches do not divide it evenly.
    rows_since = batches_since * (n_rows // per_epoch) + min(batches_since, n_rows % per_epoch)
    return whole + rows_since / n_rows


def svi_step(
    posterior: Moving,
    batch: Any,
    algorithm: Algorithm,
    *,
    step: int,
    rho: float,
    stream: Stream,
    graphs: StepGraphs | None = None,
) -> Moving:
    """Return the posterior after a step of size rho on a batch; `step` and the row ids key what is random.

    The batch is on the device of the posterior, or will be copied to it, and small steps of a run that has
    `graphs` are replayed there.
    """
    algorithm.check_suits(posterior, batch)
    make_step: Any = _moved if graphs is None else partial(graphs.step, _moved)
    try:
        moved: Moving = make_step(posterior, batch, algorithm, step=step, rho=rho, stream=stream)
        return moved
    except ValueError as error:
        # A posterior refuses natural parameters that are not finite, or not positive where they must be.
        raise NonFiniteError(step, posterior, str(error)) from error


def _moved(posterior: Any, batch: Any, algorithm: Algorithm, *, step: int, rho: float, stream: Stream) -> Any:
    view = algorithm.view_of(posterior, stream.child("global").globals(step))
    draws = stream.child("local").rows(batch.ids, step)
    sums = posterior.local_sums(algorithm.local, view, batch, draws)
    return posterior.step(sums, rho, view.g_o)


def svi(
    rows: Rows,
    posterior: GlobalPosterior | DevicePosterior,
    algorithm: Algorithm,
    *,
    n_steps: int | None,
    batch_size: int,
    schedule: Schedule,
    stream: Stream,
    first_step: int = 1,
) -> Generator[Progress, None, None]:
    """Run stochastic variational inference and yield its progress after every step.

    Parameters
    ----------
    rows : Rows
    posterior : GlobalPosterior or DevicePosterior
        lambda^(0), or where an earlier run stood. On a device, steps are queued and not waited for.
    algorithm : Algorithm
    n_steps : int or None
        Steps to make; None for ever, until the caller stops.
    batch_size : int
        Rows of a batch; more than there are means all of them.
    schedule : Schedule
    stream : Stream
        Where every random number comes from.
    first_step : int
        Number of the first step; a run that goes on from the posterior of step t starts at t + 1 and repeats
        what an uninterrupted run would have done.

    Yields
    ------
    Progress

    Examples
    --------
    >>> from bpfa import draw_data, ArrayRows, algorithm
    >>> from bpfa.inference.starts import random_posterior
    >>> rows = ArrayRows(draw_data(200, 5, 2, g_o=100.0, g_w=1.0, seed=0).y)
    >>> steps = svi(rows, random_posterior(rows, 4, seed=0), algorithm("mf-ssvi"), n_steps=3, batch_size=50,
    ...             schedule=Schedule(), stream=Stream.from_seed(0))
    >>> [progress.step for progress in steps]
    [1, 2, 3]
    """
    n_steps = None if n_steps is None else check_integer("n_steps", n_steps, low=1)
    batch_size = check_integer("batch_size", batch_size, low=1)
    first_step = check_integer("first_step", first_step, low=1)
    check_instance("rows", rows, Rows)
    if not isinstance(posterior, DevicePosterior):
        check_instance("posterior", posterior, GlobalPosterior)
    check_instance("algorithm", algorithm, Algorithm)
    if posterior.n_columns != rows.n_columns or posterior.n_rows != rows.n_rows:
        raise ValueError(
            f"posterior: for {posterior.n_rows} rows of {posterior.n_columns} columns; "
            f"expected {rows.n_rows} rows of {rows.n_columns} columns, as the data has"
        )
    seconds = 0.0
    graphs = StepGraphs() if isinstance(posterior, DevicePosterior) else None
    # Closed with this generator, so that nothing goes on reading ahead.
    with closing(read_batches(rows, batch_size, stream, first_step)) as batches:
        for step in count(first_step) if n_steps is None else range(first_step, first_step + n_steps):
            started, rho = time.perf_counter(), schedule(step)
            batch = next(batches)
            posterior = svi_step(
                posterior, batch, algorithm, step=step, rho=rho, stream=stream, graphs=graphs
            )
            seconds += time.perf_counter() - started
            yield Progress(step, _epochs(step, rows.n_rows, batch_size), seconds, rho, posterior)
