"""From a Dask array or dataframe, or from files that workers can read, to rows in chunks."""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.optional import library
from bpfa.cluster.calls import Caller, ThisProcess
from bpfa.cluster.parts import ChunkKind, read_chunk
from bpfa.cluster.rows import ChunkedRows
from bpfa.data import RowSource

__all__ = [
    "caller_of",
    "current_client",
    "is_collection",
    "mask_applied",
    "on_workers",
    "open_collection",
    "whole_rows",
]

# Consecutive chunks of a file are read together until they have a 64th of its entries, but at least and at
# most so many: 8 MiB in single precision.
LEAST_CHUNK_ENTRIES, MOST_CHUNK_ENTRIES, FILE_CHUNKS = 2**16, 2**21, 64
PURPOSE = "Dask collections and clusters need dask and distributed"


def is_collection(data: Any) -> bool:
    """Return whether data is a collection of Dask, without importing Dask.

    Examples
    --------
    >>> is_collection([[1.0, 2.0]])
    False
    """
    kind = type(data).__module__.partition(".")[0]
    return kind in ("dask", "dask_expr") and hasattr(data, "__dask_graph__")


def current_client(client: Any = None) -> Any:
    """Return the client of `dask.distributed` to use: the given one, the current one, or None.

    Examples
    --------
    >>> current_client() is None
    True
    """
    if client is None:
        try:
            default_client: Any = importlib.import_module("distributed").default_client
            return default_client()
        except (ImportError, ValueError):
            return None
    distributed = library("distributed", "dask", purpose=PURPOSE)
    if not isinstance(client, distributed.Client):
        raise TypeError(f"client: {type(client).__name__}; expected a dask.distributed.Client")
    return client


def open_collection(
    data: Any,
    *,
    missing: Any = None,
    client: Any = None,
    n_jobs: int | None = None,
    name: str = "X",
    say_where: bool = True,
) -> ChunkedRows:
    """Return the rows of a Dask array or dataframe.

    Parameters
    ----------
    data : dask.array.Array or dask.dataframe.DataFrame
        Rows x columns. Unknown sizes of chunks are computed.
    missing : boolean array-like, optional
        True where an entry is missing, in addition to those that are NaN.
    client : distributed.Client, optional
        By default the current one. Without any, this process reads the chunks, one window at a time.
    n_jobs : int, optional
        Number of threads of this process.
    name : str
        What errors call the data.
    say_where : bool
        Say that this process reads the rows, if it does.

    Examples
    --------
    >>> import dask.array
    >>> rows = open_collection(dask.array.from_array(np.eye(6), chunks=(2, 6)))
    >>> rows.n_rows, rows.chunk_edges
    (6, array([0, 2, 4, 6]))
    """
    dask_array = library("dask.array", "dask", purpose=PURPOSE)
    client = current_client(client)
    called, column_names = "chunk", None
    if isinstance(data, dask_array.Array):
        data = mask_applied(whole_rows(data, name), missing)
        chunks, n_columns = data.to_delayed().ravel().tolist(), int(data.shape[1])
        lengths = _lengths(data, chunks, client, name)
    elif hasattr(data, "npartitions") and hasattr(data, "columns"):
        if missing is not None:
            raise ValueError("missing: a mask goes with a Dask array, not with a dataframe; expected None")
        called, column_names = "partition", [str(label) for label in data.columns]
        chunks, n_columns = data.to_delayed(), len(column_names)
        _refuse_text(data, name)
        lengths = np.asarray(_computed(client, data[[data.columns[0]]].map_partitions(len)), dtype=np.int64)
    else:
        raise TypeError(f"{name}: {type(data).__name__}; expected a Dask array or dataframe, rows x columns")
    kind, chunks = _filled_chunks(name, chunks, lengths, n_columns, column_names, called)
    return ChunkedRows(kind, chunks, caller_of(client, n_jobs, name if say_where else None))


def _filled_chunks(
    name: str,
    chunks: Sequence[Any],
    lengths: NDArray[np.int64],
    n_columns: int,
    column_names: list[str] | None,
    called: str,
) -> tuple[ChunkKind, list[Any]]:
    """Return what every chunk is expected to be, and the chunks that have rows."""
    filled = [chunk for chunk, length in zip(chunks, lengths.tolist(), strict=True) if length]
    if not filled or not n_columns:
        raise ValueError(f"{name}: no rows, or no columns; expected at least one of each")
    edges = np.append(0, np.cumsum(lengths[lengths > 0]))
    return ChunkKind(name, edges, n_columns, column_names, called), filled


def whole_rows(data: Any, name: str) -> Any:
    """Return an array whose chunks have whole rows."""
    if data.ndim != 2:
        raise ValueError(f"{name}: {data.ndim} axes; expected rows x columns")
    if data.dtype.kind not in "fiub":
        raise TypeError(f"{name}: dtype {data.dtype}; expected real numbers")
    if len(data.chunks[1]) > 1:
        logging.getLogger("bpfa").warning(
            "%s: the columns are in %d chunks, which are joined now; %s.rechunk({1: -1}) does it once",
            name,
            len(data.chunks[1]),
            name,
        )
        return data.rechunk({1: -1})
    return data


