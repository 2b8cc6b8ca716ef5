"""Ideas that might make learning better or faster, compared with the method as it is.

`python -m benchmarks.tried` trains Gibbs-SSVI with joint features and active weights from a random start, for
some seconds on one thread, with one thing changed at a time, on the problems of benchmarks.ablation with
three seeds. The first table shows how each change affects the log-likelihood of hidden entries in the same
time. The last one shows how much of the noise of a step comes from the chains, which is the most that could
be gained by expectations in place of samples. Cells are stored as they end.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np

from benchmarks.ablation_page import spread
from benchmarks.command import parser_of_cells, run_stored_cells
from benchmarks.learning_problems import PATCH, PROBLEMS, SEEDS, Problem, load
from benchmarks.pages import SECTIONS
from bpfa import GlobalPosterior, Progress, Rows, Schedule, algorithm
from bpfa._support.philox import Stream
from bpfa.data import read_batches
from bpfa.inference.starts import random_posterior
from bpfa.model.features import FactorisedFeatures, JointFeatures
from bpfa.model.local import local_sums
from experiments.cells import Cell, Context, Record
from experiments.markdown import table
from experiments.measure import all_rounded, follow, rounded
from experiments.scores import posterior_scores

RESULTS = SECTIONS["tried"].results
AS_IS = "as it is"
VARIANCE = "noise of a step"
# For the noise of a step: the steps before it is measured, the batches, and the chains of each batch.
STEPS_BEFORE, N_BATCHES, N_CHAINS = 100, 6, 5


class Idea(NamedTuple):
    """What differs from the method as it is."""

    redraw: int = 1
    """The number of steps between draws of the features, each of which factorises their precisions."""
    counted: float = 1.0
    """The number of rows that the posterior is told, as a share of the true number."""
    batch: float = 1.0
    """The size of the first batches relative to the usual size."""
    growth: float = 1.0
    """The factor by which batches grow with every epoch, up to the usual size."""
    schedule: tuple[float, float] | None = None
    """The delay and decay of the step sizes."""
    burn_in: int = 3
    n_samples: int = 3
    rescaled: bool = False
    """Whether features are rescaled from time to time, so that the weights of all have the same variance."""


IDEAS = {
    AS_IS: Idea(),
    "features drawn at every second step": Idea(redraw=2),
    "features drawn at every fourth step": Idea(redraw=4),
    "a pixel counts once, not in every patch": Idea(counted=1 / PATCH**2),
    "batches a quarter as large": Idea(batch=1 / 4),
    "batches four times as large": Idea(batch=4.0),
    "batches that double with every epoch, from a sixteenth": Idea(batch=1 / 16, growth=2.0),
    "step sizes t^-0.75": Idea(schedule=(0.0, 0.75)),
    "step sizes (t + 20)^-0.6": Idea(schedule=(20.0, 0.6)),
    "step sizes (t + 5)^-0.5": Idea(schedule=(5.0, 0.5)),
    "no burn-in": Idea(burn_in=0),
    "burn-in of 10 sweeps": Idea(burn_in=10),
    "one kept sweep": Idea(n_samples=1),
    "features rescaled": Idea(rescaled=True),
}


def cells(problems: Sequence[str], seeds: Sequence[int], seconds: float) -> list[Cell]:
    """Return the cells of every idea on the problems it applies to, and of the noise of a step."""
    found = []
    for seed in seeds:
        for problem in problems:
            needs, shared = PROBLEMS[problem].file, {"problem": problem, "seed": seed}
            for name, idea in IDEAS.items():
                if idea.counted < 1 and PROBLEMS[problem].picture is None:
                    continue
                settings = {**shared, "idea": name, **idea._asdict(), "seconds": seconds}
                found.append(Cell(f"{problem}/{name}/{seed}", settings, 1.3 * seconds + 5, needs=needs))
            if seed == seeds[0]:
                settings = {**shared, "idea": VARIANCE}
                found.append(Cell(f"{problem}/{VARIANCE}", settings, 20.0, needs=needs))
    return found


def training(rows: Rows, problem: Problem, idea: Idea, seed: int) -> Iterator[Progress]:
    """Train with an idea, without end."""
    stream, N = Stream.from_seed(seed), rows.n_rows
    chosen = algorithm("gibbs-ssvi", n_jobs=1, burn_in=idea.burn_in, n_samples=idea.n_samples)
    posterior = random_posterior(
        rows, problem.n_features, seed=seed, features="joint", weight_precision="active"
    )
    # The step sizes that suit both forms of the features.
    schedule = Schedule(*(idea.schedule or problem.schedule["factorised"]))
    step, seconds, phi = 0, 0.0, np.empty(0)
    for epoch in count():
        share = idea.batch * idea.growth**epoch
        size = round(problem.batch_size * (min(1.0, share) if idea.growth > 1 else share))
        for batch in islice(read_batches(rows, size, stream.child(f"epoch {epoch}")), -(-N // size)):
            began, step = time.process_time(), step + 1
            fresh = (step - 1) % idea.redraw == 0
            seen = posterior if fresh else _without_features(posterior)
            view = seen.sampled(stream.child("global").globals(step))
            view = view if fresh else view._replace(phi=phi)
            phi = view.phi
            random = stream.child("local").rows(batch.ids, step)
            sums = local_sums(chosen.local, view, batch, random, joint=posterior.joint)
            said = replace(posterior, n_rows=max(1, round(idea.counted * N)))
            posterior = replace(said.step(sums, schedule(step), view.g_o), n_rows=N)
            if idea.rescaled and step.bit_count() == 1:
                posterior = rescaled(posterior)
            seconds += time.process_time() - began
            yield Progress(step, float(epoch), seconds, schedule(step), posterior)


def rescaled(posterior: GlobalPosterior) -> GlobalPosterior:
    """Return a posterior in which the weights of all features have about the same variance.

    A feature that is multiplied by s while its weights are divided by s explains the same. Only the priors
    favour one scale over another: that of the weights, which share one precision, and that of the feature.
    Steps move slowly along such directions; this goes there at once, as parameter expansion does (Liu, Rubin
    & Wu 1998; Qi & Jaakkola 2006). Features that few rows use stay nearly as they are, because of their
    prior.
    """
    assert isinstance(posterior.features, JointFeatures)
    a0, _ = posterior.priors.beta(posterior.n_features)
    D, n = posterior.n_columns, np.maximum(posterior.a - a0, 0.0)
    # The squared weights of a feature add to its precision, which is D without them; its share of all squared
    # weights is its share of what is added.
    power = np.maximum(np.diagonal(posterior.features.P, axis1=1, axis2=2).mean(axis=0) - D, 0.0)
    share = power / power.sum()
    growth = (n.sum() * share + D) / (n + D)
    root = np.sqrt(growth)
    features = JointFeatures(
        posterior.features.P / np.outer(root, root), posterior.features.h / root[:, None]
    )
    f0 = posterior.priors.f0
    return replace(posterior, features=features, f=f0 + (posterior.f - f0) * (share / growth).sum())


def _without_features(posterior: GlobalPosterior) -> GlobalPosterior:
    """Return a posterior with trivial features, from which the other variables are drawn in little time."""
    phi = np.zeros(posterior.features.shape)
    return replace(posterior, features=FactorisedFeatures.around(phi, 1.0))


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Train for the given time and score, or measure the noise of a step."""
    problem, seed = PROBLEMS[settings["problem"]], settings["seed"]
    data = load(settings["problem"], context.data, seed)
    if settings["idea"] == VARIANCE:
        return noise_of_a_step(data.rows, problem, seed)
    idea = Idea(*(settings[name] for name in Idea._fields))
    # Processor time, as in the ablation.
    steps = training(data.rows, problem, idea, seed)
    followed = follow(steps, seconds=settings["seconds"], clock=time.process_time)
    chosen, posterior = algorithm("gibbs-ssvi", n_jobs=1), followed.last.posterior
    found = posterior_scores(posterior, data.entries, chosen, problem.n_draws, seed)
    return {**all_rounded(found), **followed.timing()}


