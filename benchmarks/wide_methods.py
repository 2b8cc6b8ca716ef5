"""Other ways to fill in a table with more columns than rows, each with a choice by inner validation entries.

Factorisations are of the matrix of rows x rows, so that the time grows with the number of columns only
linearly.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

import numpy as np

from benchmarks.baselines import Imputed
from experiments import Array

# The share of the observed entries that is hidden to choose a rank, a penalty or a number of neighbours.
VALIDATION_SHARE = 0.1
CHOICES, PENALTIES = 8, 12
"""How many ranks, and how many penalties, there are to choose from."""
NEIGHBOURS = (3, 5, 10, 20, 40)
# Iterations end when what is filled in changes by less than this share of itself.
TOLERANCE, MAX_ITERATIONS = 1e-3, 100
# The columns from which scikit-learn's IterativeImputer predicts another one, its rounds, and the largest
# table for which it ends in reasonable time: it computes the correlation of every pair of columns, several
# copies of it, and makes a regression for every column in every round.
NEAREST, ROUNDS, MOST_COLUMNS = 20, 3, 5000

Step = Callable[[Array], Array]
"""From a table without missing entries to the low-rank table that is fitted to it."""


def pca_step(n_components: int) -> Step:
    """Return a step of regularised iterative PCA (Josse and Husson 2012), as in the R package missMDA."""

    def step(filled: Array) -> Array:
        n_rows, n_columns = filled.shape
        mean = filled.mean(axis=0)
        centred = filled - mean
        eigenvalues, vectors = np.linalg.eigh(centred @ centred.T / n_rows)
        rest = eigenvalues[:-n_components]
        kept, vectors = eigenvalues[-n_components:], vectors[:, -n_components:]
        # What is left is noise in the remaining dimensions: at most rows - 1 of them have any variance.
        noise = rest.sum() / max(1, min(n_rows - 1, n_columns) - n_components)
        return (vectors * np.maximum(1 - noise / kept, 0.0)) @ (vectors.T @ centred) + mean

    return step


def soft_step(penalty: float) -> Step:
    """Return a step of softImpute (Mazumder et al. 2010), which lowers singular values by the penalty."""

    def step(filled: Array) -> Array:
        eigenvalues, vectors = np.linalg.eigh(filled @ filled.T)
        values = np.sqrt(np.maximum(eigenvalues, 0.0))
        shrunk = np.maximum(values - penalty, 0.0) / np.maximum(values, 1e-12)
        chosen = shrunk > 0
        return (vectors[:, chosen] * shrunk[chosen]) @ (vectors[:, chosen].T @ filled)

    return step


def iterated(data: Array, step: Step, start: Array | None = None) -> Array:
    """Fill in the missing entries again and again by what the step fits, and return the fitted table."""
    missing = np.isnan(data)
    filled = np.where(missing, 0.0 if start is None else start, data)
    for _ in range(MAX_ITERATIONS):
        fitted = step(filled)
        change = fitted[missing] - filled[missing]
        filled[missing] = fitted[missing]
        if (change**2).sum() <= TOLERANCE**2 * max((filled[missing] ** 2).sum(), 1e-12):
            break
    return fitted


def validated(
    train: Array, seed: int, choices: Iterable[float], fit: Callable[[Array, float, Array | None], Array]
) -> tuple[float, float]:
    """Return the choice with the least squared error of validation entries, and the root of that error.

    Every fit starts from the one before it. The search ends after two choices in a row that are worse than
    the best.
    """
    # Not the generator that hid the outer entries: the same numbers would choose entries that are missing.
    validation = ~np.isnan(train) & (np.random.default_rng([seed, 1]).random(train.shape) < VALIDATION_SHARE)
    inner = np.where(validation, np.nan, train)
    best, least, worse, fitted = 0.0, np.inf, 0, None
    for choice in choices:
        fitted = fit(inner, choice, fitted)
        error = float(((fitted - train)[validation] ** 2).mean())
        worse = 0 if error < least else worse + 1
        if error < least:
            best, least = choice, error
        if worse == 2:
            break
    return best, float(np.sqrt(least))


def pca(train: Array, seed: int) -> Imputed:
    """Predict by regularised PCA with a rank chosen by validation."""

    def fit(data: Array, rank: float, start: Array | None) -> Array:
        return iterated(data, pca_step(int(rank)), start)

    ranks = np.unique(np.geomspace(2, max(3, 2 * len(train) // 3), CHOICES).round().astype(int))
    rank, std = validated(train, seed, ranks, fit)
    return Imputed(fit(train, rank, None), np.full(train.shape, std), f"rank {rank:.0f}")


def soft_impute(train: Array, seed: int) -> Imputed:
    """Predict by softImpute with a penalty chosen by validation."""

    def fit(data: Array, penalty: float, start: Array | None) -> Array:
        return iterated(data, soft_step(penalty), start)

    largest = np.linalg.norm(np.nan_to_num(train) @ np.nan_to_num(train).T, 2) ** 0.5
    penalties = largest * np.geomspace(0.5, 0.001, PENALTIES)
    penalty, std = validated(train, seed, penalties, fit)
    fitted = None
    # As in the search, small penalties start from larger ones; from nothing they would take very long.
    for larger in penalties[penalties >= penalty]:
        fitted = fit(train, larger, fitted)
    note = f"penalty {penalty / largest:.3f} of the largest singular value"
    return Imputed(fitted, np.full(train.shape, std), note)


def knn(train: Array, seed: int) -> Imputed:
    """Predict by the mean of the nearest rows, their number chosen by validation."""
    from sklearn.impute import KNNImputer

    def fit(data: Array, n_neighbours: float, start: Array | None) -> Array:
        return KNNImputer(n_neighbors=int(n_neighbours)).fit_transform(data)

    chosen, std = validated(train, seed, [k for k in NEIGHBOURS if k < len(train)], fit)
    return Imputed(fit(train, chosen, None), np.full(train.shape, std), f"{chosen:.0f} neighbours")


def iterative_imputer(train: Array, seed: int) -> Imputed:
    """Predict each column from others by Bayesian ridge regression, in a few rounds."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    if train.shape[1] > MOST_COLUMNS:
        raise ValueError(f"left out: {train.shape[1]} columns, each a regression in every round")

    def fit(data: Array, rounds: float, start: Array | None) -> Array:
        imputer = IterativeImputer(n_nearest_features=NEAREST, max_iter=int(rounds), random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return imputer.fit_transform(data)

    _, std = validated(train, seed, [ROUNDS], fit)
    return Imputed(
        fit(train, ROUNDS, None), np.full(train.shape, std), f"from {NEAREST} columns, {ROUNDS} rounds"
    )
