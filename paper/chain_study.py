"""How long chains have to be before longer ones change nothing, told apart from the chance of their draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom, ttest_1samp

from bpfa import Algorithm, train
from bpfa.model.posterior import GlobalPosterior
from experiments import Array
from experiments.cells import Cell, Context, Record
from experiments.machine import thread_option
from experiments.markdown import table
from experiments.measure import climb, rounded
from experiments.pictures import PictureTask
from experiments.scores import HiddenEntries, spaced_scores
from experiments.tables import rows_to_score
from paper import denoising, interpolation
from paper.chains import GIBBS_LONG, Judged, with_length
from paper.experiment import Experiment, Options, Section
from paper.matrices import BATCH, FILES, N_DRAWS, load
from paper.methods import GIBBS_KINDS, LABELS
from paper.picture_ladders import STUDIED, JudgedPicture

PICTURE_TASKS = {
    "interpolation": PictureTask(STUDIED, interpolation.OBSERVED, 0.0),
    "denoising": PictureTask(STUDIED, denoising.OBSERVED, denoising.NOISE),
}
TITLES = {
    "interpolation": f"Interpolation of {STUDIED.capitalize()} (dB)",
    "denoising": f"Denoising of {STUDIED.capitalize()} (dB)",
    "TCGA": "Expression, TCGA",
    "CCLE": "Expression, CCLE",
    "cytometry": "Mass cytometry",
}
# In a full run the last length but one is that of the long chains by which the claims are judged. The last
# is several times as long: where chains mix slowly, twice the length changes too little to be told from
# chance.
LENGTHS: dict[Judged, tuple[int, ...]] = {
    "interpolation": (100, 800, GIBBS_LONG["interpolation"], 12_800),
    "denoising": (25, 100, GIBBS_LONG["denoising"], 3200),
    "matrices": (25, GIBBS_LONG["matrices"], 800),
}
# Matrices are judged at an early step, near which the methods predict best, and at the last one. Pictures,
# which are mostly best at the last step, are judged there alone.
SIZES: dict[str, dict[str, Any]] = {
    "full": {
        "lengths": LENGTHS, "repeats": 5,
        "picture": {"features": 250, "steps": (3000,), "stride": 8, "draws": 8, "side": 256},
        "TCGA": {"features": 500, "steps": (64, 1000), "rows": None, "scored": 50},
        "CCLE": {"features": 500, "steps": (64, 1000), "rows": None, "scored": 50},
        "cytometry": {"features": 500, "steps": (500, 16_000), "rows": None, "scored": 400},
    },
    "quick": {
        "lengths": dict.fromkeys(LENGTHS, (5, 10, 20)), "repeats": 2,
        "picture": {"features": 250, "steps": (50,), "stride": 8, "draws": 4, "side": 128},
        "TCGA": {"features": 500, "steps": (10, 20), "rows": 4000, "scored": 20},
        "CCLE": {"features": 500, "steps": (10, 20), "rows": None, "scored": 20},
        "cytometry": {"features": 500, "steps": (50, 100), "rows": 20_000, "scored": 100},
    },
    "tiny": {
        "lengths": dict.fromkeys(LENGTHS, (1, 2, 4)), "repeats": 2,
        "cytometry": {"features": 8, "steps": (2, 4), "rows": 200, "scored": 50},
    },
}  # fmt: skip
UNLIKELY = 0.05
Judge = Callable[[GlobalPosterior, Algorithm, int], float]
"""From a posterior, chains and the seed of their draws to a score."""


def cells(options: Options) -> list[Cell]:
    size = SIZES[options.scale]
    found = []
    for task in TITLES:
        of_task = size.get("picture" if task in PICTURE_TASKS else task)
        for method in GIBBS_KINDS if of_task else ():
            settings = {
                "task": task, "method": method, "seed": 0, **of_task, "repeats": size["repeats"],
                "lengths": size["lengths"][task if task in PICTURE_TASKS else "matrices"],
            }  # fmt: skip
            needs = PICTURE_TASKS[task].file if task in PICTURE_TASKS else FILES[task].file
            found.append(Cell(f"{task}/{method}", settings, _expected(settings), needs=needs))
    return found


def _expected(settings: dict[str, Any]) -> float:
    """Return how many seconds a cell takes: those of its steps, and of the chains that judge them."""
    sweeps = settings["repeats"] * sum(settings["lengths"]) * len(settings["steps"])
    if settings["task"] in PICTURE_TASKS:
        patches = (settings["side"] / settings["stride"]) ** 2
        return 5 + 0.0025 * settings["steps"][-1] + 4e-7 * settings["draws"] * patches * sweeps
    step, row = (0.0065, 3e-6) if settings["task"] == "cytometry" else (0.05, 20e-6)
    return 5 + step * settings["steps"][-1] + row * N_DRAWS * settings["scored"] * sweeps


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Train a method, and score its posterior by chains of several lengths, each with several seeds."""
    prepare = prepared_picture if settings["task"] in PICTURE_TASKS else prepared_matrix
    data, more, judge = prepare(settings, context)
    device = context.device
    options = {**more, **thread_option(device)}
    training = train(
        data, settings["features"], algorithm=settings["method"], batch_size=BATCH, n_steps=None,
        seed=settings["seed"], device=device, **options,
    )  # fmt: skip
    return {
        str(rung.step): {
            str(sweeps): [
                rounded(judge(rung.posterior, with_length(settings["method"], sweeps, device), seed))
                for seed in range(settings["repeats"])
            ]
            for sweeps in settings["lengths"]
        }
        for rung in climb(training, settings["steps"])
    }


