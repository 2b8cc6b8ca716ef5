"""A model of the rows made from a model of the columns (docs/math.md section 18).

In a model of the transposed table every column of the table uses a few features, and the features are dense
scores of the rows. The posterior of what each column uses becomes the posterior of the features of a model of
the usual kind, in which every row uses all features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import Batch, Rows
from bpfa.inference.algorithms import Algorithm
from bpfa.model.features import FactorisedFeatures, JointFeatures
from bpfa.model.marginals import weight_moments
from bpfa.model.posterior import GlobalPosterior
from bpfa.prediction.draws import PosteriorDraw, posterior_draws

__all__ = ["Loadings", "column_loadings", "model_of_rows", "new_entry_noise"]

# The number of draws, and how many numbers the moments of a block of columns may take; this many take 32 MiB.
N_DRAWS, BLOCK_NUMBERS = 30, 2**22
# The least variance of a loading, for loadings that are 0 in every draw. The data has variance 1.
LEAST_VARIANCE = 1e-6
# The probability that a row does not use a feature. In the model of the columns it would be 0.
IDLE = 1e-4
# The fewest degrees of freedom that the noise of a column counts as having, whatever its number of entries.
LEAST_FREEDOM = 4.0


class Loadings(NamedTuple):
    """The loadings of the features in every column of the table, for scores of mean square 1."""

    mean: Array
    """K x D."""
    spread: Array
    """The variances of the loadings, K x D, or the covariances of those of every column, D x K x K."""
    probability: NDArray[np.float32]
    """The probability that the column uses the feature, K x D."""
    n_observed: NDArray[np.int64]
    """The number of observed entries of every column, D."""


def column_loadings(
    posterior: GlobalPosterior,
    columns: Rows,
    unit: Array,
    algorithm: Algorithm,
    stream: Stream,
    *,
    joint: bool,
) -> Loadings:
    """Return the loadings of the features in every column of a table, by draws from a transposed model.

    Features that no column uses are left out, and the most used one comes first.

    Parameters
    ----------
    posterior : GlobalPosterior
        Of the transposed model.
    columns : Rows
        The transposed table, in the units of that model: its rows are the columns of the table.
    unit : array
        The noise of every row of the table relative to the other rows, by which its entries were divided.
    algorithm : Algorithm
        The algorithm by which the posterior was trained.
    stream : Stream
    joint : bool
        Whether the covariances of the loadings of a column are computed, or only their variances. They need
        the weights integrated out, and so an algorithm that draws z given the globals.
    """
    K, n_columns = posterior.n_features, columns.n_rows
    used, first, squares = np.zeros((K, n_columns)), np.zeros((K, n_columns)), np.zeros(K)
    second = np.zeros((n_columns, K, K) if joint else (n_columns, K))
    n_observed = np.zeros(n_columns, dtype=np.int64)
    size = max(1, BLOCK_NUMBERS // (K * K if joint else K))
    for start in range(0, n_columns, size):
        ids = np.arange(start, min(start + size, n_columns))
        batch = columns.take(ids)
        n_observed[ids] = batch.observed.sum(axis=1)
        for draw in posterior_draws(posterior, batch, algorithm, n_draws=N_DRAWS, stream=stream):
            mean, moments = _moments(draw, batch, joint=joint)
            used[:, ids] += (draw.x != 0).T / N_DRAWS
            first[:, ids] += mean.T / N_DRAWS
            second[ids] += moments / N_DRAWS
            squares += len(ids) / n_columns * ((draw.phi * unit) ** 2).mean(axis=1) / N_DRAWS
    chosen = _features_in_use(used)
    # Features that are twice as large need loadings half as large, so that the scale is free. Here the scores
    # of the rows get the mean square 1.
    scale = np.sqrt(squares[chosen])
    mean = first[chosen] * scale[:, None]
    if joint:
        spread = second[:, chosen[:, None], chosen] * np.outer(scale, scale)
        spread -= mean.T[:, :, None] * mean.T[:, None, :]
        spread += LEAST_VARIANCE * np.eye(len(chosen))
    else:
        spread = np.maximum(second.T[chosen] * scale[:, None] ** 2 - mean**2, LEAST_VARIANCE)
    return Loadings(mean, spread, used[chosen].astype(np.float32), n_observed)


def _moments(draw: PosteriorDraw, batch: Batch, *, joint: bool) -> tuple[Array, Array]:
    """Return the mean and the second moments of x given a draw: of x itself, or with w integrated out."""
    if not joint:
        return draw.x, draw.x**2
    return weight_moments(draw.x != 0, draw.phi, draw.g_o, draw.g_w, batch)


def _features_in_use(probability: Array) -> NDArray[np.int64]:
    """Return the features that columns use, the most used one first; at least one."""
    n_using = probability.sum(axis=1)
    order = np.argsort(-n_using, kind="stable")
    # The same limit as `GlobalPosterior.n_active` has for rows.
    enough = n_using[order] > max(1.0, 0.001 * probability.shape[1])
    return order[: max(1, int(enough.sum()))]


def new_entry_noise(loadings: Loadings, *, by_column: bool) -> float:
    """Return the noise of an entry that a fit has not seen, relative to what the fit has found.

    The fit sees every column less its mean, which was estimated from the same n entries. This lowers their
    variance by a share of 1/n, and raises that of a new entry by as much. If the noise of every column was
    estimated as well, with f degrees of freedom, the expected variance of a new entry is f / (f - 2) times
    the estimate, as it is for Student's t-distribution.

    Parameters
    ----------
    loadings : Loadings
    by_column : bool
        Whether every column has a noise level of its own.

    Returns
    -------
    float
        A ratio of variances: the mean over all entries that the fit has seen.

    Examples
    --------
    >>> loadings = Loadings(np.zeros((1, 3)), np.ones((1, 3)), np.ones((1, 3)), np.full(3, 40))
    >>> [round(new_entry_noise(loadings, by_column=by_column), 3) for by_column in (False, True)]
    [1.051, 1.11]
    """
    n = loadings.n_observed.astype(np.float64)
    ratio = (n + 1) / np.maximum(n - 1, 1.0)
    if by_column:
        freedom = np.maximum(n - loadings.probability.sum(axis=0) - 1, LEAST_FREEDOM)
        ratio = ratio * freedom / (freedom - 2)
    return float((n * ratio).sum() / max(n.sum(), 1.0))


def model_of_rows(
    loadings: Loadings, transposed: GlobalPosterior, noise_ratio: float = 1.0
) -> GlobalPosterior:
    """Return the posterior of the model of the rows that has these loadings.

    Every row uses all features, with weights of variance 1.

    Parameters
    ----------
    loadings : Loadings
    transposed : GlobalPosterior
        Of the transposed model, whose columns are the rows of the table.
    noise_ratio : float
        The noise variance relative to that of the transposed model.
    """
    n_rows, K, priors = transposed.n_columns, len(loadings.mean), transposed.priors
    a = priors.beta(K)[0] + n_rows
    e = priors.e0 + n_rows * K / 2
    features: FactorisedFeatures | JointFeatures
    if loadings.spread.ndim == 3:
        P = np.linalg.inv(loadings.spread)
        P = (P + P.transpose(0, 2, 1)) / 2
        features = JointFeatures(P, (P @ loadings.mean.T[:, :, None])[:, :, 0].T)
    else:
        features = FactorisedFeatures(1 / loadings.spread, loadings.mean / loadings.spread)
    return GlobalPosterior(
        priors=priors,
        n_rows=n_rows,
        a=np.full(K, a),
        b=np.full(K, a * IDLE),
        c=transposed.c,
        d=transposed.d * noise_ratio,
        e=e,
        f=e,
        features=features,
        weight_precision=transposed.weight_precision,
    )