def noise_of_a_step(rows: Rows, problem: Problem, seed: int) -> dict[str, float]:
    """Return the share of the variance of a batch's sums that is due to its chains, not to its rows."""
    *_, last = islice(training(rows, problem, Idea(), seed), STEPS_BEFORE)
    posterior, rng = last.posterior, np.random.default_rng(seed)
    view, local = posterior.sampled(rng), algorithm("gibbs-ssvi", n_jobs=1).local
    size = min(problem.batch_size, rows.n_rows)
    batches = [rows.take(np.sort(rng.permutation(rows.n_rows)[:size])) for _ in range(N_BATCHES)]
    sums = [
        [local.sums(view, batch, Stream.from_seed(chain).rows(batch.ids, 1)) for chain in range(N_CHAINS)]
        for batch in batches
    ]
    shares = {}
    for name in ("n", "S"):
        values = np.array([[getattr(chain, name).ravel() for chain in batch] for batch in sums])
        of_chains = values.var(axis=1, ddof=1).mean(axis=0)
        # The variance of the means over chains is that of the batches plus what remains of the chains.
        of_batches = np.maximum(values.mean(axis=1).var(axis=0, ddof=1) - of_chains / N_CHAINS, 0.0)
        shares[name] = rounded(of_chains.sum() / (of_chains.sum() + of_batches.sum()), 3)
    return shares


