"""How the patches of a picture are grouped. Chosen by benchmarks/group_settings.py."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["GroupPlan", "plan_groups"]

# Largest number of values that are modelled together. A picture with channels gets narrower patches.
MOST_NUMBERS = 100
# Pictures with more channels than this are not grouped: a group would not have enough patches to learn from.
MOST_CHANNELS = 256
# Smallest number of members of a group of patches that are narrower than usual.
FEWEST_MEMBERS = 30
# Channels of which the same pixels are missing are modelled together as well if patches can be this wide, as
# those of up to four channels can.
NARROWEST_JOINT = 5
# Smallest number of patches that a picture must have to be grouped.
FEWEST_PATCHES = 16


@dataclass(frozen=True)
class GroupPlan:
    """How the patches of a picture are grouped, and how their models are fitted.

    All variances are in units of the standardised picture, whose variance is 1.

    Parameters
    ----------
    size : pair of int
        Height and width of a patch.
    stride : int
        Largest distance in pixels between the reference patches, each of which has a group.
    reach, slice_reach : int
        The members of a group begin at most this many pixels and slices away from the reference.
    n_members : int
        Number of members of a group of patches of `size`. Other sizes have as many in proportion to their
        numbers of pixels.
    distance_weight : float
        What the square of a distance of one pixel counts for when patches are compared.
    floor_share : float
        Least variance of what the features of a group do not explain, as a share of that of the noise.
    n_iterations : int
        Number of EM iterations for each group.
    most_rounds : int
        Largest number of rounds.
    noise : float
        Noise variance of pixels that are taken as they are.
    separate_channels : bool
        Whether each channel of a group has a model of its own. Members are found on all channels in any case.
    next_sizes : tuple of pairs of int
        Sizes of the patches of the following rounds. They and `size` take turns.
    joint_size : pair of int, optional
        Size of patches whose channels are modelled together, if those of all others have models of their own.
        It has its turn last.
    ahead : float
        How far ahead of the last picture a round begins, as a share of what the last round has changed.
    """

    size: tuple[int, int]
    stride: int
    reach: int
    slice_reach: int
    n_members: int
    distance_weight: float
    floor_share: float
    n_iterations: int
    most_rounds: int
    noise: float = 1e-4
    separate_channels: bool = False
    next_sizes: tuple[tuple[int, int], ...] = ()
    joint_size: tuple[int, int] | None = None
    ahead: float = 0.0

    def of_each_size(self, n_channels: int = 1) -> list[GroupPlan]:
        """Return a plan for each of the sizes that take turns."""
        plans = [self._with_size(size) for size in (self.size, *self.next_sizes)]
        if self.joint_size is not None:
            joint = self._with_size(self.joint_size, n_channels)
            plans.append(replace(joint, separate_channels=False))
        return plans

    def _with_size(self, size: tuple[int, int], n_together: int = 1) -> GroupPlan:
        # Reference patches overlap by half, so that each pixel is in several groups.
        stride = max(1, min(self.stride, (min(size) + 1) // 2))
        share = n_together * size[0] * size[1] / (self.size[0] * self.size[1])
        n_members = max(1, round(share * self.n_members))
        return replace(self, size=size, stride=stride, n_members=n_members, next_sizes=(), joint_size=None)


CLEAN = GroupPlan((10, 10), 5, 32, 1, 90, 1e-4, 10.0, 5, 12, next_sizes=((7, 7),), ahead=0.4)
"""For pictures whose observed pixels are taken as they are."""
NOISY = GroupPlan((7, 7), 3, 32, 1, 40, 4e-5, 0.005, 3, 6)
"""For noisy pictures."""


def plan_groups(observed: NDArray[np.bool_], *, noisy: bool) -> GroupPlan | None:
    """Return how the patches of a picture are grouped, or None if the picture is not suited to groups.

    Channels that are noisy, or of which different pixels are missing, tell something about one another and
    are modelled together. Clean channels of which the same pixels are missing have models of their own, of
    wider patches. If there are up to four, they take turns with narrower patches whose channels are modelled
    together.

    Parameters
    ----------
    observed : boolean array, shape (slices, height, width, channels)
    noisy : bool

    Examples
    --------
    >>> plan_groups(np.ones((1, 99, 99, 1), bool), noisy=True).size
    (7, 7)
    >>> [plan_groups(np.ones((1, 99, 99, 3), bool), noisy=noisy).size for noisy in (True, False)]
    [(5, 5), (10, 10)]
    >>> plans = plan_groups(np.ones((1, 99, 99, 1), bool), noisy=False).of_each_size()
    >>> [(plan.size, plan.stride, plan.n_members) for plan in plans]
    [((10, 10), 5, 90), ((7, 7), 4, 44)]
    >>> [plan_groups(np.ones((1, 99, 99, n), bool), noisy=False).joint_size for n in (1, 3, 8)]
    [None, (5, 5), None]
    >>> plan_groups(np.ones((1, 4, 4, 1), bool), noisy=True) is None
    True
    """
    _, height, width, n_channels = observed.shape
    plan = NOISY if noisy else CLEAN
    if not noisy and n_channels > 1 and (observed == observed[..., :1]).all():
        plan = replace(plan, separate_channels=True)
    together = 1 if plan.separate_channels else n_channels
    affordable = _affordable_size(together)
    sizes = [
        (min(rows, affordable, height), min(columns, affordable, width))
        for rows, columns in (plan.size, *plan.next_sizes)
    ]
    # Sizes that have become the same are one size.
    size, *next_sizes = dict.fromkeys(sizes)
    n_patches = (height - size[0] + 1) * (width - size[1] + 1)
    if n_channels > MOST_CHANNELS or n_patches < FEWEST_PATCHES:
        return None
    n_members = plan.n_members
    if not noisy:
        share = together * size[0] * size[1] / (plan.size[0] * plan.size[1])
        n_members = max(FEWEST_MEMBERS, round(share * n_members))
    joint = _affordable_size(n_channels)
    if plan.separate_channels and NARROWEST_JOINT <= joint <= min(size):
        plan = replace(plan, joint_size=(joint, joint))
    return replace(plan, size=size, n_members=n_members, next_sizes=tuple(next_sizes))


def _affordable_size(n_together: int) -> int:
    """Return the largest width of patches of so many channels that are modelled together."""
    return max(1, int((MOST_NUMBERS / n_together) ** 0.5))
