"""The offsets and the noise of batches, estimated before the fit (docs/math.md, "Batches").

Offsets have a normal prior for every column, whose variance is learned. The noise scale of a batch has a
prior that is learned from all batches. Batches with few rows are therefore hardly told from the population.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import Rows, StandardisedRows, sequential
from bpfa.data.batches import BatchedRows, BatchEffects
from bpfa.inference.factor_analysis import row_sample
from bpfa.inference.panel_factors import MAX_FACTORS, factor_analysis
from bpfa.selection.column_noise import posterior_variances

__all__ = ["batch_effects", "posterior_offsets"]

# The values of the variance of offsets, in units of the variance of a column, over which it is averaged.
VARIANCES = np.geomspace(1e-6, 1e2, 65)
# The prior of the logarithm of this variance is normal. It is learned from all columns in so many rounds, and
# its standard deviation is at least so large.
ROUNDS, LEAST_SPREAD = 300, 0.5
# The most iterations of the factor analysis that tells noise from signal.
MAX_ITERATIONS = 30


def batch_effects(
    rows: Rows, labels: tuple[Hashable, ...], codes: NDArray[np.int64], stream: Stream
) -> BatchEffects:
    """Estimate the offset of every batch and column and the noise scale of every batch.

    Parameters
    ----------
    rows : Rows
        In the units of the data, without the entries that are held out. They are read once.
    labels : tuple
        Label of every batch.
    codes : integer array, shape (n_rows,)
        The number of the batch of every row.
    stream : Stream
        Chooses the rows from which the noise is estimated.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rng = np.random.default_rng(0)
    >>> codes = np.repeat([0, 1, 2], 1000)
    >>> y = rng.normal(size=(3000, 2)) + np.array([[3.0, 0.0], [0.0, 0.0], [-3.0, 0.0]])[codes]
    >>> batch_effects(ArrayRows(y), ("a", "b", "c"), codes, Stream.from_seed(0)).offset[:, 0].round()
    array([ 3., -0., -3.])
    """
    n, means, variance = _moments(rows, codes, len(labels))
    found = posterior_offsets(means, variance, n)
    n_rows = np.bincount(codes, minlength=len(labels))
    effects = BatchEffects(labels, *found, scale=np.ones(len(labels)), n_rows=n_rows)
    scale = _noise_scales(BatchedRows(rows, effects, codes), np.sqrt(variance), stream)
    return replace(effects, scale=scale)


class Offsets(NamedTuple):
    """The posterior of the offsets of batches; the fields are those of `BatchEffects`."""

    mean: Array
    offset: Array
    offset_std: Array
    level_std: Array
    mean_std: Array
    between_std: Array


def posterior_offsets(means: Array, variance: Array, n: NDArray[np.int64]) -> Offsets:
    """Return the posterior of offsets, given the means of batches.

    The mean of batch b in a column is normal about (population mean + offset) with variance
    `variance / n[b]`. Offsets are normal about 0; their variance is averaged over its posterior, and the
    population mean is integrated out.

    Parameters
    ----------
    means : array, shape (n_batches, n_columns)
    variance : array, shape (n_columns,)
        Variance of an entry within a batch; 1 where it is not known.
    n : integer array, shape (n_batches, n_columns)
        Number of observed entries.

    Returns
    -------
    Offsets

    Examples
    --------
    >>> found = posterior_offsets(
    ...     np.array([[1.0], [-1.0], [5.0]]), np.ones(1), np.array([[10000], [10000], [1]])
    ... )
    >>> bool(abs(found.offset[2, 0]) < 4), bool(found.offset_std[2, 0] > found.offset_std[0, 0])
    (True, True)
    """
    # In units of the standard deviation within a batch; a batch without an entry has no weight.
    unit = np.sqrt(variance)
    known = n > 0
    y = np.where(known, means / unit, 0.0)
    error = 1.0 / np.maximum(n, 1)
    weight = known / (VARIANCES[:, None, None] + error)
    total = np.maximum(weight.sum(axis=1), 1e-300)
    centre = (weight * y).sum(axis=1) / total
    residual = (weight * (y - centre[:, None]) ** 2).sum(axis=1)
    log_weight = np.log(weight, where=weight > 0, out=np.zeros_like(weight)).sum(axis=1)
    # The likelihood of the variance, with the population mean integrated out.
    likelihood = 0.5 * (log_weight - np.log(total) - residual)
    share = _shares(likelihood)
    shrink = VARIANCES[:, None, None] / (VARIANCES[:, None, None] + np.where(known, error, np.inf))
    found = shrink * (y - centre[:, None])
    given_mean = VARIANCES[:, None, None] * (1 - shrink)
    mean, mean_std = _mixed(share, centre, 1 / total)
    offset, offset_std = _mixed(share[:, None], found, given_mean + shrink**2 / total[:, None])
    level = centre[:, None] + found
    _, level_std = _mixed(share[:, None], level, given_mean + (1 - shrink) ** 2 / total[:, None])
    between_std = np.sqrt((share * VARIANCES[:, None]).sum(axis=0))
    return Offsets(*(part * unit for part in (mean, offset, offset_std, level_std, mean_std, between_std)))


def _mixed(share: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation over all values of the variance of offsets."""
    overall = (share * mean).sum(axis=0)
    squares = (share * (variance + (mean - overall) ** 2)).sum(axis=0)
    return overall, np.sqrt(squares)


