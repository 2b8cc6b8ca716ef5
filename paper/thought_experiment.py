"""The thought experiment: rows that are one vector plus noise, weights of 1, and two features close to it.

The local steps are written out here, because those of the package also learn the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from bpfa import Batch, GlobalPosterior, Priors, Schedule
from bpfa.model.features import FactorisedFeatures
from bpfa.model.sums import LocalMoments, LocalSums
from bpfa.model.view import GlobalView
from experiments import Array
from experiments.cells import Cell, Context, Record
from experiments.figures import STYLE, WIDTH, legend, save
from experiments.markdown import table
from experiments.measure import rounded
from paper.experiment import Claim, Experiment, Options, Section, verdict
from paper.figures import image_link

COLUMNS, ROWS, BATCH, NOISE_VARIANCE = 10, 1000, 100, 0.05
SIZES = {
    "full": {"seeds": 20, "steps": 300},
    "quick": {"seeds": 3, "steps": 100},
    "tiny": {"seeds": 1, "steps": 3},
}
# Values of A = g_o |f|^2, the strength of the vector relative to the noise; the paper's setting with 10
# columns has about 200.
LOUDNESS = (1.0, 3.0, 4.5, 6.0, 10.0, 20.0, 200.0)
ASCENT_SWEEPS, GRADIENT_STEPS, GRADIENT_SIZE = 50, 100, 0.02
BURN_IN, KEPT = 3, 3
LOCAL = {
    "gradient": "MF-SSVI, gradient from (1/2, 1/2)",
    "coordinate": "MF-SSVI, coordinate ascent",
    "gibbs": "Gibbs-SSVI",
}
COLOURS = {"gradient": "#E69F00", "coordinate": "#56B4E9", "gibbs": "#D55E00", "exact": "#000000"}
OUTCOMES = ("0", "f", "2f")


def drive(view: GlobalView, values: Array, other: Array, k: int) -> Array:
    """Return the log odds of z_k given z of the other feature, or its expectation."""
    explained = values - other[:, None] * view.phi[1 - k]
    s = (view.phi[k] ** 2 + view.v[k]).sum()
    odds: Array = view.logit[k] + view.g_o * (explained @ view.phi[k] - s / 2)
    return odds


def coordinate(view: GlobalView, values: Array, rng: np.random.Generator) -> list[Array]:
    """Mean field: set each theta in turn to its optimum, from a random start; nothing is drawn."""
    theta = rng.random((len(values), 2))
    for _ in range(ASCENT_SWEEPS):
        for k in range(2):
            theta[:, k] = expit(drive(view, values, theta[:, 1 - k], k))
    return [theta]


def gradient(view: GlobalView, values: Array, rng: np.random.Generator) -> list[Array]:
    """Mean field: climb the local bound by gradient ascent from theta = 1/2, as the paper does."""
    odds = np.zeros((len(values), 2))
    for _ in range(GRADIENT_STEPS):
        theta = expit(odds)
        wanted = np.column_stack([drive(view, values, theta[:, 1 - k], k) for k in range(2)])
        # The gradient of the bound in theta is wanted - odds; that in the odds is theta (1 - theta) times it.
        odds += GRADIENT_SIZE * theta * (1 - theta) * (wanted - odds)
    return [expit(odds)]


def gibbs(view: GlobalView, values: Array, rng: np.random.Generator) -> list[Array]:
    """Gibbs sampling: return the draws of z that are kept after the burn-in."""
    z = np.zeros((len(values), 2))
    kept = []
    for sweep in range(BURN_IN + KEPT):
        for k in range(2):
            z[:, k] = rng.random(len(values)) < expit(drive(view, values, z[:, 1 - k], k))
        if sweep >= BURN_IN:
            kept.append(z.copy())
    return kept


METHODS: dict[str, Callable[[GlobalView, Array, np.random.Generator], list[Array]]] = {
    "gradient": gradient,
    "coordinate": coordinate,
    "gibbs": gibbs,
}


def outcomes(states: list[Array]) -> list[float]:
    """Return the probabilities that a prediction uses none, one or both of the features."""
    first, second = np.concatenate(states).T
    none, both = (1 - first) * (1 - second), first * second
    return [rounded(float(value)) for value in (none.mean(), (1 - none - both).mean(), both.mean())]


def cells(options: Options) -> list[Cell]:
    size = SIZES[options.scale]
    return [
        Cell(f"{seed}", {"seed": seed, "steps": size["steps"]}, 0.01 * size["steps"])
        for seed in range(size["seeds"])
    ]


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Run both parts: a local step at features that are exactly f, and training from features near f."""
    rng = np.random.default_rng(settings["seed"])
    f = rng.normal(size=COLUMNS)
    noise = rng.normal(size=(ROWS, COLUMNS))
    local = {}
    for loudness in LOUDNESS:
        g_o = loudness / float(f @ f)
        view = GlobalView(np.tile(f, (2, 1)), np.zeros((2, 1)), np.zeros(2), g_o, 1.0)
        # All rows are f itself: only the starts and the draws differ.
        rows = np.tile(f, (ROWS, 1))
        states = {name: METHODS[name](view, rows, rng) for name in METHODS}
        theta = states["coordinate"][0]
        local[str(loudness)] = {
            "optimum": rounded(float(np.max(theta, axis=1).mean())),
            "sum": rounded(float(theta.sum(axis=1).mean())),
            **{name: outcomes(states[name]) for name in METHODS},
        }
    batch = f + np.sqrt(NOISE_VARIANCE) * noise
    trained = {name: train(name, batch, f, settings, rng) for name in METHODS}
    return {"loudness": rounded(float(f @ f) / NOISE_VARIANCE), "local": local, "trained": trained}


