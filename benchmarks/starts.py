"""Where should the global posterior start? `python -m benchmarks.starts`, which takes some minutes.

Prints tables of the held-out error, for several shares of the variance that the start takes for noise and
several numbers of features that a row uses at the start. The defaults of `bpfa.inference.starts` come from
here.
"""

from __future__ import annotations

import numpy as np
from rich.console import Console

from benchmarks.command import screen_table
from benchmarks.problems import picture_patches
from bpfa import ArrayRows, Schedule, algorithm, draw_data, held_out_score
from bpfa._support.philox import Stream
from bpfa.data import ShuffledEpochs
from bpfa.inference.starts import random_posterior
from bpfa.inference.svi import svi

STARTS = [(share, features) for share in (0.1, 0.3, 1.0, 3.0) for features in (1.0, 10.0)]
ALGORITHMS = ("gibbs-ssvi", "mimno-svi", "mf-ssvi", "mf-svi", "titsias-ssvi")
# The errors are averages over these seeds.
SEEDS = (0, 1)


def data_sets() -> dict[str, tuple[np.ndarray, np.ndarray, int, int, int]]:
    """Return name -> (data, hidden, features, batch size, steps)."""
    rng = np.random.default_rng(0)
    drawn = draw_data(2000, 20, 8, g_o=100.0, g_w=1.0, seed=0).y
    patches = picture_patches(40_000)
    return {
        "drawn from the model, 10 % hidden": (drawn, rng.random(drawn.shape) < 0.1, 20, 256, 300),
        "patches of a picture, 80 % hidden": (patches, rng.random(patches.shape) < 0.8, 256, 2048, 200),
    }


def main() -> None:
    """Run the grid."""
    console = Console(width=120)
    for name, (data, hidden, K, batch_size, n_steps) in data_sets().items():
        title = f"{name}: mean squared error of hidden entries x 1000"
        table = screen_table(title, ("noise share", "features a row", *ALGORITHMS))
        rows = ArrayRows(data, hidden)
        for share, features in STARTS:
            errors = []
            for algorithm_name in ALGORITHMS:
                chosen = algorithm(algorithm_name)
                mse = []
                for seed in SEEDS:
                    start = random_posterior(rows, K, seed=seed, noise_share=share, features_per_row=features)
                    *_, last = svi(
                        rows,
                        start,
                        chosen,
                        visits=ShuffledEpochs(batch_size, Stream.from_seed(seed)),
                        n_steps=n_steps,
                        schedule=Schedule(),
                        stream=Stream.from_seed(seed),
                    )
                    few = slice(0, 4000)
                    score = held_out_score(last.posterior, data[few], hidden[few], chosen, n_draws=10, seed=0)
                    mse.append(1000 * score.mse)
                errors.append(f"{np.mean(mse):.2f}")
            table.add_row(f"{share:g}", f"{features:g}", *errors)
        console.print(table)


if __name__ == "__main__":
    main()
