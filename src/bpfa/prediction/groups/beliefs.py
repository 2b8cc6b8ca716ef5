"""What all groups share, and learn from one another from round to round (docs/math.md section 19)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.model.groups import GroupAverage, GroupModel, rank_log_prior
from bpfa.model.priors import Priors

__all__ = ["GroupBeliefs"]

# In one round the noise variance falls at most by this factor.
MOST_CHANGE = 1.2


@dataclass(frozen=True)
class GroupBeliefs:
    """The noise, and how many features groups have.

    Parameters
    ----------
    noise : array, shape (kinds,)
        Variance of the noise of each kind of column; the columns of one channel of a picture are one kind.
    kinds : int array, shape (parts, D)
        Kind of every column of every part of the rows.
    rank_counts : array, shape (D + 1,)
        Number of groups of the round before that have q features, over all parts.
    priors : Priors
        The prior of the beta process, of which a and b are used.

    Examples
    --------
    >>> beliefs = GroupBeliefs.of(np.array([0.5]), np.zeros((1, 4), int))
    >>> average = GroupAverage(10, 4)
    >>> average.residuals[0] = [[3.0, 3.0, 2.0, 2.0], [5.0, 5.0, 5.0, 5.0]]
    >>> average.count(np.array([1, 1, 2], np.int32))
    >>> later = beliefs.after(average, learn_noise=True)
    >>> later.noise, later.rank_counts
    (array([0.5]), array([0, 2, 1, 0, 0]))
    """

    noise: Array
    kinds: NDArray[np.int64]
    rank_counts: NDArray[np.int64]
    priors: Priors = Priors()

    @classmethod
    def of(cls, noise: Array, kinds: NDArray[np.int64]) -> GroupBeliefs:
        """Return the beliefs before the first round."""
        return cls(np.asarray(noise, float), kinds, np.zeros(kinds.shape[1] + 1, np.int64))

    def models(self, *, floor_share: float, n_iterations: int) -> list[GroupModel]:
        """Return the model that all groups of the next round share, for each part of the rows.

        Parameters
        ----------
        floor_share : float
            Least variance of what the features of a group do not explain, as a share of that of the noise.
        n_iterations : int
        """
        log_prior = rank_log_prior(self.rank_counts, self.priors)
        floor = floor_share * float(self.noise.mean())
        return [
            GroupModel(self.noise[kinds].astype(np.float32), floor, n_iterations, log_prior)
            for kinds in self.kinds
        ]

    def after(self, average: GroupAverage, *, learn_noise: bool) -> GroupBeliefs:
        """Return what is believed after a round.

        Parameters
        ----------
        average : GroupAverage
        learn_noise : bool
            Whether the noise is estimated anew, from the residuals and their degrees of freedom.
        """
        noise = self.noise
        if learn_noise:
            squares, freedom = (
                np.bincount(self.kinds.ravel(), sums.ravel(), len(noise))
                for sums in average.residuals.swapaxes(0, 1)
            )
            found = np.where(freedom > 0, squares / np.maximum(freedom, 1e-300), noise)
            # It never rises: what a model does not explain looks like noise to it, so that of two estimates
            # the smaller one is better.
            noise = np.clip(found, noise / MOST_CHANGE, noise)
        return replace(self, noise=noise, rank_counts=average.rank_counts)
