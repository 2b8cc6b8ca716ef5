"""What a run is to do: a frozen description that is complete before the first step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.data import Batch, HeldOutRows, Rows, StandardisedRows, Visits, sample_ids
from bpfa.data.scaling import Scale
from bpfa.fitting.history import History
from bpfa.fitting.limits import Limits
from bpfa.inference.settings import Settings
from bpfa.model.posterior import Posterior

__all__ = ["Best", "HeldOut", "Plan", "Standing", "held_out_sample"]

# Held-out entries are scored in this many rows.
SCORED_ROWS = 1000


class HeldOut(NamedTuple):
    """Rows of which some entries are held out, as the model sees them, and the truth."""

    batch: Batch
    truth: Array
    mask: NDArray[np.bool_]
    """True where an entry is held out."""


class Best(NamedTuple):
    """The posterior that has predicted held-out entries best so far."""

    step: int
    log_likelihood: float
    posterior: Posterior


@dataclass(frozen=True)
class Standing:
    """Where an earlier run of the same settings stood; by default at the start."""

    step: int = 0
    posterior: Posterior | None = None
    history: dict[str, NDArray[np.generic]] | None = None
    best: Best | None = None


@dataclass(frozen=True)
class Plan:
    """A run, before its first step.

    Parameters
    ----------
    rows : Rows
        As the model sees them: in its units, and without what is held out.
    visits : Visits
        Which rows each step visits.
    settings : Settings
    limits : Limits
    scale : Scale
        The units of the model.
    held_out : HeldOut or None
        What is scored now and then.
    standing : Standing
        Where an earlier run stood.
    n_rows_seen : int
        Rows that the model has seen when the run has ended.
    column_names : array of str, optional
    n_jobs : int, optional
        Threads.
    """

    rows: Rows
    visits: Visits
    settings: Settings
    limits: Limits
    scale: Scale
    held_out: HeldOut | None
    standing: Standing
    n_rows_seen: int
    column_names: NDArray[np.object_] | None = None
    n_jobs: int | None = None

    def history(self) -> History:
        """Return a new history that goes on from where the earlier run stood."""
        return History(self.standing.history)


def held_out_sample(rows: StandardisedRows, settings: Settings) -> HeldOut | None:
    """Return some rows whose held-out entries are to be scored; None where nothing is held out.

    Parameters
    ----------
    rows : StandardisedRows
        Of `HeldOutRows`, where entries are held out.
    settings : Settings
    """
    source = rows.rows
    if not isinstance(source, HeldOutRows):
        return None
    ids = sample_ids(rows, SCORED_ROWS, settings.stream.child("held out").generator(0))
    batch, truth, mask = source.take_held_out(ids)
    if not mask.any():
        raise ValueError(
            f"held_out={settings.held_out}: no entry of {rows.n_rows} x {rows.n_columns} is held out; "
            "expected a larger share, or 0"
        )
    whole = Batch(truth, batch.observed | mask, ids)
    return HeldOut(rows.mapped(batch), rows.mapped(whole).values, mask)
