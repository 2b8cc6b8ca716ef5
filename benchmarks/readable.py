"""How readable features are, and what that costs: `python -m benchmarks.readable`.

Every setting of the parameter `prefer` of BPFA is fitted to every table, with three seeds, and so are other
methods with the same number of features. The other methods need complete tables, which regularised PCA
completes for them. The table shows

- the squared error and the log-likelihood of hidden entries, for columns of standard deviation 1;
- how many features a row uses: the number of its weights that are not zero;
- the Gini coefficient of the weights of a row, after scaling the weights of every feature to the same root
  mean square: 0 if all weights are equal, and near 1 if one is large and the others are zero;
- how stable features are between seeds, and between fits to two halves of the rows: features are matched one
  to one, and the absolute cosines of matched features averaged.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from scipy.optimize import linear_sum_assignment

from benchmarks import baselines, iterative_pca
from benchmarks.command import parser_with_data
from benchmarks.pages import SECTIONS
from benchmarks.readable_tables import TABLES
from bpfa import BPFA
from bpfa.inference.varimax_start import simple_structure
from experiments import Array
from experiments.cells import write_results
from experiments.markdown import table
from experiments.scores import gaussian_scores
from experiments.tables import SOURCES, TableTask

SEEDS = (0, 1, 2)
PREFERENCES = ("prediction", "balance", "readability")
# Regularised PCA ends when the squared error changes by less than this share of itself.
TOLERANCE = 1e-4
HEADINGS = ["", "MSE", "log-lik", "features", "a row uses", "Gini", "seeds", "halves", "CPU s"]


class Fitted(NamedTuple):
    """What a method makes of a table."""

    mean: Array
    """Predictions of all entries."""
    std: Array | None
    """Their standard deviations, if the method has any."""
    weights: Array
    """Rows x features."""
    features: Array
    """Features x columns."""


Method = Callable[[Array, int | None, int], Fitted]
"""A function of a table (NaN where missing), the number of features and a seed."""


def bpfa(prefer: str) -> Method:
    """Return BPFA with a value of `prefer`, and with defaults for everything else."""

    def fit(train: Array, n_features: int | None, seed: int) -> Fitted:
        model = BPFA(n_features, prefer=prefer, held_out=0.0, n_jobs=1, random_state=seed).fit(train)
        mean, std = model.impute(train, return_std=True)
        n_used = model.n_components_used_
        features = model.components_[:n_used] / model.scale_
        return Fitted(mean, std, model.transform(train)[:, :n_used], features)

    return fit


def pca_with_varimax(train: Array, n_features: int | None, seed: int) -> Fitted:
    """Rotate principal components so that rows have few large weights."""
    from sklearn.decomposition import PCA

    assert n_features is not None
    fitted, _ = iterative_pca.fit(train, n_features, tolerance=TOLERANCE)
    pca = PCA(n_features, whiten=True, random_state=seed)
    weights = pca.fit_transform(np.where(np.isnan(train), fitted, train))
    rotation = simple_structure(weights)
    features = rotation.T @ (pca.components_ * np.sqrt(pca.explained_variance_)[:, None])
    return Fitted(fitted, None, weights @ rotation, features)


def factor_analysis(train: Array, n_features: int | None, seed: int) -> Fitted:
    """Fit scikit-learn's FactorAnalysis, which rotates the loadings of the columns."""
    from sklearn.decomposition import FactorAnalysis

    assert n_features is not None
    predicted = baselines.sklearn_factor_analysis(train, n_features, seed)
    fitted, _ = iterative_pca.fit(train, n_features, tolerance=TOLERANCE)
    model = FactorAnalysis(n_features, rotation="varimax", random_state=seed)
    weights = model.fit_transform(np.where(np.isnan(train), fitted, train))
    return Fitted(predicted.mean, predicted.std, weights, model.components_)


def sparse_pca(train: Array, n_features: int | None, seed: int) -> Fitted:
    """Fit scikit-learn's MiniBatchSparsePCA to the transposed table, so that rows have sparse weights."""
    from sklearn.decomposition import MiniBatchSparsePCA

    assert n_features is not None
    fitted, _ = iterative_pca.fit(train, n_features, tolerance=TOLERANCE)
    columns = np.where(np.isnan(train), fitted, train).T
    model = MiniBatchSparsePCA(n_features, random_state=seed, max_iter=100)
    features = model.fit_transform(columns)
    mean = (features @ model.components_ + model.mean_).T
    used = np.linalg.norm(features, axis=0) > 0
    return Fitted(mean, None, model.components_.T[:, used], features.T[used])


METHODS: dict[str, Method] = {
    **{f"bpfa, prefer={prefer!r}": bpfa(prefer) for prefer in PREFERENCES},
    "PCA, varimax over the rows": pca_with_varimax,
    "scikit-learn FactorAnalysis, varimax": factor_analysis,
    "scikit-learn MiniBatchSparsePCA": sparse_pca,
}


def main() -> None:
    parser = parser_with_data(__doc__)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--output", type=Path, default=SECTIONS["readable"].results)
    arguments = parser.parse_args()
    console, rows = Console(width=150), kept_rows(arguments.output, arguments.tables)
    for name in arguments.tables:
        chosen = TABLES[name]
        if chosen.source and (line := SOURCES[chosen.source].file.missing_from(arguments.data)):
            console.print(line)
            continue
        task, n_features = chosen.task(arguments.data), None
        for method in METHODS:
            found = measure(task, METHODS[method], n_features)
            # The other methods get as many features as the last fit of BPFA has.
            n_features = None if method.startswith("bpfa") and "readab" not in method else found["features"]
            row = {"table": name, "chosen_on": chosen.chosen_on, "method": method, **found}
            rows.append(row)
            console.print(name, cells(row))
            # Written after every method, as all tables take many minutes.
            rows.sort(key=lambda row: list(TABLES).index(row["table"]))
            write_results(arguments.output, {"rows": rows})