def _shares(likelihood: Array) -> Array:
    """Return the posterior of the variance of offsets, a share for each of its values, for every column."""
    grid = np.log(VARIANCES)[:, None]
    centre, spread = 0.5 * (grid[0, 0] + grid[-1, 0]), (grid[-1, 0] - grid[0, 0]) / 4
    for _ in range(ROUNDS):
        log_share = likelihood - 0.5 * ((grid - centre) / spread) ** 2
        share = np.exp(log_share - log_share.max(axis=0))
        share /= share.sum(axis=0)
        weight = share.mean(axis=1)[:, None]
        centre = float((weight * grid).sum())
        spread = max(LEAST_SPREAD, float(np.sqrt((weight * (grid - centre) ** 2).sum())))
    found: Array = share
    return found


def _moments(rows: Rows, codes: NDArray[np.int64], n_batches: int) -> tuple[NDArray[np.int64], Array, Array]:
    """Return number and mean of the entries of every batch and column, and the variance within batches."""
    n, sums, squares = np.zeros((3, n_batches, rows.n_columns))
    first: Array | None = None
    for batch in sequential(rows):
        if first is None:
            # Sums of squares are taken about a value near the mean, which keeps their digits.
            first = batch.values.sum(axis=0, dtype=np.float64) / np.maximum(batch.observed.sum(axis=0), 1)
        own = codes[batch.ids]
        values = np.where(batch.observed, batch.values - first, 0.0)
        for code in np.unique(own):
            chosen = own == code
            n[code] += batch.observed[chosen].sum(axis=0)
            sums[code] += values[chosen].sum(axis=0)
            squares[code] += (values[chosen] ** 2).sum(axis=0)
    assert first is not None
    mean = sums / np.maximum(n, 1)
    freedom = np.maximum(n - 1, 0).sum(axis=0)
    variance = np.maximum(squares - n * mean**2, 0.0).sum(axis=0) / np.maximum(freedom, 1)
    rounding = (1e-14 * np.abs(first)) ** 2
    # Without two entries in the same batch, the variance between batches is the only one to be seen.
    overall = np.maximum(squares.sum(axis=0) / np.maximum(n.sum(axis=0), 1), 0.0)
    variance = np.where(variance > rounding, variance, overall)
    return n.astype(np.int64), mean + first, np.where(variance > rounding, variance, 1.0)


def _noise_scales(rows: BatchedRows, unit: Array, stream: Stream) -> Array:
    """Return the noise of every batch relative to that of all rows."""
    n_batches = len(rows.effects.labels)
    sample = row_sample(StandardisedRows(rows, rows.effects.mean, unit), stream)
    analysis = factor_analysis(sample.values, sample.observed)
    n_factors = min(MAX_FACTORS, sample.n_columns // 2, max(1, len(sample) // 10))
    if n_factors:
        analysis.fit(n_factors, MAX_ITERATIONS)
    noise = np.sqrt(analysis.noise)
    scaled = analysis.filled / noise
    residual = np.where(sample.observed, scaled - (scaled @ analysis.directions) @ analysis.directions.T, 0.0)
    n_observed = sample.observed.sum(axis=1)
    some = n_observed > 0
    square = (residual**2).sum(axis=1)[some] / n_observed[some]
    codes = rows.codes[sample.ids][some]
    n = np.bincount(codes, minlength=n_batches)
    mean = np.bincount(codes, square, minlength=n_batches) / np.maximum(n, 1)
    spread = np.bincount(codes, (square - mean[codes]) ** 2, minlength=n_batches) / np.maximum(n - 1, 1)
    # As many degrees of freedom as an estimate from independent normal numbers of the same accuracy has.
    freedom = np.where((n > 1) & (spread > 0), 2 * n * mean**2 / np.where(spread > 0, spread, 1.0), 0.0)
    overall = float(square.mean()) if some.any() else 1.0
    if overall <= 0:
        return np.ones(n_batches)
    variances = posterior_variances(np.where(freedom > 0, mean, overall) / overall, freedom)
    weighted = float((rows.effects.n_rows * variances).sum() / max(1, rows.effects.n_rows.sum()))
    scale: Array = np.sqrt(variances / weighted)
    return scale
