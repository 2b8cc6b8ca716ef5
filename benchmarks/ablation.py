"""Which dependencies of the posterior matter? `python -m benchmarks.ablation [--seconds 20]`.

The grid {view} x {local method} x {features} x {weights that g_w is learned from} x {chains begin anew or go
on}, as far as its cells exist, from a random start; and Gibbs-SSVI with entries hidden from its chains, or
from principal components. On two pictures and two matrices, with three seeds and the same time for each:
seconds of the processor, on one thread. Shown are the log-likelihood and squared error of hidden entries, how
many their 95 % intervals cover, PSNR for pictures, and the time to 99 % of the final gain in log-likelihood.
Cells are stored as they end: a run that was stopped goes on.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from paper.cells import Cell, Context, DataFile, Record
from paper.measure import Array, HiddenEntries, draws, follow, rounded, scores

from benchmarks import images, matrices, readme
from benchmarks.cells import finish, parser_of
from bpfa import ALGORITHMS, ArrayRows, ChainStore, Progress, Rows, Schedule, algorithm, train
from bpfa._support.philox import Stream
from bpfa.images import PatchRows, defaults
from bpfa.images.canvas import Canvas
from bpfa.images.restore import STRIP_PATCHES, PatchDraws, restore
from bpfa.inference.progress import Posterior
from bpfa.prediction.scores import score_rows

HERE = Path(__file__).parent
RESULTS, FIGURE = HERE / "results" / "ablation.json", HERE / "figures" / "ablation"
SEEDS = (0, 1, 2)
PATCH, N_POINTS = 8, 8
# Share of a row's entries that its chain does not see, where entries are hidden.
DROPOUT = defaults.DROPOUT
# Restorations of a picture at the end of a run.
STRIDE, PICTURE_DRAWS = 2, 4
# Log-likelihood per entry of standardised columns under a standard normal: what knowing nothing gives.
NOTHING = -0.5 * (np.log(2 * np.pi) + 1)


class Problem(NamedTuple):
    """What is learned from."""

    file: DataFile
    n_features: int
    batch_size: int
    schedule: dict[str, tuple[float, float]]
    """Delay and decay of the step sizes, for each form of the features."""
    scored: int
    """Rows whose hidden entries are scored."""
    n_draws: int
    picture: images.Task | None = None


def _picture(name: str, observed: float, noise: float) -> Problem:
    file = DataFile(f"images/{name}.png", "a standard picture, from the BM3D authors' image set")
    task = images.Task(name, observed, noise)
    # Joint features bear longer steps: they do not each believe to explain the residual alone.
    schedule = {"factorised": (0.0, 0.75), "joint": (0.0, 0.5)}
    return Problem(file, defaults.N_COMPONENTS, defaults.BATCH_SIZE, schedule, 1000, 10, task)


def _matrix(name: str, n_features: int) -> Problem:
    source = matrices.SOURCES[name]
    schedule = dict.fromkeys(("factorised", "joint"), (20.0, 0.6))
    return Problem(DataFile(source.file, source.origin), n_features, 256, schedule, 2000, 20)


PROBLEMS = {
    "house 20 %": _picture("house", 0.2, 0.0),
    "barbara 50 % + 15": _picture("barbara", 0.5, 15.0),
    "cytometry": _matrix("cytometry", 16),
    "expression": _matrix("expression", 40),
}


class Choice(NamedTuple):
    """A cell of the grid."""

    algorithm: str
    features: str
    weight_precision: str
    warm: bool
    dropout: float = 0.0
    init: str = "random"

    def __str__(self) -> str:
        chains = ", chains go on" if self.warm else ""
        hidden = f", {self.dropout:.0%} hidden" if self.dropout else ""
        start = ", from components" if self.init == "principal" else ""
        return f"{self.algorithm}, {self.features}, {self.weight_precision} weights{chains}{hidden}{start}"


def grid(problem: Problem) -> Iterator[Choice]:
    """Yield the cells that exist for a problem.

    Joint features under an expected view need complete data, which none of the problems has; mean field has
    no idle weights, so that active ones are all; and only chains can go on. Entries are hidden from chains
    for pictures alone.
    """
    for name, cell in ALGORITHMS.items():
        if name == "gibbs":
            continue
        for features in ("factorised", "joint") if cell.view == "sampled" else ("factorised",):
            for weight_precision in ("all", "active") if cell.method != "MeanField" else ("all",):
                for warm in (False, True) if cell.method == "Gibbs" else (False,):
                    yield Choice(name, features, weight_precision, warm)
    for features in ("factorised", "joint") if problem.picture is not None else ():
        yield Choice("gibbs-ssvi", features, "active", warm=False, dropout=DROPOUT)
    for features in ("factorised", "joint"):
        yield Choice("gibbs-ssvi", features, "active", warm=False, init="principal")


def cells(problems: Sequence[str], seeds: Sequence[int], seconds: float) -> list[Cell]:
    """Seed by seed, so that a run that is stopped has compared everything as often as it could."""
    return [
        Cell(
            f"{problem}/{choice}/{seed}",
            {"problem": problem, **choice._asdict(), "seed": seed, "seconds": seconds},
            expected=1.5 * seconds + 5,
            needs=PROBLEMS[problem].file,
        )
        for seed in seeds
        for problem in problems
        for choice in grid(PROBLEMS[problem])
    ]


class Data(NamedTuple):
    """A problem with its entries hidden."""

    rows: Rows
    entries: HiddenEntries
    canvas: Canvas | None = None
    truth: Array | None = None
    missing: Array | None = None

    def psnr(self, posterior: Posterior, name: str, *, noisy: bool, seed: int) -> float:
        """PSNR in dB of the picture as this posterior restores it: over all pixels where they are noisy."""
        assert self.canvas is not None
        assert self.missing is not None
        few = PatchRows(self.canvas.values, self.canvas.observed, (PATCH, PATCH), STRIDE)
        burn_in = {"burn_in": defaults.BURN_IN} if ALGORITHMS[name].method == "Gibbs" else {}
        stream = Stream.from_seed(seed).child("restoration")
        patch_draws = PatchDraws(
            posterior, algorithm(name, n_jobs=1, **burn_in), n_draws=PICTURE_DRAWS, stream=stream
        )
        restored = self.canvas.image(restore(few, patch_draws, few.strips(STRIP_PATCHES)).mean)
        where = np.ones_like(self.missing) if noisy else self.missing
        return images.observed_psnr(self.truth, restored, where)


def load(name: str, folder: Path, seed: int) -> Data:
    """Hide entries of the data by the seed."""
    problem = PROBLEMS[name]
    if problem.picture is None:
        task = matrices.load(name, folder, seed)
        values = task.train
        values[task.hidden] = task.truth
        ids = np.sort(np.random.default_rng(1).permutation(len(values))[: problem.scored])
        rows = ArrayRows(np.where(task.hidden, np.nan, values))
        return Data(rows, HiddenEntries.of(values, task.hidden, ids))
    truth, seen, missing = images.hidden(problem.picture, folder, seed)
    canvas = Canvas.of(seen, missing)
    patches = PatchRows(canvas.values, canvas.observed, (PATCH, PATCH))
    ids = np.sort(np.random.default_rng(1).permutation(patches.n_rows)[: problem.scored])
    batch = patches.take(ids)
    # The missing pixels as they would have been seen, noise included.
    noise = problem.picture.noise * np.random.default_rng([seed, 1]).standard_normal(truth.shape)
    whole = ((truth + noise - canvas.mean) / canvas.scale)[None, :, :, None]
    complete = PatchRows(whole, np.ones(whole.shape, dtype=bool), (PATCH, PATCH)).take(ids)
    entries = HiddenEntries(batch, complete.values.astype(np.float64), ~batch.observed)
    return Data(patches, entries, canvas, truth, missing)


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Train a cell for its time, and score it on the way and at the end."""
    problem, seed = PROBLEMS[settings["problem"]], settings["seed"]
    name, features, weight_precision, warm, dropout, init = (settings[key] for key in Choice._fields)
    data, chosen = load(settings["problem"], context.data, seed), algorithm(name, n_jobs=1)

    def scored(posterior: Posterior) -> dict[str, float]:
        return scores(draws(posterior, data.entries, chosen, problem.n_draws, seed), data.entries)

    # A patch has tens of hidden pixels, and no draw of its weights comes near all of them: there the weights
    # are integrated out, where that can be done.
    integrates = problem.picture is not None and chosen.draws_z_given_globals

    def integrated(posterior: Posterior) -> float:
        stream, (batch, truth, hidden) = Stream.from_seed(seed).child("integrated"), data.entries
        return score_rows(
            posterior, batch, truth, hidden, chosen, n_draws=problem.n_draws, stream=stream, integrated=True
        ).log_likelihood

    def measure(progress: Progress) -> float:
        if integrates:
            return integrated(progress.posterior)
        return scored(progress.posterior)["log_likelihood"]

    training = train(
        data.rows,
        problem.n_features,
        algorithm=name,
        features=features,
        weight_precision=weight_precision,
        n_steps=None,
        batch_size=problem.batch_size,
        schedule=Schedule(*problem.schedule[features]),
        init=init,
        seed=seed,
        n_jobs=1,
        chains=ChainStore(data.rows.n_rows, problem.n_features) if warm else None,
        **({"dropout": dropout} if dropout else {}),
    )
    # Seconds of the processor: a cell has one thread, and what else the machine does costs it nothing.
    followed = follow(
        training, measure, seconds=settings["seconds"], n_points=N_POINTS, clock=time.process_time
    )
    posterior = followed.last.posterior
    result = {key: rounded(value) for key, value in scored(posterior).items()}
    if integrates:
        result["integrated"] = rounded(integrated(posterior))
    if problem.picture is not None:
        noisy = problem.picture.noise > 0
        result["psnr"] = rounded(data.psnr(posterior, name, noisy=noisy, seed=seed))
    scale = 1.0 if data.canvas is None else float(data.canvas.scale[0])
    return {
        **result,
        "noise_std": rounded(posterior.noise_std * scale),
        **followed.timing(),
        "curve": followed.curve,
    }