def train(
    name: str, values: Array, f: Array, settings: dict[str, Any], rng: np.random.Generator
) -> dict[str, Any]:
    """Run the algorithm of the paper with this local step, from features near f and pi near 1/2."""
    posterior = GlobalPosterior(
        priors=Priors(), n_rows=ROWS, a=np.full(2, ROWS / 2), b=np.full(2, ROWS / 2), c=ROWS / 2,
        d=ROWS / 2 * NOISE_VARIANCE, e=1.0, f=1.0,
        features=FactorisedFeatures.around(f + 0.05 * rng.normal(size=(2, COLUMNS)), 1e3),
    )  # fmt: skip
    schedule = Schedule()
    for step in range(1, settings["steps"] + 1):
        batch = Batch(values[rng.integers(ROWS, size=BATCH)])
        view = posterior.sampled(rng)
        states = METHODS[name](view, batch.values, rng)
        ones = np.ones_like(states[0])
        sums = [LocalSums.of(view, batch, LocalMoments(z=z, x=z, zw2=z, w2=ones)) for z in states]
        posterior = posterior.step(LocalSums.average(sums), schedule(step), view.g_o)
    view = posterior.sampled(rng)
    states = METHODS[name](view, values, rng)
    # Predictions are drawn from q, and each is counted as the multiple of f that is nearest to it.
    z = np.concatenate([rng.random(state.shape) < state for state in states])
    predictions = z @ view.phi
    error = ((predictions - f) ** 2).sum(axis=1).mean() / float(f @ f)
    multiple = np.clip(np.rint(predictions @ f / float(f @ f)), 0, 2)
    theta = np.concatenate(states)
    return {
        "theta": [rounded(float(value)) for value in theta.mean(axis=0)],
        "outcomes": [rounded(float((multiple == value).mean())) for value in range(3)],
        "error": rounded(float(error)),
        "noise": rounded(posterior.noise_std**2),
    }


def optimum(loudness: float) -> float:
    """Return the larger s of the optimum (s, 1 - s): s = sigmoid(A (s - 1/2)), which is 1/2 where A <= 4."""
    if loudness <= 4.0:
        return 0.5
    return (
        float(brentq(lambda s: logit(s) - loudness * (s - 0.5), 0.5 + 1e-6, 1 - 1e-12))
        if loudness < 50
        else 1.0
    )


def exact(loudness: float) -> list[float]:
    """Return the exact posterior probabilities of 0, f and 2f for pi = 1/2 and y = f."""
    weights = np.array([np.exp(-loudness / 2), 2.0, np.exp(-loudness / 2)])
    return [float(weight) for weight in weights / weights.sum()]


def section(records: list[Record], figures: Path) -> Section:
    results = [record["result"] for record in records]
    local = {
        loudness: {
            name: np.mean([result["local"][str(loudness)][name] for result in results], axis=0)
            for name in ("optimum", "sum", *METHODS)
        }
        for loudness in LOUDNESS
    }
    trained = {
        name: {
            key: np.mean([result["trained"][name][key] for result in results], axis=0)
            for key in ("theta", "outcomes", "error", "noise")
        }
        for name in METHODS
    }
    draw_figure(local, trained, figures / "thought-experiment")
    loudness = float(np.mean([result["loudness"] for result in results]))

    def probabilities(values: Any) -> str:
        return " / ".join(f"{value:.3f}" for value in values)

    local_rows = [
        [f"{level:g}", f"{optimum(level):.3f}", f"{found['optimum']:.3f}", f"{found['sum']:.3f}"]
        + [probabilities(values) for values in (exact(level), *(found[name] for name in METHODS))]
        for level, found in local.items()
    ]
    trained_rows = [
        [
            LOCAL[name],
            *(probabilities(found[key]) for key in ("theta", "outcomes")),
            *(f"{found[key]:.3f}" for key in ("error", "noise")),
        ]
        for name, found in trained.items()
    ]
    n_seeds = len(records)
    body = [
        f"y_i = f + noise of variance {NOISE_VARIANCE}, {COLUMNS} columns, {ROWS} rows, w = 1, K = 2, "
        f"{n_seeds} seed{'s' * (n_seeds > 1)}. With both features equal to f, the local bound has the "
        "optimum (s, 1 - s) with s = sigmoid(A (s - 1/2)), A = g_o |f|^2. Where A <= 4 that is s = 1/2; "
        "where A is larger, s = 1/2 is a saddle, and the optima lie close to (0, 1) and (1, 0). The "
        f"paper's setting has A near {loudness:.0f}. The last columns show the probabilities of the "
        "predictions 0 / f / 2f:",
        table(["A", "s predicted", "s found", "theta_1 + theta_2", "exact", *LOCAL.values()], local_rows),
        f"The next table is after training for {records[0]['settings']['steps']} steps of {BATCH} rows from "
        "features near f. It shows the mean theta or z of the two features, the probabilities of predictions "
        "near 0 / f / 2f, the squared error of a prediction drawn from q relative to |f|^2, and the learned "
        "noise variance. The features move, too: where both are on, each becomes a part of f.",
        table(["", "theta", "0 / f / 2f", "error", "noise"], trained_rows),
        image_link(
            "thought-experiment", "The thought experiment: where the local optimum is, and what is predicted"
        ),
    ]
    return Section(claims_of(local, trained), "\n\n".join(body))


