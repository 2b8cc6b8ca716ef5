"""Other ways to fill in a matrix: functions of the matrix (NaN where missing), K and a seed."""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import NamedTuple

import numpy as np

from benchmarks import factor_analysis, iterative_pca
from experiments import Array

NEAREST = 50
"""The number of columns from which scikit-learn's IterativeImputer predicts another one."""
MOFA_ITERATIONS = 1000
"""The largest number of iterations, the default of mofapy2, which stops when its bound no longer grows."""


class Imputed(NamedTuple):
    """Predictions of all entries, of which only those of missing entries count."""

    mean: Array
    std: Array
    """The standard deviation of the prediction of a new value, noise included."""
    note: str = ""


def column_means(train: Array, n_components: int, seed: int) -> Imputed:
    """Predict the mean of the column, with its variance."""
    return with_residual_variance(train, np.broadcast_to(np.nanmean(train, axis=0), train.shape))


def regularised_pca(train: Array, n_components: int, seed: int) -> Imputed:
    fitted, iterations = iterative_pca.fit(train, n_components)
    return with_residual_variance(train, fitted, f"{iterations} iterations")


def validated_pca(train: Array, n_components: int, seed: int) -> Imputed:
    """Predict by regularised PCA with K chosen by validation, whose errors give the variance."""
    chosen, std = iterative_pca.validated(train, seed)
    fitted, iterations = iterative_pca.fit(train, chosen)
    note = f"chose K = {chosen}, {iterations} iterations"
    return Imputed(fitted, np.broadcast_to(std, train.shape), note)


def factor_analysis_em(train: Array, n_components: int, seed: int) -> Imputed:
    model, iterations = factor_analysis.fit(train, n_components)
    mean, variance = factor_analysis.predict(model, train)
    return Imputed(mean, np.sqrt(variance), f"{iterations} iterations")


def sklearn_factor_analysis(train: Array, n_components: int, seed: int) -> Imputed:
    """Predict by scikit-learn's FactorAnalysis, fitted to data in which column means replace missing entries.

    The predictions are those of the fitted Gaussian given the observed entries.
    """
    from sklearn.decomposition import FactorAnalysis

    filled = np.where(np.isnan(train), np.nanmean(train, axis=0), train)
    # The same tolerance as ours. Its own applies to the total log-likelihood, and would take very long
    # to meet with so many rows.
    fitted = FactorAnalysis(n_components, tol=1e-6 * train.size, random_state=seed).fit(filled)
    model = factor_analysis.FactorModel(fitted.mean_, fitted.components_.T, fitted.noise_variance_)
    mean, variance = factor_analysis.predict(model, train)
    return Imputed(mean, np.sqrt(variance), f"{fitted.n_iter_} iterations")


def sklearn_iterative_imputer(train: Array, n_components: int, seed: int) -> Imputed:
    """Predict each column from others by Bayesian ridge regression, repeatedly until nothing changes."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    nearest = NEAREST if train.shape[1] > NEAREST else None
    imputer = IterativeImputer(n_nearest_features=nearest, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        filled = imputer.fit_transform(train)
    missing, std = np.isnan(train), np.ones(train.shape)
    # The regressions of the last round, whose deviations include noise and uncertainty of the coefficients.
    for column, others, regression in imputer.imputation_sequence_[-int(missing.any(axis=0).sum()) :]:
        rows = missing[:, column]
        std[rows, column] = regression.predict(filled[np.ix_(rows, others)], return_std=True)[1]
    used = nearest or train.shape[1] - 1
    return Imputed(
        filled, std, f"from {used} columns, {imputer.n_iter_} rounds of at most {imputer.max_iter}"
    )


def mofa(train: Array, n_components: int, seed: int, *, sparse: bool = True) -> Imputed:
    """Predict by MOFA+ with one view and one group; its samples are our rows and its features our columns.

    Every column has a noise precision of its own. With `sparse`, the weights have a spike-and-slab prior and
    the relevance of factors and weights is learned, which can switch factors off; otherwise the priors are
    plain Gaussians.
    """
    # MOFA+ prints a banner and a line for every iteration.
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
        # With masking, entries that it takes for outliers would have no prediction.
        model.impute(uncertainty=True, mask_outliers=False)
    mean, variance = (model.imputed_data[name][0] for name in ("mean", "variance"))
    iterations = len(model.model.train_stats["time"])
    used = int((np.abs(model.model.nodes["W"].getExpectations()[0]["E"]).max(axis=0) > 1e-3).sum())
    return Imputed(
        mean, np.sqrt(variance), f"{iterations} iterations, {used} factor{'s' if used != 1 else ''} in use"
    )


def dense_mofa(train: Array, n_components: int, seed: int) -> Imputed:
    return mofa(train, n_components, seed, sparse=False)


def with_residual_variance(train: Array, fitted: Array, note: str = "") -> Imputed:
    """Return predictions with the variance of the column's residuals, for methods that have no variance."""
    std = np.sqrt(np.nanmean((train - fitted) ** 2, axis=0))
    return Imputed(fitted, np.broadcast_to(std, train.shape), note)
