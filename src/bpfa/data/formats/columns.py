"""Which columns of a table are data, which are names of rows, and which are left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, NoReturn

__all__ = ["Choice", "choose_columns", "in_list", "refuse_text"]

# Columns that a message lists by name.
MOST_NAMES = 10


@dataclass(frozen=True)
class Choice:
    """What the user says about the columns of a table.

    Parameters
    ----------
    columns : list of str, optional
        The columns to use, in this order; all others by default.
    index : str, int, list of them, or False, optional
        The columns with names of rows, by name or position. None leaves it open, and False means none.
    exclude : list of str, optional
        Columns to leave out.
    """

    columns: Sequence[str] | None = None
    index: Any = None
    exclude: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name, given in (("columns", self.columns), ("exclude", self.exclude)):
            if isinstance(given, str):
                raise TypeError(f"{name}={given!r}: expected a list of names")
        if self.index is True or not isinstance(self.index, (str, int, list, tuple, NoneType)):
            raise TypeError(f"index={self.index!r}: expected the name of a column, a list of names, or False")

    def mentions(self, label: str) -> bool:
        """Return whether a column is said to be data, or to be left out."""
        return self.index is not None or label in (self.columns or ()) or label in (self.exclude or ())


def choose_columns(
    name: str, labels: Sequence[str], given: Choice, likely_index: tuple[int, ...] = ()
) -> tuple[list[int], list[int]]:
    """Return the positions of the columns that are data, and of those that name rows.

    Parameters
    ----------
    name : str
        What errors call the table.
    labels : sequence of str
        The names of its columns.
    given : Choice
    likely_index : tuple of int
        The columns that name rows if the choice leaves it open.

    Examples
    --------
    >>> choose_columns("t.csv", ["gene", "a", "note", "b"], Choice(index="gene", exclude=["note"]))
    ([1, 3], [0])
    >>> choose_columns("t.csv", ["gene", "a"], Choice(exclude=["b"]))
    Traceback (most recent call last):
    ...
    ValueError: exclude: 'b' is not in t.csv, which has 'gene', 'a'; expected some of these
    """
    places = {label: at for at, label in enumerate(labels)}
    index = _index_positions(name, places, given.index, likely_index)
    left_out = {_position(name, places, "exclude", label) for label in given.exclude or ()}
    if given.columns is None:
        wanted = [at for at in range(len(labels)) if at not in left_out and at not in index]
    else:
        wanted = [_position(name, places, "columns", label) for label in given.columns]
    for at in wanted:
        if at in index:
            raise ValueError(f"columns: {labels[at]!r} holds names of rows as well; expected one of the two")
    for role, members in (("columns", wanted), ("index", index)):
        for at in members:
            if at in left_out:
                raise ValueError(f"{role}: {labels[at]!r} is excluded as well; expected one of the two")
    if not wanted and given.columns is not None:
        raise ValueError(f"columns: none of {name}; expected at least one")
    if not wanted:
        raise ValueError(f"{name}: no column is left but for names of rows; expected columns of numbers")
    return wanted, index


def in_list(*labels: Any) -> str:
    """Return names as they stand in a list of Python."""
    return repr(list(labels))


def refuse_text(name: str, places: Mapping[Any, str | None], *hints: str) -> NoReturn:
    """Raise an error about columns that hold something other than numbers.

    Parameters
    ----------
    name : str
        What errors call the table.
    places : mapping of str to str or None
        For each such column an entry that is no number, and where it is, if that is known.
    *hints : str
        What else may help.

    Examples
    --------
    >>> refuse_text("t.csv", {"donor": "'p7' in line 2"})
    Traceback (most recent call last):
    ...
    TypeError: t.csv: column 'donor' is not numbers ('p7' in line 2); expected numbers, index=['donor'] if \
it names the rows, or exclude=['donor']
    """
    first, where = next(iter(places.items()))
    shown = "" if where is None else f" ({where})"
    rest = list(places)[1:]
    others = f", nor {'is' if len(rest) == 1 else 'are'} {', '.join(map(repr, rest[:3]))}" if rest else ""
    others += f" and {len(rest) - 3} more" if len(rest) > 3 else ""
    listed = list(places)[:MOST_NAMES]
    further = "" if len(places) <= MOST_NAMES else " and so on"
    ways = f"index={in_list(first)} if it names the rows, or exclude={in_list(*listed)}{further}"
    ways = ", ".join(["numbers", *hints, ways])
    raise TypeError(f"{name}: column {first!r} is not numbers{shown}{others}; expected {ways}")


def _index_positions(name: str, places: Mapping[str, int], index: Any, likely: tuple[int, ...]) -> list[int]:
    if index is None or index is False:
        return list(likely) if index is None else []
    labels = [index] if isinstance(index, (str, int)) else index
    return [_position(name, places, "index", label) for label in labels]


def _position(name: str, places: Mapping[str, int], argument: str, label: Any) -> int:
    if label in places:
        return places[label]
    # Positions are accepted for names of rows, because a column with such names often has no name itself.
    if argument == "index" and isinstance(label, int) and -len(places) <= label < len(places):
        return label % len(places)
    shown = [repr(known) for known in list(places)[:MOST_NAMES]]
    more = "" if len(places) <= MOST_NAMES else f" and {len(places) - MOST_NAMES} more"
    raise ValueError(
        f"{argument}: {label!r} is not in {name}, which has {', '.join(shown)}{more}; expected some of these"
    )
