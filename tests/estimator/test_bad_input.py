"""Bad arguments raise ValueError or TypeError that name the argument and say what is expected."""

import re
from dataclasses import replace

import numpy as np
import pytest
from builders import random_batch, random_posterior, random_view

import bpfa
from bpfa import ArrayRows, Batch, ChainPosterior, GlobalPosterior, Priors, Schedule
from bpfa._support.philox import Stream
from bpfa.backends.numpy import Gibbs, MeanField, SpikeSlab
from bpfa.data import ShuffledEpochs
from bpfa.inference import starts as initialise
from bpfa.inference.sampler import gibbs_sampler
from bpfa.inference.svi import svi
from bpfa.model.features import FactorisedFeatures, JointFeatures
from bpfa.model.local import LocalState
from bpfa.model.view import GlobalView

RNG = np.random.default_rng(0)
N, K, D = 6, 2, 3
Y = RNG.normal(size=(N, D))
BATCH, VIEW, POSTERIOR = random_batch(RNG, N, D), random_view(RNG, K, D), random_posterior(RNG, N, K, D)
STREAM, DRAWS = Stream.from_seed(0), Stream.from_seed(0).rows(np.arange(N), step=1)
START = LocalState(np.ones((N, K)), np.zeros((N, K)))
CHAIN = ChainPosterior((VIEW,), START)
SUMS = SpikeSlab().sums(VIEW, BATCH, DRAWS)
NO_ROWS = Batch(np.empty((0, D)))


def with_entry(array, value):
    array = np.array(array)
    array[-1, -1] = value
    return array


INTEGER = [0, -1, 1.5, "3", None, True, [3]]
# Where None stands for no end.
STEPS = [value for value in INTEGER if value is not None]
SEED = [-1, 2**64, 1.5, "a", True]
POSITIVE_OR_NONE = [0.0, -1.0, np.nan, np.inf, "1", True, 1j, [1.0, 2.0]]
POSITIVE = [*POSITIVE_OR_NONE, None]
POSITIVE_ARRAY = [np.zeros(K), np.full(K, np.nan), np.ones(K + 1), np.ones((K, 1)), ["a"] * K]
NOT_NUMBERS = ["text", [["a", "b"]], [[object()]], [[1j, 2.0]], [[1.0, 2.0], [3.0]], None]
VALUES = [*NOT_NUMBERS, 1.0, np.ones(3), np.ones((2, 2, 2)), np.empty((0, D)), np.empty((N, 0))]
DATA = [*VALUES, with_entry(Y, np.inf), with_entry(Y, -np.inf), np.full((N, D), np.nan)]
MASK = [
    np.zeros((N, D + 1)),
    np.zeros(D),
    np.full((N, D), np.nan),
    np.full((N, D), 2),
    "text",
    [[True], [True, False]],
]
PRIORS = [{"a": 1.0}, "paper"]
NO_CHOICE = ["gibs", "", 3, None]


def construct_view(**changed):
    return GlobalView(**changed).checked()


def fit(method):
    return lambda **arguments: method.sums(**arguments, draws=DRAWS)


def call_schedule(step):
    return Schedule()(step)


