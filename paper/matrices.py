"""Real matrices with hidden entries, learned for a given time: what expression and cytof have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bpfa import BPFA, Progress, algorithm, train
from experiments import Array
from experiments.cells import Cell, Context, Record
from experiments.markdown import table
from experiments.measure import all_rounded, follow, rounded
from experiments.scores import HiddenEntries, model_scores, posterior_scores
from experiments.tables import SOURCES, Source, hide, rows_to_score
from paper.experiment import Claim, by_wins, verdict
from paper.methods import GIBBS_KINDS, LABELS, MEAN_FIELD_KINDS, METHODS

BATCH, N_DRAWS = 250, 20
FILES: dict[str, Source] = {
    "cytometry": SOURCES["cytometry"],
    "TCGA": SOURCES["expression"],
    "CCLE": SOURCES["cell lines"],
}


def cell(dataset: str, method: str, *, features: int, seconds: float, rows: int | None, scored: int) -> Cell:
    """Return the cell of a method on at most `rows` rows of a data set, of which `scored` rows are scored."""
    settings = {
        "dataset": dataset, "method": method, "features": features, "seconds": seconds, "rows": rows,
        "scored": scored, "seed": 0,
    }  # fmt: skip
    return Cell(f"{dataset}/{method}", settings, seconds * 1.15 + 20, needs=FILES[dataset].file)


def load(settings: dict[str, Any], context: Context) -> tuple[Array, Array]:
    """Return the matrix, standardised by its observed entries, and which of its entries are hidden."""
    source = FILES[settings["dataset"]]
    values = source.read(context.data)
    if settings["rows"] is not None:
        values = values[np.random.default_rng(0).permutation(len(values))[: settings["rows"]]]
    task = hide(values, source.hidden, settings["seed"])
    return task.complete(), task.hidden


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Train a method of the paper or our defaults, and score the predictions of hidden entries."""
    values, hidden = load(settings, context)
    entries = HiddenEntries.of(values, hidden, rows_to_score(len(values), settings["scored"]))
    learn = learn_by_defaults if settings["method"] == "defaults" else learn_by_method
    result = learn(settings, values, hidden, entries)
    about = {"n_rows": len(values), "n_columns": values.shape[1], "n_hidden": int(hidden.sum())}
    return {**result, **about}


def learn_by_defaults(
    settings: dict[str, Any], values: Array, hidden: Array, entries: HiddenEntries
) -> dict[str, Any]:
    """Fit BPFA with its defaults, which decide by themselves when to stop."""
    model = BPFA(standardize=False, n_jobs=1, random_state=settings["seed"])
    model.fit(np.where(hidden, np.nan, values))
    posterior, seconds = model.posterior_, float(model.history_["seconds"][-1])
    return {
        **all_rounded(model_scores(model, entries, N_DRAWS, settings["seed"])),
        "noise_std": rounded(posterior.noise_std),
        "steps": model.n_steps_,
        "training_seconds": rounded(seconds),
        "active": posterior.n_active(),
        "features": posterior.n_features,
        "step_seconds": rounded(seconds / model.n_steps_),
    }


def learn_by_method(
    settings: dict[str, Any], values: Array, hidden: Array, entries: HiddenEntries
) -> dict[str, Any]:
    """Train a method of the paper for the given time, and follow its predictions of hidden entries."""
    method, seed = settings["method"], settings["seed"]
    chosen = algorithm(method, n_jobs=1)

    def scores(progress: Progress) -> dict[str, float]:
        return posterior_scores(progress.posterior, entries, chosen, N_DRAWS, seed)

    training = train(
        values, settings["features"], missing=hidden, algorithm=method, batch_size=BATCH, n_steps=None,
        seed=seed, n_jobs=1,
    )  # fmt: skip
    followed = follow(
        training, lambda progress: scores(progress)["log_likelihood"], seconds=settings["seconds"]
    )
    return {
        **all_rounded(scores(followed.last)),
        "noise_std": rounded(followed.last.posterior.noise_std),
        **followed.timing(),
        "features": settings["features"],
        "curve": followed.curve,
    }


def results_of(records: list[Record], dataset: str) -> dict[str, dict[str, Any]]:
    """Return method -> result for one data set."""
    return {
        record["settings"]["method"]: record["result"]
        for record in records
        if record["settings"]["dataset"] == dataset
    }


def results_table(results: Mapping[str, dict[str, Any]], paper: Mapping[str, float] | None = None) -> str:
    """Return a table with a row for each method, and the paper's numbers where it gives any."""
    headings = ["", "log-likelihood", *(["paper"] if paper else []), "MSE", "covers", "K", "in use", "steps"]
    headings += ["ms a step", "s of training"]
    rows = []
    for method in (*METHODS, "defaults"):
        if method not in results:
            continue
        found = results[method]
        row = [LABELS[method], f"{found['log_likelihood']:.3f}"]
        if paper:
            row.append(f"{paper[method]:.2f}" if method in paper else "")
        row += [
            f"{found['mse']:.4f}",
            f"{found['coverage']:.1%}",
            str(found["features"]),
            str(found["active"]),
        ]
        row += [
            f"{found['steps']:,}",
            f"{1000 * found['step_seconds']:.1f}",
            f"{found['training_seconds']:.0f}",
        ]
        rows.append(row)
    return table(headings, rows)


def reached(results: Mapping[str, dict[str, Any]], where: str) -> dict[str, dict[str, float]]:
    """Return what every method reached, including our defaults, if all methods have been run."""
    if not all(method in results for method in METHODS):
        return {}
    return {where: {method: found["log_likelihood"] for method, found in results.items()}}


def order_claims(results: Mapping[str, dict[str, Any]], where: str, said: str) -> list[Claim]:
    """Judge whether the methods come in the paper's order."""
    if not (found := reached(results, where).get(where)):
        return []
    wins = sum(found[one] > found[other] for one in GIBBS_KINDS for other in MEAN_FIELD_KINDS)
    ascending = sorted(METHODS, key=lambda method: found[method])
    listed = ", ".join(f"{LABELS[method]} {found[method]:.3f}" for method in METHODS)
    seconds = max(results[method]["training_seconds"] for method in METHODS)
    return [
        Claim(
            f"{where}: the Gibbs kinds predict much better than the mean-field kinds{said}",
            f"per hidden entry, after {seconds:.0f} s: {listed}; the Gibbs kinds win {wins} of 6 comparisons",
            by_wins(wins, 6),
        ),
        Claim(
            f"{where}: from worst to best MF-SVI, MF-SSVI, Titsias-SSVI, Mimno-SVI, Gibbs-SSVI",
            ", ".join(LABELS[method] for method in ascending),
            verdict(ascending == list(METHODS), ascending[-1] == "gibbs-ssvi"),
        ),
    ]
