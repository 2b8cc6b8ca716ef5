"""Predictions of the missing entries of rows by groups of like rows (docs/math.md section 23)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.backends.row_groups import RowGroupKernels
from bpfa.data import Batch
from bpfa.model.row_features import FeatureGroups, KeptWeights
from bpfa.model.row_groups import KeptRows, Queries, RowGroups, StudentMixture, StudentRows
from bpfa.model.row_kinds import RowKinds
from bpfa.model.row_switches import log_odds_of_use, sums_of_squares
from bpfa.prediction.groups.like_rows import GroupMixture
from bpfa.prediction.missing import MissingPredictor
from bpfa.prediction.predictions import Prediction
from bpfa.prediction.scores import RowScores

__all__ = ["GroupPredictor", "MixturePredictor"]

# From the groups of so many kept rows it is learned how often groups use a feature.
N_LEARNED_FROM = 100
# How many numbers the members of the groups of a block of rows, and what these predict, may take, and the
# most rows of a block.
BLOCK_NUMBERS, BLOCK_ROWS = 2**20, 4096


class GroupPredictor:
    """Predicts rows by a mixture of the model of the whole table and groups of like rows.

    Parameters
    ----------
    mixture : GroupMixture
    kept : KeptRows or None
        More of them than the largest group has members. None if the mixture has no groups.
    covariance : array, shape (D, D)
        Covariance of a row under the model of the whole table; `row_covariance` computes it.
    kernels : RowGroupKernels
        Those of the device.
    n_threads : int
    kinds : sequence of RowKinds
        The divisions into kinds that the mixture has.
    features : FeatureGroups, optional
        The features of the model, if the mixture has groups that use them.

    Examples
    --------
    >>> from bpfa.backends.registry import backend_of
    >>> rows = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32) + [5, -5]
    >>> kept = KeptRows(rows.astype(np.float32), np.zeros((50, 2), np.float32))
    >>> predictor = GroupPredictor(GroupMixture((20,), (2.0,), (0.75,)), kept, np.eye(2, dtype=np.float32),
    ...                            backend_of("numpy").row_groups)
    >>> whole = Prediction(np.zeros((1, 2)), np.ones((1, 2)))
    >>> predictor.mixed(whole, Batch([[5.0, np.nan]])).mean.round()
    array([[ 4., -4.]])
    """

    def __init__(
        self,
        mixture: GroupMixture,
        kept: KeptRows | None,
        covariance: NDArray[np.float32],
        kernels: RowGroupKernels,
        n_threads: int = 1,
        kinds: Sequence[RowKinds] = (),
        features: FeatureGroups | None = None,
    ) -> None:
        sizes = mixture.sizes
        if len(sizes) and (kept is None or len(kept) <= sizes[-1]):
            raise ValueError(
                f"kept: {0 if kept is None else len(kept)} rows; expected more than the {sizes[-1]} members "
                "of a group"
            )
        if len(kinds) != len(mixture.kinds):
            raise ValueError(f"kinds: {len(kinds)} divisions; expected the {len(mixture.kinds)} of mixture")
        self.mixture, self._kernels, self._kinds = mixture, kernels, tuple(kinds)
        self._kept, self._features, self._n_threads = kept, features, n_threads
        self._groups = RowGroups(
            covariance, np.array(mixture.members, np.int32), np.array(mixture.prior_rows, np.float32)
        )
        if features is not None and kept is not None and mixture.feature_members:
            self._kept_weights = KeptWeights.of(kept, features)
            self._features = self._with_odds(
                replace(
                    features,
                    members=np.array(mixture.feature_members, np.int32),
                    switched=mixture.feature_switched,
                )
            )

    def _with_odds(self, groups: FeatureGroups) -> FeatureGroups:
        """Return the groups with the odds of their features, learned from the groups of some kept rows."""
        if not any(groups.switched):
            return groups
        assert self._kept is not None
        kept, n_rows = self._kept, len(self._kept)
        some = np.arange(min(n_rows, N_LEARNED_FROM)) * n_rows // min(n_rows, N_LEARNED_FROM)
        sizes = np.unique(groups.members[np.array(groups.switched)])
        rows = Queries.of(kept.values[some], kept.variance[some] == 0)
        nearest = self._kernels.nearest_rows(kept, rows, sizes, self._n_threads)
        added = kept.variance.astype(np.float64) @ (groups.regression**2).T
        squares = sums_of_squares(self._kept_weights.expected, added, nearest, sizes)
        evidence = groups.uses(squares, sizes.astype(np.float64)[:, None, None])
        log_odds = log_odds_of_use(evidence.reshape(-1, evidence.shape[-1]), groups.priors)
        return replace(groups, log_odds=log_odds)

    def students(
        self, batch: Batch, truth: Array | None = None, scored: NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[NDArray[np.int64], StudentMixture]]:
        """Yield what groups and kinds predict, for one block of rows after another, and which rows these are.

        Rows without any observed entry are left out, as no row can be said to be like them.

        Parameters
        ----------
        batch : Batch
        truth : array, shape (rows, D), optional
            True values of the scored entries.
        scored : boolean array, shape (rows, D), optional
            True at entries that are not observed and whose joint density is wanted.
        """
        rows, sizes = np.flatnonzero(batch.observed.any(axis=1)), self.mixture.sizes
        n_parts = len(self.mixture.members) + len(self.mixture.feature_members) + sum(map(len, self._kinds))
        n_numbers = max(int(sizes[-1]) if len(sizes) else 0, n_parts * batch.values.shape[1])
        step = int(np.clip(BLOCK_NUMBERS // n_numbers, 1, BLOCK_ROWS))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            values = batch.values[part] if truth is None else truth[part]
            queries = Queries.of(values, batch.observed[part], None if scored is None else scored[part])
            yield part, StudentMixture(self._parts(queries))

    def _parts(self, queries: Queries) -> tuple[StudentRows, ...]:
        kernels, n_threads, parts = self._kernels, self._n_threads, []
        if len(self.mixture.sizes):
            assert self._kept is not None
            nearest = kernels.nearest_rows(self._kept, queries, self.mixture.sizes, n_threads)
            if self.mixture.members:
                parts.append(kernels.student_rows(self._kept, queries, nearest, self._groups, n_threads))
            if self.mixture.feature_members:
                assert self._features is not None
                found = kernels.feature_rows(
                    self._kept, self._kept_weights, queries, nearest, self._features, n_threads
                )
                parts.append(found)
        parts += [kernels.kind_rows(kinds, queries, n_threads) for kinds in self._kinds]
        return tuple(parts)

    def mixed(self, whole: Prediction, batch: Batch) -> Prediction:
        """Return the mean and standard deviation of the mixture for the missing entries of some rows.

        Parameters
        ----------
        whole : Prediction
            What the model of the whole table predicts for these rows.
        batch : Batch
        """
        mean, variance = whole.mean.copy(), whole.std**2
        own = self.mixture.global_weight
        for rows, found in self.students(batch):
            weights = np.exp(found.log_weights(self._weights))
            means, variances = found.rows.mean.astype(np.float64), found.rows.variance
            both = own * whole.mean[rows] + np.einsum("cr,crd->rd", weights, means)
            spread = own * (whole.std[rows] ** 2 + (whole.mean[rows] - both) ** 2)
            variances += (means - both) ** 2
            mean[rows], variance[rows] = both, spread + np.einsum("cr,crd->rd", weights, variances)
        return Prediction(mean, np.sqrt(variance))

    @property
    def _weights(self) -> Array:
        return np.array(self.mixture.all_weights)

    def completed_again(self) -> KeptRows:
        """Return the kept rows with their missing entries predicted by the mixture.

        So far they were predicted by the model of the whole table.
        """
        assert self._kept is not None
        kept, observed = self._kept, self._kept.variance == 0
        some = np.flatnonzero(~observed.all(axis=1) & observed.any(axis=1))
        values, variance = kept.values.copy(), kept.variance.copy()
        whole = Prediction(values[some].astype(np.float64), np.sqrt(variance[some], dtype=np.float64))
        found = self.mixed(whole, Batch(values[some], observed[some]))
        values[some] = np.where(observed[some], values[some], found.mean)
        variance[some] = np.where(observed[some], 0.0, found.std**2)
        return KeptRows(values, variance)

    def draws(self, whole: Array, batch: Batch, mask: NDArray[np.bool_], rng: np.random.Generator) -> Array:
        """Return draws of some missing entries from the mixture, shape (n_draws, n_entries).

        Parameters
        ----------
        whole : array, shape (n_draws, n_entries)
            Draws by the model of the whole table.
        batch : Batch
        mask : boolean array, shape (rows, D)
            True at the entries.
        rng : numpy.random.Generator
        """
        drawn = whole.copy()
        places = np.zeros(mask.shape, np.int64)
        places[mask] = np.arange(mask.sum())
        for rows, found in self.students(batch):
            here, columns = np.nonzero(mask[rows])
            entries, students = places[rows][here, columns], found.rows
            edges = np.cumsum(np.exp(found.log_weights(self._weights)), axis=0)
            uniform = rng.random((len(whole), len(entries)))
            group = sum((uniform >= edge[here]).astype(np.int64) for edge in edges)
            chosen = np.minimum(group, len(edges) - 1)
            scale = np.sqrt(students.square_scale[chosen, here, columns])
            student = rng.standard_t(students.freedom[chosen, here]) * scale
            student += students.mean[chosen, here, columns]
            drawn[:, entries] = np.where(group < len(edges), student, whole[:, entries])
        return drawn

    def scores(self, whole: RowScores, batch: Batch, truth: Array, held_out: NDArray[np.bool_]) -> RowScores:
        """Return what the mixture predicts for the held-out entries of some rows.

        Parameters
        ----------
        whole : RowScores
            What the model of the whole table predicts for them.
        batch : Batch
            The rows without the held-out entries.
        truth : array, shape (rows, D)
        held_out : boolean array, shape (rows, D)
        """
        log_density, mean = whole.log_density.copy(), whole.mean.copy()
        own = self.mixture.global_weight
        some = np.flatnonzero(held_out.any(axis=1))
        part = Batch(batch.values[some], batch.observed[some], batch.ids[some])
        with np.errstate(divide="ignore"):
            log_own = np.log(own)
        for places, found in self.students(part, truth[some], held_out[some]):
            rows, log_weights = some[places], found.log_weights(self._weights)
            densities = np.logaddexp.reduce(log_weights + found.rows.log_density, axis=0)
            log_density[rows] = np.logaddexp(log_own + whole.log_density[rows], densities)
            mean[rows] = own * whole.mean[rows]
            mean[rows] += np.einsum("cr,crd->rd", np.exp(log_weights), found.rows.mean)
        return RowScores(log_density, mean)


class MixturePredictor:
    """Predicts the missing entries of one block of rows after another, with groups or without.

    Parameters
    ----------
    whole : MissingPredictor
        The model of the whole table.
    groups : GroupPredictor or None
    """

    def __init__(self, whole: MissingPredictor, groups: GroupPredictor | None) -> None:
        self._whole, self._groups = whole, groups

    def predict(self, batch: Batch) -> Prediction:
        """Return the means and standard deviations of the missing entries; those of others mean nothing."""
        whole = self._whole.predict(batch)
        return whole if self._groups is None else self._groups.mixed(whole, batch)
