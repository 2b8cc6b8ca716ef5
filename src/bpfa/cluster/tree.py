"""Sums added up along a fixed binary tree, so that their bits do not depend on who adds which of them.

A node of the tree is a range of leaves, and its sums are those of its two halves, added. A worker adds up all
nodes whose leaves it has, and hands out the largest of them; whoever collects these adds up the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, Self, TypeVar

__all__ = ["Nodes", "largest_nodes", "total"]


class Additive(Protocol):
    """What can be added up, such as `bpfa.model.sums.LocalSums`."""

    def __add__(self, other: Self) -> Self:
        """Return the sums over the rows of both."""


Sums = TypeVar("Sums", bound=Additive)

Nodes = dict[tuple[int, int], Sums | None]
"""From a range of leaves to its sums, or None if no row of a step is in these leaves."""


def largest_nodes(nodes: Mapping[tuple[int, int], Sums | None]) -> Nodes[Sums]:
    """Return the largest nodes that can be made of given ones.

    Parameters
    ----------
    nodes : mapping from ranges of leaves to sums
        For example single leaves, (0, 1), (1, 2) and so on.

    Examples
    --------
    >>> largest_nodes({(0, 1): 1, (1, 2): 2, (2, 3): None})
    {(0, 2): 3, (2, 3): None}
    """
    found: Nodes[Sums] = {}
    for first, last in sorted(nodes):
        start, size, sums = first, last - first, nodes[first, last]
        # A node that is the right half of another is added to the left half, which has been met before.
        while start % (2 * size) and (start - size, start) in found:
            sums = _added(found.pop((start - size, start)), sums)
            start, size = start - size, 2 * size
        found[start, start + size] = sums
    return found


def total(parts: Iterable[Mapping[tuple[int, int], Sums | None]], n_leaves: int) -> Sums:
    """Return the sums of all leaves, from nodes that several workers have handed out.

    Examples
    --------
    >>> total([{(0, 2): 3, (2, 3): None}, {(3, 4): 5}], 4)
    8
    """
    nodes: dict[tuple[int, int], Sums | None] = {}
    for part in parts:
        nodes.update(part)
    whole = largest_nodes(nodes)
    sums = whole.get((0, n_leaves))
    if sums is None:
        raise ValueError(f"parts: the nodes {sorted(whole)}; expected rows in leaves 0 to {n_leaves - 1}")
    return sums


def _added(left: Sums | None, right: Sums | None) -> Sums | None:
    if left is None or right is None:
        return right if left is None else left
    return left + right
