"""Real matrices with hidden entries, judged at a ladder of steps: what expression and cytof share."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpfa import BPFA, Algorithm, train
from bpfa._support.philox import Stream
from bpfa.prediction.scores import score_rows
from experiments import Array
from experiments.cells import Cell, Context
from experiments.machine import thread_option
from experiments.measure import Rung, all_rounded, climb, rounded
from experiments.scores import HiddenEntries, imputed_scores, spaced_scores
from experiments.tables import SOURCES, Source, hide, rows_to_score
from paper.chains import CHAINS, length, studied_lengths, with_length
from paper.methods import METHODS

BATCH, N_DRAWS = 250, 20
FILES: dict[str, Source] = {
    "cytometry": SOURCES["cytometry"],
    "TCGA": SOURCES["expression"],
    "CCLE": SOURCES["cell lines"],
}
# Milliseconds of a step, and microseconds of a sweep over the features of one row, on one thread.
STEP_MS = {"cytometry": 6.5, "TCGA": 50.0, "CCLE": 50.0}
ROW_SWEEP_US = {"cytometry": 3.0, "TCGA": 20.0, "CCLE": 20.0}
DEFAULTS_SECONDS = {"cytometry": 80.0, "TCGA": 150.0, "CCLE": 40.0}


def cells_of(dataset: str, size: dict[str, Any]) -> list[Cell]:
    """Return the cells of a data set: every method and our defaults, with every seed.

    Parameters
    ----------
    dataset : str
    size : dict
        features, steps (the ladder), rows (None for all), validated and scored (numbers of rows), and seeds.
    """
    shared = {"dataset": dataset, **{name: size[name] for name in ("rows", "validated", "scored")}}
    found = []
    for seed in range(size["seeds"]):
        for method in METHODS:
            settings = {
                **shared, "method": method, "features": size["features"], "steps": list(size["steps"]),
                "chains": [length(method, chains, "matrices") for chains in CHAINS], "seed": seed,
                **({"study": list(studied_lengths(method, "matrices"))} if seed == 0 else {}),
            }  # fmt: skip
            found.append(_cell(f"{dataset}/{method}/{seed}", settings, _expected(settings)))
        settings = {**shared, "method": "defaults", "judged_by": "impute", "seed": seed}
        seconds = DEFAULTS_SECONDS[dataset] * (1.0 if size["rows"] is None else 0.25)
        found.append(_cell(f"{dataset}/defaults/{seed}", settings, seconds))
    return found


def _cell(name: str, settings: dict[str, Any], expected: float) -> Cell:
    return Cell(name, settings, expected, needs=FILES[settings["dataset"]].file)


def _expected(settings: dict[str, Any]) -> float:
    """Return how many seconds a cell takes: those of its steps, and of the chains that judge them."""
    steps, dataset = settings["steps"], settings["dataset"]
    judged = settings["validated"] + settings["scored"]
    drawn = 1 if settings["method"] == "mf-svi" else N_DRAWS
    sweeps = drawn * (len(steps) * sum(settings["chains"]) + 2 * sum(settings.get("study", ())))
    return 4 + steps[-1] * STEP_MS[dataset] / 1000 + judged * sweeps * ROW_SWEEP_US[dataset] / 1e6


def load(settings: dict[str, Any], context: Context) -> tuple[Array, Array]:
    """Return the matrix, standardised by its observed entries, and which of its entries are hidden."""
    source = FILES[settings["dataset"]]
    values = source.read(context.data)
    if settings["rows"] is not None:
        values = values[np.random.default_rng(0).permutation(len(values))[: settings["rows"]]]
    task = hide(values, source.hidden, settings["seed"])
    return task.complete(), task.hidden


class Judges:
    """Two disjoint sets of rows with hidden entries: one chooses the step, and the other is scored."""

    def __init__(self, values: Array, hidden: Array, settings: dict[str, Any]) -> None:
        validated, scored = settings["validated"], settings["scored"]
        ids = np.random.default_rng(2).permutation(rows_to_score(len(values), validated + scored))
        split = round(len(ids) * validated / (validated + scored))
        self.validation = HiddenEntries.of(values, hidden, np.sort(ids[:split]))
        self.entries = HiddenEntries.of(values, hidden, np.sort(ids[split:]))
        self.seed = settings["seed"]

    def scores(self, posterior: Any, chosen: Algorithm) -> dict[str, float]:
        """Score a posterior; "validation" is the likelihood by which the step is chosen."""
        found = spaced_scores(posterior, self.entries, chosen, N_DRAWS, self.seed)
        if chosen.draws_z_given_globals:
            found["integrated"] = self.integrated(posterior, chosen)
        validation = spaced_scores(posterior, self.validation, chosen, N_DRAWS, self.seed)
        return all_rounded({**found, "validation": validation["log_likelihood"]})

    def integrated(self, posterior: Any, chosen: Algorithm) -> float:
        """Return the log-likelihood by as many draws of z, with the weights integrated out."""
        stream = Stream.from_seed(self.seed).child("prediction")
        score = score_rows(posterior, *self.entries, chosen, n_draws=N_DRAWS, stream=stream, integrated=True)
        return score.log_likelihood


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Train a method of the paper or our defaults, and score the predictions of hidden entries."""
    values, hidden = load(settings, context)
    judges = Judges(values, hidden, settings)
    about = {"n_rows": len(values), "n_columns": values.shape[1], "n_hidden": int(hidden.sum())}
    if settings["method"] == "defaults":
        return {**learn_by_defaults(values, hidden, judges.entries, settings["seed"]), **about}
    return {**learn_by_method(settings, values, hidden, judges, context.device), **about}