def time_to(curve: Sequence[Sequence[float]], level: float) -> float | None:
    """Seconds at which a curve first reaches a level, in between its points on the logarithm of time.

    Examples
    --------
    >>> time_to([[1.0, 0.0], [4.0, 2.0]], 1.0), time_to([[1.0, 0.0]], 1.0)
    (2.0, None)
    """
    before: Sequence[float] | None = None
    for point in curve:
        seconds, value = point
        if value >= level:
            if before is None:
                return seconds
            share = (level - before[1]) / (value - before[1])
            return float(np.exp(np.log(before[0]) + share * (np.log(seconds) - np.log(before[0]))))
        before = point
    return None


def settled(curve: Sequence[Sequence[float]]) -> float:
    """Seconds to 99 % of what a run gains over knowing nothing."""
    final = curve[-1][1]
    found = time_to(curve, NOTHING + 0.99 * (final - NOTHING)) if final > NOTHING else None
    return curve[-1][0] if found is None else found


def mean_curve(results: Sequence[dict[str, Any]]) -> list[list[float]]:
    """The mean over seeds of curves that were measured at nearly the same times."""
    points = [np.mean(points, axis=0) for points in zip(*(r["curve"] for r in results), strict=False)]
    return [[float(seconds), float(value)] for seconds, value in points]


