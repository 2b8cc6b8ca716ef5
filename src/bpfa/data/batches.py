"""Batches of rows: offsets and noise scales of each, and rows with both removed (docs/math.md, "Batches")."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.optional import library
from bpfa.data.blocks import BLOCK_ENTRIES
from bpfa.data.mapped import MappedRows
from bpfa.data.rows import Batch, Rows

__all__ = ["UNKNOWN", "BatchEffects", "BatchedRows", "batch_codes"]

UNKNOWN = -1
"""The number of a batch that was not in the fit."""


@dataclass(frozen=True)
class BatchEffects:
    """What distinguishes the batches of a fit.

    A row of batch b is `mean + offset[b] + scale[b] * (y - mean)`, where y is the row as the population of
    all batches would show it.

    Parameters
    ----------
    labels : tuple
        The label of every batch.
    mean : array, shape (n_columns,)
        Mean of every column over the population of batches.
    offset : array, shape (n_batches, n_columns)
        By how much the mean of a batch differs from it.
    offset_std : array, shape (n_batches, n_columns)
        How uncertain each offset is.
    level_std : array, shape (n_batches, n_columns)
        How uncertain `mean + offset` is, which is known better than either of the two.
    mean_std : array, shape (n_columns,)
        How uncertain `mean` is.
    between_std : array, shape (n_columns,)
        Standard deviation of the offsets of all batches that there could be.
    scale : array, shape (n_batches,)
        Noise of a batch relative to that of all rows.
    n_rows : integer array, shape (n_batches,)
        Number of rows of every batch in the fit.
    """

    labels: tuple[Hashable, ...]
    mean: Array
    offset: Array
    offset_std: Array
    level_std: Array
    mean_std: Array
    between_std: Array
    scale: Array
    n_rows: NDArray[np.int64]

    def to_pandas(self, column_names: Sequence[Any] | None = None) -> Any:
        """Return a frame with number of rows, noise scale and offsets of every batch.

        Parameters
        ----------
        column_names : sequence of str, optional
            Names of the columns of the data; x0, x1, ... by default.

        Examples
        --------
        >>> one = np.ones((1, 1))
        >>> effects = BatchEffects(("a",), one[0], one, one, one, one[0], one[0], one[0], np.array([3]))
        >>> effects.to_pandas(["CD4"]).loc["a"].to_dict()
        {'n_rows': 3.0, 'noise_scale': 1.0, 'CD4': 1.0}
        """
        pandas = library("pandas", "tables", purpose="a frame needs pandas")
        index = pandas.Index(list(self.labels), name="batch")
        columns = {"n_rows": self.n_rows, "noise_scale": self.scale}
        names = [f"x{d}" for d in range(len(self.mean))] if column_names is None else column_names
        columns |= {str(name): self.offset[:, d] for d, name in enumerate(names)}
        return pandas.DataFrame(columns, index=index)

    def offsets_of(self, codes: NDArray[np.int64]) -> Array:
        """Return the offsets of rows by the numbers of their batches; 0 for an unknown batch."""
        return np.where(codes[:, None] == UNKNOWN, 0.0, self.offset[codes])

    def scales_of(self, codes: NDArray[np.int64]) -> Array:
        """Return the scales of rows by the numbers of their batches; 1 for an unknown batch."""
        return np.where(codes == UNKNOWN, 1.0, self.scale[codes])

    def uncertainty_of(self, codes: NDArray[np.int64]) -> Array:
        """Return how uncertain the means of the batches of rows are."""
        of_unknown = np.sqrt(self.between_std**2 + self.mean_std**2)
        return np.where(codes[:, None] == UNKNOWN, of_unknown, self.level_std[codes])

    def removed(self, values: Array, codes: NDArray[np.int64]) -> Array:
        """Return rows as the population of all batches would show them."""
        offset, scale = self.offsets_of(codes), self.scales_of(codes)[:, None]
        return (values - self.mean - offset) / scale + self.mean

    def shown(self, mean: Array, std: Array, codes: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return predictions for the population, and their deviations, as some batch would show them."""
        offset, scale = self.offsets_of(codes), self.scales_of(codes)[:, None]
        spread = np.sqrt((std * scale) ** 2 + self.uncertainty_of(codes) ** 2)
        return (mean - self.mean) * scale + self.mean + offset, spread

    def moved(self, values: Array, codes: NDArray[np.int64], to: NDArray[np.int64]) -> Array:
        """Return observed entries as another batch would show them: only the offset is exchanged."""
        return values - self.offsets_of(codes) + self.offsets_of(to)


