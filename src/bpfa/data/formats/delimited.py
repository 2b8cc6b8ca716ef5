"""Rows of a table in a text file, such as .csv or .tsv."""

from __future__ import annotations

import importlib
import importlib.util
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bpfa._support.checks import Array
from bpfa.data.formats.columns import Choice, choose_columns, in_list, refuse_text
from bpfa.data.formats.files import existing_path
from bpfa.data.formats.layout import Layout, find_layout
from bpfa.data.formats.text import (
    MISSING,
    WITH_COMMA,
    first_texts,
    name_text_file_in_errors,
    parsed,
    text_columns,
)
from bpfa.data.row_names import RowNames
from bpfa.data.rows import ArrayRows

__all__ = ["TextRows", "read_csv"]


class TextRows(ArrayRows):
    r"""Rows of a table in a text file, kept as an array in memory.

    Missing entries are empty, a dash, a dot or a question mark, or one of NA, NaN, null and the other marks
    that pandas knows. The separator,
    the decimal mark, whether there is a header, and which column holds names of rows are found out from the
    file as far as they are not given; `reading` says what was found out.

    The first column holds names of rows if it holds text; if it has no name and holds different integers, as
    pandas and R write them; or if the header has no field for it, as in files of R.

    Parameters
    ----------
    path : path
    columns : list of str, optional
        Columns to use, in this order. By default all columns are used, and all must hold numbers.
    index : str, int, list of them, or False, optional
        Columns with names of rows, by name or position; False means that there are none.
    exclude : list of str, optional
        Columns to leave out.
    separator : str, optional
        One character, "tab" or "space", which stands for any white space.
    decimal : {".", ","}, optional
    header : bool, optional
        Whether the first line holds the names of the columns. Without a header the columns have no names, and
        are called "0", "1", ... where they are chosen.

    See Also
    --------
    bpfa.open_rows : Open a file, a frame or several of them.
    bpfa.data.FileRows : The base of sources that are files.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "data.csv")
    ...     _ = path.write_text("gene;a;b\nTP53;1,5;2\nMYC;3;\n")
    ...     rows = TextRows(path)
    ...     rows.row_names().values
    (array(['TP53', 'MYC'], dtype=object),)
    >>> rows.column_names, rows.take(np.array([0])).values
    (['a', 'b'], array([[1.5, 2. ]]))
    >>> rows.reading
    "separator ';', decimal comma, row names from column 'gene'"
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        columns: Sequence[str] | None = None,
        index: Any = None,
        exclude: Sequence[str] | None = None,
        separator: str | None = None,
        decimal: str | None = None,
        header: bool | None = None,
    ) -> None:
        self.path = existing_path(path)
        self.layout = find_layout(self.path, separator, decimal, header)
        given = Choice(columns, index, exclude)
        wanted, names = choose_columns(str(path), self.layout.labels, given, self._likely_index(given))
        array = self._read(given, wanted, names)
        super().__init__(array, name=str(path), column_names=[self.layout.labels[at] for at in wanted])
        self.name = str(path)
        if not self.layout.header and columns is None:
            self.column_names = None
        self.positions, self.name_positions = wanted, names
        self.reading = ", ".join([*self.layout.found, *self._named_by(given)]) or None

    def row_names(self) -> RowNames | None:
        """Return the names of the rows, exactly as they are written in the file; None if they have none."""
        if not self.name_positions:
            return None
        layout = self.layout
        with name_text_file_in_errors(self.path):
            columns = text_columns(self.path, layout.separator, layout.n_skipped, self.name_positions)
        return RowNames(tuple(layout.written[at] for at in self.name_positions), tuple(columns))

    def _likely_index(self, given: Choice) -> tuple[int, ...]:
        """Return the column that seems to hold names of rows, by what the first lines of the file show."""
        layout = self.layout
        likely = layout.short_header or layout.begins_with_text or self._begins_unnamed
        return (0,) if likely and len(layout.labels) > 1 and not given.mentions(layout.labels[0]) else ()

    @property
    def _begins_unnamed(self) -> bool:
        """Whether the first column has no name, or the name that pandas makes up for such a column."""
        return self.layout.header and self.layout.written[0] in ("", "Unnamed: 0")

    def _read(self, given: Choice, wanted: list[int], names: list[int]) -> Array:
        """Return the columns as numbers, after checking that they are, and what is in an unnamed column."""
        layout = self.layout
        guessed = given.index is None and names == [0] and self._begins_unnamed
        checked = guessed and not (layout.short_header or layout.begins_with_text)
        array, texts = self._parse([0, *wanted] if checked else wanted)
        if texts - set(names):
            self._refuse_text(sorted(texts - set(names)))
        if not checked:
            return array
        if 0 not in texts:
            self._check_unnamed(array[:, 0])
        return np.ascontiguousarray(array[:, 1:])

    def _check_unnamed(self, values: Array) -> None:
        """Refuse a first column without a name that holds numbers which cannot be names of rows."""
        whole = np.isfinite(values) & (values == np.round(values))
        if whole.all() and len(np.unique(values)) == len(values):
            return
        first = values[int(np.argmin(whole))]
        label = self.layout.labels[0]
        raise ValueError(
            f"{self.path}: the first column has no name, and does not number the rows (it holds {first:g}); "
            f"expected index={in_list(label)} if it names the rows all the same, exclude={in_list(label)} to "
            "leave it out, or index=False to use it as data"
        )

    def _refuse_text(self, positions: list[int]) -> None:
        layout = self.layout
        # Columns of text are named first, and by themselves: columns in which single entries are no numbers
        # should be mended rather than left out.
        positions = [at for at in positions if at in layout.mostly_text] or positions
        with name_text_file_in_errors(self.path):
            found = first_texts(self.path, layout.separator, layout.n_skipped, positions, layout.decimal)
        places = {
            layout.labels[at]: f"{found[at][0]!r} in line {found[at][1]}" if at in found else None
            for at in positions
        }
        value = next(iter(found.values()))[0].strip() if found else ""
        commas = layout.decimal == "." and "," in value and WITH_COMMA.fullmatch(value) is not None
        points = layout.decimal == "," and value.replace(".", "", 1).lstrip("+-").isdigit()
        hints = ["NA where they are missing"]
        if value[:1] in ("<", ">"):
            hints.append("a number in place of a limit of detection")
        if commas or points:
            hints.append(f"decimal={',' if commas else '.'!r} if that is the decimal mark")
        if len(layout.labels) == 1:
            hints.append("another separator=...")
        refuse_text(str(self.path), places, *hints)

    def _named_by(self, given: Choice) -> list[str]:
        """Return in words where the names of the rows were found, or where they may be."""
        if given.index is not None:
            return []
        if self.name_positions:
            if self.layout.written[0]:
                return [f"row names from column {self.layout.written[0]!r}"]
            return ["row names from the first column"]
        first = self.values[:, 0]
        counts = len(first) > 2 and first[0] in (0, 1) and bool((np.diff(first) == 1).all())
        if counts and self.positions[0] == 0 and given.columns is None:
            label = self.layout.labels[0]
            return [
                f"column {label!r} is data, although it numbers the rows (if it names them: index={label!r})"
            ]
        return []

    def _parse(self, positions: list[int]) -> tuple[Array, set[int]]:
        """Return some columns as numbers, and which of them hold text."""
        layout = self.layout
        with name_text_file_in_errors(self.path):
            if importlib.util.find_spec("pandas"):
                return _parsed_by_pandas(self.path, layout, positions)
            return parsed(self.path, layout.separator, layout.n_skipped, positions, layout.decimal)


def read_csv(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    index: Any = None,
    exclude: Sequence[str] | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    header: bool | None = None,
) -> TextRows:
    r"""Read a table from a text file into memory; the arguments are those of `TextRows`.

    A file that is too large for memory is best converted to Parquet once.

    Parameters
    ----------
    path, columns, index, exclude, separator, decimal, header :
        As for `TextRows`.

    Returns
    -------
    TextRows

    See Also
    --------
    bpfa.open_rows : Open a file, a frame or several of them.
    bpfa.data.TextRows : Text files.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "data.csv")
    ...     _ = path.write_text("a,b\n1,2\n3,\n")
    ...     read_csv(path).take(np.array([1])).observed
    array([[ True, False]])
    """
    return TextRows(path, columns, index, exclude, separator, decimal, header)


def pandas_options(layout: Layout) -> dict[str, Any]:
    """Return the options with which pandas reads the records of a file, with numbers for names."""
    return {
        "sep": r"\s+" if layout.separator == " " else layout.separator,
        "decimal": layout.decimal,
        "header": None,
        "skiprows": layout.header_line,
        "skipinitialspace": True,
        "encoding": "utf-8",
        "keep_default_na": False,
        "na_values": sorted(MISSING),
    }


def _parsed_by_pandas(path: Path, layout: Layout, positions: list[int]) -> tuple[Array, set[int]]:
    pandas = importlib.import_module("pandas")
    with warnings.catch_warnings():
        # A column with numbers in one part and text in another is refused with a better message.
        warnings.simplefilter("ignore", pandas.errors.DtypeWarning)
        try:
            frame = pandas.read_csv(path, **pandas_options(layout))
        except pandas.errors.EmptyDataError:
            return np.empty((0, len(positions))), set()
    for at in range(len(layout.labels), frame.shape[1]):
        if frame[at].notna().any():
            raise ValueError(f"a record has more fields than the {len(layout.labels)} of the header")
    frame = frame.reindex(columns=range(len(layout.labels)))
    kinds = dict(enumerate(frame.dtypes))
    texts = {
        at for at in positions if not pandas.api.types.is_numeric_dtype(kinds[at]) or kinds[at].kind == "c"
    }
    array = frame[[at for at in positions if at not in texts]].to_numpy(dtype=np.float64, na_value=np.nan)
    for place in (place for place, at in enumerate(positions) if at in texts):
        array = np.insert(array, place, np.nan, axis=1)
    return array, texts
