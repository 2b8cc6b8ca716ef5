"""The loop's side of a step whose rows are elsewhere: a batch that stands for them, and who is asked."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bpfa._support.philox import RowDraws
from bpfa.backends.protocol import MakeStep, Step, Workspace
from bpfa.cluster.plan import ChunkPlan
from bpfa.cluster.site import Work
from bpfa.data import Rows, Visits
from bpfa.inference.algorithms import Algorithm
from bpfa.model.local import RowStart
from bpfa.model.view import GlobalView

__all__ = ["ClusterWorkspace", "Team"]


class Team(Protocol):
    """Those who hold the rows of a fit."""

    @property
    def plan(self) -> ChunkPlan:
        """Which rows each step visits."""

    def sums(self, work: Work) -> Any:
        """Return the sums over all rows of a step."""

    def close(self) -> None:
        """Forget the rows."""


class RemoteBatch(NamedTuple):
    """The batch of a step whose rows are elsewhere."""

    step: int
    n_columns: int
    ids: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    """None of them are known here."""
    complete: bool = True
    """Whether entries are missing is seen where the rows are."""

    def padded_to(self, n_columns: int) -> RemoteBatch:
        """Return the batch as it is: rows are padded where they are."""
        return self


class RemoteLocal(NamedTuple):
    """A local method that runs where the rows are. It offers no more than the loop asks for."""

    team: Team

    def sums(
        self,
        view: GlobalView,
        batch: RemoteBatch,
        draws: RowDraws,
        start: RowStart = None,
        *,
        joint: bool = False,
    ) -> Any:
        """Return the sums over the rows of a batch."""
        sent = np.float32 if self.team.plan.n_chunks > 1 else np.float64
        phi, v, logit = (array.astype(sent) for array in (view.phi, view.v, view.logit))
        return self.team.sums(Work(batch.step, draws.key, joint, phi, v, logit, view.g_o, view.g_w))


class RemoteAlgorithm(Algorithm):
    """An algorithm whose view of the globals is rounded to what is sent of it."""

    def view_of(self, posterior: Any, rng: Any) -> GlobalView:
        """Return the view that the rows are visited under, in single precision.

        The fit of a single chunk is that of the same rows in memory, and its view is not rounded.
        """
        view: GlobalView = super().view_of(posterior, rng)
        local: Any = self.local
        if local.team.plan.n_chunks == 1:
            return view
        phi, v, logit = (array.astype(np.float32).astype(np.float64) for array in view[:3])
        return GlobalView(phi, v, logit, view.g_o, view.g_w)


class ClusterWorkspace(Workspace):
    """The workspace of a run whose rows are elsewhere, and whose posterior is in the memory of this process.

    Parameters
    ----------
    team : Team
    """

    def __init__(self, team: Team) -> None:
        self._team = team

    def place_rows(self, rows: Rows) -> Rows:
        """Return the rows, which stay where they are."""
        return rows

    def batches(self, visits: Visits, rows: Rows, first_step: int) -> Generator[Any, None, None]:
        """Yield a batch that stands for the rows of a step, from this step on."""
        step = first_step
        while True:
            yield RemoteBatch(step, rows.n_columns)
            step += 1

    def step(self, make_step: MakeStep, posterior: Any, batch: Any, step: Step) -> Any:
        """Return the posterior after a step, for which the sums are taken where the rows are."""
        local: Any = RemoteLocal(self._team)
        remote = RemoteAlgorithm(*step.algorithm._replace(local=local))
        return make_step(posterior, batch, replace(step, algorithm=remote))
