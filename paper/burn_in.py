"""Figure 2: how the burn-in of the chain of a row affects Gibbs-SSVI."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from bpfa import Progress, algorithm, draw_data, train
from experiments.cells import Cell, Context, Record
from experiments.figures import STYLE, legend, panels_below_each_other, save
from experiments.markdown import table
from experiments.measure import follow, rounded
from experiments.scores import HiddenEntries, posterior_scores
from paper.experiment import Claim, Experiment, Options, Section, verdict
from paper.figures import image_link, label_likelihood
from paper.synthetic import COLUMNS, FEATURES, HIDDEN, N_DRAWS, NOISE_PRECISION, TRUE_FEATURES

LENGTHS = (0, 1, 3, 5, 10, 25)
FORMS = {"two-step": "z, then w (the paper's wording)", "blocked": "z and w together (ours)"}
LONG = 25
"""The burn-in of the chains by which every model is judged a second time."""
SIZES: dict[str, dict[str, Any]] = {
    "full": {"rows": 100_000, "batch": 2500, "steps": 500, "scored": 5000, "seeds": 3},
    "quick": {"rows": 10_000, "batch": 500, "steps": 100, "scored": 1000, "seeds": 1},
    "tiny": {"rows": 60, "batch": 20, "steps": 3, "scored": 60, "seeds": 1},
}
# Log-likelihoods per entry that differ by less than TOLERANCE count as equal, and a loss of more than SEVERE
# counts as severe. Both are judgements, made before the full runs; every verdict comes with its numbers.
TOLERANCE = 0.002
SEVERE = 0.02


def cells(options: Options) -> list[Cell]:
    size = SIZES[options.scale]
    shared = {name: size[name] for name in ("rows", "batch", "steps", "scored")}
    return [
        Cell(
            f"{form}/{burn_in}/{seed}",
            {"form": form, "burn_in": burn_in, "seed": seed, "curve": seed == 0, **shared},
            size["steps"] * size["batch"] * (burn_in + 4) * 1e-6 + 3,
        )
        for seed in range(size["seeds"])
        for form in FORMS
        for burn_in in LENGTHS
    ]


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    seed, burn_in, blocked = settings["seed"], settings["burn_in"], settings["form"] == "blocked"
    data = draw_data(settings["rows"], COLUMNS, TRUE_FEATURES, g_o=NOISE_PRECISION, g_w=1.0, seed=seed)
    hidden = np.random.default_rng(seed).random(data.y.shape) < HIDDEN
    y = (data.y - data.y.mean()) / data.y.std()
    entries = HiddenEntries.of(y, hidden, np.arange(min(len(y), settings["scored"])))

    def score(progress: Progress, judged_by: int) -> float:
        chosen = algorithm("gibbs-ssvi", burn_in=judged_by, blocked=blocked, n_jobs=1)
        return posterior_scores(progress.posterior, entries, chosen, N_DRAWS, seed)["log_likelihood"]

    training = train(
        y, FEATURES, missing=hidden, algorithm="gibbs-ssvi", batch_size=settings["batch"], n_steps=None,
        seed=seed, burn_in=burn_in, blocked=blocked, n_jobs=1,
    )  # fmt: skip
    measure = (lambda progress: score(progress, burn_in)) if settings["curve"] else None
    followed = follow(training, measure, n_steps=settings["steps"])
    return {
        "own": rounded(score(followed.last, burn_in)),
        "long": rounded(score(followed.last, LONG)),
        **followed.timing(),
        **({"curve": followed.curve} if settings["curve"] else {}),
    }


def section(records: list[Record], figures: Path) -> Section:
    settings = records[0]["settings"]
    n_seeds = len({record["settings"]["seed"] for record in records})
    parts = [
        f"Data as above, N = {settings['rows']:,}, {settings['steps']} iterations of {settings['batch']:,} "
        f"rows, 3 kept samples, mean over {n_seeds} seed{'s' * (n_seeds > 1)}. The odds of z are taken "
        "given w, as the paper says, or with w integrated out, as we do by default. In the first column of "
        "log-likelihoods, every model predicts by chains with the burn-in of its training; in the second, "
        f"all models predict by chains with burn-in {LONG}, which leaves only the effect on training.",
    ]
    curves: dict[str, dict[int, list[list[float]]]] = {}
    means: dict[str, dict[str, dict[int, float]]] = {}
    for form, title in FORMS.items():
        by_length = results_by_length(records, form)
        if len(by_length) < len(LENGTHS):
            continue
        curves[title] = {length: results[0]["curve"] for length, results in by_length.items()}
        means[form] = {
            name: {
                length: float(np.mean([result[name] for result in results]))
                for length, results in by_length.items()
            }
            for name in ("own", "long", "step_seconds", "active")
        }
        parts.append(f"{title[0].upper()}{title[1:]}:\n\n{results_table(means[form])}")
    if not means:
        return Section([], "Not enough of the cells are there yet.")
    draw_figure(curves, figures / "burn-in")
    parts.append(image_link("burn-in", "Figure 2: log-likelihood against time for burn-in 0 to 25, seed 0"))
    return Section(claims_of(means), "\n\n".join(parts))


def results_by_length(records: list[Record], form: str) -> dict[int, list[dict[str, Any]]]:
    """Return burn-in -> the results of one form, in the order of the seeds."""
    found: dict[int, list[dict[str, Any]]] = {}
    for record in sorted(
        records, key=lambda record: (record["settings"]["burn_in"], record["settings"]["seed"])
    ):
        if record["settings"]["form"] == form:
            found.setdefault(record["settings"]["burn_in"], []).append(record["result"])
    return found


def results_table(means: dict[str, dict[int, float]]) -> str:
    rows = [
        [
            str(length),
            *(f"{means[name][length]:.4f}" for name in ("own", "long")),
            f"{1000 * means['step_seconds'][length]:.1f}",
            f"{means['active'][length]:.0f}",
        ]
        for length in LENGTHS
    ]
    judged = f"judged with burn-in {LONG}"
    return table(["burn-in", "log-likelihood", judged, "ms an iteration", "features in use"], rows)


def draw_figure(panels: dict[str, dict[int, list[list[float]]]], path: Path) -> None:
    with plt.rc_context(STYLE):
        figure, all_axes = panels_below_each_other(len(panels), 3.2)
        # Shades from light to dark, as burn-in is a quantity.
        shades = plt.get_cmap("viridis_r")(np.linspace(0.1, 1.0, len(LENGTHS)))
        for axes, (title, lines) in zip(all_axes, panels.items(), strict=True):
            for (length, points), shade in zip(lines.items(), shades, strict=True):
                seconds, values = zip(*points, strict=True)
                axes.plot(seconds, values, color=shade, marker="o", label=f"burn-in {length}")
            axes.set_title(title)
            label_likelihood(axes)
        legend(figure, all_axes[0])
        save(figure, path)


def claims_of(means: dict[str, dict[str, dict[int, float]]]) -> list[Claim]:
    steps = list(pairwise(LENGTHS))

    def listed(numbers: dict[int, float]) -> str:
        return ", ".join(f"{length}: {value:.4f}" for length, value in numbers.items())

    def both(text: Callable[[dict[str, dict[int, float]]], str]) -> str:
        return "; ".join(f"{FORMS[form]}: {text(found)}" for form, found in means.items())

    def monotone(numbers: dict[int, float]) -> bool:
        return all(numbers[after] >= numbers[before] - TOLERANCE for before, after in steps)

    def loss(found: dict[str, dict[int, float]], length: int) -> float:
        return found["own"][3] - found["own"][length]

    def gain(found: dict[str, dict[int, float]], first: int, last: int) -> float:
        return found["own"][last] - found["own"][first]

    return [
        Claim(
            "The converged likelihood grows monotonically with burn-in (0, 1, 3, 5, 10, 25)",
            both(lambda found: listed(found["own"])),
            verdict(*(monotone(found["own"]) for found in means.values())),
        ),
        Claim(
            "With a burn-in below 3, predictive power is lost severely",
            both(
                lambda found: (
                    f"burn-in 0 loses {loss(found, 0):.4f}, burn-in 1 {loss(found, 1):.4f} against 3"
                )
            )
            + f"; a loss of {SEVERE} per entry or more counts as severe",
            verdict(*(loss(found, length) > SEVERE for found in means.values() for length in (0, 1))),
        ),
        Claim(
            "Gains diminish with the length of burn-in",
            both(
                lambda found: (
                    f"from 0 to 3 {gain(found, 0, 3):+.4f}, from 3 to 25 {gain(found, 3, 25):+.4f} for "
                    f"{found['step_seconds'][25] / found['step_seconds'][3]:.1f} times the time"
                )
            ),
            verdict(*(gain(found, 0, 3) > gain(found, 3, 25) for found in means.values())),
        ),
    ]


EXPERIMENT = Experiment("burn-in", "Burn-in (figure 2)", cells, run, section)