# name: (function, arguments that are right, {argument: wrong values})
CALLS = {
    "Priors": (Priors, {}, dict.fromkeys(("a", "b", "c0", "d0", "e0", "f0"), POSITIVE)),
    "Schedule": (
        Schedule,
        {},
        {"delay": [-1.0, np.nan, np.inf, "a", None], "decay": [-0.1, 1.1, np.nan, "a", None]},
    ),
    "Schedule()": (call_schedule, {"step": 1}, {"step": INTEGER}),
    "ArrayRows": (ArrayRows, {"data": Y}, {"data": DATA, "missing": [*MASK, np.ones((N, D))]}),
    "Batch": (
        Batch,
        {"values": Y, "observed": np.ones((N, D), dtype=bool)},
        {
            "values": [
                *NOT_NUMBERS,
                np.ones(3),
                np.empty((N, 0)),
                with_entry(Y, np.nan),
                with_entry(Y, np.inf),
            ],
            "observed": MASK,
            "ids": [np.arange(N - 1), np.arange(N) - 1, np.arange(N) * 0.5, np.arange(N) + 2**40, "text"],
        },
    ),
    "draw_data": (
        bpfa.draw_data,
        {"n_rows": 2, "n_columns": 2, "n_features": 2},
        {
            **dict.fromkeys(("n_rows", "n_columns", "n_features"), INTEGER),
            **dict.fromkeys(("g_o", "g_w"), POSITIVE_OR_NONE),
            "priors": PRIORS,
            "seed": SEED,
        },
    ),
    "GlobalPosterior": (
        GlobalPosterior,
        {name: getattr(POSTERIOR, name) for name in GlobalPosterior.__dataclass_fields__},
        {
            **dict.fromkeys("cdef", POSITIVE),
            **dict.fromkeys("ab", POSITIVE_ARRAY),
            "priors": [*PRIORS, None],
            "n_rows": INTEGER,
            "weight_precision": ["idle", None],
        },
    ),
    "FactorisedFeatures": (
        FactorisedFeatures,
        {"tau": np.ones((K, D)), "mu": np.ones((K, D))},
        {
            "tau": [np.zeros((K, D)), np.ones((K, D + 1)), np.ones(K), np.full((K, D), np.nan), "text"],
            "mu": [np.ones(D), np.empty((K, 0)), np.full((K, D), np.nan), np.full((K, D), np.inf), "text"],
        },
    ),
    "JointFeatures": (
        JointFeatures,
        {"P": np.ones((D, K, K)), "h": np.ones((K, D))},
        {
            "P": [np.ones((D + 1, K, K)), np.ones((K, K)), np.full((1, K, K), np.inf), "text"],
            "h": [np.ones(D), np.empty((K, 0)), np.full((K, D), np.nan), "text"],
        },
    ),
    "GlobalPosterior.step": (
        POSTERIOR.step,
        {"sums": SUMS, "rho": 0.5, "g_o": 1.0},
        {
            "sums": [
                SpikeSlab().sums(VIEW, NO_ROWS, STREAM.rows(NO_ROWS.ids, 1)),
                replace(SUMS, n=SUMS.n[1:]),
            ],
            "rho": [-0.1, 1.1, np.nan, "a"],
        },
    ),
    "GlobalView": (
        construct_view,
        VIEW._asdict(),
        {
            "phi": [np.ones(D), np.empty((0, D)), np.full((K, D), np.nan), "text"],
            "v": [np.zeros(K), np.zeros((K, D - 1)), np.full((K, 1), -1.0), np.full((K, D), np.inf)],
            "logit": [np.zeros(K + 1), np.full(K, np.inf), "text"],
            "g_o": POSITIVE,
            "g_w": POSITIVE,
        },
    ),
    "algorithm": (
        bpfa.algorithm,
        {"name": "gibbs-ssvi"},
        {"name": NO_CHOICE, "n_sweeps": [3], "nonsense": [1]},
    ),
    "Gibbs": (
        Gibbs,
        {},
        {"burn_in": [-1, 1.5, "3", 2**16], "n_samples": [0, -1, 1.5, 2**16], "blocked": ["yes", 1, None]},
    ),
    "MeanField": (MeanField, {}, {"n_sweeps": [*INTEGER, 2**16]}),
    **{
        f"{type(method).__name__}.sums": (
            fit(method),
            {"view": VIEW, "batch": BATCH},
            {
                "batch": [random_batch(RNG, N, D + 1)],
                "start": [
                    START._replace(z=np.ones((N, K + 1))),
                    START._replace(z=np.full((N, K), 1.5)),
                    START._replace(z=np.full((N, K), np.nan)),
                    START._replace(w=np.ones((N - 1, K))),
                    START._replace(w=np.full((N, K), np.inf)),
                ],
            },
        )
        for method in (Gibbs(), MeanField(), SpikeSlab())
    },
    "full_bound": (
        bpfa.full_bound,
        {"posterior": POSTERIOR, "batch": BATCH, "local": SpikeSlab(), "q": SpikeSlab().fit(VIEW, BATCH)},
        {
            "posterior": [CHAIN, None],
            "batch": [NO_ROWS, random_batch(RNG, N - 1, D), random_batch(RNG, N, D + 1), Y],
            "local": [Gibbs(), "mf-svi"],
            "q": [SpikeSlab().fit(VIEW, random_batch(RNG, N - 1, D)), None],
        },
    ),
    "posterior_draws": (
        bpfa.posterior_draws,
        {
            "posterior": POSTERIOR,
            "batch": BATCH,
            "algorithm": bpfa.algorithm("mf-svi"),
            "n_draws": 2,
            "stream": STREAM,
        },
        {
            "posterior": [CHAIN, None],
            "batch": [random_batch(RNG, N, D + 1), Y],
            "algorithm": ["mf-svi", None],
            "n_draws": [*INTEGER, 2**16],
            "stream": [0, None],
        },
    ),
    "held_out_score": (
        bpfa.held_out_score,
        {
            "posterior": POSTERIOR,
            "data": Y,
            "held_out": np.eye(N, D, dtype=bool),
            "algorithm": bpfa.algorithm("mf-svi"),
        },
        {
            "posterior": [CHAIN, None],
            "data": [*DATA, np.ones((N, D + 1))],
            "held_out": [*MASK, np.zeros((N, D), dtype=bool)],
            "algorithm": ["mf-svi", None],
            "n_draws": [*INTEGER, 2**16],
            "seed": SEED,
        },
    ),
    "psnr": (
        bpfa.psnr,
        {"truth": Y, "restored": Y + 1},
        {
            "truth": [*NOT_NUMBERS, with_entry(Y, np.nan)],
            "restored": [*NOT_NUMBERS, Y[1:], with_entry(Y, np.inf)],
            "where": [*MASK, np.zeros((N, D), dtype=bool)],
            "peak": POSITIVE,
        },
    ),
    "train": (
        bpfa.train,
        {"data": Y, "n_features": K, "n_steps": 1, "seed": 0},
        {
            "data": DATA,
            "n_features": INTEGER,
            "missing": MASK,
            "algorithm": NO_CHOICE,
            "priors": PRIORS,
            "n_steps": STEPS,
            "batch_size": INTEGER,
            "schedule": [0.5, "slow"],
            "init": NO_CHOICE,
            "seed": SEED,
            "burn_in": [-1, "3"],
            "n_sweeps": [10],
        },
    ),
    "svi": (
        svi,
        {
            "rows": ArrayRows(Y),
            "posterior": POSTERIOR,
            "algorithm": bpfa.algorithm("mf-svi"),
            "visits": ShuffledEpochs(2, STREAM),
            "n_steps": 1,
            "schedule": Schedule(),
            "stream": STREAM,
        },
        {
            "posterior": [random_posterior(RNG, N + 1, K, D), random_posterior(RNG, N, K, D + 1)],
            "n_steps": STEPS,
            "first_step": INTEGER,
        },
    ),
    "ShuffledEpochs": (ShuffledEpochs, {"batch_size": 2, "stream": STREAM}, {"batch_size": INTEGER}),
    "gibbs_sampler": (
        gibbs_sampler,
        {"rows": ArrayRows(Y), "view": VIEW, "priors": Priors(), "n_steps": 1, "stream": STREAM},
        {
            "view": [VIEW._replace(g_o=-1.0), VIEW._replace(phi=np.ones((K, D + 1)))],
            "n_steps": STEPS,
            "n_kept": INTEGER,
        },
    ),
    **{
        function.__name__: (
            function,
            {"rows": ArrayRows(Y), "n_features": K, "seed": 0},
            {"rows": [Y, None], "n_features": INTEGER, "priors": PRIORS, "seed": SEED},
        )
        for function in (initialise.random_posterior, initialise.data_posterior)
    },
    "gibbs_posterior": (
        initialise.gibbs_posterior,
        {"rows": ArrayRows(Y), "n_features": K, "seed": 0},
        {"rows": [Y, None], "n_features": INTEGER, "priors": PRIORS, "seed": SEED}
        | dict.fromkeys(("n_subset", "n_sweeps"), INTEGER),
    ),
}
# What an argument is called in messages, where a reader knows it by another name.
CALLED = {("algorithm", "name"): "algorithm", ("gibbs_sampler", "view"): "view|batch"}
CASES = [
    pytest.param(name, argument, value, id=f"{name}-{argument}-{i}")
    for name, (_, _, wrong) in CALLS.items()
    for argument, values in wrong.items()
    for i, value in enumerate(values)
]


