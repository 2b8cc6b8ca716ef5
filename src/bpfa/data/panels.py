"""Sources with different columns as one table: columns are matched by name, and absent ones are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from bpfa.data.concat import ConcatRows
from bpfa.data.formats.delimited import TextRows
from bpfa.data.formats.files import MAX_CHUNK_ENTRIES
from bpfa.data.panel_overlap import PanelOverlap
from bpfa.data.row_names import RowNames
from bpfa.data.rows import Batch, Rows, RowSource, as_source

__all__ = ["PanelRows", "PlacedRows"]

# Rows that are read at a time to find out which columns of a panel have an observed entry.
READ_ROWS = 4096


class PlacedRows(RowSource):
    """Rows of another source whose columns are some of the columns of a wider table; the rest is missing.

    Parameters
    ----------
    rows : RowSource
    places : integer array
        For each column of the other source, its place in the wider table.
    column_names : list of str
        Names of all columns of the wider table.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> placed = PlacedRows(ArrayRows([[1.0, 2.0]]), np.array([2, 0]), ["a", "b", "c"])
    >>> placed.read(0, 1).values, placed.read(0, 1).observed
    (array([[2., 0., 1.]]), array([[ True, False,  True]]))
    """

    def __init__(self, rows: RowSource, places: NDArray[np.int64], column_names: list[str]) -> None:
        edges, n_columns = rows.chunk_edges, len(column_names)
        super().__init__(
            rows.n_rows,
            n_columns,
            name=rows.name,
            chunk_edges=None if edges is None else _bounded(edges, n_columns),
            column_names=column_names,
        )
        self.rows, self._places = rows, places
        self.reading = rows.reading

    def take(self, ids: NDArray[np.int64]) -> Batch:
        """Return the rows with these ids."""
        return self._placed(self.rows.take(ids))

    def read(self, start: int, stop: int) -> Batch:
        """Return the rows from `start` up to `stop`, which is not included."""
        return self._placed(self.rows.read(start, stop))

    def row_names(self) -> RowNames | None:
        """Return the names of the rows of the other source."""
        return self.rows.row_names()

    def _placed(self, batch: Batch) -> Batch:
        values = np.zeros((len(batch), self.n_columns), dtype=batch.values.dtype)
        observed = np.zeros(values.shape, dtype=bool)
        values[:, self._places], observed[:, self._places] = batch.values, batch.observed
        return Batch(values, observed, batch.ids)


class PanelRows(ConcatRows):
    """Rows of several sources, one after another, with all columns that any of them has.

    Columns are matched by their names. A column that a source does not have is missing in its rows. Nothing
    but the first rows of each source is read until rows are asked for.

    Parameters
    ----------
    sources : list of Rows
        All with names of columns. There has to be a chain of shared columns from every source to every other.
    names : list of str, optional
        What the report and error messages call the sources; by default their own names.
    columns : list of str, optional
        All columns of the table, in this order. By default they are the columns of the first source, followed
        by those that the others add.

    Attributes
    ----------
    overlap : PanelOverlap
        Which source has which columns. `print` shows a summary.

    See Also
    --------
    bpfa.data.ConcatRows : Several sources, one below the other.
    bpfa.data.PanelOverlap : Which columns panels share.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> first = ArrayRows([[1.0, 2.0]], column_names=["CD3", "CD4"])
    >>> second = ArrayRows([[3.0, 4.0]], column_names=["CD8", "CD4"])
    >>> rows = PanelRows([first, second], ["blood", "marrow"])
    >>> rows.column_names, rows.read(0, 2).values
    (['CD3', 'CD4', 'CD8'], array([[1., 2., 0.],
           [0., 4., 3.]]))
    >>> rows.overlap.n_shared
    1
    >>> rows.panel_labels
    array(['blood', 'marrow'], dtype=object)
    """

    def __init__(
        self,
        sources: Sequence[Rows],
        names: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        panels = [as_source(f"sources[{i}]", source) for i, source in enumerate(sources)]
        if not panels:
            raise ValueError("sources: an empty list; expected at least one source")
        called = list(names) if names is not None else [panel.name for panel in panels]
        own = [_names_of(name, panel) for name, panel in zip(called, panels, strict=True)]
        union = list(columns) if columns is not None else list(dict.fromkeys(chain.from_iterable(own)))
        places = [_places(name, labels, union) for name, labels in zip(called, own, strict=True)]
        measured = np.zeros((len(panels), len(union)), dtype=bool)
        for having, name, panel, at in zip(measured, called, panels, places, strict=True):
            having[at] = _columns_with_entries(name, panel)
        n_rows = tuple(panel.n_rows for panel in panels)
        self.overlap = PanelOverlap(tuple(called), tuple(union), n_rows, measured)
        if len(parts := self.overlap.parts) > 1 and columns is None:
            groups = "; ".join(", ".join(part) for part in parts)
            raise ValueError(
                f"sources: these panels share no measured column with one another: {groups}; expected a "
                "chain of shared columns between all panels, or a model for each group"
            )
        self._panels, self._called = panels, called
        super().__init__([PlacedRows(panel, at, union) for panel, at in zip(panels, places, strict=True)])

    @property
    def panel_labels(self) -> NDArray[np.object_]:
        """The name of the panel of every row, for example as labels of batches."""
        return np.repeat(np.array(self.overlap.panels, dtype=object), self.overlap.n_rows)

    def with_columns(self, columns: Sequence[str]) -> PanelRows:
        """Return the same rows with other columns: those that no source has are missing everywhere.

        Parameters
        ----------
        columns : list of str
            All columns of the new table. They have to contain those of every source.

        Returns
        -------
        PanelRows

        See Also
        --------
        bpfa.open_rows : Open several files with different columns.

        Examples
        --------
        >>> from bpfa.data import ArrayRows
        >>> first = ArrayRows([[1.0, 2.0]], column_names=["CD3", "CD4"])
        >>> second = ArrayRows([[3.0, 4.0]], column_names=["CD8", "CD4"])
        >>> PanelRows([first, second]).with_columns(["CD3", "CD4", "CD8", "CD19"]).read(0, 2).observed
        array([[ True,  True, False, False],
               [False,  True,  True, False]])
        """
        if list(columns) == self.column_names:
            return self
        return PanelRows(self._panels, self._called, columns)


def _names_of(name: str, panel: RowSource) -> list[str]:
    """Return the names of the columns of a panel, after checking that each column has a name of its own."""
    labels = panel.column_names
    if isinstance(panel, TextRows) and panel.layout.header:
        # A file with two columns of the same name is read with different names for them.
        labels = [panel.layout.written[at] for at in panel.positions]
    if labels is None or not all(labels):
        which = "the columns have" if labels is None else f"column {labels.index('')} has"
        raise ValueError(
            f"{name}: {which} no name; expected names, by which the columns of panels are matched"
        )
    twice = [label for label, count in Counter(labels).items() if count > 1]
    if twice:
        raise ValueError(f"{name}: two columns are called {twice[0]!r}; expected different names in a panel")
    return list(labels)


def _places(name: str, labels: list[str], union: list[str]) -> NDArray[np.int64]:
    """Return the place of every column of a panel in the table."""
    at = {label: place for place, label in enumerate(union)}
    unknown = [label for label in labels if label not in at]
    if unknown:
        raise ValueError(
            f"{name}: column {unknown[0]!r} is not a column of the fit; expected some of its columns, or "
            f"exclude={unknown!r}"
        )
    return np.array([at[label] for label in labels], dtype=np.int64)


def _columns_with_entries(name: str, panel: RowSource) -> NDArray[np.bool_]:
    """Return which columns of a panel have an observed entry.

    Rows are read until every column is known to have one. For most panels these are the first few rows.
    """
    found = np.zeros(panel.n_columns, dtype=bool)
    for start in range(0, panel.n_rows, READ_ROWS):
        found |= panel.read(start, min(start + READ_ROWS, panel.n_rows)).observed.any(axis=0)
        if found.all():
            break
    if not found.any():
        raise ValueError(f"{name}: every entry is missing; expected at least one observed entry in a panel")
    return found


def _bounded(edges: NDArray[np.int64], n_columns: int) -> NDArray[np.int64]:
    """Return edges of chunks of which none has too many entries now that its rows are wider.

    Examples
    --------
    >>> _bounded(np.array([0, 10, 3000]), n_columns=2**13)
    array([   0,   10, 1034, 2058, 3000])
    """
    most = max(1, MAX_CHUNK_ENTRIES // n_columns)
    pieces = [np.arange(start, stop, most) for start, stop in pairwise(edges.tolist())]
    return np.concatenate([*pieces, edges[-1:]])
