"""What a model keeps to predict rows by rows like them (docs/math.md section 23)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from bpfa.data import Batch
from bpfa.model.posterior import Posterior
from bpfa.model.row_groups import KeptRows
from bpfa.prediction.missing import MissingPredictor
from bpfa.prediction.predictions import view_at_means

__all__ = ["GroupMixture", "LikeRows", "completed", "row_covariance"]


@dataclass(frozen=True)
class GroupMixture:
    """The groups that predict a row, and their weights in the mixture with the model of the whole table.

    Parameters
    ----------
    members : tuple of int
        Number of rows of every group, in ascending order.
    prior_rows : tuple of float
        Number of rows that the prior of every group counts for.
    weights : tuple of float
        Their sum is at most 1; what is left is the weight of the model of the whole table.

    Examples
    --------
    >>> GroupMixture((20, 60), (5.0, 5.0), (0.5, 0.25)).global_weight
    0.25
    """

    members: tuple[int, ...]
    prior_rows: tuple[float, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not len(self.members) == len(self.prior_rows) == len(self.weights) >= 1:
            raise ValueError("members, prior_rows, weights: expected equally many, at least one")
        if self.members[0] < 1 or any(b < a for a, b in pairwise(self.members)):
            raise ValueError(f"members={self.members}: expected ascending numbers >= 1")
        if min(self.prior_rows) <= 0 or min(self.weights) < 0 or sum(self.weights) > 1 + 1e-9:
            raise ValueError("prior_rows, weights: expected numbers > 0, and weights whose sum is at most 1")

    @property
    def global_weight(self) -> float:
        """Weight of the model of the whole table."""
        return max(0.0, 1.0 - sum(self.weights))

    @property
    def sizes(self) -> NDArray[np.int32]:
        """The different sizes of the groups, ascending."""
        return np.unique(np.array(self.members, np.int32))


@dataclass(frozen=True)
class LikeRows:
    """The groups that a fit has chosen, and the rows among which like ones are sought.

    Parameters
    ----------
    mixture : GroupMixture
    kept : KeptRows or None
        None after a model was loaded from a file that does not contain them.
    """

    mixture: GroupMixture
    kept: KeptRows | None


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
        part = Batch(batch.values[some], batch.observed[some], batch.ids[some])
        found = predictor.predict(part)
        values[some] = np.where(part.observed, values[some], found.mean)
        variance[some] = np.where(part.observed, 0.0, found.std**2)
    return KeptRows(values, variance)
