"""Why Gibbs-SSVI drifts on the mass cytometry: the sampler, longer chains, and heavier-tailed noise."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from bpfa import ArrayRows, Priors, algorithm, train
from bpfa._support.philox import Stream
from bpfa.backends.numpy import Gibbs
from bpfa.inference.chain_store import ChainStore
from bpfa.inference.sampler import GibbsSampler
from bpfa.inference.starts import principal_posterior, random_posterior
from bpfa.model.marginals import log_predictive
from bpfa.model.posterior import GlobalPosterior
from bpfa.prediction.scores import score_rows
from experiments import Array
from experiments.cells import Cell, Context
from experiments.machine import thread_option
from experiments.measure import all_rounded, climb, rounded
from experiments.scores import HiddenEntries, spaced_scores
from paper.chains import length, with_length
from paper.experiment import Options
from paper.matrices import BATCH, FILES, N_DRAWS, learn_by_defaults, load
from paper.student import StudentSampler, log_density

LADDER = (250, 500, 1000, 2000, 4000, 8000, 16_000)
SIZES: dict[str, dict[str, Any]] = {
    "full": {
        "rows": 4000, "features": 500, "ladder": LADDER, "sweeps": 800, "heavy": 100, "scored": 2000,
        "table": {"rows": 2000, "columns": 60, "sweeps": 400, "scored": 2000},
    },
    "quick": {
        "rows": 500, "features": 100, "ladder": (50, 100), "sweeps": 50, "heavy": 20, "scored": 100,
        "table": {"rows": 500, "columns": 20, "sweeps": 20, "scored": 200},
    },
    "tiny": {
        "rows": 60, "features": 6, "ladder": (2, 4), "sweeps": 8, "heavy": 4, "scored": 30,
        "table": {"rows": 60, "columns": 6, "sweeps": 8, "scored": 30},
    },
}  # fmt: skip
TWIN = "data drawn from a model"
"""The runs on data drawn from a posterior of the model: a control without zeros and heavy tails."""
# Each run by its name: what is different from Gibbs-SSVI with batches of 250 and a burn-in of 3 sweeps, and
# the share of the ladder's steps that it makes, as its steps cost more.
STEPWISE: dict[str, dict[str, Any]] = {
    "short chains": {"part": 1 / 2},
    "chains of 25": {"burn_in": 25, "part": 1 / 8},
    "chains that go on": {"carried": True, "part": 1 / 4},
    "all rows in a step": {"whole": True, "part": 1 / 32},
    "mean field (MF-SVI)": {"method": "mf-svi", "part": 1 / 4},
    TWIN: {"twin": True, "part": 1 / 4},
}
KINDS = {"sampler": "Gaussian noise", "student": "Student's t"}
"""The samplers: their noise."""
TABLES = ("cytometry", "TCGA", "CCLE")
"""The tables of the benchmark of imputation, on which both kinds of noise and our defaults are compared."""
SAMPLER_STARTS = ("random", "good", "drifted")
GOOD_STEP = 500
"""The step of Gibbs-SSVI from which the sampler starts where it starts from a good state."""
CHECKPOINTS = 7
KEEP_EVERY = 4


def cells(options: Options) -> list[Cell]:
    size = SIZES[options.scale]
    shared = {
        "dataset": "cytometry",
        **{name: size[name] for name in ("rows", "features", "scored")},
        "seed": 0,
    }
    found = []
    runs = [("sampler", start, size["sweeps"], 0.12, {}) for start in SAMPLER_STARTS]
    runs.append(("sampler", TWIN, size["sweeps"], 0.12, {"start": "good", "twin": True}))
    runs += [("student", start, size["heavy"], 0.5, {}) for start in SAMPLER_STARTS[:2]]
    for kind, name, sweeps, seconds, more in runs:
        settings = {
            **shared, "kind": kind, "start": name, "ladder": list(size["ladder"]), "sweeps": sweeps, **more,
        }  # fmt: skip
        expected = seconds * sweeps + 0.006 * size["ladder"][-1] * (name == "drifted")
        found.append((f"{kind}/{name}", settings, expected))
    for name, form in STEPWISE.items():
        last = size["ladder"][-1] * form.get("part", 1.0)
        ladder = [step for step in size["ladder"] if step <= last] or [size["ladder"][0]]
        judged_by = length(form.get("method", "gibbs-ssvi"), "long", "matrices")
        settings = {**shared, "kind": "steps", **form, "ladder": ladder, "judged_by": judged_by}
        costs = 4.0 if "burn_in" in form else size["rows"] / BATCH if "whole" in form else 1.0
        found.append(
            (f"steps/{name}", settings, 0.006 * costs * ladder[-1] + size["rows"] / 200 * len(ladder))
        )
    tables = TABLES if options.scale != "tiny" else TABLES[:1]
    found += [
        (
            f"{kind}/table/{dataset}",
            {
                "dataset": dataset, "kind": kind, "start": "principal", "seed": 0, **size["table"],
                "features": min(FILES[dataset].components, size["features"]),
            },
            2e-6 * size["table"]["sweeps"] * size["table"]["rows"] * FILES[dataset].components,
        )
        for dataset in tables
        for kind in KINDS
    ]  # fmt: skip
    measures = {name: size["table"][name] for name in ("rows", "columns", "scored")}
    found += [
        (f"defaults/table/{dataset}", {"dataset": dataset, "kind": "defaults", "seed": 0, **measures}, 10)
        for dataset in tables
    ]
    return [
        Cell(name, settings, 2 + expected, needs=FILES[settings["dataset"]].file)
        for name, settings, expected in found
    ]


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Run one cell: stochastic steps, a sampler, or our defaults."""
    values, hidden = (matrix[:, : settings.get("columns")] for matrix in load(settings, context))
    if settings.get("twin"):
        values = twin(values, hidden, settings, context.device)
    scored = np.arange(min(settings["scored"], len(values)))
    entries = HiddenEntries.of(values, hidden, scored)
    if settings["kind"] == "steps":
        return {"ladder": by_steps(values, hidden, entries, settings, context.device)}
    if settings["kind"] == "defaults":
        return learn_by_defaults(values, hidden, entries, settings["seed"])
    return by_sampler(values, hidden, entries, settings, context.device)