def draw_figure(local: dict[float, Any], trained: dict[str, Any], path: Path) -> None:
    with plt.rc_context(STYLE):
        figure, (above, *bars) = plt.subplots(3, 1, figsize=(WIDTH, 8.4), layout="constrained")
        grid = np.geomspace(1, 200, 200)
        predicted = np.array([optimum(level) for level in grid])
        above.plot(grid, predicted, color="#777777", label="predicted s and 1 - s")
        above.plot(grid, 1 - predicted, color="#777777")
        found = np.array([local[level]["optimum"] for level in LOUDNESS])
        for values, label in ((found, "found by coordinate ascent"), (1 - found, None)):
            above.plot(
                LOUDNESS, values, "o", color=COLOURS["coordinate"], markeredgecolor="black", label=label
            )
        above.set(
            xscale="log",
            xlabel="A = |f|² / noise variance, log scale",
            ylabel="theta of a feature",
            ylim=(-0.05, 1.05),
        )
        above.legend(fontsize=10)
        width = 0.26
        predicted_by = {
            "Local step, both features equal to f, A = 200": {name: local[200.0][name] for name in METHODS},
            "After training from features near f": {name: trained[name]["outcomes"] for name in METHODS},
        }
        for axes, (title, found_by) in zip(bars, predicted_by.items(), strict=True):
            for place, name in enumerate(METHODS):
                at = np.arange(3) + (place - 1) * width
                axes.bar(at, found_by[name], width, color=COLOURS[name], label=LOCAL[name], zorder=2)
            axes.set_xticks(range(3), OUTCOMES)
            axes.set(title=title, xlabel="prediction", ylabel="probability", ylim=(0, 1.05))
        legend(figure, bars[0], columns=1)
        save(figure, path)


def claims_of(local: dict[float, Any], trained: dict[str, Any]) -> list[Claim]:
    loud, middle = local[200.0], local[6.0]
    gradient_one, coordinate_one, gibbs_one = (float(trained[name]["outcomes"][1]) for name in METHODS)
    s, stuck = float(loud["optimum"]), float(loud["gradient"][1])
    return [
        Claim(
            "Thought experiment: MF-SSVI has local optima (s, 1 - s) for some s in (0, 1)",
            f"theta_1 + theta_2 = {loud['sum']:.3f}; but at A = 200 coordinate ascent ends at s = {s:.3f}, "
            f"one feature alone, at A = 6 at {middle['optimum']:.3f} (predicted {optimum(6.0):.3f}); s = "
            "1/2 is a saddle where A > 4",
            verdict(abs(float(loud["sum"]) - 1) < 0.01, s < 0.99),
        ),
        Claim(
            "MF-SSVI then predicts 0 and 2y with probability s (1 - s) each, and suffers dramatically",
            f"with both features equal to f, A = 200: f is predicted with probability {stuck:.3f} by "
            f"gradient ascent from (1/2, 1/2), which stays at the saddle, {loud['coordinate'][1]:.3f} by "
            f"coordinate ascent; after training with probability {gradient_one:.3f} and "
            f"{coordinate_one:.3f}, error {trained['gradient']['error']:.3f} and "
            f"{trained['coordinate']['error']:.3f} of |f|^2",
            verdict(stuck < 0.9, gradient_one < 0.9, coordinate_one < 0.9),
        ),
        Claim(
            "Gibbs-SSVI draws (0, 1) or (1, 0), with little or no probability of both or neither",
            f"f is predicted with probability {loud['gibbs'][1]:.3f} at A = 200, {gibbs_one:.3f} after "
            "training",
            verdict(gibbs_one > 0.95 and float(loud["gibbs"][1]) > 0.95),
        ),
    ]


EXPERIMENT = Experiment("thought-experiment", "The thought experiment (section 5.3)", cells, run, section)
