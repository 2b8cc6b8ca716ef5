"""Dropout on a device: entries that the chains do not see, although the features learn from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpfa._support.philox import threshold_word
from bpfa.backends.cuda.gibbs import KeptSamples
from bpfa.backends.cuda.rows import C_TYPES, DeviceBatch
from bpfa.backends.cuda.runtime import cupy_module, kernel, launch
from bpfa.backends.cuda.step_arguments import StepOnDevice, number_arguments
from bpfa.backends.cuda.view import DeviceView

__all__ = ["with_dropout", "with_residuals_of_whole_rows"]


def with_dropout(
    batch: DeviceBatch, real: str, share: float, key: int, step: int | StepOnDevice
) -> DeviceBatch:
    """Return the rows with this share of their entries missing, the same ones as in `RowDraws.dropped`."""
    cupy, n_numbers = cupy_module(), len(batch) * batch.n_columns
    values, seen = cupy.empty(n_numbers, real), cupy.empty(n_numbers, cupy.uint8)
    _launch(
        "drop_entries", batch, real, batch.n_columns, np.uint32(threshold_word(share)),
        np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 32), *number_arguments(step), values, seen,
    )  # fmt: skip
    return DeviceBatch(
        values,
        seen,
        batch.ids,
        None,
        cupy.arange(batch.n_columns, dtype=cupy.int32),
        batch.n_columns if batch.most_observed is None else batch.most_observed,
        (1 - share) * (batch.n_columns if batch.complete else batch.mean_observed),
    )


def with_residuals_of_whole_rows(kept: KeptSamples, batch: DeviceBatch, view: DeviceView) -> KeptSamples:
    """Return kept samples with the residuals of all observed entries, even those hidden from the chains."""
    K, D = view.phi.shape
    whole = kept._replace(masks=None, n_observed=None) if batch.complete else kept
    _launch(
        "residuals_of_whole_rows", batch, view.real, len(kept.counts), K, D, view.rows, whole.counts,
        whole.entries, whole.residuals, whole.masks, whole.squares, whole.n_observed,
    )  # fmt: skip
    return whole


def _launch(name: str, batch: DeviceBatch, real: str, *others: Any) -> None:
    if len(batch) == 0:
        return
    launch(
        kernel("dropout.cu", name, f"REAL={C_TYPES[real]}"), min(4096, -(-len(batch) // 8)), 256,
        batch.values.astype(real, copy=False), batch.observed, batch.ids, batch.bases, batch.offsets,
        np.int64(len(batch)), *others,
    )  # fmt: skip