def markdown(records: Sequence[Record]) -> str:
    """Return the tables of the page."""
    learned = [record for record in records if record["settings"]["idea"] != VARIANCE]
    problems = [name for name in PROBLEMS if any(r["settings"]["problem"] == name for r in learned)]
    noise = {
        record["settings"]["problem"]: record["result"]
        for record in records
        if record["settings"]["idea"] == VARIANCE
    }
    return "\n\n".join(ideas_part(learned, problems) + (noise_part(noise, problems) if noise else []))


def ideas_part(learned: Sequence[Record], problems: Sequence[str]) -> list[str]:
    """Return a heading and the table of what every idea adds."""
    values: dict[tuple[str, str], dict[int, float]] = {}
    for record in learned:
        settings = record["settings"]
        of_seeds = values.setdefault((settings["idea"], settings["problem"]), {})
        of_seeds[settings["seed"]] = record["result"]["log_likelihood"]

    def cell(idea: str, problem: str) -> str:
        found, plain = values.get((idea, problem)), values.get((AS_IS, problem))
        if found is None or plain is None:
            return ""
        if idea == AS_IS:
            return spread(list(found.values()), 3)
        # Compared for each seed, as the seeds differ by more than the ideas do.
        return difference([found[seed] - plain[seed] for seed in found if seed in plain])

    seconds = max(record["settings"]["seconds"] for record in learned)
    seeds = max(len(of_seeds) for of_seeds in values.values())
    head = (
        f"Log-likelihood per hidden entry after {seconds:g} s, and what each change adds to it (mean and "
        f"half the range over {seeds} seed{'s' * (seeds > 1)}):"
    )
    rows = [[idea, *(cell(idea, problem) for problem in problems)] for idea in IDEAS]
    return [head, table(["", *(problem.capitalize() for problem in problems)], rows)]


def noise_part(noise: dict[str, dict[str, float]], problems: Sequence[str]) -> list[str]:
    """Return a heading and the table of how much of the noise of a step is due to the chains."""
    kinds = {"n": "how often features are used", "S": "what features are learned from"}
    shares = [
        [text, *(f"{noise[problem][name]:.0%}" if problem in noise else "" for problem in problems)]
        for name, text in kinds.items()
    ]
    return [
        f"Share of the variance of a step's sums that comes from the chains, after {STEPS_BEFORE} steps:",
        table(["", *(problem.capitalize() for problem in problems)], shares),
    ]


def difference(values: Sequence[float]) -> str:
    """Return the mean with its sign and half of the range as text.

    Examples
    --------
    >>> difference([0.1, 0.3])
    '+0.200 ± 0.100'
    """
    return f"{np.mean(values):+.3f} ± {np.ptp(values) / 2:.3f}" if len(values) else ""


def main(given: list[str] | None = None) -> int:
    parser = parser_of_cells(__doc__, problems=list(PROBLEMS), seeds=SEEDS, seconds=10.0)
    arguments = parser.parse_args(given)
    records, failed = run_stored_cells(
        "tried", cells, run, RESULTS, arguments, problems=list(PROBLEMS), seeds=SEEDS
    )
    if any(record["settings"]["idea"] != VARIANCE for record in records):
        print(markdown(records))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
