"""Who of several workers has which leaves, and on which route a step reaches all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from bpfa.cluster.on_worker import Route

__all__ = ["balanced", "route_through"]

# To how many others a worker, or the client, passes a step on.
FAN_OUT = 8


def balanced(
    before: Sequence[str],
    workers: Sequence[str],
    n_leaves: int,
    held: Sequence[Mapping[str, int]] = (),
) -> list[str]:
    """Return the worker of every leaf: as even as possible, with as few changes as possible.

    Neighbouring leaves go to the same worker, which can add up their sums, and if possible to the one that
    has most of their rows.

    Parameters
    ----------
    before : sequence of str
        The worker of every leaf so far, who may be gone; empty at the start.
    workers : sequence of str
        Those that there are now.
    n_leaves : int
    held : sequence of mappings, optional
        How many chunks of every leaf each worker has in its memory, at the start.

    Examples
    --------
    >>> balanced([], ["a", "b"], 4)
    ['a', 'a', 'b', 'b']
    >>> balanced([], ["a", "b"], 4, [{"b": 3}, {"a": 2, "b": 1}, {"b": 1, "a": 2}, {"a": 3}])
    ['b', 'b', 'a', 'a']
    >>> balanced(["a", "a", "b", "b"], ["a", "c"], 4)
    ['a', 'a', 'c', 'c']
    >>> balanced(["a", "a", "a", "a"], ["a", "b"], 4)
    ['a', 'a', 'b', 'b']
    """
    used = list(workers)[:n_leaves]
    if not before and any(held):
        return _where_they_are(list(workers), n_leaves, held)
    if not before:
        return [used[leaf * len(used) // n_leaves] for leaf in range(n_leaves)]
    # Those who have had most leaves so far may have one more than the others.
    used = sorted(used if len(workers) <= n_leaves else workers, key=lambda worker: -before.count(worker))
    used = used[:n_leaves]
    few, more = divmod(n_leaves, len(used))
    room = {worker: few + (place < more) for place, worker in enumerate(used)}
    after: list[str | None] = []
    for worker in before:
        keeps = room.get(worker, 0) > 0
        after.append(worker if keeps else None)
        if keeps:
            room[worker] -= 1
    free = [worker for worker, places in room.items() for _ in range(places)]
    return [free.pop(0) if worker is None else worker for worker in after]


def _where_they_are(workers: list[str], n_leaves: int, held: Sequence[Mapping[str, int]]) -> list[str]:
    """Return the worker of every leaf: neighbouring leaves go to the one that has most of their rows.

    A worker that had leaves all over the tree could not add up their sums. It would send those of every leaf
    in every step, which is more than the rows that it is spared: they are sent once.
    """
    n_ranges = min(len(workers), n_leaves)
    range_of = [leaf * n_ranges // n_leaves for leaf in range(n_leaves)]
    counts: Counter[tuple[int, str]] = Counter()
    known = set(workers)
    for place, has in zip(range_of, held, strict=True):
        for worker in has.keys() & known:
            counts[place, worker] += has[worker]
    chosen: dict[int, str] = {}
    # Whoever has most rows of a range is the first to choose.
    for (place, worker), _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if place not in chosen and worker not in chosen.values():
            chosen[place] = worker
    free = [worker for worker in workers if worker not in chosen.values()]
    chosen |= {place: free.pop(0) for place in range(n_ranges) if place not in chosen}
    return [chosen[place] for place in range_of]


def route_through(workers: Sequence[str], fan_out: int = FAN_OUT) -> Route:
    """Return a route to all workers, on which no one passes a step on to more than `fan_out` others.

    Parameters
    ----------
    workers : sequence of str
    fan_out : int

    Examples
    --------
    >>> route_through(["a", "b", "c", "d", "e"], fan_out=2)
    {'a': {'b': {}, 'c': {}}, 'd': {'e': {}}}
    """
    n_groups = min(fan_out, len(workers))
    sizes = [len(workers) // n_groups + (group < len(workers) % n_groups) for group in range(n_groups)]
    route: Route = {}
    first = 0
    for size in sizes:
        group = list(workers[first : first + size])
        route[group[0]] = route_through(group[1:], fan_out) if size > 1 else {}
        first += size
    return route
