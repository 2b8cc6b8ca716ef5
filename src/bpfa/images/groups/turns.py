"""Rounds with patches of several sizes, which take turns (docs/math.md section 19)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from bpfa._support.checks import Array
from bpfa.images.groups.round import GroupedPicture, Grouping, Picture
from bpfa.prediction.groups import GroupBeliefs

__all__ = ["Turns", "averaged"]


class Turns:
    """Rounds on one picture, with groups of patches of several sizes that take turns.

    What all groups learn together about their number of features belongs to one size of patches. The noise
    belongs to the picture. Every round begins a little ahead of the picture of the round before, in the
    direction in which that round has changed it, because rounds approach their limit from one side.

    Parameters
    ----------
    groupings : sequence of Grouping
        One for each size of patches.
    beliefs : sequence of GroupBeliefs
        What is believed before the first round of each size.
    start : float32 array, shape (slices, height, width, channels)
        The picture before the first round.

    Examples
    --------
    >>> from bpfa.backends.registry import backend_of
    >>> from bpfa.images.groups.plan import plan_groups
    >>> picture = np.add.outer(np.arange(20.0), np.arange(20.0) % 4).astype(np.float32)[None, :, :, None]
    >>> observed = np.ones(picture.shape, bool)
    >>> plans = plan_groups(observed, noisy=False).of_each_size()
    >>> groupings = [Grouping(picture, observed, plan, backend_of("cpu").groups) for plan in plans]
    >>> turns = Turns(groupings, [grouping.beliefs(np.full(1, 1e-4)) for grouping in groupings], picture)
    >>> [turns.round(learn_noise=False).beliefs.kinds.shape[1] for _ in range(3)]
    [100, 49, 100]
    """

    def __init__(
        self, groupings: Sequence[Grouping], beliefs: Sequence[GroupBeliefs], start: Picture
    ) -> None:
        self.groupings, self.beliefs, self.start = list(groupings), list(beliefs), start
        self.n_done = 0
        """Number of rounds, which decides whose turn it is."""

    @property
    def last(self) -> Grouping:
        """The groups of the last round."""
        return self.groupings[(self.n_done - 1) % len(self.groupings)]

    def round(
        self, *, learn_noise: bool, tell: Callable[[float], None] = lambda share: None
    ) -> GroupedPicture:
        """Return the picture after one more round; the parameters are those of `Grouping.round`."""
        turn = self.n_done % len(self.groupings)
        grouping = self.groupings[turn]
        found = grouping.round(self.start, self.beliefs[turn], learn_noise=learn_noise, tell=tell)
        self.beliefs[turn] = found.beliefs
        self.beliefs = [replace(each, noise=found.beliefs.noise) for each in self.beliefs]
        self.start = _further(self.start, found.value, grouping.plan.ahead)
        self.n_done += 1
        return found


def _further(before: Picture, after: Picture, ahead: float) -> Picture:
    # Without a step there is no copy, because the picture may be large.
    return after + np.float32(ahead) * (after - before) if ahead else after


def averaged(rounds: Sequence[GroupedPicture]) -> GroupedPicture:
    """Return the average of some rounds, with what groups have learned in the last of them.

    Rounds that differ count as estimates of a pixel that disagree.

    Parameters
    ----------
    rounds : sequence of GroupedPicture

    Examples
    --------
    >>> one, two = (np.full((1, 1, 1, 1), value, np.float32) for value in (1.0, 2.0))
    >>> beliefs = GroupBeliefs.of(np.array([0.01]), np.zeros((1, 49), int))
    >>> average = averaged([GroupedPicture(one, one, one, beliefs), GroupedPicture(two, one, one, beliefs)])
    >>> average.value.item(), average.variance.item(), average.disagreement.item()
    (1.5, 1.0, 1.25)
    """
    if len(rounds) == 1:
        return rounds[0]
    values = [found.value for found in rounds]
    disagreement = _mean([found.disagreement for found in rounds]) + np.var(values, axis=0)
    variance = _mean([found.variance for found in rounds])
    return GroupedPicture(_mean(values), variance, disagreement, rounds[-1].beliefs)


def _mean(pictures: Sequence[Array | Picture]) -> Picture:
    mean: Picture = np.mean(pictures, axis=0, dtype=np.float32)
    return mean
