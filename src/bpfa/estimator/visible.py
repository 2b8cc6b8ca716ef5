"""What a fit sees of its data: the entries that are not held out, and the columns that they make up."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa.data import Batch, FewHeldOutRows, HeldOutRows, Rows, column_moments
from bpfa.data.held_out import RowsWithHeldOut
from bpfa.data.patches import PatchRows
from bpfa.data.scaling import Scale
from bpfa.data.sketch import EntrySketch, SketchedRows
from bpfa.inference.settings import Settings
from bpfa.selection.defaults import default_held_out

__all__ = ["Visible", "column_scale", "held_out_rows", "sketch_after", "visible_rows", "with_default_share"]


class Visible(NamedTuple):
    """The part of a data set that a fit sees."""

    rows: Rows
    """The data without the entries that are held out."""
    scale: Scale
    """Mean and scale of its columns."""
    sketch: EntrySketch | None
    """A sample of its entries, by which they are recognised after the fit."""
    spared: NDArray[np.bool_] | None
    """Columns of which nothing is held out, because no entry of them would be left."""


def column_scale(rows: Rows, *, standardize: bool) -> Scale:
    """Return the mean and the scale of every column. At this stage all columns have the same noise.

    Columns that are constant or entirely missing are found with and without `standardize`.
    """
    ones = np.ones(rows.n_columns)
    if not standardize:
        return Scale(np.zeros(rows.n_columns), ones, ones).with_contents_of(rows)
    moments = column_moments(rows)
    return Scale(moments.mean, moments.scale, ones).with_contents_of(rows)


def with_default_share(settings: Settings, rows: Rows, sample: Batch) -> Settings:
    """Return the settings with the share that is held out if the user leaves it open.

    Parameters
    ----------
    settings : Settings
    rows : Rows
    sample : Batch
        Some rows, from which the number of observed entries is estimated.
    """
    if isinstance(rows, PatchRows):
        # A pixel that is held out from one patch is still in others.
        return settings
    share = default_held_out(float(sample.observed.mean()) * rows.n_rows * rows.n_columns)
    return replace(settings, held_out=share, diagnostic=share > 0)


def held_out_rows(
    rows: Rows, settings: Settings, spared: NDArray[np.bool_] | None = None
) -> RowsWithHeldOut | None:
    """Return the data of a fit without the entries that are held out from it, or None if there are none.

    They depend on the settings, on `spared` and on the number of a row alone, so that they can be found again
    after the fit.
    """
    if not settings.held_out:
        return None
    source = FewHeldOutRows if settings.diagnostic else HeldOutRows
    return source(rows, settings.held_out, settings.stream, spared)


def visible_rows(rows: Rows, settings: Settings, *, standardize: bool) -> Visible:
    """Return what a fit sees of its data, which is read once for most data sets.

    Where a column would lose all of its observed entries, nothing is held out of it.
    """
    visible = held_out_rows(rows, settings) or rows
    sketched = SketchedRows(visible, EntrySketch())
    scale, spared = column_scale(sketched, standardize=standardize), None
    if visible is not rows and scale.empty is not None and scale.empty.any():
        spared = scale.empty
        visible = held_out_rows(rows, settings, spared) or rows
        sketched = SketchedRows(visible, EntrySketch())
        scale = column_scale(sketched, standardize=standardize)
    sketch = None if isinstance(rows, PatchRows) else sketched.finish()
    return Visible(visible, scale, sketch, spared)


def sketch_after(earlier: EntrySketch | None, rows: Rows) -> EntrySketch | None:
    """Return the sketch of the entries seen so far and of further rows, or None if the former is unknown."""
    return None if earlier is None or isinstance(rows, PatchRows) else earlier.with_rows(rows)