def learn_by_defaults(values: Array, hidden: Array, entries: HiddenEntries, seed: int) -> dict[str, Any]:
    """Fit BPFA with its defaults, which decide by themselves when to stop and whether to learn groups."""
    model = BPFA(standardize=False, n_jobs=1, random_state=seed)
    model.fit(np.where(hidden, np.nan, values))
    return {
        **all_rounded(imputed_scores(model, entries)),
        "groups": "none" if model.groups_ is None else model.groups_.in_words(),
        "noise_std": rounded(model.posterior_.noise_std),
        "step": model.n_steps_,
        "seconds": rounded(float(model.history_["seconds"][-1])),
        "active": model.posterior_.n_active(),
    }


def learn_by_method(
    settings: dict[str, Any], values: Array, hidden: Array, judges: Judges, device: str
) -> dict[str, Any]:
    """Train a method of the paper, judge it along the ladder, and read off its best and its end."""
    method = settings["method"]
    lengths = dict(zip(CHAINS, settings["chains"], strict=True))
    training = train(
        values, settings["features"], missing=hidden, algorithm=method, batch_size=BATCH, n_steps=None,
        seed=settings["seed"], device=device, **thread_option(device),
    )  # fmt: skip
    ladder: list[dict[str, Any]] = []
    posteriors = {}
    for rung in climb(training, settings["steps"]):
        scores = {
            chains: judges.scores(rung.posterior, with_length(method, sweeps, device))
            for chains, sweeps in lengths.items()
        }
        ladder.append({**_about(rung), **scores})
        posteriors[rung.step] = rung.posterior
    found: dict[str, Any] = {"readings": readings_of(ladder), "ladder": ladder}
    if "study" in settings:
        found["study"] = {
            reading: {
                str(sweeps): judges.scores(posteriors[step], chosen)["log_likelihood"]
                for sweeps in settings["study"]
                for chosen in [with_length(method, sweeps, device)]
            }
            for reading, step in _steps_to_study(found["readings"]).items()
        }
    return found


def _about(rung: Rung) -> dict[str, Any]:
    """Return what is recorded of a step besides its scores."""
    return {
        "step": rung.step,
        "seconds": rounded(rung.seconds),
        "noise_std": rounded(rung.posterior.noise_std),
        "active": rung.posterior.n_active(),
    }


def _steps_to_study(readings: dict[str, Any]) -> dict[str, int]:
    return {reading: readings[reading]["long"]["step"] for reading in ("best", "end")}


def readings_of(ladder: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the scores at the step that the validation entries choose, and at the last step.

    Examples
    --------
    >>> scores = [(-3.0, -2.5), (-1.0, -1.5), (-2.0, -1.2)]
    >>> ladder = [{"step": step, "noise_std": 1.0, "active": 3,
    ...            **{chains: {"validation": v, "log_likelihood": l} for chains in ("short", "long")}}
    ...           for step, (v, l) in enumerate(scores)]
    >>> found = readings_of(ladder)
    >>> found["best"]["long"]["log_likelihood"], found["end"]["long"]["log_likelihood"]
    (-1.5, -1.2)
    """

    def read(rung: dict[str, Any], chains: str) -> dict[str, float]:
        return {**{name: rung[name] for name in ("step", "noise_std", "active")}, **rung[chains]}

    def best(chains: str) -> dict[str, Any]:
        return max(ladder, key=lambda rung: float(rung[chains]["validation"]))

    return {
        "best": {chains: read(best(chains), chains) for chains in CHAINS},
        "end": {chains: read(ladder[-1], chains) for chains in CHAINS},
    }
