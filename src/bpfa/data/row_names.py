"""Names of rows: columns of a table that say which row is which, and are not data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.optional import library

__all__ = ["RowNames"]


@dataclass(frozen=True)
class RowNames:
    """The names of the rows of a table, which are one or more of its columns.

    Parameters
    ----------
    labels : tuple of str
        The name of each of these columns; an empty string if it has none.
    values : tuple of arrays
        The entries of each of these columns, one for each row. Text files give them exactly as they are
        written there.

    See Also
    --------
    bpfa.data.RowSource : The base of all sources.

    Examples
    --------
    >>> names = RowNames(("gene",), (np.array(["TP53", "MYC"], dtype=object),))
    >>> index = names.to_pandas()
    >>> index.name, list(index)
    ('gene', ['TP53', 'MYC'])
    """

    labels: tuple[str, ...]
    values: tuple[NDArray[Any], ...]

    def __len__(self) -> int:
        return len(self.values[0])

    def to_pandas(self) -> Any:
        """Return the names as an index of pandas, which has several levels if there are several columns.

        Returns
        -------
        pandas.Index or pandas.MultiIndex

        See Also
        --------
        bpfa.data.RowNames.from_pandas : The way back.

        Examples
        --------
        >>> RowNames(("gene",), (np.array(["TP53", "MYC"], dtype=object),)).to_pandas().tolist()
        ['TP53', 'MYC']
        """
        pandas = library("pandas", "tables", purpose="an index needs pandas")
        labels = [label or None for label in self.labels]
        if len(labels) == 1:
            return pandas.Index(self.values[0], name=labels[0])
        return pandas.MultiIndex.from_arrays(list(self.values), names=labels)

    @classmethod
    def from_pandas(cls, index: Any) -> RowNames | None:
        """Return an index of pandas as names, or None if it only numbers the rows 0, 1, 2, ...

        Parameters
        ----------
        index : pandas.Index

        Returns
        -------
        RowNames or None

        See Also
        --------
        bpfa.data.RowNames.to_pandas : The way back.

        Examples
        --------
        >>> import pandas as pd
        >>> RowNames.from_pandas(pd.Index(["a", "b"], name="gene")).labels
        ('gene',)
        >>> RowNames.from_pandas(pd.RangeIndex(2)) is None
        True
        """
        pandas = library("pandas", "tables")
        counted = isinstance(index, pandas.RangeIndex) and index.name is None
        if counted and index.start == 0 and index.step == 1:
            return None
        levels = [index.get_level_values(level) for level in range(index.nlevels)]
        labels = tuple("" if level.name is None else str(level.name) for level in levels)
        return cls(labels, tuple(level.to_numpy() for level in levels))

    @classmethod
    def joined(cls, parts: Sequence[RowNames | None]) -> RowNames | None:
        """Return the names of tables that follow one another, or None if some table has no names.

        Parameters
        ----------
        parts : sequence of RowNames or None
            The names of each table.

        Returns
        -------
        RowNames or None

        See Also
        --------
        bpfa.data.ConcatRows : Tables that follow one another.

        Examples
        --------
        >>> first = RowNames(("id",), (np.array(["a"], dtype=object),))
        >>> RowNames.joined([first, first]).values
        (array(['a', 'a'], dtype=object),)
        >>> RowNames.joined([first, None]) is None
        True
        """
        known = [part for part in parts if part is not None]
        if len(known) < len(parts) or len({len(part.labels) for part in known}) != 1:
            return None
        columns = zip(*(part.values for part in known), strict=True)
        return cls(known[0].labels, tuple(np.concatenate(column) for column in columns))
