"""`train`: run any of the algorithms, chosen by name, on a matrix."""

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
from bpfa.inference.progress import Progress, step_numbers
from bpfa.inference.rotated_start import rotated_posterior
from bpfa.inference.sampler import ChainPosterior, gibbs_sampler
from bpfa.inference.schedule import Schedule
from bpfa.inference.starts import (
    FeatureForm,
    common_posterior,
    data_posterior,
    gibbs_posterior,
    principal_posterior,
    random_posterior,
)
from bpfa.inference.svi import svi
from bpfa.inference.varimax_start import varimax_posterior
from bpfa.model.features import FEATURES
from bpfa.model.posterior import WEIGHT_PRECISIONS, GlobalPosterior, Posterior
from bpfa.model.priors import Priors, as_priors

__all__ = ["train"]

INITIALISERS: dict[str, Callable[..., GlobalPosterior]] = {
    "random": random_posterior,
    "data": data_posterior,
    "principal": principal_posterior,
    "rotated": rotated_posterior,
    "varimax": varimax_posterior,
    "common": common_posterior,
    "gibbs": gibbs_posterior,
}
"""The functions that find a start, by the value of the parameter `init`."""

FindStart = Callable[[], Any]
"""Returns where a run starts: a `GlobalPosterior`, or the `ChainPosterior` of an earlier run."""


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

    The columns of the data should have a mean near 0 and a common scale near 1, because the model has no
    intercept and a single noise level.

    Parameters
    ----------
    data : array-like, shape (rows, columns), or Rows
        NaN is missing.
    n_features : int
        K, the largest number of features; features that the data does not need stay unused.
    missing : boolean array-like, optional
        True where an entry is missing, in addition to those that are NaN.
    algorithm : str
        "mf-svi", "mf-ssvi", "titsias-svi", "titsias-ssvi", "mimno-svi", "gibbs-ssvi" or "gibbs".
    features : str
        "factorised": q(phi) is independent over the features, as in the paper; "joint": all features of a
        column share one Gaussian, which learns in fewer steps. Algorithms that see expectations ("mf-svi",
        "titsias-svi" and "mimno-svi") can use joint features only if no entry is missing.
    weight_precision : str
        Which weights the weight precision is learned from: "all" of them, as in the paper, or only the
        "active" ones, with the others integrated out. The mean-field algorithms have no idle weights, and
        need "all".
    priors : Priors, optional
        Those of the paper by default.
    n_steps : int or None
        Number of steps, or of sweeps over all rows for "gibbs"; None for a run that only the caller ends.
    batch_size : int
        Number of rows of a step; "gibbs" always uses all rows.
    schedule : Schedule, optional
        Step sizes.
    init : str
        Where the features start: "random" (drawn from the prior), "data" (rows of the data), "principal"
        (principal components), "rotated" or "varimax" (principal components, rotated so that each row uses
        few of them), "common" (the principal components that stand out, and draws from the prior for the
        rest) or "gibbs" (a run of the Gibbs sampler on a subset of the rows).
    seed : int or Stream, optional
        The same seed gives the same result.
    device : str
        "cpu" for the compiled kernels; "cuda" (or "cuda:1") for a GPU, which holds the posterior and, if it
        fits, the data; "auto" for a GPU if one can be used and else the CPU; "numpy" for the specification
        that the kernels are tested against.
    posterior : GlobalPosterior or ChainPosterior, optional
        The result of an earlier run with the same arguments, from which to continue.
    first_step : int
        Number of the first step. A run that continues from the posterior of step t starts at t + 1, and makes
        the same steps as an uninterrupted run, bit for bit.
    chains : ChainStore, optional
        Where the states of the chains of all rows are stored, for "gibbs-ssvi" and "mimno-svi" on the CPU.
        The chain of a row then continues from its last visit. A run that continues an earlier one needs the
        store of the earlier run.
    visits : Visits, optional
        Which rows each step visits, for all algorithms except "gibbs"; by default shuffled epochs of batches
        of `batch_size` rows.
    **options
        Options of the local method: `burn_in`, `n_samples` and `blocked` where it is Gibbs sampling, and
        `n_sweeps` for the other algorithms; for "gibbs-ssvi" also `dropout`, the share of a row's entries
        that are hidden from its chain while the features learn from all of them, which keeps long runs from
        fitting single entries; `dtype` ("float32" or "float64"), and `n_jobs` (threads) on the CPU.

    Yields
    ------
    Progress

    See Also
    --------
    bpfa.BPFA : The estimator, which chooses what is left open, and whose `fit` runs this loop.
    held_out_score : How well a posterior predicts entries that were held out.

    References
    ----------
    .. [1] A. Shah, D. A. Knowles and Z. Ghahramani, "An Empirical Study of Stochastic Variational Algorithms
       for the Beta Bernoulli Process", ICML (2015).

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
    chosen = algorithm_named(algorithm, device=check_device(device), **options)
    form = _checked_form(algorithm, features, weight_precision)
    priors = as_priors(priors)
    stream = seed if isinstance(seed, Stream) else Stream.from_seed(seed)
    batch_size = check_integer("batch_size", batch_size, low=1)
    schedule = Schedule() if schedule is None else schedule
    check_instance("schedule", schedule, Schedule)
    step_numbers(n_steps, first_step)  # for its checks
    if chains is not None:
        chosen = chosen._replace(local=_carrying_chains(chosen, chains, rows, n_features))
    initialiser = _initialiser(init, chosen.device, options)
    find_start: FindStart = partial(initialiser, rows, n_features, priors, seed=stream, **form)
    if posterior is not None:
        find_start = _checked_posterior(posterior, algorithm).host
    shared: dict[str, Any] = {"n_steps": n_steps, "first_step": first_step, "stream": stream}
    # The runs are generators of their own, so that bad arguments raise here and not at the first step.
    if algorithm == "gibbs":
        return _sampler_run(rows, find_start, priors, chosen, form, shared)
    visits = ShuffledEpochs(batch_size, stream) if visits is None else visits
    return _svi_run(rows, find_start, chosen, visits, schedule, shared)