def kept_rows(path: Path, tables: list[str]) -> list[dict[str, Any]]:
    """Return the rows of an earlier run on other tables than these."""
    if not path.exists():
        return []
    return [row for row in json.loads(path.read_text())["rows"] if row["table"] not in tables]


def measure(task: TableTask, method: Method, n_features: int | None) -> dict[str, Any]:
    """Fit a method with every seed, and to two halves of the rows."""
    began = time.process_time()
    with warnings.catch_warnings():
        # scikit-learn warns of few iterations.
        warnings.simplefilter("ignore")
        fits = [method(task.train, n_features, seed) for seed in SEEDS]
        seconds = (time.process_time() - began) / len(SEEDS)
        order = np.random.default_rng(1).permutation(len(task.train))
        halves = [method(task.train[half], n_features, SEEDS[0]) for half in np.array_split(order, 2)]
    scores = [prediction_scores(task, fit) for fit in fits]
    return {
        "mse": float(np.mean([score["mse"] for score in scores])),
        "log_likelihood": None
        if fits[0].std is None
        else float(np.mean([score["log_likelihood"] for score in scores])),
        "features": max(len(fit.features) for fit in fits),
        "features_a_row": float(np.mean([(fit.weights != 0).sum(axis=1).mean() for fit in fits])),
        "gini": float(np.mean([gini(fit.weights) for fit in fits])),
        "seeds": float(np.mean([matched_cosine(a.features, b.features) for a, b in combinations(fits, 2)])),
        "halves": matched_cosine(halves[0].features, halves[1].features),
        "seconds": seconds,
    }


def prediction_scores(task: TableTask, fit: Fitted) -> dict[str, float]:
    """Score the predictions of the hidden entries."""
    mean = fit.mean[task.hidden]
    std = np.ones_like(mean) if fit.std is None else fit.std[task.hidden]
    return gaussian_scores(task.truth, mean, std)


def gini(weights: Array) -> float:
    """Return the mean Gini coefficient of the weights of a row; rows without any weight are left out.

    Examples
    --------
    >>> round(gini(np.array([[1.0, 1.0], [-1.0, 1.0]])), 3), round(gini(np.array([[1.0, 0], [0, 2]])), 3)
    (0.0, 0.5)
    """
    size = np.sqrt((weights**2).mean(axis=0))
    scaled = np.sort(np.abs(weights / np.where(size > 0, size, 1.0)), axis=1)
    total = scaled.sum(axis=1)
    scaled, total = scaled[total > 0], total[total > 0]
    n = weights.shape[1]
    coefficients = (2 * scaled @ np.arange(1, n + 1) / total - n - 1) / n
    return float(coefficients.mean())


def matched_cosine(features: Array, others: Array) -> float:
    """Return the mean absolute cosine of features that are matched one to one so that it is largest.

    Examples
    --------
    >>> round(matched_cosine(np.eye(2), np.array([[0.0, -3.0], [2.0, 0.0]])), 3)
    1.0
    """
    first, second = (
        a / np.maximum(np.linalg.norm(a, axis=1, keepdims=True), 1e-300) for a in (features, others)
    )
    cosines = np.abs(first @ second.T)
    return float(cosines[linear_sum_assignment(-cosines)].mean())


def cells(row: dict[str, Any]) -> list[str]:
    """Return a line of the table."""
    log_likelihood = row["log_likelihood"]
    return [
        row["method"],
        f"{row['mse']:.4f}",
        "" if log_likelihood is None else f"{log_likelihood:.3f}",
        str(row["features"]),
        f"{row['features_a_row']:.1f}",
        f"{row['gini']:.2f}",
        f"{row['seeds']:.2f}",
        f"{row['halves']:.2f}",
        f"{row['seconds']:.1f}",
    ]


def comparison(rows: list[dict[str, Any]], prefer: str) -> str:
    """Return what a value of `prefer` changes, over all tables, in a sentence."""
    by_table: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        by_table.setdefault(row["table"], {})[row["method"]] = row
    pairs = [
        (found[f"bpfa, prefer={PREFERENCES[0]!r}"], found[f"bpfa, prefer={prefer!r}"])
        for found in by_table.values()
    ]
    cost = [100 * (other["mse"] / best["mse"] - 1) for best, other in pairs]
    gain = [other["log_likelihood"] - best["log_likelihood"] for best, other in pairs]
    shares = [other["features_a_row"] / other["features"] for _, other in pairs]
    return (
        f"With `prefer={prefer!r}` a row uses {np.median(shares):.0%} of the features (median over the "
        f"{len(pairs)} tables; from {min(shares):.0%} to {max(shares):.0%}). Relative to the default, "
        f"the squared error changes by {np.median(cost):+.1f} % (from {min(cost):+.1f} to {max(cost):+.1f} "
        f"%), and the log-likelihood by {np.median(gain):+.3f} (from {min(gain):+.3f} to {max(gain):+.3f})."
    )


def markdown(results: dict) -> str:
    """Return the tables of the page, one for each table of data, and a summary."""
    parts = [comparison(results["rows"], prefer).replace("'", '"') for prefer in PREFERENCES[1:]]
    for name in dict.fromkeys(row["table"] for row in results["rows"]):
        rows = [row for row in results["rows"] if row["table"] == name]
        note = " (settings were chosen on this table)" if rows[0]["chosen_on"] else ""
        parts += [f"{name[0].upper()}{name[1:]}{note}:", table(HEADINGS, [cells(row) for row in rows])]
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
