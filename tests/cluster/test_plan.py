"""Which rows each step visits, and sums along a fixed tree."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bpfa._support.philox import Stream
from bpfa.cluster.plan import ChunkPlan
from bpfa.cluster.sharing import balanced, route_through
from bpfa.cluster.tree import largest_nodes, total
from bpfa.data import batch_ids


def visited(plan, epoch):
    """The ids that every step of an epoch visits."""
    for step in range(epoch * plan.per_epoch + 1, (epoch + 1) * plan.per_epoch + 1):
        assert plan.place(step).epoch == epoch
        yield np.concatenate(
            [
                plan.edges[part.chunk] + plan.order(epoch, part.chunk)[part.start : part.stop]
                for part in plan.parts(step)
            ]
        )


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=20),
    batch_size=st.integers(1, 90),
    window=st.integers(30, 2000),
    leaf=st.integers(1, 40),
    seed=st.integers(0, 100),
)
def test_every_epoch_visits_every_row_once_in_steps_of_nearly_equal_size(
    lengths, batch_size, window, leaf, seed
):
    plan = ChunkPlan(tuple(lengths), 3, batch_size, Stream.from_seed(seed), window, leaf)
    for epoch in (0, 1):
        steps = list(visited(plan, epoch))
        assert sorted(np.concatenate(steps)) == list(range(sum(lengths)))
        assert min(map(len, steps)) >= 1


def test_a_window_has_one_chunk_of_every_stratum_and_leaves_keep_their_chunks():
    plan = ChunkPlan((100,) * 64, 4, 256, Stream.from_seed(0), window_entries=6400, leaf_rows=64)
    assert (plan.n_windows, plan.n_strata, plan.n_leaves) == (4, 16, 4)
    for window in range(4):
        assert (np.diff(np.searchsorted(plan.strata, plan.chunks(0, window), side="right")) == 1).all()
    orders = [plan.chunks(epoch, 0).tolist() for epoch in (0, 1)]
    assert orders[0] != orders[1]
    sizes = [len(ids) for ids in visited(plan, 0)]
    # 1,600 rows of a window are six or seven batches.
    assert set(sizes) <= {228, 229, 266, 267}


def test_a_single_chunk_is_visited_like_rows_in_memory():
    stream = Stream.from_seed(3)
    plan, ids = ChunkPlan((103,), 5, 20, stream), batch_ids(103, 20, stream)
    for epoch in (0, 1):
        for mine in visited(plan, epoch):
            np.testing.assert_array_equal(mine, next(ids))


def test_sums_do_not_depend_on_who_adds_which_leaves():
    rng = np.random.default_rng(0)
    leaves = {(leaf, leaf + 1): rng.normal(size=50) * 10.0**leaf for leaf in range(16)}
    whole = total([leaves], 16)
    for _ in range(20):
        owner = rng.integers(3, size=16)
        parts = [
            largest_nodes({key: sums for key, sums in leaves.items() if owner[key[0]] == worker})
            for worker in range(3)
        ]
        np.testing.assert_array_equal(total(parts[::-1], 16), whole)
    backwards = sum(list(leaves.values())[::-1])
    assert not np.array_equal(backwards, whole)


def test_a_total_without_some_leaves_is_refused():
    with pytest.raises(ValueError, match=r"parts: the nodes \[\(0, 1\)\]"):
        total([{(0, 1): 1.0}], 2)


def test_leaves_are_shared_out_evenly_with_few_changes():
    first = balanced([], list("abc"), 16)
    assert sorted(map(first.count, "abc")) == [5, 5, 6]
    after = balanced(first, list("ac"), 16)
    assert sum(x != y for x, y in zip(first, after, strict=True)) == first.count("b")
    assert sorted(map(after.count, "ac")) == [8, 8]
    assert len(set(balanced([], [str(i) for i in range(9)], 4))) == 4


def test_workers_have_neighbouring_leaves_although_their_rows_are_scattered():
    scattered = [{"ab"[leaf % 2]: 2} for leaf in range(16)]
    assert balanced([], list("ab"), 16, scattered) == ["a"] * 8 + ["b"] * 8
    behind = [{"c": 1} for _ in range(5)] + [{"a": 2}] * 6 + [{"b": 1}] * 5
    assert balanced([], list("abc"), 16, behind) == ["c"] * 6 + ["a"] * 5 + ["b"] * 5
    # With more workers than leaves, those who have rows are chosen.
    chosen = balanced([], list("abcdef"), 4, [{"f": 1}] * 4)
    assert len(set(chosen)) == 4
    assert "f" in chosen


def test_a_route_reaches_everyone_once():
    def members(route):
        return [name for key, behind in route.items() for name in (key, *members(behind))]

    workers = [str(i) for i in range(1000)]
    route = route_through(workers)
    assert sorted(members(route)) == sorted(workers)
    assert len(route) == 8