def learned(values: Array, hidden: Array, settings: dict[str, Any], ladder: list[int], device: str) -> Any:
    """Yield the rungs of a run of Gibbs-SSVI, or of MF-SVI, in the form of a cell."""
    method, options = settings.get("method", "gibbs-ssvi"), {}
    if "burn_in" in settings:
        options["burn_in"] = settings["burn_in"]
    if settings.get("carried"):
        device, options["chains"] = "cpu", ChainStore(len(values), settings["features"])
    training = train(
        values, settings["features"], missing=hidden, algorithm=method, n_steps=None,
        batch_size=len(values) if settings.get("whole") else BATCH, seed=settings["seed"], device=device,
        **options, **thread_option(device),
    )  # fmt: skip
    return climb(training, ladder)


def by_steps(
    values: Array, hidden: Array, entries: HiddenEntries, settings: dict[str, Any], device: str
) -> list[dict[str, Any]]:
    """Return the noise and the score by long chains at every step of the ladder."""
    method = settings.get("method", "gibbs-ssvi")
    chosen = with_length(method, settings["judged_by"], device)
    found = []
    for rung in learned(values, hidden, settings, settings["ladder"], device):
        scores = spaced_scores(rung.posterior, entries, chosen, N_DRAWS, settings["seed"])
        if method == "gibbs-ssvi":
            stream = Stream.from_seed(settings["seed"]).child("prediction")
            integrated = score_rows(
                rung.posterior, *entries, chosen, n_draws=N_DRAWS, stream=stream, integrated=True
            )
            scores |= {"integrated": integrated.log_likelihood, "mse": integrated.mse}
        found.append(
            {
                "step": rung.step,
                "seconds": rounded(rung.seconds),
                **all_rounded(scores),
                "noise_std": rounded(rung.posterior.noise_std),
                "active": rung.posterior.n_active(),
                "concentration": concentration(rung.posterior.expected().phi, used(rung.posterior)),
            }
        )
    return found


def used(posterior: GlobalPosterior) -> Array:
    """Return the expected share of the rows that use each feature."""
    shares: Array = np.asarray(posterior.a / (posterior.a + posterior.b))
    return shares


def concentration(phi: Array, use: Array) -> float:
    """Return how much of a feature lies in its largest column: 1 for features of single columns.

    It is the mean over the features, weighted by their use.

    Examples
    --------
    >>> concentration(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([0.5, 0.5]))
    0.75
    """
    squares = phi**2
    share = squares.max(axis=1) / np.maximum(squares.sum(axis=1), 1e-300)
    return rounded(float(share @ use / use.sum()))


def twin(values: Array, hidden: Array, settings: dict[str, Any], device: str) -> Array:
    """Return data drawn from the model itself: from the posterior of these data at the good step."""
    posterior = state_at(values, hidden, settings, GOOD_STEP, device)
    view = posterior.sampled(Stream.from_seed(settings["seed"]).child("twin").generator(0))
    batch = ArrayRows(values, hidden).take(np.arange(len(values)))
    draws = Stream.from_seed(settings["seed"]).child("twin").rows(batch.ids, 1)
    x = next(iter(algorithm("gibbs-ssvi", burn_in=50, n_jobs=1).local.samples(view, batch, draws, 1)))
    rng = np.random.default_rng(settings["seed"])
    drawn: Array = x @ view.phi + rng.normal(size=values.shape) / np.sqrt(view.g_o)
    return drawn


