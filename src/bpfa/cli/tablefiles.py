"""Tables, as the commands read and write them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray
from scipy import sparse

from bpfa._support.optional import library
from bpfa.data import RowSource, open_rows
from bpfa.data.formats.files import existing_path, name_file_in_errors

__all__ = ["Table", "check_table", "write_table"]

TEXT = {".csv": ",", ".tsv": "\t"}
FRAMES = (*TEXT, ".parquet")
WRITTEN = (".npy", ".npz", *FRAMES)


@dataclass(frozen=True)
class Table:
    """A table that a command reads.

    Parameters
    ----------
    path : Path
    rows : RowSource
    as_opened : dict
        The options `layer` and `absent` of a .h5ad file, as far as they were given.
    """

    path: Path
    rows: RowSource
    as_opened: dict[str, Any]

    @classmethod
    def open(cls, context: typer.Context, model: Any = None) -> Table:
        """Open the table of a command, by default with the columns that the model was fitted to."""
        given = context.params
        path: Path = given["source"]
        suffix = path.suffix.lower()
        options = {name: given[name] for name in ("key", "layer", "absent") if given[name] is not None}
        if given["cofactor"] is not None:
            options["cofactor"] = given["cofactor"] or None
        columns = None if given["columns"] is None else [name.strip() for name in given["columns"].split(",")]
        if columns is None and suffix in (*FRAMES, ".fcs"):
            columns = getattr(model, "feature_names_in_", None)
        if columns is not None:
            options["channels" if suffix == ".fcs" else "columns"] = list(columns)
        as_opened = {name: value for name, value in options.items() if name in ("layer", "absent")}
        return cls(path, open_rows(path, **options), as_opened)

    @property
    def names(self) -> list[str] | None:
        """Names of the columns that are used."""
        return self.rows.column_names

    def write_filled(self, path: Path, filled: NDArray[Any], model: Any) -> None:
        """Write the table with its missing entries filled in, and everything else unchanged."""
        if path.suffix.lower() == ".h5ad":
            adata = library("anndata", "anndata").read_h5ad(self.path)
            model.annotate(adata, **self.as_opened)
            adata.layers["bpfa_imputed"] = filled
            adata.write_h5ad(path)
        elif path.suffix.lower() in FRAMES and self.path.suffix.lower() in FRAMES:
            frame = read_frame(self.path)
            for column, name in enumerate(self.names or ()):
                gaps = frame[name].isna().to_numpy()
                # A column of integers in which nothing is missing keeps its type.
                if gaps.any():
                    frame[name] = frame[name].astype("float64").mask(gaps, filled[:, column])
            write_frame(path, frame)
        else:
            write_table(path, filled, self.names)


def check_table(path: Path, source: Path | None = None) -> None:
    """Refuse a file that a table cannot be written to; .h5ad needs a source of this kind to copy from."""
    suffix = path.suffix.lower()
    if suffix == ".h5ad" and source is not None:
        if source.suffix.lower() != ".h5ad":
            raise ValueError(
                f"{path}: a .h5ad file is written as a copy of one, which {source} is not; "
                f"expected one of {' '.join(WRITTEN)}"
            )
    elif suffix not in WRITTEN:
        raise ValueError(f"{path}: suffix {suffix!r}; expected one of {' '.join(WRITTEN)}")


def write_table(path: Path, values: Any, names: list[str] | None) -> None:
    """Write a matrix with the names of its columns, which are numbered if they have no names."""
    suffix = path.suffix.lower()
    if suffix in FRAMES:
        labels = names if names is not None else [str(column) for column in range(values.shape[1])]
        write_frame(path, library("pandas", "tables").DataFrame(values, columns=labels))
    elif isinstance(values, sparse.csr_array):
        sparse.save_npz(path, values)
    else:
        with open(path, "wb") as stream:
            if suffix == ".npz":
                np.savez_compressed(stream, values=values)
            else:
                np.save(stream, values)


def read_frame(path: Path) -> Any:
    """Read a table with all its columns, as a data frame of pandas."""
    pandas = library("pandas", "tables")
    with name_file_in_errors(existing_path(path)):
        if path.suffix.lower() == ".parquet":
            return pandas.read_parquet(path)
        return pandas.read_csv(path, sep=TEXT[path.suffix.lower()], float_precision="round_trip")


def write_frame(path: Path, frame: Any) -> None:
    """Write a data frame of pandas."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, sep=TEXT[suffix], index=False)
