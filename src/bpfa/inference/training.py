"""The way in: train any of the algorithms on a matrix by name."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Any

from bpfa._support.checks import check_choice, check_instance, check_integer
from bpfa._support.philox import Stream
from bpfa.backends.numpy import Gibbs
from bpfa.backends.registry import as_rows, check_device
from bpfa.data import Rows, ShuffledEpochs, Visits
from bpfa.inference.algorithms import ALGORITHMS, Algorithm
from bpfa.inference.algorithms import algorithm as algorithm_named
from bpfa.inference.chain_store import CarriedGibbs, ChainStore
from bpfa.inference.progress import Progress
from bpfa.inference.sampler import ChainPosterior, gibbs_sampler
from bpfa.inference.schedule import Schedule
from bpfa.inference.starts import (
    common_posterior,
    data_posterior,
    gibbs_posterior,
    principal_posterior,
    random_posterior,
)
from bpfa.inference.svi import svi
from bpfa.model.features import FEATURES
from bpfa.model.posterior import WEIGHT_PRECISIONS, GlobalPosterior, Posterior
from bpfa.model.priors import Priors, as_priors

__all__ = ["train"]

INITIALISERS: dict[str, Callable[..., GlobalPosterior]] = {
    "random": random_posterior,
    "data": data_posterior,
    "principal": principal_posterior,
    "common": common_posterior,
    "gibbs": gibbs_posterior,
}


def train(
    data: Any,
    n_features: int,
    *,
    missing: Any = None,
    algorithm: str = "gibbs-ssvi",
    features: str = "factorised",
    weight_precision: str = "all",
    priors: Priors | None = None,
    n_steps: int | None = 500,
    batch_size: int = 256,
    schedule: Schedule | None = None,
    init: str = "random",
    seed: int | Stream | None = None,
    device: str = "cpu",
    posterior: Posterior | None = None,
    first_step: int = 1,
    chains: ChainStore | None = None,
    visits: Visits | None = None,
    **options: Any,
) -> Generator[Progress, None, None]:
    """Train a model and yield its progress after every step; the last posterior is the result.

    Columns should have mean near 0 and a common scale near 1: the model has no intercept and one noise level.

    Parameters
    ----------
    data : array-like, shape (rows, columns), or Rows
        NaN is missing.
    n_features : int
        K, the largest number of features; those the data does not need stay unused.
    missing : boolean array-like, optional
        True where an entry is missing, beside those that are NaN.
    algorithm : str
        "mf-svi", "mf-ssvi", "titsias-svi", "titsias-ssvi", "mimno-svi", "gibbs-ssvi" or "gibbs".
    features : str
        "factorised": q(phi) independent over the features, as in the paper; "joint": one Gaussian over all
        features of a column, which learns in fewer steps. An algorithm that sees expectations can have joint
        features only where no entry is missing.
    weight_precision : str
        What the weight precision is learned from: "all" weights, as in the paper, or the "active" ones, the
        others integrated out; not for the mean-field kinds, which have no idle weights.
    priors : Priors, optional
    n_steps : int or None
        Steps, or sweeps over all rows for "gibbs"; None for ever, until the caller stops.
    batch_size : int
        Rows of a step; "gibbs" always takes all.
    schedule : Schedule, optional
        Step sizes.
    init : str
        "random", "data" (from rows of the data), "principal" (components), "common" (the components that
        stand out, and draws from the prior) or "gibbs" (a Gibbs run on a subset).
    seed : int or Stream, optional
        The same seed gives the same result.
    device : str
        "cpu" for the compiled kernels, "cuda" (or "cuda:1") for a GPU, where data that fits and the posterior
        stay, "auto" for a GPU where there is one, "numpy" for the specification they are tested against.
    posterior : GlobalPosterior or ChainPosterior, optional
        Where an earlier run with the same arguments stood, instead of a start of its own.
    first_step : int
        Number of the first step. A run that goes on from the posterior of step t starts at t + 1, and repeats
        what an uninterrupted run would have done, bit for bit.
    chains : ChainStore, optional
        Where the chains of all rows stand, for "gibbs-ssvi" and "mimno-svi" on the CPU: a row's chain then
        goes on where its last visit left it. A run that goes on from an earlier one needs the store of it.
    visits : Visits, optional
        Which rows each step visits, for all algorithms except "gibbs"; shuffled epochs of batches of
        `batch_size` by default.
    **options
        Of the local method: `burn_in`, `n_samples` and `blocked` for the Gibbs kinds, `n_sweeps` for others;
        `dropout` for "gibbs-ssvi", the share of a row's entries that its chain does not see while features
        learn from all of them, which keeps long runs from fitting single entries;
        `dtype` ("float32" or "float64"), and `n_jobs` (threads) on the CPU.

    Yields
    ------
    Progress

    Examples
    --------
    >>> import bpfa
    >>> data = bpfa.draw_data(500, 10, 3, g_o=100.0, g_w=1.0, seed=0)
    >>> for progress in bpfa.train(data.y, n_features=6, n_steps=30, seed=0):
    ...     pass
    >>> progress.step, progress.posterior.n_features
    (30, 6)
    """
    rows = as_rows(data, missing)
    n_features = check_integer("n_features", n_features, low=1)
    device = check_device(device)
    chosen = algorithm_named(algorithm, device=device, **options)
    priors = as_priors(priors)
    schedule = Schedule() if schedule is None else schedule
    check_instance("schedule", schedule, Schedule)
    n_steps = None if n_steps is None else check_integer("n_steps", n_steps, low=1)
    first_step = check_integer("first_step", first_step, low=1)
    if posterior is not None:
        posterior = posterior.host()
        check_instance("posterior", posterior, ChainPosterior if algorithm == "gibbs" else GlobalPosterior)
    batch_size = check_integer("batch_size", batch_size, low=1)
    if (
        check_choice("weight_precision", weight_precision, WEIGHT_PRECISIONS) == "active"
        and ALGORITHMS[algorithm].method == "MeanField"
    ):
        raise ValueError(
            f"weight_precision='active': {algorithm!r} has no idle weights; expected weight_precision='all'"
        )
    form: dict[str, Any] = {
        "features": check_choice("features", features, tuple(FEATURES)),
        "weight_precision": weight_precision,
    }
    if chains is not None:
        chosen = chosen._replace(local=_carrying_chains(chosen, chains, rows, n_features))
    initialiser = INITIALISERS[check_choice("init", init, tuple(INITIALISERS))]
    if init == "gibbs":
        threads = {name: options[name] for name in ("n_jobs", "dtype") if name in options}
        sampler = algorithm_named("gibbs", device=device, **threads).local
        assert isinstance(sampler, Gibbs)
        initialiser = partial(gibbs_posterior, local=sampler)
    stream = seed if isinstance(seed, Stream) else Stream.from_seed(seed)

    # A generator of its own, so that bad arguments raise at the call and not at the first step.
    def steps() -> Generator[Progress, None, None]:
        start = posterior or initialiser(rows, n_features, priors, seed=stream, **form)
        shared: dict[str, Any] = {"n_steps": n_steps, "stream": stream, "first_step": first_step}
        if algorithm == "gibbs":
            assert isinstance(chosen.local, Gibbs)
            chain = start if isinstance(start, ChainPosterior) else None
            view = start.sampled(stream.child("start").generator(0))
            yield from gibbs_sampler(rows, view, priors, local=chosen.local, chain=chain, **form, **shared)
        else:
            assert isinstance(start, GlobalPosterior)
            order = ShuffledEpochs(batch_size, stream) if visits is None else visits
            # A part of a stream stands for all of it: sums are scaled to the size of the whole.
            start = replace(start, n_rows=order.n_rows(rows))
            yield from svi(rows, start, chosen, visits=order, schedule=schedule, **shared)

    return steps()


def _carrying_chains(chosen: Algorithm, chains: ChainStore, rows: Rows, n_features: int) -> Any:
    """Return the local method of an algorithm with chains that go on."""
    check_instance("chains", chains, ChainStore)
    if chosen.name not in ("gibbs-ssvi", "mimno-svi") or not chosen.backend.carries_chains:
        raise ValueError(f"chains: expected 'gibbs-ssvi' or 'mimno-svi' on the CPU, not {chosen.name!r}")
    if (chains.n_rows, chains.n_features) != (rows.n_rows, n_features):
        raise ValueError(
            f"chains: of {chains.n_rows} rows and {chains.n_features} features; "
            f"expected {rows.n_rows} and {n_features}"
        )
    assert isinstance(chosen.local, Gibbs)
    if chosen.local.dropout:
        # What a step drops, the step before it has seen.
        raise ValueError(f"dropout={chosen.local.dropout}: expected 0 where chains go on")
    return CarriedGibbs(chosen.local, chains)
