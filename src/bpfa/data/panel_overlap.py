"""Which columns several panels have in common: a report, and whether the panels hang together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.optional import library

__all__ = ["PanelOverlap"]

# Names that a line of the report lists.
MOST_NAMES = 12


@dataclass(frozen=True)
class PanelOverlap:
    """Which panel has which columns. `print` shows a summary, and `to_pandas` returns a table.

    Parameters
    ----------
    panels : tuple of str
        Name of every panel.
    columns : tuple of str
        Names of all columns.
    n_rows : tuple of int
        Number of rows of every panel.
    measured : boolean array, shape (n_panels, n_columns)
        Whether a panel has an observed entry of a column.

    See Also
    --------
    bpfa.data.PanelRows : Several sources with different columns.

    Examples
    --------
    >>> measured = np.array([[True, True, False], [False, True, True]])
    >>> overlap = PanelOverlap(("a.csv", "b.csv"), ("CD3", "CD4", "CD8"), (100, 50), measured)
    >>> overlap.n_shared
    1
    >>> print(overlap)
    2 panels, 150 rows, 3 columns, of which 1 is in every panel
      a.csv: 100 rows, 2 columns, 1 shared with another panel
      b.csv: 50 rows, 2 columns, 1 shared with another panel
      in every panel: CD4
      only in a.csv: CD3
      only in b.csv: CD8
    """

    panels: tuple[str, ...]
    columns: tuple[str, ...]
    n_rows: tuple[int, ...]
    measured: NDArray[np.bool_]

    @property
    def n_shared(self) -> int:
        """Number of columns that every panel has."""
        return int(self.measured.all(axis=0).sum())

    @property
    def parts(self) -> list[list[str]]:
        """The panels, divided into groups that have no column in common with one another.

        Two panels are in the same group if they share a column, or if further panels link them.

        Examples
        --------
        >>> measured = np.array([[True, True, False], [False, False, True], [True, False, False]])
        >>> PanelOverlap(("a", "b", "c"), ("x", "y", "z"), (1, 1, 1), measured).parts
        [['a', 'c'], ['b']]
        """
        part = np.arange(len(self.panels))
        for having in self.measured.T:
            linked = np.isin(part, part[having])
            if linked.any():
                part[linked] = part[linked].min()
        return [
            [name for name, own in zip(self.panels, part, strict=True) if own == first]
            for first in np.unique(part)
        ]

    def to_pandas(self) -> Any:
        """Return a frame with a row for every column of the table and a boolean column for every panel.

        Returns
        -------
        pandas.DataFrame

        See Also
        --------
        bpfa.data.PanelRows : Several sources with different columns.

        Examples
        --------
        >>> measured = np.array([[True, False], [True, True]])
        >>> frame = PanelOverlap(("a", "b"), ("CD3", "CD4"), (10, 10), measured).to_pandas()
        >>> frame.loc["CD4"].tolist()
        [False, True]
        """
        pandas = library("pandas", "tables", purpose="a frame needs pandas")
        index = pandas.Index(self.columns, name="column")
        return pandas.DataFrame(self.measured.T, index=index, columns=list(self.panels))

    def __str__(self) -> str:
        verb = "is" if self.n_shared == 1 else "are"
        lines = [
            f"{_counted(len(self.panels), 'panel')}, {_counted(sum(self.n_rows), 'row')}, "
            f"{_counted(len(self.columns), 'column')}, of which {self.n_shared} {verb} in every panel"
        ]
        in_several = self.measured.sum(axis=0) > 1
        for panel, n_rows, having in zip(self.panels, self.n_rows, self.measured, strict=True):
            lines.append(
                f"  {panel}: {_counted(n_rows, 'row')}, {_counted(int(having.sum()), 'column')}, "
                f"{int((having & in_several).sum())} shared with another panel"
            )
        patterns = dict.fromkeys(map(tuple, self.measured.T.tolist()))
        for pattern in sorted(patterns, key=sum, reverse=True):
            same = [tuple(having) == pattern for having in self.measured.T.tolist()]
            names = [name for name, chosen in zip(self.columns, same, strict=True) if chosen]
            lines.append(f"  {self._place(pattern)}: {_listed(names)}")
        return "\n".join(lines)

    def _place(self, pattern: tuple[bool, ...]) -> str:
        """Return in words which panels have the columns of a pattern."""
        panels = [panel for panel, chosen in zip(self.panels, pattern, strict=True) if chosen]
        if not panels:
            return "without an observed entry"
        if len(panels) == len(self.panels):
            return "in every panel"
        return f"only in {' and '.join(panels)}"


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
