"""The contestants in the comparison of imputation, and what their predictive variances are."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from benchmarks import baselines
from benchmarks.baselines import Imputed
from experiments import Array

RESIDUAL = "variance of the residuals of the column's observed entries"
GAUSSIAN = "the Gaussian's, given the observed entries of the row; noise by column"

PREDICTIVE = "of posterior draws, weights integrated out; noise by column"
MOFA = "its own: variational variance of factors times weights, and 1 / E[noise precision] of the column"


class Contestant(NamedTuple):
    """A way to fill in a matrix."""

    impute: Callable[[Array, int, int], Imputed]
    """A function of the matrix (NaN where missing), K and a seed."""
    takes_components: bool
    """Whether K is given to it."""
    variance: str
    """What its predictive variance is."""


def bpfa_contestant(train: Array, n_components: int | None, seed: int) -> Imputed:
    """Return the mean and standard deviation of the predictions of BPFA, with defaults for all but K."""
    from bpfa import BPFA

    # bpfa has threads of its own, which get the same limit as those of NumPy.
    threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
    model = BPFA(n_components, n_jobs=threads, random_state=seed).fit(train)
    mean, std = model.impute(train, return_std=True)
    note = f"{model.n_components_used_} of {len(model.components_)} features in use"
    return Imputed(mean, std, note)


def bpfa_default(train: Array, n_components: int, seed: int) -> Imputed:
    """Return the same with the default number of features."""
    return bpfa_contestant(train, None, seed)


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
    "bpfa": Contestant(bpfa_contestant, True, PREDICTIVE),
    "bpfa, its default K": Contestant(bpfa_default, False, PREDICTIVE),
}
