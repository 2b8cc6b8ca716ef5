"""Rounds of grouping on top of the picture that the dictionary restores (docs/math.md section 19)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa._support.progress import ProgressBar, open_bar
from bpfa.backends.groups import GroupKernels
from bpfa.data.overlap import Restored
from bpfa.images.canvas import Canvas
from bpfa.images.groups.features import FinishedGroups
from bpfa.images.groups.held_out import Verdict, combined_variance, hide_pixels, judge
from bpfa.images.groups.plan import GroupPlan
from bpfa.images.groups.round import GroupedPicture, Grouping

__all__ = ["Refined", "refine"]

# Rounds end when the squared error of the hidden pixels falls by less than this share of it, and rounds on a
# picture without missing pixels when the picture changes by less than this share of its deviation.
LEAST_GAIN, LEAST_CHANGE = 0.0005, 0.1
# Number of rounds with all pixels that follow the rounds in which some are hidden.
LAST_ROUNDS = 2
# Groups with a smaller weight than this are not worth their time.
LEAST_WEIGHT = 0.05

RestoreWithout = Callable[[NDArray[np.bool_]], Restored]


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
    restore_without: RestoreWithout,
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
    restore_without : callable
        Returns what the dictionary restores from the given pixels only.
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
    hidden = None if canvas.observed.all() else hide_pixels(canvas.observed, stream)
    if hidden is None and not canvas.observed.all():
        return Refined(dictionary, noise, 0, 0.0)
    total = plan.most_rounds + (0 if hidden is None else LAST_ROUNDS)
    with open_bar("grouping", total, shown=bool(verbose), text="round 1") as bar:
        rounds = _Rounds(canvas, plan, kernels, start, noisy, n_threads, bar)
        try:
            if hidden is None:
                rounds.until_settled(dictionary)
                verdict = Verdict(1.0, 1.0)
            else:
                verdict = rounds.judged(dictionary, hidden, restore_without)
        except KeyboardInterrupt:
            if rounds.best is None or hidden is not None:
                return Refined(dictionary, noise, 0, 0.0, interrupted=True)
            return _combined(dictionary, rounds, noise, Verdict(1.0, 1.0), noisy, interrupted=True)
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
        self.arguments = plan, kernels, n_threads
        self.best: GroupedPicture | None = None
        self.n_rounds = self.n_done = 0

    def grouping(self, observed: NDArray[np.bool_]) -> Grouping:
        return Grouping(self.canvas.values, observed, *self.arguments)

    def next(self, grouping: Grouping, before: Restored | GroupedPicture) -> GroupedPicture:
        """Make one round that follows another one, or the dictionary."""

        def tell(share: float) -> None:
            self.bar.update(self.n_done + share, f"round {self.n_done + 1}")

        if isinstance(before, GroupedPicture):
            current, beliefs = before.value, before.beliefs
        else:
            current, beliefs = before.mean.astype(np.float32), grouping.beliefs(self.noise)
        found = grouping.round(current, beliefs, learn_noise=self.noisy, tell=tell)
        self.n_done += 1
        return found

    def until_settled(self, dictionary: Restored) -> None:
        """Make rounds until the picture hardly changes any more."""
        grouping, state = self.grouping(self.canvas.observed), None
        for _ in range(self.plan.most_rounds):
            before = dictionary if state is None else state
            state = self.best = self.next(grouping, before)
            self.n_rounds += 1
            if _settled(before, state):
                break

    def judged(
        self, dictionary: Restored, hidden: NDArray[np.bool_], restore_without: RestoreWithout
    ) -> Verdict:
        """Make rounds without the hidden pixels, judge by them, and end with rounds that use all pixels."""
        seen = self.canvas.values[hidden].astype(float)
        visible = self.canvas.observed & ~hidden
        restored, grouping = restore_without(visible), self.grouping(visible)
        # In single precision, because the picture may be large.
        pilot = Restored(restored.mean.astype(np.float32), restored.std.astype(np.float32), restored.informed)
        del restored
        states: list[GroupedPicture] = []
        least = np.inf
        for _ in range(self.plan.most_rounds):
            before = states[-1] if states else pilot
            found = self.next(grouping, before)
            error = float(np.mean((seen - found.value[hidden]) ** 2))
            # Noisy hidden pixels cannot tell when to end: what a round gains is less than their noise.
            if not self.noisy and states and error > least * (1 - LEAST_GAIN):
                break
            least = error
            states = [*(state.without_variances() for state in states[-LAST_ROUNDS:]), found]
            self.n_rounds += 1
            if self.noisy and _settled(before, found):
                break
        verdict = self._verdict(seen, hidden, pilot, states[-1])
        if verdict.weight >= LEAST_WEIGHT:
            state: Restored | GroupedPicture = states[0] if len(states) > LAST_ROUNDS else dictionary
            grouping = self.grouping(self.canvas.observed)
            for _ in range(min(LAST_ROUNDS, self.n_rounds)):
                state = self.best = self.next(grouping, state)
        return verdict

    def _verdict(
        self, seen: Array, hidden: NDArray[np.bool_], pilot: Restored, best: GroupedPicture
    ) -> Verdict:
        channel = np.nonzero(hidden)[3]
        noise = best.beliefs.noise[channel] if self.noisy else np.zeros(len(channel))
        spread = np.square(pilot.std[hidden], dtype=float), best.mixture[hidden].astype(float)
        return judge(seen, pilot.mean[hidden].astype(float), best.value[hidden].astype(float), spread, noise)


def _settled(before: Restored | GroupedPicture, after: GroupedPicture) -> bool:
    """Return whether a round has changed the picture by much less than its deviation."""
    value = before.value if isinstance(before, GroupedPicture) else before.mean
    change = float(np.mean((after.value - value) ** 2))
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
    variance = combined_variance(
        np.square(dictionary.std), best.mixture.astype(float), difference, verdict.weight
    )
    std = np.sqrt(verdict.correction * variance)
    informed = dictionary.informed
    restored = Restored(
        np.where(informed, mean, dictionary.mean), np.where(informed, std, dictionary.std), informed
    )
    found = best.beliefs.noise if noisy else noise
    groups = FinishedGroups(best.value, rounds.plan, best.beliefs)
    return Refined(restored, found, rounds.n_rounds, verdict.weight, interrupted, groups)
