"""One round of grouping: like patches are found on the current picture, and every group is fitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bpfa.backends.groups import GroupKernels, PatchSearch
from bpfa.data.patches import PatchRows
from bpfa.images.groups.plan import GroupPlan
from bpfa.model.groups import Windows
from bpfa.prediction.groups import GroupBeliefs

__all__ = ["GroupedPicture", "Grouping", "Picture"]

Picture = NDArray[np.float32]


@dataclass(frozen=True)
class GroupedPicture:
    """What the groups of one round say of every pixel; all arrays are slices x height x width x channels."""

    value: Picture
    """Weighted mean of the estimates of a pixel."""
    variance: Picture
    """Weighted mean of the variances of these estimates."""
    disagreement: Picture
    """Variance of these estimates around their mean."""
    beliefs: GroupBeliefs
    """What all groups have learned together."""

    def without_variances(self) -> GroupedPicture:
        """Return what the next round needs of this one, which takes a third of the memory."""
        nothing = np.zeros(0, np.float32)
        return replace(self, variance=nothing, disagreement=nothing)

    @property
    def mixture(self) -> Picture:
        """Variance of the mixture of everything that the groups say of a pixel."""
        return self.variance + self.disagreement


class Grouping:
    """Groups of the patches of a picture: everything that does not change from round to round.

    Parameters
    ----------
    values : float32 array, shape (slices, height, width, channels)
    observed : boolean array of the same shape
    plan : GroupPlan
    kernels : GroupKernels
    n_threads : int
        The result does not depend on it.
    """

    def __init__(
        self,
        values: Picture,
        observed: NDArray[np.bool_],
        plan: GroupPlan,
        kernels: GroupKernels,
        n_threads: int = 1,
    ) -> None:
        self.plan, self.kernels, self.n_threads = plan, kernels, n_threads
        self.rotation = _uncorrelated(values, observed) if plan.separate_channels else None
        self.values = self._rotated(values)
        self.observed = np.ascontiguousarray(observed).view(np.uint8)
        self.patches = PatchRows(values, observed, plan.size, plan.stride)
        # Offsets and channels of the columns of a patch; a part is a channel, or all channels together.
        offsets, n_channels = self.patches.offsets, values.shape[3]
        n_parts = n_channels if plan.separate_channels else 1
        self.offsets = np.ascontiguousarray(offsets.reshape(-1, n_parts).T)
        self.channels = np.ascontiguousarray((np.arange(len(offsets)) % n_channels).reshape(-1, n_parts).T)
        slices, y = np.meshgrid(np.arange(values.shape[0]), self.patches.y, indexing="ij")
        self.search = PatchSearch(
            shape=values.shape,
            slices=slices.ravel().astype(np.int32),
            y=y.ravel().astype(np.int32),
            x=self.patches.x.astype(np.int32),
            size=plan.size,
            reach=plan.reach,
            slice_reach=plan.slice_reach if values.shape[0] > 1 else 0,
            distance_weight=plan.distance_weight,
            n_members=plan.n_members,
        )

    def beliefs(self, noise: NDArray[np.float64]) -> GroupBeliefs:
        """Return the beliefs before the first round, given the noise variance of each channel."""
        return GroupBeliefs.of(noise, self.channels)

    def round(
        self,
        current: Picture,
        beliefs: GroupBeliefs,
        *,
        learn_noise: bool,
        tell: Callable[[float], None] = lambda share: None,
    ) -> GroupedPicture:
        """Return the picture after one round.

        Parameters
        ----------
        current : float32 array, shape (slices, height, width, channels)
            The picture on which like patches are found, and from which their models start.
        beliefs : GroupBeliefs
        learn_noise : bool
        tell : callable
            Called with the share of the round that is done.
        """
        plan, shape = self.plan, self.values.shape
        windows = Windows(
            self._rotated(current).ravel(),
            self.values.ravel(),
            self.observed.ravel(),
            self.offsets,
        )
        models = beliefs.models(floor_share=plan.floor_share, n_iterations=plan.n_iterations)
        average = self.kernels.average_patches(windows, self.search, models, self.n_threads, tell)
        value, variance, disagreement = (
            array.reshape(shape)
            for array in (average.value(windows.current), average.variance, average.disagreement)
        )
        if self.rotation is not None:
            value = value @ self.rotation.T
            variance, disagreement = (array @ self.rotation.T**2 for array in (variance, disagreement))
        return GroupedPicture(value, variance, disagreement, beliefs.after(average, learn_noise=learn_noise))

    def _rotated(self, picture: Picture) -> Picture:
        """Return a picture with uncorrelated channels, if each of them has models of its own."""
        return np.ascontiguousarray(picture if self.rotation is None else picture @ self.rotation)


def _uncorrelated(values: Picture, observed: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the orthogonal matrix that makes the channels of a picture uncorrelated.

    Its columns are the principal components of the channels. Channels that have models of their own should
    have little in common. The colours of a picture have nearly everything in common; after the rotation, one
    channel is close to the lightness of the picture. Distances between patches do not depend on a rotation.
    """
    seen = values[observed.all(axis=3)].astype(np.float64)
    vectors: NDArray[np.float32] = np.linalg.eigh(seen.T @ seen)[1].astype(np.float32)
    return vectors