def prepared_picture(settings: dict[str, Any], context: Context) -> tuple[Any, dict[str, Any], Judge]:
    """Return the patches, the options of training, and the PSNR of a restoration over scored pixels."""
    task = PICTURE_TASKS[settings["task"]]
    picture = JudgedPicture({**task._asdict(), **settings}, context)
    over = "all" if task.noise else "missing"

    def judge(posterior: GlobalPosterior, chosen: Algorithm, seed: int) -> float:
        return picture.scores(picture.restored(posterior, chosen, settings["draws"], seed))[over]

    return picture.rows, {"init": "gibbs"}, judge


def prepared_matrix(settings: dict[str, Any], context: Context) -> tuple[Any, dict[str, Any], Judge]:
    """Return the matrix, the options of training, and the log-likelihood per hidden entry."""
    values, hidden = load({**settings, "dataset": settings["task"]}, context)
    entries = HiddenEntries.of(values, hidden, rows_to_score(len(values), settings["scored"]))

    def judge(posterior: GlobalPosterior, chosen: Algorithm, seed: int) -> float:
        return spaced_scores(posterior, entries, chosen, N_DRAWS, seed)["log_likelihood"]

    return values, {"missing": hidden}, judge


def section(records: list[Record], figures: Path) -> Section:
    repeats = records[0]["settings"]["repeats"]
    rows, changes = [], {}
    for record in records:
        task, method, lengths = (record["settings"][name] for name in ("task", "method", "lengths"))
        digits = 2 if task in PICTURE_TASKS else 3
        for step, scores in record["result"].items():
            by_length = [np.array(scores[str(sweeps)]) for sweeps in lengths]
            change = Change.of(by_length[-2], by_length[-1])
            title = f"{TITLES[task]}, {LABELS[method]}, step {int(step):,}"
            text = f"{change.mean:+.{digits + 1}f} ± {change.error:.{digits + 1}f}"
            changes[title] = (change, text)
            *shorter, long, longest = (
                f"{of_length.mean():.{digits}f} by {sweeps:,}"
                for sweeps, of_length in zip(lengths, by_length, strict=True)
            )
            rows.append([title, ", ".join(shorter), long, longest, text])
    parts = [
        f"Every posterior of a Gibbs kind is judged by chains of several lengths, {repeats} times with other "
        "draws, which tells the length and the chance of the draws apart. The table shows mean scores, each "
        "with the number of sweeps before every draw, and by how much they change from the long chains of "
        "this page to longer ones, ± one standard error.",
        table(["", "shorter chains", "long chains", "longer chains", "change"], rows),
        in_words(changes),
    ]
    return Section([], "\n\n".join(parts))


def in_words(changes: Mapping[str, tuple[Change, str]]) -> str:
    """Return in words whether chains that are longer than the long ones change more than chance does.

    Examples
    --------
    >>> change = (Change(1.0, 0.1, 0.001), "+1.0 ± 0.1")
    >>> in_words({"Cells": change, "Genes": change})
    '2 of 2 scores still change clearly with longer chains: Cells by +1.0 ± 0.1; Genes by +1.0 ± 0.1.'
    """
    clear = [f"{title} by {text}" for title, (change, text) in changes.items() if change.by_chance < UNLIKELY]
    if len(clear) <= binom.ppf(1 - UNLIKELY, len(changes), UNLIKELY):
        named = f": {'; '.join(clear)}" if clear else ""
        return (
            f"A t test at the level of {UNLIKELY:.0%} finds a change with longer chains in {len(clear)} of "
            f"{len(changes)} scores{named}. That is no more than chance explains. A change of about two "
            "standard errors in the table could have gone unnoticed."
        )
    return (
        f"{len(clear)} of {len(changes)} scores still change clearly with longer chains: {'; '.join(clear)}."
    )


class Change(NamedTuple):
    """By how much scores change on average from one length of chains to another."""

    mean: float
    error: float
    """The standard error of the mean."""
    by_chance: float
    """The probability that chance alone makes a change as large (Student's t test)."""

    @classmethod
    def of(cls, before: Array, after: Array) -> Change:
        """Compare scores seed by seed, as chains of the same seed share draws.

        Examples
        --------
        >>> change = Change.of(np.array([1.0, 3.0, 2.0]), np.array([2.0, 5.0, 5.0]))
        >>> change.mean, round(change.error, 2), round(change.by_chance, 2)
        (2.0, 0.58, 0.07)
        """
        differences = after - before
        error = float(differences.std(ddof=1) / np.sqrt(len(differences)))
        return cls(float(differences.mean()), error, float(ttest_1samp(differences, 0.0).pvalue))


EXPERIMENT = Experiment("chains", "How long the chains have to be", cells, run, section, on_device=True)
