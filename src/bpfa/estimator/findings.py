"""What is found out about a whole data set before a fit: each thing once, when it is first needed.

The trial of sides and the plan of the fit that follows it, with sparse rows or with sparse columns, need the
same numbers: how many common factors there are, how noisy the columns and the rows are, and where the
features start. All of them follow from the data and the parameters alone, so that a fit whose side was chosen
by a trial is the same as one whose side the user has set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bpfa.data import ArrayRows, Rows, StandardisedRows
from bpfa.data.patches import PatchRows
from bpfa.data.scaling import Scale
from bpfa.data.transposed import transposed
from bpfa.estimator.parameters import Parameters
from bpfa.estimator.planning import Seen, chosen_start, with_column_noise
from bpfa.fitting.data_digest import digest_sample
from bpfa.inference.linked_rows import linked_rows
from bpfa.inference.settings import Settings
from bpfa.selection import defaults
from bpfa.selection.start_choice import Start

__all__ = ["Findings", "unscaled"]

# In a table with sparse columns, more features than rows are tried only if there are more common factors than
# this share of the rows. So many features would span all rows, and not only a few directions.
MANY_FACTORS = 1 / 3


def unscaled(n_columns: int) -> Scale:
    """Return the scale of a table that is left as it is."""
    ones = np.ones(n_columns)
    return Scale(np.zeros(n_columns), ones, ones)


@dataclass(frozen=True)
class Findings:
    """What is found out about a data set before a fit."""

    seen: Seen
    parameters: Parameters
    n_jobs: int | None

    @cached_property
    def linked(self) -> Rows:
        """The rows as a fit with sparse rows sees them: those of panels with what their panels lack drawn."""
        visible, scale, _, _ = self.seen.visible
        # Patches of a picture that was scanned along lines look like panels, but are parts of one picture.
        if isinstance(visible, PatchRows) or digest_sample(visible).complete:
            return visible
        return linked_rows(visible, scale, self.seen.settings.stream.child("panels"))

    @cached_property
    def n_factors(self) -> int:
        """The number of common factors, which does not depend on the side that is sparse."""
        return self._start_of_rows(try_sparse=False).n_features

    @cached_property
    def start_of_rows(self) -> Start:
        """How many features a fit with sparse rows has, and where they start."""
        return self._start_of_rows(try_sparse=True, n_factors=self.n_factors)

    def _start_of_rows(self, *, try_sparse: bool, n_factors: int | None = None) -> Start:
        return chosen_start(
            self.linked,
            self.seen.visible.scale,
            self.parameters,
            self.seen.settings,
            self.linked.n_rows,
            self.n_jobs,
            try_sparse=try_sparse,
            n_factors=n_factors,
        )

    @cached_property
    def scale(self) -> Scale:
        """The units of the columns, with the noise of every column if columns have levels of their own."""
        return self._scale_with(self.n_factors)

    def scale_with(self, n_features: int) -> Scale:
        """Return the units of the columns, with their noise as a number of features leaves it."""
        if n_features == self.n_factors:
            return self.scale
        return self._scale_with(n_features)

    def _scale_with(self, n_features: int) -> Scale:
        settings = replace(self.seen.settings, n_features=n_features)
        return with_column_noise(self.linked, self.seen.visible.scale, settings)

    @cached_property
    def columns(self) -> ArrayRows:
        """The transposed table, with every column of the table in its unit."""
        visible, scale = self.seen.visible.rows, self.scale
        return transposed(StandardisedRows(visible, scale.mean, scale.unit))

    @cached_property
    def settings_of_columns(self) -> Settings:
        """The settings of a fit with sparse columns that do not depend on the number of features."""
        batch_size = self.parameters.batch_size or defaults.default_batch_size(
            self.seen.visible.rows.n_columns
        )
        return replace(self.seen.settings, sparse="columns", batch_size=batch_size)

    @cached_property
    def start_of_columns(self) -> Start:
        """How many features a fit with sparse columns has, and where they start."""
        columns = self.columns
        return chosen_start(
            columns,
            unscaled(columns.n_columns),
            self.parameters,
            self.settings_of_columns,
            columns.n_rows,
            self.n_jobs,
            try_sparse=True,
            try_many=self.n_factors > MANY_FACTORS * columns.n_columns,
            n_factors=self.n_factors,
        )

    @cached_property
    def scale_of_rows(self) -> Scale:
        """The noise of every row relative to the other rows, as the scale of the transposed table."""
        settings = replace(self.settings_of_columns, n_features=self.start_of_columns.n_features)
        return with_column_noise(self.columns, unscaled(self.columns.n_columns), settings)
