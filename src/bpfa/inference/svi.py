"""The general loop of stochastic variational inference: the paper's Algorithm 1."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing
from itertools import count
from typing import Any

from bpfa._support.checks import check_instance, check_integer
from bpfa._support.philox import Stream
from bpfa.backends.protocol import Workspace
from bpfa.data import Rows
from bpfa.data.visits import Visits
from bpfa.inference.algorithms import Algorithm
from bpfa.inference.progress import NonFiniteError, Progress
from bpfa.inference.schedule import Schedule
from bpfa.model.local import local_sums
from bpfa.model.posterior import GlobalPosterior

__all__ = ["svi", "svi_step"]


def svi_step(
    posterior: Any,
    batch: Any,
    algorithm: Algorithm,
    *,
    step: int,
    rho: float,
    stream: Stream,
    workspace: Workspace | None = None,
) -> Any:
    """Return the posterior after a step of size rho on a batch; `step` and the row ids key what is random.

    The batch is where the posterior is, or will be copied there. The workspace of a run may replay a step
    that it has recorded.
    """
    algorithm.check_suits(posterior, batch)
    try:
        return (workspace or Workspace()).step(
            _moved, posterior, batch, algorithm, step=step, rho=rho, stream=stream
        )
    except ValueError as error:
        # A posterior refuses natural parameters that are not finite, or not positive where they must be.
        raise NonFiniteError(step, posterior.host(), str(error)) from error


def _moved(posterior: Any, batch: Any, algorithm: Algorithm, *, step: int, rho: float, stream: Stream) -> Any:
    """View the globals, take the sums of the rows, move the posterior: one step of every algorithm."""
    view = algorithm.view_of(posterior, stream.child("global").globals(step))
    draws = stream.child("local").rows(batch.ids, step)
    sums = local_sums(algorithm.local, view, batch, draws, joint=posterior.joint)
    return posterior.step(sums, rho, view.g_o)


def svi(
    rows: Rows,
    posterior: GlobalPosterior,
    algorithm: Algorithm,
    *,
    visits: Visits,
    n_steps: int | None,
    schedule: Schedule,
    stream: Stream,
    first_step: int = 1,
) -> Generator[Progress, None, None]:
    """Run stochastic variational inference and yield its progress after every step.

    Parameters
    ----------
    rows : Rows
    posterior : GlobalPosterior
        lambda^(0), or the posterior that an earlier run reached.
    algorithm : Algorithm
        On a GPU, steps are queued and not waited for.
    visits : Visits
        Which rows a step visits.
    n_steps : int or None
        Steps to make; None for as many as the visits have, which may be without end.
    schedule : Schedule
    stream : Stream
        The source of every random number.
    first_step : int
        Number of the first step. A run that goes on from the posterior of step t starts at t + 1, and repeats
        what an uninterrupted run would have done.

    Yields
    ------
    Progress

    Examples
    --------
    >>> from bpfa import draw_data, ArrayRows, algorithm
    >>> from bpfa.data import ShuffledEpochs
    >>> from bpfa.inference.starts import random_posterior
    >>> rows, stream = ArrayRows(draw_data(200, 5, 2, g_o=100.0, g_w=1.0, seed=0).y), Stream.from_seed(0)
    >>> steps = svi(rows, random_posterior(rows, 4, seed=0), algorithm("mf-ssvi"), n_steps=3,
    ...             visits=ShuffledEpochs(50, stream), schedule=Schedule(), stream=stream)
    >>> [progress.step for progress in steps]
    [1, 2, 3]
    """
    n_steps = None if n_steps is None else check_integer("n_steps", n_steps, low=1)
    first_step = check_integer("first_step", first_step, low=1)
    check_instance("rows", rows, Rows)
    check_instance("posterior", posterior, GlobalPosterior)
    check_instance("algorithm", algorithm, Algorithm)
    expected = visits.n_rows(rows), rows.n_columns
    if (posterior.n_rows, posterior.n_columns) != expected:
        raise ValueError(
            f"posterior: for {posterior.n_rows} rows of {posterior.n_columns} columns; "
            f"expected {expected[0]} rows of {expected[1]} columns, as the data has"
        )
    seconds = 0.0
    with algorithm.backend.workspace(algorithm.device, algorithm.local) as workspace:
        state = workspace.place_posterior(posterior)
        placed = workspace.place_rows(rows) if visits.repeated else rows
        # The batches are closed together with this generator, so that nothing goes on reading ahead.
        with closing(visits.batches(placed, first_step)) as batches:
            for step in count(first_step) if n_steps is None else range(first_step, first_step + n_steps):
                started, rho = time.perf_counter(), schedule(step)
                batch = next(batches, None)
                if batch is None:
                    return
                state = svi_step(
                    state, batch, algorithm, step=step, rho=rho, stream=stream, workspace=workspace
                )
                seconds += time.perf_counter() - started
                yield Progress(step, visits.epochs(rows, step), seconds, rho, state)