def by_choice(records: Sequence[Record], problem: str) -> dict[Choice, list[dict[str, Any]]]:
    """Results of all seeds on a problem."""
    found: dict[Choice, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        settings = record["settings"]
        if settings["problem"] == problem:
            found[Choice(*(settings[key] for key in Choice._fields))].append(record["result"])
    return found


def spread(values: Sequence[float], digits: int) -> str:
    """Mean, and how far the seeds lie apart."""
    return f"{np.mean(values):.{digits}f} ± {np.ptp(values) / 2:.{digits}f}"


def problem_table(results: dict[Choice, list[dict[str, Any]]]) -> str:
    """All cells on a problem, the best log-likelihood first."""
    picture = "psnr" in next(iter(results.values()))[0]
    headings = ["", "log-likelihood", *(["integrated"] if picture else []), "MSE"]
    headings += [*(["PSNR"] if picture else []), "covers", "noise", "in use"]
    headings += ["steps", "s to 99 %"]
    rows = []
    for choice in sorted(results, key=lambda c: -np.mean([r["log_likelihood"] for r in results[c]])):
        found = results[choice]
        values = {key: [result[key] for result in found] for key in found[0] if key != "curve"}
        rows.append(
            [
                str(choice),
                spread(values["log_likelihood"], 3),
                *([spread(values["integrated"], 3) if "integrated" in values else ""] if picture else []),
                spread(values["mse"], 4),
                *([spread(values["psnr"], 2)] if picture else []),
                f"{np.mean(values['coverage']):.1%}",
                f"{np.mean(values['noise_std']):.3g}",
                f"{np.mean(values['active']):.0f}",
                f"{np.mean(values['steps']):,.0f}",
                f"{np.mean([settled(result['curve']) for result in found]):.1f}",
            ]
        )
    return readme.table(headings, rows)


def joint_line(results: dict[Choice, list[dict[str, Any]]], dropout: float = 0.0) -> str:
    """How soon joint features reach the final score of factorised ones, and whether they end above it."""
    plain = results.get(Choice("gibbs-ssvi", "factorised", "all", warm=False))
    joint = results.get(Choice("gibbs-ssvi", "joint", "active", warm=False, dropout=dropout))
    if not plain or not joint:
        return ""
    what = f"active weights and {dropout:.0%} hidden" if dropout else "active weights"
    final = mean_curve(plain)[-1]
    reached = time_to(mean_curve(joint), final[1])
    when = "never reach" if reached is None else f"reach after {reached / final[0]:.0%} of the time"
    end = mean_curve(joint)[-1][1]
    return (
        f"Joint features with {what} {when} what the paper's form of Gibbs-SSVI has at the end "
        f"({final[1]:.3f}), and end at {end:.3f}."
    )


def markdown(records: Sequence[Record]) -> str:
    """The tables of the page."""
    parts = []
    for problem in PROBLEMS:
        if results := by_choice(records, problem):
            seeds = max(len(found) for found in results.values())
            seconds = max(record["settings"]["seconds"] for record in records)
            heading = f"{problem.capitalize()}, {seconds:g} s each, {seeds} seed{'s' * (seeds > 1)}:"
            parts += [heading, problem_table(results), joint_line(results), joint_line(results, DROPOUT)]
    parts.append("![Log-likelihood against time](figures/ablation.png)")
    return "\n\n".join(filter(None, parts))


def marker_of(choice: Choice) -> str:
    """What tells the lines of a colour apart."""
    if choice.init == "principal":
        return "D"
    if choice.dropout:
        return "s"
    return "o" if choice.weight_precision == "active" else "^"


def plot(records: Sequence[Record]) -> None:
    """Gibbs-SSVI in all its forms against time, a panel for each problem."""
    import matplotlib.pyplot as plt
    from paper.figures import STYLE, WIDTH, legend, save

    found = {problem: by_choice(records, problem) for problem in PROBLEMS}
    found = {problem: results for problem, results in found.items() if results}
    colours = {"factorised": "#0072B2", "joint": "#D55E00"}
    with plt.rc_context(STYLE):
        figure, panels = plt.subplots(
            len(found), 1, figsize=(WIDTH, 3.0 * len(found)), squeeze=False, layout="constrained"
        )
        for axes, (problem, results) in zip(panels[:, 0], found.items(), strict=True):
            for choice, of_seeds in results.items():
                if choice.algorithm != "gibbs-ssvi":
                    continue
                seconds, values = zip(*mean_curve(of_seeds), strict=True)
                axes.plot(
                    seconds, values, label=str(choice).removeprefix("gibbs-ssvi, "),
                    color=colours[choice.features], linestyle="--" if choice.warm else "-",
                    marker=marker_of(choice),
                )  # fmt: skip
            axes.set(
                title=problem.capitalize(), xscale="log", xlabel="training time (s), log scale",
                ylabel="log-likelihood\nper hidden entry",
            )  # fmt: skip
        legend(figure, panels[0, 0], columns=1)
        save(figure, FIGURE)


def main(given: list[str] | None = None) -> int:
    parser = parser_of(__doc__, problems=list(PROBLEMS), seeds=SEEDS, seconds=20.0)
    arguments = parser.parse_args(given)
    records, failed = finish(cells, run, RESULTS, arguments, problems=list(PROBLEMS), seeds=SEEDS)
    if records:
        plot(records)
        print(markdown(records))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
