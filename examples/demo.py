"""Draw data from the model, hide a fifth of it, and see how well two algorithms fill it in.

Run with `make demo`. Writes one plot to demo-output/.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

import bpfa

ALGORITHMS = {"gibbs-ssvi": "#0072b2", "mf-ssvi": "#d55e00"}
# Held-out scores are taken this often while training.
SCORE_EVERY = 25


def main() -> None:
    """Fit, print a table and write the plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    arguments = parser.parse_args()
    console = Console()

    # About four of ten features in a row of forty columns, and noise of standard deviation 0.1.
    data = bpfa.draw_data(
        arguments.rows, 40, 10, priors=bpfa.Priors(a=40.0), g_o=100.0, g_w=1.0, seed=arguments.seed
    )
    hidden = np.random.default_rng(arguments.seed).random(data.y.shape) < 0.2
    # No prediction can have a smaller error than the noise of the hidden entries.
    floor = float(((data.y - data.signal)[hidden] ** 2).mean())
    variance = float(data.y[hidden].var())
    console.print(f"{arguments.rows} rows x 40 columns drawn from the model, 20 % of the entries hidden\n")

    curves = {}
    table = Table("", "hidden MSE", "log-lik.", "noise", "features", "seconds")
    table.add_row("truth", f"{floor:.4f}", "", "0.1000", "10", "")
    table.add_row("column mean", f"{variance:.4f}", "", "", "", "")
    for name in ALGORITHMS:
        curves[name] = fit(name, data, hidden, arguments, console)
        score, progress = curves[name][-1]
        table.add_row(
            name,
            f"{score.mse:.4f}",
            f"{score.log_likelihood:.3f}",
            f"{progress.posterior.noise_std:.4f}",
            str(progress.posterior.n_active()),
            f"{progress.seconds:.1f}",
        )
    console.print(table)
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "held-out-error.png"
    plot(curves, floor, variance, path)
    console.print(f"Plot: {path}")


def fit(
    name: str, data: bpfa.Synthetic, hidden: np.ndarray, arguments: argparse.Namespace, console: Console
) -> list[tuple[bpfa.HeldOutScore, bpfa.Progress]]:
    """Train one algorithm under a progress bar and return its held-out scores."""
    algorithm = bpfa.algorithm(name)
    curve = []
    columns = (
        TextColumn("{task.description:>10}"),
        BarColumn(),
        TextColumn("step {task.completed}/{task.total}  noise {task.fields[noise]:.3f}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(name, total=arguments.steps, noise=float("nan"))
        steps = bpfa.train(
            data.y, 25, missing=hidden, algorithm=name, n_steps=arguments.steps, seed=arguments.seed
        )
        for progress in steps:
            bar.update(task, completed=progress.step, noise=progress.posterior.noise_std)
            if progress.step % SCORE_EVERY == 0 or progress.step in (1, 5, 10, arguments.steps):
                score = bpfa.held_out_score(progress.posterior, data.y, hidden, algorithm, n_draws=10, seed=1)
                curve.append((score, progress))
    return curve


def plot(
    curves: dict[str, list[tuple[bpfa.HeldOutScore, bpfa.Progress]]],
    floor: float,
    variance: float,
    path: Path,
) -> None:
    """Held-out error against training steps."""
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for name, curve in curves.items():
        steps = [progress.step for _, progress in curve]
        errors = [score.mse for score, _ in curve]
        axes.plot(steps, errors, marker="o", markersize=4, color=ALGORITHMS[name], label=name)
    axes.axhline(variance, color="0.55", linestyle=":")
    axes.axhline(floor, color="0.2", linestyle="--")
    right = max(progress.step for curve in curves.values() for _, progress in curve)
    axes.text(right, variance, "predicting the mean", ha="right", va="bottom", color="0.4")
    axes.text(right, floor, "noise of the hidden entries", ha="right", va="bottom", color="0.2")
    axes.set(
        xlabel="Training step (256 rows each)", ylabel="Mean squared error, hidden entries", yscale="log"
    )
    ticks = [0.01, 0.02, 0.03, 0.05, 0.1]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_title("Filling in 20 % hidden entries")
    axes.legend(loc="center right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
