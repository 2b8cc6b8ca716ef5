"""Rounds of groups: sizes that take turns, how many rounds there are, and which of them are repeated."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from bpfa._support.philox import Stream
from bpfa.backends.registry import BACKENDS
from bpfa.data.overlap import Restored
from bpfa.images.canvas import Canvas
from bpfa.images.groups.held_out import hide_pixels
from bpfa.images.groups.plan import plan_groups
from bpfa.images.groups.round import GroupedPicture, Grouping
from bpfa.images.groups.turns import Turns, averaged

# The package has a function of the same name.
refine_module = import_module("bpfa.images.groups.refine")


class ScriptedRounds(refine_module._Rounds):
    """Rounds on a picture of zeros that make the errors that they are told to make."""

    def __init__(self, errors, n_sizes):
        picture = np.zeros((1, 40, 40, 1))
        canvas = Canvas.of(picture[0, :, :, 0])
        plan = replace(plan_groups(canvas.observed, noisy=False), most_rounds=len(errors))
        plan = replace(plan, next_sizes=((7, 7), (6, 6), (5, 5))[: n_sizes - 1])
        super().__init__(canvas, plan, BACKENDS["cpu"].groups, np.full(1, 1e-4), False, 1, None)
        self.errors, self.repeated = errors, None

    def next(self, turns):
        error, self.n_done = self.errors[self.n_done], self.n_done + 1
        picture = np.full(self.canvas.values.shape, error, np.float32)
        return GroupedPicture(picture, picture, picture, turns.beliefs[0])

    def _repeat(self, start, n_last, beliefs):
        self.repeated = (start.value if isinstance(start, GroupedPicture) else start.mean).flat[0], n_last


@pytest.mark.parametrize(
    ("errors", "n_sizes", "expected"),
    [
        # One size that fails does not end the rounds; every size that fails does.
        ([5, 6, 4, 4.5, 4.2, 1], 2, (3, 5, (9, 3))),
        ([5, 6, 7, 1], 2, (1, 3, (9, 1))),
        ([5, 6, 7, 1], 3, (4, 4, (9, 4))),
        # The last four rounds up to the best one are repeated, from what they began with.
        ([8, 7, 6, 5, 4, 3, 3.5, 3.5, 1], 2, (6, 8, (np.float32(7), 4))),
        ([8, 7, 6, 5, 4, 3], 2, (6, 6, (np.float32(7), 4))),
    ],
)
def test_rounds_end_when_no_size_is_better(errors, n_sizes, expected, monkeypatch):
    monkeypatch.setattr(refine_module, "averaged", lambda recent: recent[-1])
    rounds = ScriptedRounds(errors, n_sizes)
    shape = rounds.canvas.values.shape
    dictionary = Restored(np.full(shape, 9.0), np.ones(shape), np.ones(shape, bool))
    hidden = hide_pixels(rounds.canvas.observed, Stream.from_seed(0))
    rounds.judged(dictionary, hidden, lambda canvas: dictionary)
    assert (rounds.n_rounds, rounds.n_done, rounds.repeated) == expected


def drawn_turns(ahead=0.0):
    """Rounds of two sizes on a small picture with holes."""
    y, x = np.indices((40, 44))
    picture = np.sin(x / 2 + y / 3)[None, :, :, None].astype(np.float32)
    observed = np.random.default_rng(0).random(picture.shape) < 0.5
    plan = replace(plan_groups(observed, noisy=False), ahead=ahead)
    groupings = [Grouping(picture, observed, each, BACKENDS["cpu"].groups) for each in plan.of_each_size()]
    start = np.where(observed, picture, 0).astype(np.float32)
    return Turns(groupings, [grouping.beliefs(np.full(1, 1e-4)) for grouping in groupings], start)


def test_sizes_take_turns_and_keep_what_they_have_learned():
    turns = drawn_turns()
    first, second, third = (turns.round(learn_noise=False) for _ in range(3))
    large, small = drawn_turns().groupings
    np.testing.assert_array_equal(
        second.value, small.round(first.value, small.beliefs(np.full(1, 1e-4)), learn_noise=False).value
    )
    np.testing.assert_array_equal(
        third.value, large.round(second.value, first.beliefs, learn_noise=False).value
    )
    assert turns.last is turns.groupings[0]


def test_rounds_begin_ahead_of_the_last_picture():
    turns = drawn_turns(ahead=0.5)
    start = turns.start
    found = turns.round(learn_noise=False)
    np.testing.assert_allclose(turns.start, found.value + 0.5 * (found.value - start), atol=1e-6)


def test_rounds_that_differ_count_as_disagreement():
    turns = drawn_turns()
    first, second = turns.round(learn_noise=False), turns.round(learn_noise=False)
    average = averaged([first, second])
    np.testing.assert_allclose(average.value, (first.value + second.value) / 2, atol=1e-6)
    apart = (first.value - second.value) ** 2 / 4
    np.testing.assert_allclose(
        average.disagreement, (first.disagreement + second.disagreement) / 2 + apart, atol=1e-6
    )
    assert average.beliefs is second.beliefs
