"""The batch of every row of the tables that a command reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.optional import library
from bpfa.cli.declared import WrongOption
from bpfa.data import open_rows
from bpfa.data.formats.delimited import pandas_options
from bpfa.data.formats.files import existing_path, name_file_in_errors
from bpfa.data.formats.layout import find_layout
from bpfa.data.formats.text import TEXT_SUFFIXES, text_suffix

__all__ = ["batch_labels"]


def batch_labels(paths: list[Path], given: dict[str, Any], options: dict[str, Any]) -> NDArray[Any] | None:
    """Return the label of the batch of every row, or None if the command was given no batches.

    Parameters
    ----------
    paths : list of Path
        The tables, whose rows follow one another.
    given : dict
        The options of the command.
    options : dict
        Those of them with which `open_rows` opens a table.
    """
    column, by_file = given.get("batch"), given.get("batch_by_file")
    if column and by_file:
        raise WrongOption("--batch-by-file: expected it without --batch")
    if by_file:
        names = [path.name for path in paths]
        if len(set(names)) < len(names):
            names = [str(path) for path in paths]
        sizes = [open_rows(path, **options).n_rows for path in paths]
        return np.repeat(np.array(names, object), sizes)
    if not column:
        return None
    return np.concatenate([_column(path, column, options) for path in paths])


def _column(path: Path, name: str, options: dict[str, Any]) -> NDArray[Any]:
    """Return a column of a table as text; an empty field is missing."""
    suffix = text_suffix(path)
    with name_file_in_errors(existing_path(path)):
        if suffix in TEXT_SUFFIXES:
            layout = find_layout(
                path, **{key: options.get(key) for key in ("separator", "decimal", "header")}
            )
            found = list(layout.labels)
            if name in found:
                place = found.index(name)
                reading = pandas_options(layout) | {"usecols": [place], "dtype": str, "keep_default_na": True}
                frame = library("pandas", "tables").read_csv(path, **reading)
                return np.asarray(frame.iloc[:, 0].to_numpy(dtype=object))
        elif suffix == ".parquet":
            frame = library("pandas", "tables").read_parquet(path).reset_index()
            found = [str(label) for label in frame.columns]
            if name in found:
                return np.asarray(frame.iloc[:, found.index(name)].to_numpy(dtype=object))
        elif suffix == ".h5ad":
            h5py, anndata_io = library("h5py", "anndata"), library("anndata.io", "anndata")
            with h5py.File(path, "r") as file:
                obs = anndata_io.read_elem(file["obs"])
            found = [str(label) for label in obs.columns]
            if name in found:
                return np.asarray(obs[name].to_numpy(dtype=object))
        else:
            raise WrongOption(
                f"--batch {name}: {path} has no column of labels; expected .csv, .tsv, .parquet or .h5ad, or "
                "--batch-by-file"
            )
    raise WrongOption(f"--batch {name}: {path} has no such column; expected one of {', '.join(found[:10])}")
