"""Figure 2: how long must the chain of a row burn in before it teaches Gibbs-SSVI anything?"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.readme import table
from bpfa import Progress, algorithm, draw_data, train
from paper.cells import Cell, Context, Record
from paper.experiment import Claim, Experiment, Options, Section, verdict
from paper.figures import STYLE, WIDTH, image_link, legend, save
from paper.measure import HiddenEntries, draws, follow, rounded, scores
from paper.synthetic import COLUMNS, FEATURES, HIDDEN, N_DRAWS, NOISE_PRECISION, SCORED_ROWS, TRUE_FEATURES

LENGTHS = (0, 1, 3, 5, 10, 25)
LONG = 25
"""Burn-in of the chains by which every model is judged the second time."""
SIZES: dict[str, dict[str, Any]] = {
    "full": {"rows": 100_000, "batch": 2500, "steps": 500, "seeds": 5},
    "quick": {"rows": 20_000, "batch": 1000, "steps": 150, "seeds": 1},
    "tiny": {"rows": 300, "batch": 100, "steps": 3, "seeds": 1},
}
# Log-likelihoods per entry that differ by less are called equal: half as much is between two seeds.
TOLERANCE = 0.002
SEVERE = 0.02


def cells(options: Options) -> list[Cell]:
    size = SIZES[options.scale]
    shared = {name: size[name] for name in ("rows", "batch", "steps")}
    return [
        Cell(
            f"{burn_in}/{seed}",
            {"burn_in": burn_in, "seed": seed, "curve": seed == 0, **shared},
            size["steps"] * size["batch"] * (burn_in + 4) * 1e-6 + 3,
        )
        for seed in range(size["seeds"])
        for burn_in in LENGTHS
    ]


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    seed, burn_in = settings["seed"], settings["burn_in"]
    data = draw_data(settings["rows"], COLUMNS, TRUE_FEATURES, g_o=NOISE_PRECISION, g_w=1.0, seed=seed)
    hidden = np.random.default_rng(seed).random(data.y.shape) < HIDDEN
    y = (data.y - data.y.mean()) / data.y.std()
    entries = HiddenEntries.of(y, hidden, np.arange(min(len(y), SCORED_ROWS)))

    def score(progress: Progress, judged_by: int) -> float:
        chosen = algorithm("gibbs-ssvi", burn_in=judged_by, n_jobs=1)
        return scores(draws(progress.posterior, entries, chosen, N_DRAWS, seed), entries)["log_likelihood"]

    training = train(
        y, FEATURES, missing=hidden, algorithm="gibbs-ssvi", batch_size=settings["batch"], n_steps=None,
        seed=seed, burn_in=burn_in, n_jobs=1,
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
    by_length = {
        length: [record["result"] for record in records if record["settings"]["burn_in"] == length]
        for length in LENGTHS
    }
    by_length = {length: results for length, results in by_length.items() if results}
    settings = records[0]["settings"]
    means = {
        name: {
            length: float(np.mean([result[name] for result in results]))
            for length, results in by_length.items()
        }
        for name in ("own", "long", "step_seconds", "active")
    }
    rows = [
        [str(length), f"{means['own'][length]:.4f}", f"{means['long'][length]:.4f}"]
        + [f"{1000 * means['step_seconds'][length]:.1f}", f"{means['active'][length]:.0f}"]
        for length in by_length
    ]
    headings = ["burn-in", "log-likelihood", f"judged with burn-in {LONG}", "ms an iteration", "features in use"]
    draw_figure({length: results[0]["curve"] for length, results in by_length.items()}, figures / "burn-in")
    n_seeds = max(len(results) for results in by_length.values())
    body = [
        f"Data as above, N = {settings['rows']:,}, {settings['steps']} iterations of {settings['batch']:,} rows, 3 "
        f"kept samples, mean over {n_seeds} seed{'s' * (n_seeds > 1)}. A model predicts by chains of its own "
        f"burn-in; in the next column all predict by chains of burn-in {LONG}, which leaves what the training "
        "made of it.",
        table(headings, rows),
        image_link("burn-in", "Figure 2: log-likelihood against time for burn-in 0 to 25, seed 0"),
    ]
    complete = len(by_length) == len(LENGTHS)
    return Section(claims_of(means) if complete else [], "\n\n".join(body))


def draw_figure(lines: dict[int, list[list[float]]], path: Path) -> None:
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(WIDTH, 3.4), layout="constrained")
        # One hue from light to dark, as burn-in is a quantity.
        shades = plt.get_cmap("viridis_r")(np.linspace(0.1, 1.0, len(lines)))
        for (length, points), shade in zip(lines.items(), shades, strict=True):
            seconds, values = zip(*points, strict=True)
            axes.plot(seconds, values, color=shade, marker="o", label=f"burn-in {length}")
        axes.set(
            xlabel="training time (s), log scale", ylabel="predictive log-likelihood\nper hidden entry",
            xscale="log",
        )  # fmt: skip
        legend(figure, axes)
        save(figure, path)


def claims_of(means: dict[str, dict[int, float]]) -> list[Claim]:
    own, long, seconds = means["own"], means["long"], means["step_seconds"]
    steps = list(pairwise(LENGTHS))

    def listed(numbers: dict[int, float]) -> str:
        return ", ".join(f"{length}: {value:.4f}" for length, value in numbers.items())

    def monotone(numbers: dict[int, float]) -> bool:
        return all(numbers[after] >= numbers[before] - TOLERANCE for before, after in steps)

    gains = [own[after] - own[before] for before, after in steps]
    return [
        Claim(
            "The converged likelihood grows monotonically with burn-in (0, 1, 3, 5, 10, 25)",
            f"{listed(own)}; judged with the same burn-in of {LONG}: {listed(long)}",
            verdict(monotone(own), monotone(long)),
        ),
        Claim(
            "Below a burn-in of 3 predictive power is lost severely",
            f"burn-in 0 loses {own[3] - own[0]:.4f} and burn-in 1 {own[3] - own[1]:.4f} per entry against 3; "
            f"severe is called what loses {SEVERE} or more",
            verdict(own[3] - own[0] > SEVERE, own[3] - own[1] > SEVERE),
        ),
        Claim(
            "Gains diminish with the length of burn-in",
            f"from 0 to 3 {own[3] - own[0]:+.4f}, from 3 to 25 {own[25] - own[3]:+.4f}, for "
            f"{seconds[25] / seconds[3]:.1f} times the time",
            verdict(sum(gains[:2]) > sum(gains[2:])),
        ),
    ]


EXPERIMENT = Experiment("burn-in", "Burn-in (figure 2)", cells, run, section)
