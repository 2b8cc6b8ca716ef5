"""Which dependencies of the posterior matter? `python -m benchmarks.ablation [--seconds 20]`.

The grid {view} x {local method} x {features} x {weights that g_w is learned from} x {chains that restart or
continue}, as far as its cells exist, from a random start; and Gibbs-SSVI with entries hidden from its chains,
or started from principal components. There are two pictures and two matrices, three seeds, and the same
processor time on one thread for every cell. The tables show the log-likelihood and squared error of hidden
entries, how many of them the 95 % intervals cover, the PSNR of pictures, and the time to 99 % of the final
gain in log-likelihood. Cells are stored as they end, so that a run that was stopped can be resumed.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from benchmarks.ablation_grid import Choice, cells
from benchmarks.ablation_page import FIGURE, markdown, plot
from benchmarks.command import parser_of_cells, run_stored_cells
from benchmarks.learning_problems import PROBLEMS, SEEDS, load
from benchmarks.pages import SECTIONS
from bpfa import ChainStore, Progress, Schedule, algorithm, train
from bpfa._support.philox import Stream
from bpfa.model.posterior import Posterior
from bpfa.prediction.scores import score_rows
from experiments.cells import Context
from experiments.measure import all_rounded, follow, rounded
from experiments.scores import posterior_scores

RESULTS = SECTIONS["ablation"].results
N_POINTS = 8


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Train for the time of the cell, and score the model on the way and at the end."""
    problem, seed = PROBLEMS[settings["problem"]], settings["seed"]
    name, features, weight_precision, carried, dropout, init = (settings[key] for key in Choice._fields)
    data, chosen = load(settings["problem"], context.data, seed), algorithm(name, n_jobs=1)

    def scored(posterior: Posterior) -> dict[str, float]:
        return posterior_scores(posterior, data.entries, chosen, problem.n_draws, seed)

    # A patch has tens of hidden pixels, and no draw of its weights comes close to all of them. So the weights
    # are integrated out for pictures, if the algorithm allows it.
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
        chains=ChainStore(data.rows.n_rows, problem.n_features) if carried else None,
        **({"dropout": dropout} if dropout else {}),
    )
    # Processor time: a cell has one thread, and loses nothing to whatever else the machine does.
    followed = follow(
        training, measure, seconds=settings["seconds"], n_points=N_POINTS, clock=time.process_time
    )
    posterior = followed.last.posterior
    result = all_rounded(scored(posterior))
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


def main(given: list[str] | None = None) -> int:
    parser = parser_of_cells(__doc__, problems=list(PROBLEMS), seeds=SEEDS, seconds=20.0)
    arguments = parser.parse_args(given)
    records, failed = run_stored_cells(
        "ablation", cells, run, RESULTS, arguments, problems=list(PROBLEMS), seeds=SEEDS
    )
    if records:
        plot(records, FIGURE)
        print(markdown(records))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
