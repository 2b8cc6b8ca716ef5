"""Who takes part in the comparison of imputation, and what the predictive variances are."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks import baselines
from benchmarks.baselines import Imputed
from benchmarks.factor_analysis import Array

STEPS = 3000
DRAWS = 50
BLOCK_ROWS = 4096
DEFAULT_FEATURES = 100

RESIDUAL = "variance of the residuals of the column's observed entries"
GAUSSIAN = "the Gaussian's, given the observed entries of the row; noise by column"

MOFA = "its own: variational variance of factors times weights, and 1 / E[noise precision] of the column"


class Contestant(NamedTuple):
    """A way to fill in a matrix."""

    impute: Callable[[Array, int, int], Imputed]
    """From the matrix with NaN where missing, K and a seed."""
    takes_components: bool
    """Whether it is told K."""
    variance: str
    """What its predictive variance is."""


def bpfa_contestant(train: Array, n_components: int, seed: int) -> Imputed:
    """Mean and standard deviation over draws from the posterior of gibbs-ssvi."""
    import bpfa
    from bpfa.philox import Stream

    # The limit that NumPy's threads have; bpfa has threads of its own.
    threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
    steps = bpfa.train(train, n_components, algorithm="gibbs-ssvi", n_steps=STEPS, seed=seed, n_jobs=threads)
    posterior = deque(steps, maxlen=1)[0].posterior
    gibbs = bpfa.algorithm("gibbs-ssvi", n_jobs=threads)
    stream = Stream.from_seed(seed).child("prediction")
    mean, variance = np.empty(train.shape), np.empty(train.shape)
    for first in range(0, len(train), BLOCK_ROWS):
        ids = np.arange(first, min(first + BLOCK_ROWS, len(train)))
        batch = bpfa.Batch(train[ids], ids=ids)
        total, squares, noise = np.zeros(train[ids].shape), np.zeros(train[ids].shape), 0.0
        for draw in bpfa.posterior_draws(posterior, batch, gibbs, n_draws=DRAWS, stream=stream):
            total += draw.mean
            squares += draw.mean**2
            noise += 1 / draw.g_o
        mean[ids] = total / DRAWS
        variance[ids] = squares / DRAWS - mean[ids] ** 2 + noise / DRAWS
    return Imputed(mean, np.sqrt(variance), f"{posterior.n_active()} of {n_components} features in use")


def bpfa_default(train: Array, n_components: int, seed: int) -> Imputed:
    """The same with its own number of features."""
    return bpfa_contestant(train, DEFAULT_FEATURES, seed)


CONTESTANTS = {
    "column means": Contestant(baselines.column_means, False, RESIDUAL),
    "PCA, regularised": Contestant(baselines.regularised_pca, True, RESIDUAL),
    "PCA, regularised, K by validation": Contestant(
        baselines.validated_pca, False, "mean squared error of the column on the validation entries"
    ),
    "factor analysis, EM": Contestant(baselines.factor_analysis_em, True, GAUSSIAN),
    "scikit-learn FactorAnalysis, means filled in": Contestant(
        baselines.sklearn_factor_analysis, True, GAUSSIAN
    ),
    "scikit-learn IterativeImputer": Contestant(
        baselines.sklearn_iterative_imputer,
        False,
        "of the last round's Bayesian ridge regressions, other missing entries taken as known",
    ),
    "mofapy2, sparse": Contestant(baselines.mofa, True, MOFA),
    "mofapy2, dense": Contestant(baselines.dense_mofa, True, MOFA),
    "bpfa": Contestant(bpfa_contestant, True, "of posterior draws, one noise level for all columns"),
    "bpfa, its default K": Contestant(
        bpfa_default, False, "of posterior draws, one noise level for all columns"
    ),
}
