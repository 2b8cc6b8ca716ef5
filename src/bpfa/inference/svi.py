"""The general loop of stochastic variational inference: the paper's Algorithm 1."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import AbstractContextManager, closing
from typing import Any

from bpfa._support.checks import check_instance
from bpfa._support.philox import Stream
from bpfa.backends.protocol import PlacedPosterior, Step, Workspace
from bpfa.data import Rows, as_source
from bpfa.data.remote import RemoteRows, RowsLostError, origin_of
from bpfa.data.visits import Visits
from bpfa.inference.algorithms import Algorithm
from bpfa.inference.progress import NonFiniteError, Progress, step_numbers
from bpfa.inference.schedule import Schedule
from bpfa.model.local import local_sums
from bpfa.model.posterior import GlobalPosterior

__all__ = ["svi", "svi_step"]


def svi_step(
    posterior: PlacedPosterior,
    batch: Any,
    algorithm: Algorithm,
    *,
    step: int,
    rho: float,
    stream: Stream,
    workspace: Workspace | None = None,
) -> Any:
    """Return the posterior after a step of size rho on a batch.

    All random numbers of the step are keyed by `step` and the ids of the rows. The batch is in the same
    memory as the posterior, or is copied there. The workspace of a run may replay a step that it has
    recorded.
    """
    algorithm.check_suits(posterior, batch)
    try:
        this_step = Step(algorithm, step, rho, stream)
        return (workspace or Workspace()).step(_posterior_after, posterior, batch, this_step)
    except RowsLostError:
        raise
    except ValueError as error:
        # A posterior refuses natural parameters that are not finite, or not positive where they must be.
        raise NonFiniteError(step, posterior.host(), str(error)) from error


def _posterior_after(posterior: PlacedPosterior, batch: Any, step: Step) -> Any:
    """Make a step of any algorithm: view the globals, take the sums of the rows, move the posterior."""
    view = step.algorithm.view_of(posterior, step.stream.child("global").globals(step.number))
    draws = step.stream.child("local").rows(batch.ids, step.number)
    sums = local_sums(step.algorithm.local, view, batch, draws, joint=posterior.joint)
    return posterior.step(sums, step.rho, view.g_o)


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
        On a GPU, steps are queued without waiting for their results.
    visits : Visits
        Which rows each step visits.
    n_steps : int or None
        Number of steps; None for as many as there are visits, which may never end.
    schedule : Schedule
    stream : Stream
        The source of every random number.
    first_step : int
        Number of the first step. A run that continues from the posterior of step t starts at t + 1, and makes
        the same steps as an uninterrupted run.

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
    steps = step_numbers(n_steps, first_step)
    check_instance("algorithm", algorithm, Algorithm)
    _check_posterior(posterior, rows, visits)
    seconds = 0.0
    with _workspace(rows, algorithm, visits) as workspace:
        state = workspace.place_posterior(posterior)
        placed = workspace.place_rows(rows) if visits.repeated else rows
        # The batches are closed together with this generator, so that nothing continues to read ahead.
        with closing(workspace.batches(visits, placed, first_step)) as batches:
            for step in steps:
                started, rho = time.perf_counter(), schedule(step)
                batch = next(batches, None)
                if batch is None:
                    return
                state = svi_step(
                    state, batch, algorithm, step=step, rho=rho, stream=stream, workspace=workspace
                )
                seconds += time.perf_counter() - started
                yield Progress(step, visits.epochs(rows, step), seconds, rho, state)


def _workspace(rows: Rows, algorithm: Algorithm, visits: Visits) -> AbstractContextManager[Workspace]:
    """Return where a run takes place: on the device of the algorithm, or where the rows are."""
    origin = origin_of(rows)
    if visits.repeated and isinstance(origin, RemoteRows):
        return origin.workspace(as_source("rows", rows), algorithm, visits)
    return algorithm.backend.workspace(algorithm.device, algorithm.local)


def _check_posterior(posterior: GlobalPosterior, rows: Rows, visits: Visits) -> None:
    """Refuse a posterior that is not for rows like these."""
    check_instance("rows", rows, Rows)
    check_instance("posterior", posterior, GlobalPosterior)
    n_rows, n_columns = visits.n_rows(rows), rows.n_columns
    if (posterior.n_rows, posterior.n_columns) != (n_rows, n_columns):
        raise ValueError(
            f"posterior: for {posterior.n_rows} rows of {posterior.n_columns} columns; "
            f"expected {n_rows} rows of {n_columns} columns, as the data has"
        )
