"""Tables, as the commands read and write them."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray
from scipy import sparse

from bpfa._support.optional import library
from bpfa.cli.batches import batch_labels
from bpfa.cli.declared import WrongOption
from bpfa.cli.messages import Messenger
from bpfa.cli.options import in_terms_of_options
from bpfa.cli.textfiles import Style, write_filled_text, write_text
from bpfa.data import PanelRows, RowNames, RowSource, TextRows, open_rows
from bpfa.data.formats.delimited import pandas_options
from bpfa.data.formats.files import existing_path, name_file_in_errors
from bpfa.data.formats.layout import find_layout
from bpfa.data.formats.text import TEXT_SUFFIXES, text_suffix

__all__ = ["Table", "check_table"]

FRAMES = (*TEXT_SUFFIXES, ".parquet")
WRITTEN = (".npy", ".npz", *FRAMES)


@dataclass(frozen=True)
class Table:
    """A table that a command reads, or several tables whose rows follow one another.

    Parameters
    ----------
    paths : tuple of Path
    rows : RowSource
    as_opened : dict
        The options `layer` and `absent` of a .h5ad file, as far as they were given.
    batch : array of labels, optional
        The batch of every row.
    """

    paths: tuple[Path, ...]
    rows: RowSource
    as_opened: dict[str, Any]
    batch: NDArray[Any] | None = None

    @classmethod
    def open(cls, context: typer.Context, model: Any = None) -> Table:
        """Open the table of a command, by default with the columns that the model was fitted to.

        A note says what was found out about the file.
        """
        given = context.params
        knows_batches = getattr(model, "batch_effects_", None) is not None
        if knows_batches and not (given["batch"] or given["batch_by_file"]):
            Messenger.of(context).note(
                "the model was fitted to batches; without --batch the rows are taken for those of an unknown "
                "one"
            )
        # Before typer 0.29 the parameters of the context are not converted, and a path is a string there.
        paths = [Path(path) for path in given["source"]]
        options, batch = _options(given), batch_labels(paths, given, _options(given))
        as_opened = {name: value for name, value in options.items() if name in ("layer", "absent")}
        if given["union"]:
            return cls(tuple(paths), _panels(paths, options, model, Messenger.of(context)), as_opened, batch)
        columns = None if given["columns"] else _columns_of_fit(paths[0], options, model)
        if columns is not None:
            options["channels" if text_suffix(paths[0]) == ".fcs" else "columns"] = columns
        try:
            rows = open_rows(paths[0] if len(paths) == 1 else paths, **options)
        except ValueError as error:
            if columns is None or not str(error).startswith(("columns: ", "channels: ")):
                raise
            what = str(error).partition(": ")[2].rpartition("; expected")[0]
            raise ValueError(
                f"MODEL {given['model']}: column {what}; expected the columns of the fit, or --columns"
            ) from error
        if rows.reading is not None:
            Messenger.of(context).note(f"reading {paths[0]}: {in_terms_of_options(rows.reading)}")
        return cls(tuple(paths), rows, as_opened, batch)

    def write_filled(self, path: Path, filled: NDArray[Any], model: Any) -> None:
        """Write the table with its missing entries filled in, and everything else unchanged."""
        suffix = text_suffix(path)
        if len(self.paths) > 1:
            self.write(path, filled, self.rows.column_names)
        elif suffix == ".h5ad":
            adata = library("anndata", "anndata").read_h5ad(self.paths[0])
            model.annotate(adata, **self.as_opened, batch=self.batch)
            adata.layers["bpfa_imputed"] = filled
            adata.write_h5ad(path)
        elif suffix in TEXT_SUFFIXES and isinstance(self.rows, TextRows):
            write_filled_text(path, self.rows, filled, Style.like(self.rows, path))
        elif (
            suffix in FRAMES and text_suffix(self.paths[0]) in FRAMES and not isinstance(self.rows, PanelRows)
        ):
            self._write_filled_frame(path, filled)
        else:
            self.write(path, filled, self.rows.column_names)

    def write(self, path: Path, values: Any, names: list[str] | None, *, own_names: bool = False) -> None:
        """Write a matrix that belongs to the rows of the table, with their names where a file can hold names.

        Parameters
        ----------
        path : Path
        values : array or sparse array
        names : list of str or None
            Names of the columns, which are numbered by default.
        own_names : bool
            Whether the columns are others than those of the table.
        """
        suffix = text_suffix(path)
        if suffix in FRAMES:
            labels = names if names is not None else [str(column) for column in range(values.shape[1])]
            row_names = self.rows.row_names()
            if suffix in TEXT_SUFFIXES:
                style = Style.like(self.rows, path)
                write_text(path, values, labels, row_names, style.with_header() if own_names else style)
            else:
                index = None if row_names is None else row_names.to_pandas()
                library("pandas", "tables").DataFrame(values, columns=labels, index=index).to_parquet(path)
        elif isinstance(values, sparse.csr_array):
            sparse.save_npz(path, values)
        else:
            with open(path, "wb") as stream:
                if suffix == ".npz":
                    np.savez_compressed(stream, values=values)
                else:
                    np.save(stream, values)

    def _write_filled_frame(self, path: Path, filled: NDArray[Any]) -> None:
        """Write a frame from a text file or a Parquet file, of which one is Parquet, with its gaps filled."""
        frame, names = self._frame()
        for column, name in enumerate(names):
            gaps = frame[name].isna().to_numpy()
            # A column of integers in which nothing is missing keeps its type.
            if gaps.any():
                frame[name] = frame[name].astype("float64").mask(gaps, filled[:, column])
        if text_suffix(path) == ".parquet":
            frame.to_parquet(path)
        else:
            separator = Style.like(self.rows, path).separator
            frame.to_csv(path, sep=separator, index=RowNames.from_pandas(frame.index) is not None)

    def _frame(self) -> tuple[Any, list[str]]:
        """Return the whole table as a frame of pandas, and the names of the columns that are used."""
        pandas = library("pandas", "tables")
        with name_file_in_errors(existing_path(self.paths[0])):
            if not isinstance(self.rows, TextRows):
                frame, names = pandas.read_parquet(self.paths[0]), list(self.rows.column_names or ())
                if any(name not in frame.columns for name in names):
                    levels = [name or f"__index_level_{i}__" for i, name in enumerate(frame.index.names)]
                    frame = frame.reset_index(names=levels)
                return frame, names
            layout = self.rows.layout
            options = pandas_options(layout) | {"float_precision": "round_trip", "low_memory": False}
            frame = pandas.read_csv(self.paths[0], **options).reindex(columns=range(len(layout.labels)))
        frame.columns = pandas.Index(layout.labels)
        frame = frame.drop(columns=[layout.labels[at] for at in self.rows.name_positions])
        if (row_names := self.rows.row_names()) is not None:
            frame.index = row_names.to_pandas()
        return frame, [layout.labels[at] for at in self.rows.positions]


def check_table(path: Path, source: Path | None = None) -> None:
    """Refuse a file that a table cannot be written to; .h5ad needs a source of this kind to copy from."""
    suffix = text_suffix(path)
    if suffix == ".h5ad" and source is not None:
        if source.suffix.lower() != ".h5ad":
            raise ValueError(
                f"{path}: a .h5ad file is written as a copy of one, which {source} is not; "
                f"expected one of {' '.join(WRITTEN)}"
            )
    elif suffix not in WRITTEN:
        raise ValueError(f"{path}: suffix {suffix!r}; expected one of {' '.join(WRITTEN)}")


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `open_rows` that the options of a command ask for."""
    plain = ("key", "layer", "absent", "separator", "decimal", "header")
    options = {name: given[name] for name in plain if given[name] is not None}
    if given["cofactor"] is not None:
        options["cofactor"] = given["cofactor"] or None
    for name in ("columns", "exclude", "index"):
        if given[name]:
            options[name] = _names_in(given[name])
    if "columns" in options and given["union"]:
        raise WrongOption("--columns: expected it without --union, or --exclude")
    if "columns" in options and text_suffix(given["source"][0]) == ".fcs":
        options["channels"] = options.pop("columns")
    if given.get("batch") and text_suffix(given["source"][0]) in FRAMES and "columns" not in options:
        options["exclude"] = [*options.get("exclude", []), given["batch"]]
    if given["no_index"]:
        if "index" in options:
            raise WrongOption("--no-index: expected it without --index")
        options["index"] = False
    return options


