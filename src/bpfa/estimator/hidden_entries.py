"""Which entries a fitted model is judged by, and whether its fit has seen them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import Batch, HeldOutRows, RowSource, StandardisedRows
from bpfa.data.batches import BatchedRows
from bpfa.data.held_out import MaskedRows, RowsWithHeldOut
from bpfa.data.remote import rebased
from bpfa.estimator.visible import held_out_rows
from bpfa.fitting.data_digest import data_digest
from bpfa.fitting.run import Outcome

__all__ = ["HELD_OUT", "SEEN", "UNKNOWN", "HiddenEntries", "SeenInFitWarning", "warn_of_seen_entries"]

HELD_OUT, SEEN, UNKNOWN = "held out", "seen in the fit", "perhaps seen in the fit"
"""What the diagnostics call the entries that a model is judged by."""
# The share of the entries that are hidden from the model where the fit has held out none, and the seed that
# chooses them.
HIDDEN_SHARE, HIDDEN_SEED = 0.1, 0
# Entries count as seen if more than this share of those that can be checked is known from the fit. A few may
# be equal by chance, or because some records are in a table twice.
MOST_KNOWN = 0.05


class SeenInFitWarning(UserWarning):
    """A model was judged by entries that it has learned from, so that the figures are too good."""


class HiddenEntries:
    """The entries of a table that a model does not see while it predicts them.

    Parameters
    ----------
    rows : RowSource
        The table, in the units of the data.
    outcome : Outcome
        The fit.
    held_out : boolean array-like, optional
        True at the entries to hide. By default they are those that the fit has held out, if the table is the
        data of the fit, and otherwise a tenth of the entries, the same ones for every model.
    """

    def __init__(self, rows: RowSource, outcome: Outcome, held_out: Any = None) -> None:
        self._rows, self._outcome, self._masked = rows, outcome, held_out is not None
        self._is_data_of_fit = (
            outcome.data_digest is not None
            and rows.n_rows == outcome.n_rows_seen
            and data_digest(rows) == outcome.data_digest
        )
        own = held_out_rows(rows, outcome.settings, outcome.spared) if self._is_data_of_fit else None
        self._held_out_by_fit = own
        self._source: RowsWithHeldOut
        if held_out is not None:
            self._source = MaskedRows(rows, held_out)
        elif own is not None:
            self._source = own
        else:
            self._source = HeldOutRows(rows, HIDDEN_SHARE, Stream.from_seed(HIDDEN_SEED))
        self._has_held_out, self._is_part = own is not None, False
        self._n_hidden = self._n_compared = self._n_known = self._n_not_held_out = self._n_rows = 0

    def blocks(self, block_rows: int, unit: Array) -> Iterator[tuple[Batch, Array, NDArray[np.bool_]]]:
        """Yield blocks of rows without and with the hidden entries, in units of the model, and the mask."""
        standardised = StandardisedRows(self._rows, self._outcome.scale.mean, unit)
        for first in range(0, self._rows.n_rows, block_rows):
            whole = self._rows.read(first, min(first + block_rows, self._rows.n_rows))
            mask = self._source.mask(whole)
            self._count(whole, mask)
            yield standardised.mapped(whole.without(mask)), standardised.mapped(whole).values, mask
        if not self._is_part:
            self.check_some()

    def check_some(self) -> None:
        """Raise an error if no entry was hidden in the blocks that have been read."""
        if not self._n_hidden:
            name, expected = (
                ("held_out", "one") if self._masked else ("X", "more of them, or a mask held_out=...")
            )
            raise ValueError(f"{name}: no entry is held out among {self._n_rows} rows; expected {expected}")

    def moved_to(self, part: RowSource | None) -> HiddenEntries:
        """Return the same entries of a part of the rows, of which none has been read; the counts are kept.

        Parameters
        ----------
        part : RowSource or None
            With the ids that its rows have in the whole; None for the counts alone.
        """
        moved = copy.copy(self)
        moved._is_part = True
        if part is None:
            moved._rows = moved._source = moved._held_out_by_fit = None  # type: ignore[assignment]
        else:
            moved._rows, moved._source = part, _rebased(self._source, part)
            own = self._held_out_by_fit
            moved._held_out_by_fit = None if own is None else _rebased(own, part)
        return moved

    def merged(self, more: HiddenEntries) -> HiddenEntries:
        """Return the counts of both parts."""
        both = copy.copy(self)
        for name in ("_n_hidden", "_n_compared", "_n_known", "_n_not_held_out", "_n_rows"):
            setattr(both, name, getattr(self, name) + getattr(more, name))
        return both

    def _count(self, whole: Batch, mask: NDArray[np.bool_]) -> None:
        """Count the hidden entries of a block, and those that the fit has seen."""
        self._n_hidden += int(mask.sum())
        self._n_rows += len(whole)
        own, sketch = self._held_out_by_fit, self._outcome.sketch
        if own is not None:
            self._n_not_held_out += int((mask & ~own.mask(whole)).sum())
        elif not self._is_data_of_fit and sketch is not None:
            # If the user says which entries to hide, the fit may have seen the rest of these rows.
            compared, known = sketch.compared(whole.values, whole.observed, mask if self._masked else True)
            self._n_compared, self._n_known = self._n_compared + compared, self._n_known + known

    def scales(self, ids: NDArray[np.int64]) -> Array:
        """Return the noise scales of the batches of some rows."""
        if not isinstance(self._rows, BatchedRows):
            return np.ones(len(ids))
        return self._rows.effects.scales_of(self._rows.codes[ids])

    @property
    def label(self) -> str:
        """What the hidden entries are to the fit, once all blocks have been read."""
        if self._has_held_out:
            return SEEN if self._n_not_held_out else HELD_OUT
        if self._is_data_of_fit:
            return SEEN
        if self._outcome.sketch is None:
            return UNKNOWN
        return SEEN if self._n_known > MOST_KNOWN * self._n_compared else HELD_OUT


def _rebased(rows: RowsWithHeldOut, part: RowSource) -> RowsWithHeldOut:
    moved = rebased(rows, part)
    assert isinstance(moved, RowsWithHeldOut)
    return moved


def warn_of_seen_entries(label: str) -> None:
    """Warn if a score is not one of entries that the fit has not seen."""
    if label == HELD_OUT:
        return
    warnings.warn(
        f"X: these entries were {label}, so that the score is too good; expected other rows, or a fit with "
        "held_out > 0, which is then scored by what it has held out",
        SeenInFitWarning,
        # The line that called `score` or `held_out_score`.
        stacklevel=3,
    )
