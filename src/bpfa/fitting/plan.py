"""The plan of a run: an immutable description that is complete before the first step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.data import Batch, HeldOutRows, Rows, StandardisedRows, Visits, sample_ids
from bpfa.data.batches import BatchEffects
from bpfa.data.scaling import Scale
from bpfa.data.sketch import EntrySketch
from bpfa.fitting.history import History
from bpfa.fitting.limits import Limits
from bpfa.inference.settings import Settings
from bpfa.model.posterior import Posterior

if TYPE_CHECKING:
    from bpfa.fitting.run import Outcome

__all__ = ["Best", "HeldOut", "Plan", "Standing", "held_out_sample"]

# Held-out entries are scored in a sample of this many rows.
SCORED_ROWS = 1000


class HeldOut(NamedTuple):
    """Rows with held-out entries: as the model sees them, and with their true values."""

    batch: Batch
    truth: Array
    mask: NDArray[np.bool_]
    """True where an entry is held out."""


class Best(NamedTuple):
    """The posterior with the best held-out score so far."""

    step: int
    log_likelihood: float
    posterior: Posterior


@dataclass(frozen=True)
class Standing:
    """The point that an earlier run with the same settings has reached; by default, the start."""

    step: int = 0
    posterior: Posterior | None = None
    history: dict[str, NDArray[np.generic]] | None = None
    best: Best | None = None


@dataclass(frozen=True)
class Plan:
    """Everything that a run needs to know before its first step.

    Parameters
    ----------
    rows : Rows
        The data as the model sees it: in its units, and without the held-out entries.
    visits : Visits
        Determines which rows each step visits.
    settings : Settings
    limits : Limits
    scale : Scale
        The units of the model.
    held_out : HeldOut or None
        The entries that are scored at intervals.
    standing : Standing
        The point from which the run continues.
    column_names : array of str, optional
    data_digest : str, optional
        Digest of the data, if the run is a fit to a whole data set.
    sketch : EntrySketch, optional
        A sample of the entries that the model sees, over all runs.
    spared : boolean array, optional
        Columns of which nothing is held out, because no entry of them would be left.
    n_jobs : int, optional
        Number of threads.
    converted : callable, optional
        Turns the outcome of a model of the transposed table into that of a model of the table.
    batches : BatchEffects, optional
        The effects of batches, which `rows` do not have any more.
    """

    rows: Rows
    visits: Visits
    settings: Settings
    limits: Limits
    scale: Scale
    held_out: HeldOut | None
    standing: Standing
    column_names: NDArray[np.object_] | None = None
    data_digest: str | None = None
    sketch: EntrySketch | None = None
    spared: NDArray[np.bool_] | None = None
    n_jobs: int | None = None
    converted: Callable[[Outcome], Outcome] | None = None
    batches: BatchEffects | None = None

    def history(self) -> History:
        """Return a new history that continues the one of the earlier run."""
        return History(self.standing.history)


def held_out_sample(rows: StandardisedRows, settings: Settings) -> HeldOut | None:
    """Return a sample of rows whose held-out entries are to be scored during the fit, or None.

    None means that nothing is held out, or nothing but a few entries to judge the model by after the fit.

    Parameters
    ----------
    rows : StandardisedRows
        Standardised `HeldOutRows` if entries are held out to be scored.
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
