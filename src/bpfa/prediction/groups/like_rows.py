"""What a model keeps to predict rows by rows like them (docs/math.md section 23)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from bpfa._support.checks import Array
from bpfa.data import Batch
from bpfa.model.posterior import Posterior
from bpfa.model.priors import Priors
from bpfa.model.row_features import FeatureGroups
from bpfa.model.row_groups import KeptRows
from bpfa.model.row_kinds import RowKinds
from bpfa.prediction.missing import MissingPredictor
from bpfa.prediction.predictions import view_at_means

__all__ = ["GroupMixture", "LikeRows", "completed", "model_features", "row_covariance"]

# Features whose variance over all rows is a smaller share of the largest one are not used.
LEAST_SIZE = 1e-6


@dataclass(frozen=True)
class GroupMixture:
    """The groups and kinds of rows that predict a row, and their weights beside the model of the whole table.

    Parameters
    ----------
    members : tuple of int
        Number of rows of every group, in ascending order.
    prior_rows : tuple of float
        Number of rows that the prior of every group counts for.
    weights : tuple of float
        Weights of the groups.
    feature_members : tuple of int
        Number of rows of every group that has the features of the model, in ascending order.
    feature_weights : tuple of float
        Weights of these groups.
    kinds : tuple of int
        Into how many kinds the rows are divided, for every division.
    kind_prior_rows : tuple of float
        Number of rows that the prior of every kind of a division counts for.
    kind_weights : tuple of float
        Weights of the divisions. The sum of all weights is at most 1; what is left is the weight of the model
        of the whole table.
    feature_switched : tuple of bool
        For every group that has the features of the model, whether its rows may use only some of them; by
        default none of these groups.

    Examples
    --------
    >>> GroupMixture((20, 60), (5.0, 5.0), (0.5, 0.25)).global_weight
    0.25
    """

    members: tuple[int, ...] = ()
    prior_rows: tuple[float, ...] = ()
    weights: tuple[float, ...] = ()
    feature_members: tuple[int, ...] = ()
    feature_weights: tuple[float, ...] = ()
    kinds: tuple[int, ...] = ()
    kind_prior_rows: tuple[float, ...] = ()
    kind_weights: tuple[float, ...] = ()
    feature_switched: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if not self.feature_switched:
            object.__setattr__(self, "feature_switched", (False,) * len(self.feature_members))
        if not len(self.members) == len(self.prior_rows) == len(self.weights):
            raise ValueError("members, prior_rows, weights: expected equally many")
        if not len(self.feature_members) == len(self.feature_weights) == len(self.feature_switched):
            raise ValueError("feature_members, feature_weights, feature_switched: expected equally many")
        if not len(self.kinds) == len(self.kind_prior_rows) == len(self.kind_weights):
            raise ValueError("kinds, kind_prior_rows, kind_weights: expected equally many")
        if not len(self):
            raise ValueError("members, feature_members, kinds: expected at least one")
        for name, sizes in (("members", self.members), ("feature_members", self.feature_members)):
            if any(size < 1 for size in sizes) or any(b < a for a, b in pairwise(sizes)):
                raise ValueError(f"{name}={sizes}: expected ascending numbers >= 1")
        weights = self.all_weights
        if (
            min((*self.prior_rows, *self.kind_prior_rows, 1.0)) <= 0
            or min(weights) < 0
            or sum(weights) > 1 + 1e-9
        ):
            raise ValueError("prior_rows, weights: expected numbers > 0, and weights whose sum is at most 1")

    def __len__(self) -> int:
        return len(self.members) + len(self.feature_members) + len(self.kinds)

    @property
    def all_weights(self) -> tuple[float, ...]:
        """Weights of the groups, of those with the features of the model, and of the divisions into kinds."""
        return (*self.weights, *self.feature_weights, *self.kind_weights)

    @property
    def global_weight(self) -> float:
        """Weight of the model of the whole table."""
        return max(0.0, 1.0 - sum(self.all_weights))

    @property
    def sizes(self) -> NDArray[np.int32]:
        """The different sizes of the groups, ascending."""
        return np.unique(np.array((*self.members, *self.feature_members), np.int32))

    def in_words(self) -> str:
        """Return what the mixture consists of.

        Examples
        --------
        >>> GroupMixture((20, 60), (5.0, 5.0), (0.5, 0.25), kinds=(4,), kind_prior_rows=(5.0,),
        ...              kind_weights=(0.1,)).in_words()
        'groups of 20, 60 rows, 4 kinds of rows'
        """
        groups, kinds = self.sizes, sorted(set(self.kinds))
        words = [f"groups of {', '.join(map(str, groups))} rows"] if len(groups) else []
        if kinds:
            words.append(f"{', '.join(map(str, kinds))} kind{'' if kinds == [1] else 's'} of rows")
        return ", ".join(words)

    def chosen(self, places: NDArray[np.int64], weights: Array) -> GroupMixture:
        """Return some of the parts, which are numbered as in `all_weights`, with new weights."""
        n_groups, n_features = len(self.members), len(self.feature_members)
        groups = places[places < n_groups]
        features = places[(places >= n_groups) & (places < n_groups + n_features)] - n_groups
        kinds = places[places >= n_groups + n_features] - n_groups - n_features
        of_groups, of_features, of_kinds = np.split(weights, np.cumsum([len(groups), len(features)]))
        return GroupMixture(
            tuple(self.members[i] for i in groups),
            tuple(self.prior_rows[i] for i in groups),
            tuple(map(float, of_groups)),
            tuple(self.feature_members[i] for i in features),
            tuple(map(float, of_features)),
            tuple(self.kinds[i] for i in kinds),
            tuple(self.kind_prior_rows[i] for i in kinds),
            tuple(map(float, of_kinds)),
            tuple(self.feature_switched[i] for i in features),
        )

    def without_rows(self) -> GroupMixture | None:
        """Return what is left without rows among which like ones could be found; None if nothing is."""
        if not self.kinds:
            return None
        share = self.global_weight + sum(self.kind_weights)
        weights = tuple(weight / share for weight in self.kind_weights)
        return GroupMixture(kinds=self.kinds, kind_prior_rows=self.kind_prior_rows, kind_weights=weights)


@dataclass(frozen=True)
class LikeRows:
    """The groups and kinds that a fit has chosen, and the rows among which like ones are sought.

    Parameters
    ----------
    mixture : GroupMixture
    kept : KeptRows or None
        None if the mixture has no groups, and in a model from a file that does not contain them.
    kinds : tuple of RowKinds
        The divisions of the rows into kinds, as in the mixture.
    """

    mixture: GroupMixture
    kept: KeptRows | None
    kinds: tuple[RowKinds, ...] = ()

    @classmethod
    def of(cls, mixture: GroupMixture, kept: KeptRows, kinds: tuple[RowKinds, ...]) -> LikeRows:
        """Return what a fit has chosen; rows are kept only if the mixture needs them."""
        return cls(mixture, kept if len(mixture.sizes) else None, kinds)


def row_covariance(posterior: Posterior) -> NDArray[np.float32]:
    """Return the covariance of a row, D x D, including noise, with the globals at their posterior means.

    Examples
    --------
    >>> from bpfa import ArrayRows
    >>> from bpfa.inference.starts import random_posterior
    >>> rows = ArrayRows(np.random.default_rng(0).normal(size=(50, 4)))
    >>> covariance = row_covariance(random_posterior(rows, 3, seed=0))
    >>> covariance.shape, bool((np.linalg.eigvalsh(covariance) > 0).all())
    ((4, 4), True)
    """
    view = view_at_means(posterior)
    signal = (view.phi.T * (expit(view.logit) / view.g_w)) @ view.phi
    return np.asarray(signal + np.eye(len(signal)) / view.g_o, np.float32)


def model_features(posterior: Posterior) -> FeatureGroups:
    """Return the features by which groups of wide tables predict, with the globals at their posterior means.

    Features that hardly any row uses are left out.

    Examples
    --------
    >>> from bpfa import ArrayRows
    >>> from bpfa.inference.starts import random_posterior
    >>> rows = ArrayRows(np.random.default_rng(0).normal(size=(50, 4)))
    >>> model_features(random_posterior(rows, 3, seed=0)).phi.shape
    (3, 4)
    """
    view = view_at_means(posterior)
    phi, variance = np.asarray(view.phi, np.float64), np.asarray(expit(view.logit) / view.g_w, np.float64)
    size = variance * (phi**2).sum(axis=1)
    used = size > LEAST_SIZE * max(size.max(), 1e-300)
    priors = getattr(posterior, "priors", Priors())
    return FeatureGroups(phi[used], variance[used], float(view.g_o), np.zeros(0, np.int32), priors=priors)


def completed(batch: Batch, predictor: MissingPredictor) -> KeptRows:
    """Return rows with their missing entries filled in by the model of the whole table.

    Parameters
    ----------
    batch : Batch
    predictor : MissingPredictor
    """
    values = np.ascontiguousarray(np.where(batch.observed, batch.values, 0.0), np.float32)
    variance = np.zeros_like(values)
    some = np.flatnonzero(~batch.observed.all(axis=1))
    if len(some):
        part = Batch.unchecked(batch.values[some], batch.observed[some], batch.ids[some])
        found = predictor.predict(part)
        values[some] = np.where(part.observed, values[some], found.mean)
        variance[some] = np.where(part.observed, 0.0, found.std**2)
    return KeptRows(values, variance)
