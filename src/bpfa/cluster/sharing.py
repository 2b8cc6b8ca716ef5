"""Who of several workers has which leaves, and on which route a step reaches all of them."""

from __future__ import annotations

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

    Neighbouring leaves go to the same worker, which can add up their sums, unless others have their rows.

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
    >>> balanced([], ["a", "b"], 4, [{"b": 3}, {"a": 3}, {"b": 2, "a": 1}, {"b": 3}])
    ['b', 'a', 'b', 'a']
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
    """Return the worker of every leaf: one that has most of its rows, unless it has more than others."""
    few, more = divmod(n_leaves, len(workers))
    n_larger, shares = more, dict.fromkeys(workers, 0)
    chosen: list[str] = []
    for has in held:
        free = [worker for worker in workers if shares[worker] < few + (n_larger > 0)]
        last = chosen[-1] if chosen else None
        best = max(free, key=lambda worker: (has.get(worker, 0), worker == last))
        shares[best] += 1
        n_larger -= shares[best] == few + 1
        chosen.append(best)
    return chosen


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