def call(function, arguments):
    result = function(**arguments)
    if hasattr(result, "__next__"):
        list(result)


@pytest.mark.parametrize("name", CALLS)
def test_right_arguments_are_accepted(name):
    function, right, _ = CALLS[name]
    call(function, right)


@pytest.mark.parametrize(("name", "argument", "value"), CASES)
def test_wrong_argument_is_named(name, argument, value):
    function, right, _ = CALLS[name]
    called = CALLED.get((name, argument), argument)
    with pytest.raises((ValueError, TypeError)) as failure:
        call(function, {**right, argument: value})
    assert re.search(rf"\b({called})\b.*(expected|needs)", str(failure.value), re.DOTALL), str(failure.value)


def test_position_of_the_first_infinity_is_told():
    with pytest.raises(ValueError, match="row 5, column 2"):
        ArrayRows(with_entry(Y, np.inf))


def test_mask_beside_a_source_of_rows_is_refused():
    with pytest.raises(ValueError, match=r"missing.*expected None"):
        bpfa.train(ArrayRows(Y), K, missing=np.zeros((N, D)))


def test_hidden_entry_without_a_value_is_refused():
    with pytest.raises(ValueError, match="held_out: the entry at row 5, column 2 is NaN"):
        bpfa.held_out_score(POSTERIOR, with_entry(Y, np.nan), np.ones((N, D)), bpfa.algorithm("mf-svi"))


def test_bad_arguments_of_train_raise_at_the_call():
    with pytest.raises(ValueError, match="n_features"):
        bpfa.train(Y, 0)
