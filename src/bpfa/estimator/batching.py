"""Labels of batches as the user gives them, and what batches do to rows and predictions."""

from __future__ import annotations

import os
import warnings
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.optional import library
from bpfa.data import AnnDataRows, Batch, RowSource
from bpfa.data.batches import UNKNOWN, BatchedRows, BatchEffects, batch_codes
from bpfa.data.formats.files import name_file_in_errors
from bpfa.data.mapped import MappedRows

__all__ = ["BatchUse", "column_of_obs", "labelled_batches"]

# Labels that an error lists.
MOST_LABELS = 10


def labelled_batches(
    X: Any, batch: Any, n_rows: int, known: tuple[Hashable, ...] | None = None
) -> tuple[tuple[Hashable, ...], NDArray[np.int64]]:
    """Return the labels of batches, and for each row the number of its batch.

    Parameters
    ----------
    X : array-like, frame, AnnData, or Rows
        The data.
    batch : sequence, or str
        A label for every row, or the name of a column of obs if the data is AnnData.
    n_rows : int
    known : tuple, optional
        The labels of the fit. By default those that occur.

    Examples
    --------
    >>> labelled_batches(np.ones((4, 1)), ["monday", "tuesday", "monday", "tuesday"], 4)
    (('monday', 'tuesday'), array([0, 1, 0, 1]))
    """
    if isinstance(batch, str):
        batch = column_of_obs(X, batch)
    labels, codes = batch_codes("batch", batch, n_rows, known)
    if known is None:
        _check_sizes(labels, codes)
    return labels, codes


def _check_sizes(labels: tuple[Hashable, ...], codes: NDArray[np.int64]) -> None:
    """Refuse batches that all have a single row, and warn of some that do."""
    n_rows = np.bincount(codes, minlength=len(labels))
    alone = [label for label, n in zip(labels, n_rows, strict=True) if n == 1]
    if len(alone) == len(codes) > 1:
        raise ValueError(
            f"batch: {len(labels)} different labels for {len(codes)} rows; expected batches of several rows"
        )
    if alone:
        warnings.warn(
            f"batch: a single row in {_listed(alone)}; the offsets of such a batch are hardly known, and "
            "shrunk towards 0",
            # The line that called `fit` or `partial_fit`.
            stacklevel=5,
        )


def column_of_obs(X: Any, name: str) -> Any:
    """Return a column of the observations of an AnnData object or file."""
    source = X
    while isinstance(source, MappedRows) and not isinstance(source, AnnDataRows):
        source = source.rows
    source = getattr(source, "source", source) if isinstance(source, AnnDataRows) else source
    if isinstance(source, (str, os.PathLike)):
        h5py, anndata_io = library("h5py", "anndata"), library("anndata.io", "anndata")
        with name_file_in_errors(source), h5py.File(source, "r") as file:
            obs = anndata_io.read_elem(file["obs"])
    elif hasattr(source, "obs"):
        obs = source.obs
    else:
        raise TypeError(
            f"batch={name!r}: the name of a column of obs, but X is not AnnData; expected a label for every "
            "row"
        )
    if name not in obs.columns:
        raise ValueError(
            f"batch={name!r}: obs has no such column; expected one of {_listed(list(obs.columns))}"
        )
    return obs[name].to_numpy(dtype=object)


@dataclass(frozen=True)
class BatchUse:
    """The batches of some rows that a fitted model is applied to.

    Parameters
    ----------
    effects : BatchEffects or None
        Those of the fit; None if it had no batches, in which case nothing is changed.
    codes : integer array, shape (n_rows,)
        The number of the batch of every row.
    """

    effects: BatchEffects | None
    codes: NDArray[np.int64]

    @classmethod
    def of(cls, effects: BatchEffects | None, X: Any, batch: Any, n_rows: int) -> BatchUse:
        """Check the labels of some rows, and return their batches. Without labels, all are unknown."""
        if batch is not None and effects is None:
            raise ValueError("batch: the model was fitted without batches; expected None")
        if batch is None or effects is None:
            return cls(effects, np.full(n_rows, UNKNOWN))
        return cls(effects, labelled_batches(X, batch, n_rows, effects.labels)[1])

    def moved_to(self, label: Any) -> NDArray[np.int64]:
        """Return the number of a batch for every row: that with this label, or its own if it is None."""
        if label is None:
            return self.codes
        if self.effects is None:
            raise ValueError(f"to_batch={label!r}: the model was fitted without batches; expected None")
        if label not in self.effects.labels:
            known = _listed(list(self.effects.labels))
            raise ValueError(f"to_batch={label!r}: not a batch of the fit; expected one of {known}")
        return np.full(len(self.codes), self.effects.labels.index(label))

    def rows(self, rows: RowSource) -> RowSource:
        """Return the rows without the effects of their batches."""
        return rows if self.effects is None else BatchedRows(rows, self.effects, self.codes)

    def removed(self, batch: Batch) -> Batch:
        """Return some of the rows, which have their ids, without the effects of their batches."""
        if self.effects is None:
            return batch
        return Batch(self.effects.removed(batch.values, self.codes[batch.ids]), batch.observed, batch.ids)

    def shown(self, mean: Array, std: Array, codes: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return predictions, and their deviations, as the batches with these numbers would show them."""
        return (mean, std) if self.effects is None else self.effects.shown(mean, std, codes)

    def moved(self, values: Array, ids: NDArray[np.int64], codes: NDArray[np.int64]) -> Array:
        """Return observed entries of rows as the batches with these numbers would show them."""
        same = self.effects is None or bool((codes == self.codes[ids]).all())
        if self.effects is None or same:
            return values
        return self.effects.moved(values, self.codes[ids], codes)

    def offsets(self) -> Array:
        """Return the offsets of all rows."""
        return np.zeros((1, 1)) if self.effects is None else self.effects.offsets_of(self.codes)

    def scales(self, ids: NDArray[np.int64]) -> Array:
        """Return the noise scales of rows."""
        return np.ones(len(ids)) if self.effects is None else self.effects.scales_of(self.codes[ids])


def _listed(labels: list[Any]) -> str:
    more = f" and {len(labels) - MOST_LABELS} more" if len(labels) > MOST_LABELS else ""
    return ", ".join(repr(label) for label in labels[:MOST_LABELS]) + more
