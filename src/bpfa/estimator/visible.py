"""What a fit sees of its data: the entries that are not held out, and the columns that they make up."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa.data import Batch, FewHeldOutRows, HeldOutRows, Rows, RowSource, as_source
from bpfa.data.held_out import RowsWithHeldOut
from bpfa.data.remote import PartRows, RemoteRows, are_patches, origin_of
from bpfa.data.scaling import ColumnContents, ColumnMoments, MomentSums, Scale, column_contents, moment_sums
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


class Look(NamedTuple):
    """What one pass over some rows shows of them."""

    sums: MomentSums | None
    """The moments of the columns, if they are needed."""
    contents: ColumnContents
    sketch: EntrySketch | None

    def merged(self, more: Look) -> Look:
        """Return what a pass over these rows and more shows."""
        sums = None if self.sums is None or more.sums is None else self.sums.merged(more.sums)
        known = self.sketch is not None and more.sketch is not None
        sketch = self.sketch.merged(more.sketch) if known else None  # type: ignore[union-attr,arg-type]
        return Look(sums, self.contents.merged(more.contents), sketch)

    def scale(self, n_columns: int) -> Scale:
        """Return the mean and the scale of every column. At this stage all columns have the same noise.

        Columns that are constant or entirely missing are found with and without moments.
        """
        ones = np.ones(n_columns)
        scale = Scale(np.zeros(n_columns), ones, ones)
        if self.sums is not None:
            moments = ColumnMoments.of_parts([self.sums])
            scale = Scale(moments.mean, moments.scale, ones)
        return scale.with_contents(self.contents)


def look_over(rows: RowSource, *, moments: bool, sketch: bool = True) -> Look:
    """Look at rows in this process, which are read once if the moments or the sketch are asked for."""
    origin = origin_of(rows)
    first_id = origin.first_id if isinstance(origin, PartRows) else 0
    sketched = SketchedRows(rows, EntrySketch(), first_id) if sketch else None
    source = rows if sketched is None else sketched
    sums = moment_sums(source) if moments else None
    contents = column_contents(source)
    return Look(sums, contents, None if sketched is None else sketched.finish())


def column_scale(rows: Rows, *, standardize: bool) -> Scale:
    """Return the mean and the scale of every column. At this stage all columns have the same noise."""
    return _looked_at(rows, standardize=standardize, sketch=False).scale(rows.n_columns)


def _looked_at(rows: Rows, *, standardize: bool, sketch: bool) -> Look:
    """Look at rows, here or where they are.

    Of rows elsewhere in very many chunks, a sample of the chunks shows the moments; there is no sketch then,
    and all of them are read only if a column seems to be empty or constant.
    """
    source, origin = as_source("rows", rows), origin_of(rows)
    if not isinstance(origin, RemoteRows):
        return look_over(source, moments=standardize, sketch=sketch)
    sketch = sketch and origin.surveyed_whole
    look = reduce(Look.merged, origin.survey(source, partial(look_over, moments=standardize, sketch=sketch)))
    if not (origin.surveyed_whole or look.contents.varies.all()):
        look = look._replace(
            contents=reduce(ColumnContents.merged, origin.survey(source, column_contents, whole=True))
        )
    return look


def with_default_share(settings: Settings, rows: Rows, sample: Batch) -> Settings:
    """Return the settings with the share that is held out if the user leaves it open.

    Parameters
    ----------
    settings : Settings
    rows : Rows
    sample : Batch
        Some rows, from which the number of observed entries is estimated.
    """
    if are_patches(rows):
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
    visible, sketch = held_out_rows(rows, settings) or rows, not are_patches(rows)
    look, spared = _looked_at(visible, standardize=standardize, sketch=sketch), None
    if visible is not rows and look.contents.empty.any():
        spared = look.contents.empty
        visible = held_out_rows(rows, settings, spared) or rows
        look = _looked_at(visible, standardize=standardize, sketch=sketch)
    return Visible(visible, look.scale(rows.n_columns), look.sketch, spared)


def sketch_after(earlier: EntrySketch | None, rows: Rows) -> EntrySketch | None:
    """Return the sketch of the entries seen so far and of further rows, or None if the former is unknown."""
    return None if earlier is None or are_patches(rows) else earlier.with_rows(rows)
