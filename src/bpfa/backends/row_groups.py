"""What a device offers for groups of like rows of a table (docs/math.md section 23)."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.model.row_features import FeatureGroups, KeptWeights
from bpfa.model.row_groups import KeptRows, Queries, RowGroups, StudentRows
from bpfa.model.row_kinds import RowKinds

__all__ = ["TWIN_ROWS", "TWIN_TOLERANCE", "RowGroupKernels"]

TWIN_ROWS = 64
"""Among how many of the nearest rows the row itself is sought, to be left out."""
TWIN_TOLERANCE = 1e-5
"""Two entries count as equal if they differ by at most this, or by this share of the entry."""


class RowGroupKernels(ABC):
    """Groups of like rows of a table on one kind of device.

    `n_threads` is the number of threads, on which the result does not depend; a device without threads
    ignores it.
    """

    def on(self, device: str) -> RowGroupKernels:
        """Return the kernels for one of several devices of this kind; by default there is one."""
        return self

    @abstractmethod
    def nearest_rows(
        self, kept: KeptRows, queries: Queries, sizes: NDArray[np.int32], n_threads: int = 1
    ) -> NDArray[np.int32]:
        """Return the kept rows that are most like each query, shape (queries, sizes[-1]).

        For every M of `sizes`, which ascend, the first M rows are the nearest; their order is otherwise
        arbitrary. The distance is the sum of the squared differences over the entries that the query has
        observed. Of the `TWIN_ROWS` nearest rows, the first is left out that equals the query in all entries
        that both have observed, if these are at least half of the observed entries of the query: where the
        query belongs to the rows of the fit, it is the query itself. `kept` must have more rows than the
        largest size.
        """

    @abstractmethod
    def student_rows(
        self,
        kept: KeptRows,
        queries: Queries,
        nearest: NDArray[np.int32],
        groups: RowGroups,
        n_threads: int = 1,
    ) -> StudentRows:
        """Return what the groups of every query, the first rows of `nearest`, predict for it."""

    @abstractmethod
    def feature_rows(
        self,
        kept: KeptRows,
        weights: KeptWeights,
        queries: Queries,
        nearest: NDArray[np.int32],
        groups: FeatureGroups,
        n_threads: int = 1,
    ) -> StudentRows:
        """Return what the groups of every query that use the features of the model predict for it."""

    @abstractmethod
    def kind_rows(self, kinds: RowKinds, queries: Queries, n_threads: int = 1) -> StudentRows:
        """Return what every kind of rows predicts for every query, with the shares of the kinds in it."""

    @abstractmethod
    def kind_densities(self, kinds: RowKinds, queries: Queries, n_threads: int = 1) -> Array:
        """Return the log density of the observed entries of every query together with its kind.

        The shape is (kinds, queries).
        """

    @abstractmethod
    def kind_sums(
        self, kinds: RowKinds, queries: Queries, shares: Array, n_threads: int = 1
    ) -> tuple[Array, Array]:
        """Return sums over the rows of every kind, of their deviations from its mean and of the products.

        Entries that are not observed have the values that the kind expects, and their covariance given the
        observed entries is part of the products. `shares` has the shape (kinds, queries); the results have
        the shapes (kinds, D) and (kinds, D, D).
        """
