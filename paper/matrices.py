"""Real matrices with hidden entries, learned for a given time: what expression and cytof share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from benchmarks.matrices import SOURCES, Source, hide
from benchmarks.readme import table

from bpfa import BPFA, Progress, algorithm, train
from paper.cells import Cell, Context, DataFile, Record
from paper.experiment import Claim, by_wins, verdict
from paper.measure import Array, HiddenEntries, draws, draws_of_model, follow, rounded, scores
from paper.methods import GIBBS_KINDS, LABELS, MEAN_FIELD_KINDS, METHODS

BATCH, N_DRAWS = 250, 20
FILES: dict[str, Source] = {
    "cytometry": SOURCES["cytometry"],
    "TCGA": SOURCES["expression"],
    "CCLE": SOURCES["cell lines"],
}


def cell(dataset: str, method: str, *, features: int, seconds: float, rows: int | None, scored: int) -> Cell:
    """A method on a data set for some seconds; `rows` of the data at most, and so many of them scored."""
    source = FILES[dataset]
    settings = {
        "dataset": dataset, "method": method, "features": features, "seconds": seconds, "rows": rows,
        "scored": scored, "seed": 0,
    }  # fmt: skip
    return Cell(
        f"{dataset}/{method}", settings, seconds * 1.15 + 20, needs=DataFile(source.file, source.origin)
    )


def load(settings: dict[str, Any], context: Context) -> tuple[Array, Array]:
    """The matrix, standardised by the columns' observed entries, and what of it is hidden."""
    source = FILES[settings["dataset"]]
    with np.load(context.data / source.file) as arrays:
        values = source.values(arrays).astype(np.float64)
    if settings["rows"] is not None:
        values = values[np.random.default_rng(0).permutation(len(values))[: settings["rows"]]]
    task = hide(values, source.hidden, settings["seed"])
    task.train[task.hidden] = task.truth
    return task.train, task.hidden


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Train for the time that is given, and follow the predictions of hidden entries."""
    values, hidden = load(settings, context)
    method, seed, seconds = settings["method"], settings["seed"], settings["seconds"]
    ids = np.sort(np.random.default_rng(1).permutation(len(values))[: settings["scored"]])
    entries = HiddenEntries.of(values, hidden, ids)
    about = {"n_rows": len(values), "n_columns": values.shape[1], "n_hidden": int(hidden.sum())}
    if method == "defaults":
        model = BPFA(standardize=False, n_jobs=1, random_state=seed)
        model.fit(np.where(hidden, np.nan, values))
        posterior, predictions = model.posterior_, draws_of_model(model, entries, N_DRAWS, seed)
        steps, training_seconds = model.n_steps_, float(model.history_["seconds"][-1])
        about |= {
            "steps": steps,
            "training_seconds": rounded(training_seconds),
            "active": posterior.n_active(),
        }
        about |= {"features": posterior.n_features, "step_seconds": rounded(training_seconds / steps)}
    else:
        chosen = algorithm(method, n_jobs=1)

        def measure(progress: Progress) -> float:
            return scores(draws(progress.posterior, entries, chosen, N_DRAWS, seed), entries)[
                "log_likelihood"
            ]

        training = train(
            values, settings["features"], missing=hidden, algorithm=method, batch_size=BATCH, n_steps=None,
            seed=seed, n_jobs=1,
        )  # fmt: skip
        followed = follow(training, measure, seconds=seconds)
        posterior = followed.last.posterior
        predictions = draws(posterior, entries, chosen, N_DRAWS, seed)
        about |= {**followed.timing(), "features": settings["features"], "curve": followed.curve}
    return {
        **{name: rounded(value) for name, value in scores(predictions, entries).items()},
        "noise_std": rounded(posterior.noise_std),
        **about,
    }


def results_of(records: list[Record], dataset: str) -> dict[str, dict[str, Any]]:
    """Method -> result."""
    return {
        record["settings"]["method"]: record["result"]
        for record in records
        if record["settings"]["dataset"] == dataset
    }


def results_table(results: Mapping[str, dict[str, Any]], paper: Mapping[str, float] | None = None) -> str:
    """A row for each method; the paper's numbers where it gives any."""
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
    """What every method reached, where all have been run, our defaults among them."""
    if not all(method in results for method in METHODS):
        return {}
    return {where: {method: found["log_likelihood"] for method, found in results.items()}}


def order_claims(results: Mapping[str, dict[str, Any]], where: str, said: str) -> list[Claim]:
    """Whether the methods stand in the paper's order."""
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
