"""A digest of a data set, from which a resumed fit recognises the data that it was begun with."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from bpfa.data import Batch, Rows
from bpfa.data.batches import BatchedRows

__all__ = ["data_digest", "digest_sample"]

# Rows are read in a few runs of consecutive rows, because a source on disk reads whole chunks.
RUNS, ROWS_PER_RUN = 8, 32
# Fewer rows are read if they are so wide that all of them together would have more entries than this.
MOST_ENTRIES = 2**20


def digest_sample(rows: Rows) -> Batch:
    """Return the rows whose entries the digest of a data set depends on."""
    return rows.take(_sampled_ids(rows.n_rows, rows.n_columns))


def data_digest(rows: Rows, sample: Batch | None = None) -> str:
    """Return a digest of the shape of a data set and of a fixed sample of its rows.

    The sample depends on the shape alone, and the digest on the values and on which entries are observed. So
    it is the same whether the data is in memory or in a file, and in single or in double precision if the
    numbers are the same. Data sets that differ only in rows outside the sample have the same digest.

    Parameters
    ----------
    rows : Rows
    sample : Batch, optional
        What `digest_sample` returns for these rows, without batches, if it has already been read.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> ones = data_digest(ArrayRows(np.ones((3, 2))))
    >>> ones == data_digest(ArrayRows(np.ones((3, 2), dtype=np.float32)))
    True
    >>> ones == data_digest(ArrayRows([[1.0, 1.0], [1.0, 1.0], [1.0, np.nan]]))
    False
    """
    if isinstance(rows, BatchedRows):
        both = data_digest(rows.rows, sample) + rows.labels_digest()
        return hashlib.sha256(both.encode()).hexdigest()
    digest = hashlib.sha256(f"{rows.n_rows} x {rows.n_columns}".encode())
    batch = digest_sample(rows) if sample is None else sample
    observed = np.asarray(batch.observed, dtype=bool)
    # Adding 0 turns -0 into 0, which is the same number in other bytes.
    values = np.where(observed, np.asarray(batch.values, dtype="<f8"), 0.0) + 0.0
    digest.update(np.ascontiguousarray(values, dtype="<f8").tobytes())
    digest.update(np.packbits(observed).tobytes())
    return digest.hexdigest()


def _sampled_ids(n_rows: int, n_columns: int) -> NDArray[np.int64]:
    """Return the ids of the sampled rows: evenly spaced runs, with the first and the last row among them."""
    per_run = max(1, min(ROWS_PER_RUN, MOST_ENTRIES // (RUNS * n_columns)))
    if n_rows <= RUNS * per_run:
        return np.arange(n_rows)
    starts = [(n_rows - per_run) * run // (RUNS - 1) for run in range(RUNS)]
    return np.unique(np.add.outer(starts, np.arange(per_run)))