def mask_applied(data: Any, missing: Any) -> Any:
    """Return an array that is NaN where an entry is missing."""
    if missing is None:
        return data
    dask_array = library("dask.array", "dask", purpose=PURPOSE)
    if tuple(missing.shape) != tuple(data.shape) or missing.dtype.kind != "b":
        raise ValueError(
            f"missing: {missing.dtype} of shape {missing.shape}; expected booleans of shape {data.shape}"
        )
    if not isinstance(missing, dask_array.Array):
        missing = dask_array.from_array(np.asarray(missing), chunks=data.chunks)
    nan = np.float32(np.nan) if data.dtype == np.float32 else np.nan
    return dask_array.where(missing.rechunk(data.chunks), nan, data)


def _lengths(data: Any, chunks: list[Any], client: Any, name: str) -> NDArray[np.int64]:
    """Return the number of rows of every chunk of an array, which is computed if it is not known."""
    if not np.isnan(data.chunks[0]).any():
        return np.asarray(data.chunks[0], dtype=np.int64)
    warnings.warn(
        f"{name}: the sizes of its chunks are unknown, and all of it is read once to find them; "
        f"{name}.compute_chunk_sizes() does it once for all",
        # The line that called `fit`.
        stacklevel=6,
    )
    dask = library("dask", "dask", purpose=PURPOSE)
    lengths = [dask.delayed(len)(chunk) for chunk in chunks]
    return np.asarray(_computed(client, *lengths), dtype=np.int64)


def _computed(client: Any, *collections: Any) -> Any:
    """Return small results, from the workers if there are any."""
    dask = library("dask", "dask", purpose=PURPOSE)
    if client is None:
        results = dask.compute(*collections)
    else:
        results = client.gather(client.compute(list(collections)))
    return results if len(collections) > 1 else results[0] if np.ndim(results[0]) else results


def _refuse_text(data: Any, name: str) -> None:
    """Refuse a dataframe with a column that does not hold numbers."""
    for label, dtype in data.dtypes.items():
        if getattr(dtype, "kind", "O") not in "fiub":
            raise ValueError(
                f"{name}: column {str(label)!r} has the dtype {dtype}; expected numbers, such as "
                f"{name}.drop(columns={[label]!r})"
            )


def on_workers(source: RowSource, client: Any) -> ChunkedRows:
    """Return the rows of files, which the workers of a cluster read, as rows in chunks.

    Parameters
    ----------
    source : RowSource
        As `open_rows` returns it for paths. The workers must find the files at the same paths.
    client : distributed.Client

    Examples
    --------
    >>> from bpfa import ArrayRows
    >>> on_workers(ArrayRows(np.eye(3)), client=None)
    Traceback (most recent call last):
    ...
    TypeError: X: ArrayRows; rows in the memory of this process cannot be read by workers; expected files, \
or a Dask array
    """
    if source.chunk_edges is None:
        raise TypeError(
            f"X: {type(source).__name__}; rows in the memory of this process cannot be read by workers; "
            "expected files, or a Dask array"
        )
    dask = library("dask", "dask", purpose=PURPOSE)
    edges = _joined(source.chunk_edges, source.n_columns)
    shared = dask.delayed(source, traverse=False, pure=False)
    read = dask.delayed(read_chunk, pure=False)
    chunks = [read(shared, int(start), int(stop)) for start, stop in pairwise(edges)]
    kind = ChunkKind(source.name, edges, source.n_columns, source.column_names)
    rows = ChunkedRows(kind, chunks, caller_of(current_client(client), None, source.name))
    rows.dtype = np.dtype(getattr(source, "dtype", np.float64))
    return rows


def _joined(edges: NDArray[np.int64], n_columns: int) -> NDArray[np.int64]:
    """Return edges between groups of consecutive chunks with enough entries.

    Examples
    --------
    >>> _joined(np.arange(0, 2**18 + 1, 2**14), 1)
    array([     0,  65536, 131072, 196608, 262144])
    """
    kept, even = [0], int(edges[-1]) * n_columns // FILE_CHUNKS
    enough = min(MOST_CHUNK_ENTRIES, max(LEAST_CHUNK_ENTRIES, even))
    for edge in edges[1:-1].tolist():
        if (edge - kept[-1]) * n_columns >= enough:
            kept.append(edge)
    return np.asarray([*kept, int(edges[-1])], dtype=np.int64)


def caller_of(client: Any, n_jobs: int | None, name: str | None) -> Caller:
    """Return those who read chunks: the workers of a client, or this process, which is then said."""
    if client is None:
        if name is not None:
            logging.getLogger("bpfa").warning(
                "%s: no client of dask.distributed, so that this process reads the rows, one window at a "
                "time; distributed.Client() starts workers",
                name,
            )
        return ThisProcess(n_jobs)
    from bpfa.cluster.client import Cluster

    return Cluster(client, n_jobs)