class BatchedRows(MappedRows):
    """Rows of another source without the offsets and scales of their batches.

    Parameters
    ----------
    rows : Rows
    effects : BatchEffects
    codes : integer array, shape (n_rows,)
        The number of the batch of every row, or `UNKNOWN`.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> zero, one = np.zeros((2, 1)), np.ones(1)
    >>> offset = np.array([[1.0], [-1.0]])
    >>> effects = BatchEffects(
    ...     ("a", "b"), zero[0], offset, zero, zero, zero[0], one, np.ones(2), np.ones(2, dtype=int)
    ... )
    >>> BatchedRows(ArrayRows([[5.0], [3.0]]), effects, np.array([0, 1])).read(0, 2).values.ravel()
    array([4., 4.])
    """

    def __init__(self, rows: Rows, effects: BatchEffects, codes: NDArray[np.int64]) -> None:
        super().__init__(rows)
        self.effects, self.codes = effects, codes

    def mapped(self, batch: Batch) -> Batch:
        """Return the batch without the offsets and scales of the batches of its rows."""
        values = np.empty_like(batch.values)
        step = max(1, BLOCK_ENTRIES // self.n_columns)
        for start in range(0, len(values), step):
            block = slice(start, start + step)
            values[block] = self.effects.removed(batch.values[block], self.codes[batch.ids[block]])
        return Batch(values, batch.observed, batch.ids)

    def labels_digest(self) -> str:
        """Return a digest of which row is in which batch."""
        return codes_digest(self.effects.labels, self.codes)


def codes_digest(labels: Sequence[Hashable], codes: NDArray[np.int64]) -> str:
    """Return a digest of labels and of which row has which."""
    digest = hashlib.sha256(repr([str(label) for label in labels]).encode())
    digest.update(np.ascontiguousarray(codes, dtype="<i8").tobytes())
    return digest.hexdigest()


def batch_codes(
    name: str, labels: Any, n_rows: int, known: Sequence[Hashable] | None = None
) -> tuple[tuple[Hashable, ...], NDArray[np.int64]]:
    """Return the different labels of rows, and for each row the number of its label.

    Parameters
    ----------
    name : str
        Name of the argument, for errors.
    labels : sequence
        A label for every row: strings, integers or other hashable values.
    n_rows : int
    known : sequence, optional
        The labels that count; all others get the number `UNKNOWN`. By default the labels that occur, sorted.

    Examples
    --------
    >>> batch_codes("batch", ["b", "a", "b"], 3)
    (('a', 'b'), array([1, 0, 1]))
    >>> batch_codes("batch", ["b", "c"], 2, known=("a", "b"))[1]
    array([ 1, -1])
    >>> batch_codes("batch", ["b", None], 2)
    Traceback (most recent call last):
    ...
    ValueError: batch: the label of row 1 is missing; expected a label for every row
    """
    if isinstance(labels, (str, bytes)) or np.ndim(labels) != 1:
        shape = getattr(labels, "shape", None)
        given = type(labels).__name__ if shape is None else f"an array of shape {shape}"
        raise TypeError(
            f"{name}: {given}; expected a sequence or array of one axis, with a label for every row"
        )
    values = [_plain(label) for label in np.asarray(labels, dtype=object).tolist()]
    if len(values) != n_rows:
        raise ValueError(f"{name}: {len(values)} labels; expected {n_rows}, one for every row")
    for row, label in enumerate(values):
        if label is None:
            raise ValueError(f"{name}: the label of row {row} is missing; expected a label for every row")
    chosen = tuple(known) if known is not None else tuple(sorted(set(values), key=_order))
    number = {label: code for code, label in enumerate(chosen)}
    return chosen, np.array([number.get(label, UNKNOWN) for label in values], dtype=np.int64)


def _plain(label: Any) -> Hashable | None:
    """Return a label as something that a file can hold, or None if it is missing."""
    if isinstance(label, np.generic):
        label = label.item()
    if label is None or str(label) in ("<NA>", "NaT") or label != label:
        return None
    return label if isinstance(label, (str, int, float)) else str(label)


def _order(label: Hashable) -> tuple[bool, Any, str]:
    """Return the key by which labels are sorted: numbers by size, before all others by their text."""
    number = isinstance(label, (int, float))
    return not number, label if number else 0, str(label)
