"""The contestants of the comparison on tables whose rows have kinds, and how each of them is scored."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import baselines, wide_methods
from benchmarks.baselines import Imputed
from experiments import Array
from experiments.scores import gaussian_scores
from experiments.tables import TableTask

# Rounds of the imputers that regress every column on all others, and trees of a forest.
ROUNDS, TREES = 2, 50
# The most columns of a table in which trees predict a column from all others, which takes too long in wider
# ones. There, a column is predicted from a few others, drawn with probabilities that grow with correlation.
MOST_COLUMNS_OF_TREES = 60
# The number of factors of mofapy2, which switches off those that it does not need.
MOFA_FACTORS = 30

Contestant = Callable[[TableTask, int], dict[str, Any]]
"""From a task and a seed to scores over the hidden entries, and a note."""


def by_point(impute: Callable[[Array, int], Imputed]) -> Contestant:
    """Return a contestant that predicts points, with the deviation of its errors on validation entries."""

    def contestant(task: TableTask, seed: int) -> dict[str, Any]:
        found = impute(task.train, seed)
        scores = gaussian_scores(task.truth, found.mean[task.hidden], found.std[task.hidden])
        # One deviation for all entries says how large errors are, but predicts no interval.
        del scores["coverage"]
        return scores | {"note": found.note}

    return contestant


def soft_impute(train: Array, seed: int) -> Imputed:
    """Predict by softImpute; the factorisation is that of the smaller side."""
    found = wide_methods.soft_impute(np.ascontiguousarray(train.T), seed)
    return Imputed(found.mean.T, found.std.T, found.note)


def iterated(
    make: Callable[[int], Any], note: str, most_columns: int | None = None
) -> Callable[[Array, int], Imputed]:
    """Return a function that regresses every column on others in a few rounds, as missForest does.

    The others are all, or a few in tables with more than `most_columns` columns.
    """

    def impute(train: Array, seed: int) -> Imputed:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer

        wide = most_columns is not None and train.shape[1] > most_columns
        n_others = wide_methods.NEAREST if wide else None

        def fit(data: Array, rounds: float, start: Array | None) -> Array:
            imputer = IterativeImputer(
                make(seed), max_iter=int(rounds), n_nearest_features=n_others, random_state=seed
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                return imputer.fit_transform(data)

        _, std = wide_methods.validated(train, seed, [ROUNDS], fit)
        said = f"{note} from {n_others} columns" if wide else note
        return Imputed(fit(train, ROUNDS, None), np.full(train.shape, std), f"{said}, {ROUNDS} rounds")

    return impute


def _ridge(seed: int) -> Any:
    from sklearn.linear_model import BayesianRidge

    return BayesianRidge()


def _boosted_trees(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(random_state=seed)


def _extra_trees(seed: int) -> Any:
    from sklearn.ensemble import ExtraTreesRegressor

    return ExtraTreesRegressor(TREES, min_samples_leaf=3, random_state=seed, n_jobs=_threads())


def _threads() -> int:
    return int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))


def mofa(task: TableTask, seed: int) -> dict[str, Any]:
    """Predict by mofapy2, if it is installed."""
    found = baselines.mofa(task.train, min(MOFA_FACTORS, task.train.shape[1]), seed)
    scores = gaussian_scores(task.truth, found.mean[task.hidden], found.std[task.hidden])
    return scores | {"note": found.note}


def bpfa(groups: bool | str) -> Contestant:
    """Return the contestant with this value of `groups`, and with defaults for everything else.

    Its density is not Gaussian: the log-likelihood is that of the density itself, and intervals are quantiles
    of draws.
    """

    def contestant(task: TableTask, seed: int) -> dict[str, Any]:
        from bpfa import BPFA, SeenInFitWarning

        model = BPFA(groups=groups, n_jobs=_threads(), random_state=seed).fit(task.train)
        error = model.impute(task.train)[task.hidden] - task.truth
        with warnings.catch_warnings():
            # No hidden entry was in the fit, but the other entries of the rows were.
            warnings.simplefilter("ignore", SeenInFitWarning)
            score = model.held_out_score(task.complete(), task.hidden)
            coverage = model.calibration(task.complete(), task.hidden, levels=(0.95,))["coverage"][0]
        note = "no groups" if model.groups_ is None else model.groups_.in_words()
        return {
            "log_likelihood": score.log_likelihood,
            "mse": float((error**2).mean()),
            "coverage": float(coverage),
            "note": note,
        }

    return contestant


CONTESTANTS: dict[str, Contestant] = {
    "PCA, regularised": by_point(lambda train, seed: baselines.validated_pca(train, 0, seed)),
    "softImpute": by_point(soft_impute),
    "nearest neighbours": by_point(wide_methods.knn),
    "IterativeImputer, ridge": by_point(iterated(_ridge, "Bayesian ridge regression")),
    "IterativeImputer, boosted trees": by_point(
        iterated(_boosted_trees, "histogram gradient boosting", MOST_COLUMNS_OF_TREES)
    ),
    "extra trees, as in missForest": by_point(
        iterated(_extra_trees, f"{TREES} trees", MOST_COLUMNS_OF_TREES)
    ),
    "mofapy2": mofa,
    "bpfa, groups=False": bpfa(False),
    "bpfa": bpfa("auto"),
}