def state_at(
    values: Array, hidden: Array, settings: dict[str, Any], step: int, device: str
) -> GlobalPosterior:
    """Return the posterior of Gibbs-SSVI with short chains after this many steps."""
    plain = {name: settings[name] for name in ("features", "seed")}
    step = min(step, settings["ladder"][-1])
    (rung,) = learned(values, hidden, plain, [step], device)
    posterior: GlobalPosterior = rung.posterior
    return posterior


def by_sampler(
    values: Array, hidden: Array, entries: HiddenEntries, settings: dict[str, Any], device: str
) -> dict[str, Any]:
    """Run the uncollapsed sampler from one start; its own states predict the hidden entries."""
    rows = ArrayRows(values, hidden)
    stream = Stream.from_seed(settings["seed"])
    if settings["start"] in ("random", "principal"):
        begin = random_posterior if settings["start"] == "random" else principal_posterior
        posterior = begin(rows, settings["features"], seed=stream)
    else:
        step = GOOD_STEP if settings["start"] == "good" else settings["ladder"][-1]
        posterior = state_at(values, hidden, settings, step, device)
    view = posterior.sampled(stream.child("start").generator(0))
    local = algorithm("gibbs", n_jobs=1).local
    assert isinstance(local, Gibbs)
    kind = StudentSampler if settings["kind"] == "student" else GibbsSampler
    sampler = kind(rows.take(np.arange(rows.n_rows)), Priors(), view, stream, local)
    marks = set(
        np.unique(
            np.geomspace(min(10, settings["sweeps"]), settings["sweeps"], CHECKPOINTS).astype(int)
        ).tolist()
    )
    kept: list[Kept] = []
    trace = []
    for sweep in range(1, settings["sweeps"] + 1):
        sampler.sweep()
        if sweep % KEEP_EVERY == 0 or sweep in marks:
            kept.append(Kept.of(sweep, sampler, entries))
        if sweep in marks:
            trace.append({"sweep": sweep, **judged(kept, entries), **state_of(sampler)})
    return {"trace": trace}


class Kept(NamedTuple):
    """What a state of a sampler predicts for the hidden entries."""

    sweep: int
    predicted: Array
    """Mean of every hidden entry, with the weights integrated out where that is done."""
    density: Array
    """Log density of the hidden entries of every row, given z and w."""
    integrated: Array | None
    """The same given z alone, with the weights integrated out; None for heavy tails."""

    @classmethod
    def of(cls, sweep: int, sampler: GibbsSampler, entries: HiddenEntries) -> Kept:
        """Keep the state of a sampler."""
        view, nu = sampler.view, getattr(sampler, "nu", None)
        x = sampler.state.x[entries.batch.ids]
        predicted = (x @ view.phi)[entries.hidden]
        by_entry = log_density(entries.truth[entries.hidden] - predicted, view.g_o, nu)
        row = np.nonzero(entries.hidden)[0]
        integrated = None
        if nu is None:
            given = view.phi, view.g_o, view.g_w, entries.batch, entries.truth, entries.hidden
            integrated, mean = log_predictive(x != 0, *given)
            predicted = mean[entries.hidden]
        return cls(sweep, predicted, np.bincount(row, by_entry, len(x)), integrated)


def state_of(sampler: GibbsSampler) -> dict[str, Any]:
    """Return what is recorded of a sampler's state."""
    use = sampler.state.z.mean(axis=0)
    found = {
        "noise_std": rounded(sampler.view.g_o**-0.5),
        "active": int((use > max(0.001, 1.5 / len(sampler.state.z))).sum()),
        "features_a_row": rounded(float(use.sum())),
        "concentration": concentration(sampler.view.phi, use),
    }
    if isinstance(sampler, StudentSampler):
        found["nu"] = sampler.nu
    return found


def judged(kept: list[Kept], entries: HiddenEntries) -> dict[str, float]:
    """Return the scores per hidden entry by the states of the second half of a chain so far."""
    later = [state for state in kept if state.sweep > kept[-1].sweep / 2]
    truth = entries.truth[entries.hidden]

    def score(densities: list[Array]) -> float:
        by_row = logsumexp(densities, axis=0) - np.log(len(densities))
        return rounded(float(by_row.sum() / truth.size))

    mean = np.mean([state.predicted for state in later], axis=0)
    found = {
        "log_likelihood": score([state.density for state in later]),
        "mse": rounded(float(((truth - mean) ** 2).mean())),
        "draws": len(later),
    }
    integrated = [state.integrated for state in later if state.integrated is not None]
    return {**found, "integrated": score(integrated)} if integrated else found
