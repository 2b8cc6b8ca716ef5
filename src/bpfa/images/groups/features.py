"""The features of single groups, for people who want to see what a group of like patches has found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.backends.groups import GroupKernels, PatchSearch
from bpfa.backends.numpy.groups import group_covariance
from bpfa.data.patches import PatchRows
from bpfa.images.groups.plan import GroupPlan
from bpfa.prediction.groups import GroupBeliefs

__all__ = ["FinishedGroups", "GroupFeatures"]


@dataclass(frozen=True)
class GroupFeatures:
    """The features of one group, the strongest first.

    Parameters
    ----------
    y, x : int
        Where the reference patch begins.
    mean : array, shape (D,)
        Mean of the patches of the group, in units of the standardised picture.
    features : array, shape (q, D)
        Orthonormal features.
    shares : array, shape (q,)
        Share of each feature in the variance of the patches of the group.
    """

    y: int
    x: int
    mean: Array
    features: Array
    shares: Array


@dataclass(frozen=True)
class FinishedGroups:
    """What is needed to look at single groups after a restoration.

    Parameters
    ----------
    picture : float32 array, shape (slices, height, width, channels)
        The standardised picture after the last round. Members are sought on it.
    plan : GroupPlan
    beliefs : GroupBeliefs
        What all groups have learned together.
    rotation : array, shape (channels, channels), optional
        The orthogonal matrix that makes the channels uncorrelated, if each of them has models of its own.

    Examples
    --------
    >>> from bpfa.backends.registry import backend_of
    >>> from bpfa.images.groups.plan import plan_groups
    >>> picture = np.add.outer(np.arange(20.0), np.arange(20.0) % 4).astype(np.float32)[None, :, :, None]
    >>> plan = plan_groups(np.ones(picture.shape, bool), noisy=True)
    >>> beliefs = GroupBeliefs.of(np.array([0.01]), np.zeros((1, 49), int))
    >>> groups = FinishedGroups(picture, plan, beliefs)
    >>> found = groups.features(0, [6], [2, 8], backend_of("cpu").groups)
    >>> [(group.y, group.x, group.features.shape[1]) for group in found]
    [(6, 2, 49), (6, 8, 49)]
    """

    picture: NDArray[np.float32]
    plan: GroupPlan
    beliefs: GroupBeliefs
    rotation: NDArray[np.float32] | None = None

    def features(
        self, slice_index: int, y: list[int], x: list[int], kernels: GroupKernels, n_threads: int = 1
    ) -> list[GroupFeatures]:
        """Return the features of the groups whose reference patches begin at every y and x.

        A group starts each round from these features: the leading directions of its members on the picture.

        Parameters
        ----------
        slice_index : int
        y, x : lists of int
        kernels : GroupKernels
        n_threads : int
        """
        plan, shape = self.plan, self.picture.shape
        search = PatchSearch(
            shape=shape,
            slices=np.full(len(y), slice_index, np.int32),
            y=np.array(y, np.int32),
            x=np.array(x, np.int32),
            size=plan.size,
            reach=plan.reach,
            slice_reach=plan.slice_reach if shape[0] > 1 else 0,
            distance_weight=plan.distance_weight,
            n_members=plan.n_members,
        )
        first = kernels.find_members(self.picture, search, n_threads).reshape(-1, plan.n_members)
        offsets = PatchRows(self.picture, np.ones(shape, bool), plan.size).offsets
        flat = self.picture.ravel()
        places = [(top, left) for top in y for left in x]
        return [
            self._group(top, left, flat[begins[begins >= 0][:, None] + offsets].astype(np.float64))
            for (top, left), begins in zip(places, first, strict=True)
        ]

    def _group(self, y: int, x: int, rows: Array) -> GroupFeatures:
        models = self.beliefs.models(floor_share=self.plan.floor_share, n_iterations=1)
        mean, n_columns = rows.mean(axis=0), rows.shape[1]
        centred = self._rotated(rows - mean)
        scatter = centred.T @ centred
        features = []
        # The columns of each part that has a model of its own: a channel, or all channels together.
        parts = np.arange(n_columns).reshape(-1, len(models)).T
        for part, model in zip(parts, models, strict=True):
            own = scatter[np.ix_(part, part)]
            _, found = group_covariance(own, len(rows), model, None)
            if found is None:
                found = np.linalg.eigh(own)[1].T[::-1]
            features.append(np.zeros((len(found), n_columns)))
            features[-1][:, part] = found
        every = np.concatenate(features)
        variance = np.einsum("qd,de,qe->q", every, scatter, every)
        order = np.argsort(-variance, kind="stable")
        total = max(float(np.trace(scatter)), np.finfo(float).tiny)
        original = self._rotated(every[order], back=True)
        return GroupFeatures(y, x, mean, original, np.maximum(variance[order], 0.0) / total)

    def _rotated(self, rows: Array, back: bool = False) -> Array:
        """Return rows of patches with uncorrelated channels, or with the original ones."""
        if self.rotation is None:
            return rows
        rotation = self.rotation.T if back else self.rotation
        rotated: Array = rows.reshape(len(rows), -1, len(rotation)) @ rotation.astype(float)
        return rotated.reshape(rows.shape)
