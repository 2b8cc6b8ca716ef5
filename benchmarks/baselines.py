"""Other ways to fill in a matrix: from NaN where missing, K and a seed to predictions of every entry."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import NamedTuple

import numpy as np

from benchmarks import factor_analysis, iterative_pca
from benchmarks.factor_analysis import Array

NEAREST = 50
"""Columns from which scikit-learn's IterativeImputer predicts another."""
MOFA_ITERATIONS = 1000
"""At most; the default of mofapy2, which stops when its bound no longer grows."""


class Imputed(NamedTuple):
    """Predictions of all entries; only those at missing ones count."""

    mean: Array
    std: Array
    """Of the prediction of a new value, noise included."""
    note: str = ""


def column_means(train: Array, n_components: int, seed: int) -> Imputed:
    """The mean of the column, with its variance."""
    return with_residual_variance(train, np.broadcast_to(np.nanmean(train, axis=0), train.shape))


def regularised_pca(train: Array, n_components: int, seed: int) -> Imputed:
    fitted, iterations = iterative_pca.fit(train, n_components)
    return with_residual_variance(train, fitted, f"{iterations} iterations")


def validated_pca(train: Array, n_components: int, seed: int) -> Imputed:
    """The same with its own choice of K, and the errors it made there for its variance."""
    chosen, std = iterative_pca.validated(train, seed)
    fitted, iterations = iterative_pca.fit(train, chosen)
    note = f"chose K = {chosen}, {iterations} iterations"
    return Imputed(fitted, np.broadcast_to(std, train.shape), note)


def factor_analysis_em(train: Array, n_components: int, seed: int) -> Imputed:
    model, iterations = factor_analysis.fit(train, n_components)
    mean, variance = factor_analysis.predict(model, train)
    return Imputed(mean, np.sqrt(variance), f"{iterations} iterations")


def sklearn_factor_analysis(train: Array, n_components: int, seed: int) -> Imputed:
    """scikit-learn's FactorAnalysis needs complete data: the column means fill it in for the fit.

    Predictions are those of its Gaussian given the entries that are observed.
    """
    from sklearn.decomposition import FactorAnalysis

    filled = np.where(np.isnan(train), np.nanmean(train, axis=0), train)
    # The tolerance of ours: its own is one of the total, too small for so many rows to be met in minutes.
    fitted = FactorAnalysis(n_components, tol=1e-6 * train.size, random_state=seed).fit(filled)
    model = factor_analysis.FactorModel(fitted.mean_, fitted.components_.T, fitted.noise_variance_)
    mean, variance = factor_analysis.predict(model, train)
    return Imputed(mean, np.sqrt(variance), f"{fitted.n_iter_} iterations")


def sklearn_iterative_imputer(train: Array, n_components: int, seed: int) -> Imputed:
    """Every column from others by Bayesian ridge regression, in turn until nothing changes."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    nearest = NEAREST if train.shape[1] > NEAREST else None
    imputer = IterativeImputer(n_nearest_features=nearest, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        filled = imputer.fit_transform(train)
    missing, std = np.isnan(train), np.ones(train.shape)
    # The regressions of the last round, each with its own noise and uncertain coefficients.
    for column, others, regression in imputer.imputation_sequence_[-int(missing.any(axis=0).sum()) :]:
        rows = missing[:, column]
        std[rows, column] = regression.predict(filled[np.ix_(rows, others)], return_std=True)[1]
    used = nearest or train.shape[1] - 1
    return Imputed(
        filled, std, f"from {used} columns, {imputer.n_iter_} rounds of at most {imputer.max_iter}"
    )


def mofa(train: Array, n_components: int, seed: int, *, sparse: bool = True) -> Imputed:
    """MOFA+ with one view and one group; its samples are our rows, its features our columns.

    Every column has a noise precision of its own. Sparse: spike-and-slab weights, and the relevance of
    factors and of weights learned, which may switch factors off; otherwise plain Gaussian ones.
    """
    # It writes a banner and a line for every iteration.
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        from mofapy2.run.entry_point import entry_point

        model = entry_point()
        model.set_data_options(scale_views=False, scale_groups=False)
        model.set_data_matrix([[train.copy()]], likelihoods=["gaussian"])
        model.set_model_options(
            factors=n_components,
            spikeslab_weights=sparse,
            spikeslab_factors=False,
            ard_weights=sparse,
            ard_factors=sparse,
        )
        model.set_train_options(iter=MOFA_ITERATIONS, seed=seed, quiet=True)
        model.build()
        model.run()
        # What it calls outliers would be left without a prediction.
        model.impute(uncertainty=True, mask_outliers=False)
    mean, variance = (model.imputed_data[name][0] for name in ("mean", "variance"))
    iterations = len(model.model.train_stats["time"])
    used = int((np.abs(model.model.nodes["W"].getExpectations()[0]["E"]).max(axis=0) > 1e-3).sum())
    return Imputed(mean, np.sqrt(variance), f"{iterations} iterations, {used} factors in use")


def dense_mofa(train: Array, n_components: int, seed: int) -> Imputed:
    return mofa(train, n_components, seed, sparse=False)


def with_residual_variance(train: Array, fitted: Array, note: str = "") -> Imputed:
    """For methods without a predictive variance: that of the column's observed entries about the fit."""
    std = np.sqrt(np.nanmean((train - fitted) ** 2, axis=0))
    return Imputed(fitted, np.broadcast_to(std, train.shape), note)