def _panels(paths: list[Path], options: dict[str, Any], model: Any, messenger: Messenger) -> RowSource:
    """Open tables with different columns as one, with the columns of the model if there is one."""
    rows = open_rows(paths, columns="union", **options)
    assert isinstance(rows, PanelRows)
    messenger.note(str(rows.overlap))
    names = getattr(model, "feature_names_in_", None)
    return rows if names is None else rows.with_columns([str(name) for name in names])


def _names_in(texts: list[str]) -> list[str]:
    """Return the names in lists that are separated by commas, in which a name with a comma is quoted."""
    return [
        name.strip() for text in texts for name in next(csv.reader([text], skipinitialspace=True), [text])
    ]


def _columns_of_fit(path: Path, options: dict[str, Any], model: Any) -> list[str] | None:
    """Return the columns that a model was fitted to, if it knows their names and those of the table count."""
    suffix = text_suffix(path)
    names = getattr(model, "feature_names_in_", None)
    if names is None or suffix not in (*FRAMES, ".fcs"):
        return None
    if suffix in TEXT_SUFFIXES and path.exists():
        asked = {name: options.get(name) for name in ("separator", "decimal", "header")}
        layout = find_layout(path, **asked)
        if not layout.header and not set(names) <= set(layout.labels):
            return None
    return list(names)
