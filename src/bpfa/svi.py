"""The general loop of stochastic variational inference: the paper's Algorithm 1."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bpfa._checks import check_instance, check_integer
from bpfa.algorithms import Algorithm
from bpfa.data import Rows
from bpfa.philox import Stream
from bpfa.posterior import GlobalPosterior
from bpfa.progress import NonFiniteError, Progress
from bpfa.schedule import Schedule

__all__ = ["batches", "svi"]


def batches(n_rows: int, batch_size: int, stream: Stream, first_step: int = 1) -> Iterator[NDArray[np.int64]]:
    """Yield the row ids of the batch of every step, for ever, from `first_step` on.

    Every epoch goes through a new permutation of the rows, cut into batches whose sizes differ by one at the
    most. The batch of a step depends on the stream and the step alone.

    Examples
    --------
    >>> ids = batches(5, 2, Stream.from_seed(0))
    >>> sorted(int(i) for _ in range(3) for i in next(ids))
    [0, 1, 2, 3, 4]
    """
    per_epoch = -(-n_rows // batch_size)
    epoch, skip = divmod(first_step - 1, per_epoch)
    shuffles = stream.child("batches")
    while True:
        permutation = shuffles.generator(epoch).permutation(n_rows)
        yield from np.array_split(permutation, per_epoch)[skip:]
        epoch, skip = epoch + 1, 0


def _epochs(step: int, n_rows: int, batch_size: int) -> float:
    """Return how often the rows have been visited after a step."""
    per_epoch = -(-n_rows // batch_size)
    whole, batches_since = divmod(step, per_epoch)
    # The first batches of an epoch have one row more where the batches do not divide it evenly.
    rows_since = batches_since * (n_rows // per_epoch) + min(batches_since, n_rows % per_epoch)
    return whole + rows_since / n_rows


def svi(
    rows: Rows,
    posterior: GlobalPosterior,
    algorithm: Algorithm,
    *,
    n_steps: int,
    batch_size: int,
    schedule: Schedule,
    stream: Stream,
    first_step: int = 1,
) -> Iterator[Progress]:
    """Run stochastic variational inference and yield its progress after every step.

    Parameters
    ----------
    rows : Rows
    posterior : GlobalPosterior
        lambda^(0), or where an earlier run stood.
    algorithm : Algorithm
    n_steps : int
        Steps to make.
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
    >>> from bpfa.initialise import random_posterior
    >>> rows = ArrayRows(draw_data(200, 5, 2, g_o=100.0, g_w=1.0, seed=0).y)
    >>> steps = svi(rows, random_posterior(rows, 4, seed=0), algorithm("mf-ssvi"), n_steps=3, batch_size=50,
    ...             schedule=Schedule(), stream=Stream.from_seed(0))
    >>> [progress.step for progress in steps]
    [1, 2, 3]
    """
    n_steps = check_integer("n_steps", n_steps, low=1)
    batch_size = check_integer("batch_size", batch_size, low=1)
    first_step = check_integer("first_step", first_step, low=1)
    check_instance("rows", rows, Rows)
    check_instance("posterior", posterior, GlobalPosterior)
    check_instance("algorithm", algorithm, Algorithm)
    if posterior.n_columns != rows.n_columns or posterior.n_rows != rows.n_rows:
        raise ValueError(
            f"posterior: for {posterior.n_rows} rows of {posterior.n_columns} columns; "
            f"expected {rows.n_rows} rows of {rows.n_columns} columns, as the data has"
        )
    local_stream, global_stream = stream.child("local"), stream.child("global")
    ids_of_steps = batches(rows.n_rows, batch_size, stream, first_step)
    seconds = 0.0
    for step, ids in zip(range(first_step, first_step + n_steps), ids_of_steps, strict=False):
        started, rho = time.perf_counter(), schedule(step)
        batch = rows.take(ids)
        algorithm.check_suits(posterior, batch)
        try:
            view = algorithm.view_of(posterior, global_stream.generator(step))
            sums = posterior.local_sums(algorithm.local, view, batch, local_stream.rows(ids, step))
            posterior = posterior.step(sums, rho, view.g_o)
        except ValueError as error:
            # A posterior refuses natural parameters that are not finite, or not positive where they must be.
            raise NonFiniteError(step, posterior, str(error)) from error
        seconds += time.perf_counter() - started
        yield Progress(step, _epochs(step, rows.n_rows, batch_size), seconds, rho, posterior)
