"""Whether what a fitted model leaves unexplained looks like noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.data import sequential
from bpfa.estimator.frames import column_labels, frame, ratio, rows_per_block
from bpfa.estimator.transform import TransformMixin
from bpfa.prediction.draws import posterior_draws
from bpfa.prediction.predictions import keyed_by_content

__all__ = ["residual_blocks", "residual_moments"]


def residual_blocks(
    model: TransformMixin, X: Any, batch: Any = None
) -> Iterator[tuple[Array, NDArray[np.bool_]]]:
    """Yield the residuals of a block of rows at a time, and which of their entries are observed.

    `BPFA.residuals` says what a residual is. It is 0 where the entry is missing.
    """
    for block in sequential(model._standardised(X, batch=batch), block_rows=rows_per_block(model)):
        keyed, stream = keyed_by_content(block), model._stream.child("residuals")
        [draw] = posterior_draws(model.posterior_, keyed, model._row_algorithm(), n_draws=1, stream=stream)
        yield np.where(block.observed, (block.values - draw.mean) * draw.g_o**0.5, 0.0), block.observed


def residual_moments(model: TransformMixin, X: Any, batch: Any = None) -> Any:
    """Return the frame of `BPFA.residuals`."""
    n_entries, n_beyond, *powers = np.zeros((6, len(model.scale_)))
    for residual, observed in residual_blocks(model, X, batch):
        n_entries += observed.sum(axis=0)
        n_beyond += (np.abs(residual) > 3).sum(axis=0)
        for p, sums in enumerate(powers, start=1):
            sums += (residual**p).sum(axis=0)
    mean, second, third, fourth = (ratio(sums, n_entries) for sums in powers)
    variance = np.maximum(second - mean**2, 0.0)
    central_fourth = fourth - 4 * mean * third + 6 * mean**2 * second - 3 * mean**4
    columns = {
        "n_entries": n_entries.astype(int),
        "mean": mean,
        "std": np.sqrt(variance),
        "skewness": ratio(third - 3 * mean * second + 2 * mean**3, variance**1.5),
        "excess_kurtosis": ratio(central_fourth, variance**2) - 3,
        "beyond_3": ratio(n_beyond, n_entries),
    }
    return frame(columns, index=column_labels(model), index_name="column")
