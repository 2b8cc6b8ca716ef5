"""What is different for the estimator if the rows of a fit are on other machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from bpfa.backends.registry import backend_of
from bpfa.cluster.rows import ChunkedRows
from bpfa.data.remote import RemoteRows, origin_of
from bpfa.estimator.parameters import Parameters
from bpfa.inference.settings import Settings

__all__ = ["check_remote", "chunks_elsewhere", "refuse_batches", "released", "with_devices"]


def chunks_elsewhere(rows: Any) -> int:
    """Return into how many chunks rows on other machines are divided; 1 for rows of this process."""
    origin = origin_of(rows)
    return origin.n_chunks if isinstance(origin, RemoteRows) else 1


def check_remote(rows: Any, parameters: Parameters) -> None:
    """Refuse what needs all rows in this process, if they are on other machines."""
    if not isinstance(origin_of(rows), RemoteRows):
        return
    if parameters.algorithm == "gibbs":
        raise ValueError(
            "algorithm='gibbs': the sampler needs all rows in one process; expected another algorithm, such "
            "as 'gibbs-ssvi', or X.compute()"
        )
    if parameters.sparse == "columns":
        raise ValueError(
            "sparse='columns': the table has to be in the memory of one process; expected 'rows', or "
            "X.compute()"
        )


def refuse_batches(*labels: Any) -> None:
    """Refuse labels of batches, which are not supported on Dask."""
    if any(label is not None for label in labels):
        raise ValueError(
            "batch: the effects of batches need all rows in one process; expected None, or X.compute(), or "
            "files without a client"
        )


def with_devices(rows: Any, settings: Settings, device: str) -> Settings:
    """Choose the device of those who hold the rows, and return the settings of this process.

    This process scores and chooses on samples, on the same kind of device if it has one, and else on the CPU.
    """
    origin = origin_of(rows)
    if not isinstance(origin, ChunkedRows):
        return settings
    origin.device = origin.caller.device(device)
    here = origin.device if backend_of(origin.device).problem() is None else "cpu"
    return replace(settings, device=here)


@contextmanager
def released(rows: Any) -> Iterator[None]:
    """Let those who hold the rows of a fit forget them at its end."""
    try:
        yield
    finally:
        origin = origin_of(rows)
        if isinstance(origin, ChunkedRows):
            origin.close()