def _checked_form(algorithm: str, features: str, weight_precision: str) -> FeatureForm:
    """Return the form of the posterior, after checking that the algorithm can learn it."""
    check_choice("features", features, tuple(FEATURES))
    check_choice("weight_precision", weight_precision, WEIGHT_PRECISIONS)
    if weight_precision == "active" and ALGORITHMS[algorithm].method == "MeanField":
        raise ValueError(
            f"weight_precision='active': {algorithm!r} has no idle weights; expected weight_precision='all'"
        )
    return {"features": features, "weight_precision": weight_precision}


def _checked_posterior(posterior: Posterior, algorithm: str) -> Posterior:
    """Return the posterior of an earlier run, in the memory of the host, after checking its type."""
    on_host: Posterior = posterior.host()
    check_instance("posterior", on_host, ChainPosterior if algorithm == "gibbs" else GlobalPosterior)
    return on_host


def _initialiser(init: str, device: str, options: dict[str, Any]) -> Callable[..., GlobalPosterior]:
    """Return the function that finds a start; the Gibbs sampler runs on the device of the algorithm."""
    initialiser = INITIALISERS[check_choice("init", init, tuple(INITIALISERS))]
    if init != "gibbs":
        return initialiser
    sampler_options = {name: options[name] for name in ("n_jobs", "dtype") if name in options}
    return partial(initialiser, local=algorithm_named("gibbs", device=device, **sampler_options).local)


def _svi_run(
    rows: Rows,
    find_start: FindStart,
    chosen: Algorithm,
    visits: Visits,
    schedule: Schedule,
    shared: dict[str, Any],
) -> Generator[Progress, None, None]:
    """Find a start and run stochastic variational inference."""
    # Rows that arrive in parts stand for all rows, to whose number the sums are scaled.
    start = replace(find_start(), n_rows=visits.n_rows(rows))
    yield from svi(rows, start, chosen, visits=visits, schedule=schedule, **shared)


def _sampler_run(
    rows: Rows,
    find_start: FindStart,
    priors: Priors,
    chosen: Algorithm,
    form: FeatureForm,
    shared: dict[str, Any],
) -> Generator[Progress, None, None]:
    """Find a start and run the uncollapsed Gibbs sampler."""
    assert isinstance(chosen.local, Gibbs)
    start = find_start()
    chain = start if isinstance(start, ChainPosterior) else None
    view = start.sampled(shared["stream"].child("start").generator(0))
    yield from gibbs_sampler(rows, view, priors, local=chosen.local, chain=chain, **form, **shared)


def _carrying_chains(chosen: Algorithm, chains: ChainStore, rows: Rows, n_features: int) -> Any:
    """Return the local method of an algorithm with chains that continue between visits."""
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
        # The stored state has been drawn given the entries that this step is to hide.
        raise ValueError(f"dropout={chosen.local.dropout}: expected 0 where chains continue between visits")
    return CarriedGibbs(chosen.local, chains)
