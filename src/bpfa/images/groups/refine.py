"""Rounds of grouping on top of the picture that the dictionary restores (docs/math.md section 19)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa._support.progress import ProgressBar, open_bar
from bpfa.backends.groups import GroupKernels
from bpfa.data.overlap import Restored
from bpfa.images.canvas import Canvas
from bpfa.images.groups.features import FinishedGroups
from bpfa.images.groups.held_out import hide_pixels, judge
from bpfa.images.groups.plan import GroupPlan
from bpfa.images.groups.recorrupted import ADDED, can_be_checked, middle_of, recorrupted, trusted_weight
from bpfa.images.groups.round import GroupedPicture, Grouping, Picture
from bpfa.images.groups.turns import Turns, averaged
from bpfa.images.groups.verdict import (
    Verdict,
    combined_variance,
    like_its_surroundings,
    variance_of_groups,
)
from bpfa.prediction.groups import GroupBeliefs

__all__ = ["Refined", "refine"]

# Rounds end when the squared error of the hidden pixels falls by less than this share of it, and rounds on a
# noisy picture when the picture changes by less than this share of its deviation.
LEAST_GAIN, LEAST_CHANGE = 0.0005, 0.04
# Number of rounds with all pixels that follow the rounds in which some are hidden.
LAST_ROUNDS = 4
# Groups with a smaller weight than this are left out.
LEAST_WEIGHT = 0.05

Restore = Callable[[Canvas], Restored]


@dataclass(frozen=True)
class Refined:
    """A picture refined by groups, in standardised units.

    Parameters
    ----------
    restored : Restored
    noise : array, shape (channels,)
        Variance of the noise of each channel.
    n_rounds : int
        Number of rounds behind the picture; 0 if it is that of the dictionary.
    weight : float
        Weight of the groups; that of the dictionary is 1 - weight.
    interrupted : bool
        Whether Ctrl-C ended the rounds.
    groups : FinishedGroups, optional
        What is needed to look at single groups; None if the picture is that of the dictionary.
    """

    restored: Restored
    noise: Array
    n_rounds: int
    weight: float
    interrupted: bool = False
    groups: FinishedGroups | None = None

    @classmethod
    def nothing(cls, restored: Restored) -> Refined:
        """Return the picture of the dictionary as it is."""
        return cls(restored, np.zeros(0), 0, 0.0)


def refine(
    canvas: Canvas,
    dictionary: Restored,
    noise: Array,
    plan: GroupPlan,
    kernels: GroupKernels,
    *,
    noisy: bool,
    restore: Restore,
    stream: Stream,
    n_threads: int = 1,
    verbose: int = 0,
) -> Refined:
    """Refine the picture that the dictionary restores by groups of like patches.

    Parameters
    ----------
    canvas : Canvas
    dictionary : Restored
    noise : array, shape (channels,)
        Variance of the noise of each channel, as the dictionary has learned it.
    plan : GroupPlan
    kernels : GroupKernels
    noisy : bool
        Whether the observed pixels are noisy.
    restore : callable
        Returns what the dictionary restores from a picture with fewer pixels; or, if pixels are noisy, what a
        dictionary that was learned from a noisier picture restores from it.
    stream : Stream
        Source of random numbers.
    n_threads : int
        The result does not depend on it.
    verbose : int
        1 shows a progress bar in terminals and notebooks.

    Returns
    -------
    Refined
        After Ctrl-C it is the best picture so far.
    """
    start = np.asarray(noise, float) if noisy else np.full(canvas.values.shape[3], plan.noise)
    hidden = hide_pixels(canvas.observed, stream)
    if hidden is None and not canvas.observed.all():
        return Refined(dictionary, noise, 0, 0.0)
    total = plan.most_rounds * (2 if noisy else 1) + (0 if noisy else LAST_ROUNDS)
    with open_bar("grouping", total, shown=bool(verbose), text="round 1") as bar:
        rounds = _Rounds(canvas, plan, kernels, start, noisy, n_threads, bar)
        try:
            if noisy or hidden is None:
                rounds.until_settled(dictionary)
                verdict = Verdict(rounds.checked(restore, stream))
                if verdict.weight < LEAST_WEIGHT:
                    rounds.best, verdict = None, Verdict(0.0)
            else:
                verdict = rounds.judged(dictionary, hidden, restore)
        except KeyboardInterrupt:
            if rounds.best is None or not noisy:
                return Refined(dictionary, noise, 0, 0.0, interrupted=True)
            return _combined(dictionary, rounds, noise, Verdict(1.0), noisy, interrupted=True)
    return _combined(dictionary, rounds, noise, verdict, noisy)


class _Rounds:
    """Rounds in progress, and the best picture so far."""

    def __init__(
        self,
        canvas: Canvas,
        plan: GroupPlan,
        kernels: GroupKernels,
        noise: Array,
        noisy: bool,
        n_threads: int,
        bar: ProgressBar,
    ) -> None:
        self.canvas, self.plan, self.noise, self.noisy, self.bar = canvas, plan, noise, noisy, bar
        self.plans = plan.of_each_size(canvas.values.shape[3])
        self.arguments = kernels, n_threads
        self.best: GroupedPicture | None = None
        self.last: Grouping | None = None
        self.n_rounds = self.n_done = 0

    def turns(self, canvas: Canvas, start: Restored | GroupedPicture, noise: Array | None = None) -> Turns:
        """Return rounds on a picture that begin with this one, and with the noise of the picture or this."""
        groupings = [Grouping(canvas.values, canvas.observed, plan, *self.arguments) for plan in self.plans]
        beliefs = [grouping.beliefs(self.noise if noise is None else noise) for grouping in groupings]
        return Turns(groupings, beliefs, _picture(start))

    def next(self, turns: Turns) -> GroupedPicture:
        """Make one more round."""

        def tell(share: float) -> None:
            self.bar.update(self.n_done + share, f"round {self.n_done + 1}")

        found = turns.round(learn_noise=self.noisy, tell=tell)
        self.n_done += 1
        return found

    def until_settled(self, dictionary: Restored) -> None:
        """Make rounds until the picture hardly changes any more."""
        for state in self._settling(self.canvas, dictionary, self.noise):
            self.best = state
            self.n_rounds += 1

    def _settling(self, canvas: Canvas, dictionary: Restored, noise: Array) -> Iterator[GroupedPicture]:
        turns = self.turns(canvas, dictionary, noise)
        before: Restored | GroupedPicture = dictionary
        for _ in range(self.plan.most_rounds):
            state = self.next(turns)
            self.last = self.last or turns.last
            yield state
            if _settled(before, state):
                return
            before = state

    def checked(self, restore: Restore, stream: Stream) -> float:
        """Return the weight of the groups, judged by a noisier copy of the middle of the picture."""
        assert self.best is not None
        if not can_be_checked(self.canvas):
            return 1.0
        where = middle_of(self.canvas)
        part = replace(
            self.canvas,
            values=np.ascontiguousarray(self.canvas.values[where]),
            observed=np.ascontiguousarray(self.canvas.observed[where]),
        )
        noise = self.best.beliefs.noise
        copy = recorrupted(part, noise, stream)
        pilot = restore(copy.canvas)
        *_, last = self._settling(copy.canvas, pilot, (1 + ADDED) * noise)
        pictures = copy.other, *(copy.pixels(values.astype(float)) for values in (pilot.mean, last.value))
        return trusted_weight(*(picture[part.observed] for picture in pictures))

    def judged(self, dictionary: Restored, hidden: NDArray[np.bool_], restore: Restore) -> Verdict:
        """Make rounds without the hidden pixels, judge by them, and end with rounds that use all pixels."""
        seen = self.canvas.values[hidden].astype(float)
        visible = replace(self.canvas, observed=self.canvas.observed & ~hidden)
        restored = restore(visible)
        # In single precision, because the picture may be large.
        pilot = Restored(restored.mean.astype(np.float32), restored.std.astype(np.float32), restored.informed)
        del restored
        turns = self.turns(visible, pilot)
        n_sizes = len(self.plans)
        recent: deque[GroupedPicture] = deque(maxlen=n_sizes)
        # What the last rounds up to the best one began with, and what was found since.
        states: list[Restored | GroupedPicture] = [pilot]
        best, least = None, np.inf
        # Sizes differ in what they gain, so that every size has a turn before the rounds end.
        while self.n_done < self.plan.most_rounds and self.n_done - self.n_rounds < n_sizes:
            recent.append(self.next(turns))
            states = [*states[-(LAST_ROUNDS + n_sizes) :], recent[-1].without_variances()]
            found = averaged(recent)
            error = float(np.mean((seen - found.value[hidden]) ** 2))
            if best is None or error <= least * (1 - LEAST_GAIN):
                best, least, self.n_rounds = found, error, self.n_done
        assert best is not None
        spread = np.square(pilot.std[hidden], dtype=float), best.mixture[hidden].astype(float)
        pictures = pilot.mean[hidden].astype(float), best.value[hidden].astype(float)
        verdict = judge(seen, *pictures, spread)
        if verdict.weight >= LEAST_WEIGHT:
            n_last = min(LAST_ROUNDS, self.n_rounds)
            first = self.n_rounds - n_last
            before = states[first - self.n_done - 1] if first else dictionary
            self._repeat(before, n_last, turns.beliefs)
        return verdict

    def _repeat(self, start: Restored | GroupedPicture, n_last: int, beliefs: Sequence[GroupBeliefs]) -> None:
        """Make the last rounds up to the best one again, with all pixels and with what has been learned."""
        turns = self.turns(self.canvas, start)
        turns.beliefs, turns.n_done = list(beliefs), self.n_rounds - n_last
        recent: deque[GroupedPicture] = deque(maxlen=len(self.plans))
        for _ in range(n_last):
            recent.append(self.next(turns))
            self.best, self.last = averaged(recent), turns.last


def _picture(state: Restored | GroupedPicture) -> Picture:
    """Return the picture that the next round begins with."""
    return state.value if isinstance(state, GroupedPicture) else state.mean.astype(np.float32)


def _settled(before: Restored | GroupedPicture, after: GroupedPicture) -> bool:
    """Return whether a round has changed the picture by much less than its deviation."""
    change = float(np.mean((after.value - _picture(before)) ** 2))
    return change < LEAST_CHANGE**2 * float(np.mean(after.mixture))


def _combined(
    dictionary: Restored,
    rounds: _Rounds,
    noise: Array,
    verdict: Verdict,
    noisy: bool,
    interrupted: bool = False,
) -> Refined:
    """Return the average of dictionary and groups, and its corrected deviation."""
    best = rounds.best
    if best is None:
        std = dictionary.std * np.sqrt(verdict.correction)
        return Refined(dictionary._replace(std=std), noise, 0, 0.0, interrupted)
    difference = best.value - dictionary.mean
    mean = dictionary.mean + verdict.weight * difference
    spread = variance_of_groups(best.variance, best.disagreement, noisy=noisy)
    variance = combined_variance(np.square(dictionary.std), spread, difference, verdict.weight, noisy=noisy)
    std = np.sqrt(like_its_surroundings(variance) if noisy else verdict.correction * variance)
    informed = dictionary.informed
    restored = Restored(
        np.where(informed, mean, dictionary.mean), np.where(informed, std, dictionary.std), informed
    )
    found = best.beliefs.noise if noisy else noise
    assert rounds.last is not None
    groups = FinishedGroups(best.value, rounds.last.plan, best.beliefs, rounds.last.rotation)
    return Refined(restored, found, rounds.n_rounds, verdict.weight, interrupted, groups)
