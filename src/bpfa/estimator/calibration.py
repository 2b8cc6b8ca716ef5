"""How well a fitted model predicts entries that it does not see, and how often its intervals are right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array, check_array, check_integer
from bpfa.data import Batch
from bpfa.estimator.frames import column_labels, frame, label_columns, ratio, rows_per_block
from bpfa.estimator.predicting import PredictionMixin
from bpfa.prediction.draws import posterior_draws
from bpfa.prediction.predictions import keyed_by_content, predict

__all__ = ["calibration", "predictive_draws", "variance_explained"]


def variance_explained(
    model: PredictionMixin, X: Any, held_out: Any, *, per_column: bool, n_draws: int, labels: Any = None
) -> Any:
    """Return the frame of `BPFA.variance_explained`."""
    # First the entries that the model sees while it predicts, then those that are hidden from it.
    n_entries, error, total = np.zeros((3, 2, len(model.scale_)))
    algorithm, stream = model._algorithm(), model._stream
    missing = model._missing_predictor(n_draws)
    hidden = model._hidden_entries(X, held_out, labels)
    for batch, truth, mask in hidden.blocks(rows_per_block(model), model._unit):
        seen = predict(model.posterior_, batch, algorithm, n_draws=n_draws, stream=stream).mean
        mean = np.where(batch.observed, seen, missing.predict(batch).mean)
        for i, chosen in enumerate((batch.observed, mask)):
            n_entries[i] += chosen.sum(axis=0)
            error[i] += (np.where(chosen, truth - mean, 0.0) ** 2).sum(axis=0)
            total[i] += (np.where(chosen, truth, 0.0) ** 2).sum(axis=0, dtype=np.float64)
    # From the units of the model to those of the standardised columns.
    error, total = error * model.noise_ratio_**2, total * model.noise_ratio_**2
    n_entries, error, total = _by_column_or_all(per_column, n_entries, error, total)
    names = column_labels(model) if per_column else None
    columns = label_columns("entries", ["observed", hidden.label], names)
    columns |= {
        "n_entries": n_entries.ravel().astype(int),
        "variance_explained": 1 - ratio(error, total).ravel(),
    }
    return frame(columns)


def calibration(
    model: PredictionMixin,
    X: Any,
    held_out: Any,
    *,
    levels: Sequence[float] | Array,
    per_column: bool,
    n_draws: int,
    labels: Any = None,
) -> Any:
    """Return the frame of `BPFA.calibration`."""
    n_draws = check_integer("n_draws", n_draws, low=1)
    chosen = _checked_levels(levels, n_draws)
    n_columns = len(model.scale_)
    n_entries, covered, width = np.zeros((3, len(chosen), n_columns))
    hidden = model._hidden_entries(X, held_out, labels)
    for i, (batch, truth, mask) in enumerate(hidden.blocks(rows_per_block(model), model._unit)):
        # Rows without hidden entries need not be predicted. After a fit to a large table they are most.
        some = np.asarray(mask.any(axis=1))
        if not some.any():
            continue
        batch, truth, mask = _some_rows(batch, some), truth[some], mask[some]
        draws = predictive_draws(model, batch, mask, n_draws, block=i)
        # The position of the p-quantile among n sorted draws is p (n + 1).
        low, high = np.quantile(draws, [(1 - chosen) / 2, (1 + chosen) / 2], axis=0, method="weibull")
        inside, column = (low <= truth[mask]) & (truth[mask] <= high), np.nonzero(mask)[1]
        n_entries += mask.sum(axis=0)
        for j in range(len(chosen)):
            covered[j] += np.bincount(column, inside[j], minlength=n_columns)
            width[j] += np.bincount(column, high[j] - low[j], minlength=n_columns)
    # From the units of the model to those of the standardised columns.
    width *= model.noise_ratio_
    n_entries, covered, width = _by_column_or_all(per_column, n_entries, covered, width)
    columns = label_columns("level", chosen, column_labels(model) if per_column else None)
    columns |= {
        "entries": hidden.label,
        "n_entries": n_entries.ravel().astype(int),
        "coverage": ratio(covered, n_entries).ravel(),
        "width": ratio(width, n_entries).ravel(),
    }
    return frame(columns)


def predictive_draws(
    model: PredictionMixin, batch: Batch, mask: NDArray[np.bool_], n_draws: int, block: int
) -> Array:
    """Draw some entries from their predictive distribution, noise included.

    Parameters
    ----------
    model : BPFA
    batch : Batch
        A block of rows, as the model sees them.
    mask : boolean array, shape (n_rows, n_columns)
        True at the entries to draw.
    n_draws : int
    block : int
        Number of the block; every block has noise of its own.

    Returns
    -------
    array, shape (n_draws, n_entries)
    """
    draws = posterior_draws(
        model.posterior_,
        keyed_by_content(batch),
        model._algorithm(),
        n_draws=n_draws,
        stream=model._stream.child("prediction"),
    )
    noise = model._stream.child("noise").generator(block)
    drawn = np.stack([noise.normal(draw.mean[mask], draw.g_o**-0.5) for draw in draws])
    groups = model._group_predictor()
    return drawn if groups is None else groups.draws(drawn, batch, mask, noise)


def _some_rows(batch: Batch, chosen: NDArray[np.bool_]) -> Batch:
    return Batch(batch.values[chosen], batch.observed[chosen], batch.ids[chosen])


def _checked_levels(levels: Sequence[float] | Array, n_draws: int) -> Array:
    chosen = check_array("levels", levels, (None,))
    if not len(chosen) or not ((chosen > 0) & (chosen < 1)).all():
        raise ValueError(f"levels={levels!r}: expected numbers between 0 and 1, at least one")
    needed = int(np.ceil(2 / (1 - chosen.max()) - 1 - 1e-9))
    if n_draws < needed:
        raise ValueError(f"n_draws={n_draws}: expected at least {needed}, for the tails of {chosen.max():g}")
    return chosen


def _by_column_or_all(per_column: bool, *sums: Array) -> tuple[Array, ...]:
    """Return sums over the entries of each column as they are, or added up over all columns."""
    return sums if per_column else tuple(each.sum(axis=1, keepdims=True) for each in sums)
