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
from bpfa.data import Rows
from bpfa.inference.algorithms import Algorithm
from bpfa.model.features import FactorisedFeatures
from bpfa.model.posterior import GlobalPosterior
from bpfa.prediction.draws import posterior_draws

__all__ = ["Loadings", "column_loadings", "model_of_rows"]

# Columns of the table whose loadings are drawn at a time, and the number of draws.
BLOCK_COLUMNS, N_DRAWS = 4096, 30
# The least variance of a loading, for loadings that are 0 in every draw. The data has variance 1.
LEAST_VARIANCE = 1e-6
# The probability that a row does not use a feature. In the model of the columns it would be 0.
IDLE = 1e-4


class Loadings(NamedTuple):
    """The loadings of every feature in every column of the table, for scores of mean square 1; each K x D."""

    mean: Array
    variance: Array
    probability: Array
    """The probability that the column uses the feature."""


def column_loadings(
    posterior: GlobalPosterior, columns: Rows, unit: Array, algorithm: Algorithm, stream: Stream
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
    """
    K, n_columns = posterior.n_features, columns.n_rows
    used, first, second = (np.zeros((K, n_columns)) for _ in range(3))
    squares = np.zeros(K)
    for start in range(0, n_columns, BLOCK_COLUMNS):
        ids = np.arange(start, min(start + BLOCK_COLUMNS, n_columns))
        for draw in posterior_draws(posterior, columns.take(ids), algorithm, n_draws=N_DRAWS, stream=stream):
            used[:, ids] += (draw.x != 0).T / N_DRAWS
            first[:, ids] += draw.x.T / N_DRAWS
            second[:, ids] += (draw.x**2).T / N_DRAWS
            squares += len(ids) / n_columns * ((draw.phi * unit) ** 2).mean(axis=1) / N_DRAWS
    chosen = _features_in_use(used)
    # Features that are twice as large need loadings half as large, so that the scale is free. Here the scores
    # of the rows get the mean square 1.
    scale = np.sqrt(squares[chosen])[:, None]
    first, second = first[chosen], second[chosen]
    # The mean is that of the same draws, which takes away one of them.
    variance = np.maximum(second - first**2, 0.0) * N_DRAWS / (N_DRAWS - 1)
    return Loadings(
        first * scale, np.maximum(variance * scale**2, LEAST_VARIANCE), used[chosen].astype(np.float32)
    )


def _features_in_use(probability: Array) -> NDArray[np.int64]:
    """Return the features that columns use, the most used one first; at least one."""
    n_using = probability.sum(axis=1)
    order = np.argsort(-n_using, kind="stable")
    # The same limit as `GlobalPosterior.n_active` has for rows.
    enough = n_using[order] > max(1.0, 0.001 * probability.shape[1])
    return order[: max(1, int(enough.sum()))]


def model_of_rows(loadings: Loadings, transposed: GlobalPosterior) -> GlobalPosterior:
    """Return the posterior of the model of the rows that has these loadings.

    Every row uses all features, with weights of variance 1, and the noise is that of the transposed model.

    Parameters
    ----------
    loadings : Loadings
    transposed : GlobalPosterior
        Of the transposed model, whose columns are the rows of the table.
    """
    n_rows, K, priors = transposed.n_columns, len(loadings.mean), transposed.priors
    a = priors.beta(K)[0] + n_rows
    e = priors.e0 + n_rows * K / 2
    tau = 1 / loadings.variance
    return GlobalPosterior(
        priors=priors,
        n_rows=n_rows,
        a=np.full(K, a),
        b=np.full(K, a * IDLE),
        c=transposed.c,
        d=transposed.d,
        e=e,
        f=e,
        features=FactorisedFeatures(tau, tau * loadings.mean),
        weight_precision=transposed.weight_precision,
    )
