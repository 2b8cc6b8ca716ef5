"""Which side of a table is sparse: whether every row or every column uses a few features of many.

For tables with more columns than rows this is decided by a trial, unless the user says it. Both models are
fitted to a part of the table, and the one that predicts hidden entries better is taken.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bpfa._support.philox import Stream
from bpfa.data import ArrayRows, Batch, StandardisedRows, sample_ids
from bpfa.data.transposed import MOST_ENTRIES
from bpfa.estimator.inputs import Table
from bpfa.estimator.parameters import SPARSE, Parameters
from bpfa.estimator.planning import Seen, look_at, plan_fit
from bpfa.estimator.resuming import Resumed
from bpfa.estimator.transposed_plan import plan_transposed_fit
from bpfa.fitting.plan import Plan
from bpfa.fitting.run import run
from bpfa.inference.progress import NonFiniteError
from bpfa.prediction.predictions import predict

__all__ = ["PLANS", "chosen_side"]

Planner = Callable[[Seen, Parameters, Resumed | None, int | None], Plan]

PLANS: dict[str, Planner] = {"rows": plan_fit, "columns": plan_transposed_fit}
"""The function that plans a fit, by the side of the table that is sparse."""

# With fewer rows the outcome of a trial is a matter of chance.
FEWEST_ROWS = 20
# The part of a table that a trial sees has about this many entries, and at least so many rows if there are
# that many; otherwise it is of the same shape as the table, on which the outcome depends. The last number is
# the share of its entries that is hidden.
MOST_TRIED, FEWEST_TRIED_ROWS, HIDDEN_SHARE = 150_000, 50, 0.1
# The steps of each fit of a trial, and the draws that predict.
N_STEPS, N_DRAWS = 30, 10


def chosen_side(seen: Seen, parameters: Parameters, resumed: Resumed | None, n_jobs: int | None) -> str:
    """Return the side of a table that is sparse, "rows" or "columns".

    Parameters
    ----------
    seen : Seen
        As returned by `planning.look_at`.
    parameters : Parameters
        Checked parameters.
    resumed : Resumed or None
        A saved fit that is to be continued, whose choice is kept.
    n_jobs : int or None
        Number of threads.
    """
    if resumed is not None:
        saved = resumed.outcome.settings.sparse
        if parameters.sparse not in ("auto", saved):
            raise ValueError(
                f"resume: {resumed.path} was fitted with sparse={saved!r}, not {parameters.sparse!r}; "
                "expected the same parameters"
            )
        return saved
    if parameters.sparse != "auto":
        return parameters.sparse
    n_rows, n_columns = seen.visible.rows.n_rows, seen.visible.rows.n_columns
    may_be_columns = n_columns > n_rows >= FEWEST_ROWS and n_rows * n_columns <= MOST_ENTRIES
    if not may_be_columns or parameters.algorithm == "gibbs":
        return "rows"
    scores = {side: _score(side, seen, parameters, n_jobs) for side in SPARSE}
    # The rows if the scores are equal.
    best = max(scores, key=lambda side: scores[side])
    logging.getLogger("bpfa").info(
        "sparse='auto': %s (log-likelihood of hidden entries: rows %.4f, columns %.4f)",
        best,
        scores["rows"],
        scores["columns"],
    )
    return best


def _score(side: str, seen: Seen, parameters: Parameters, n_jobs: int | None) -> float:
    """Return how well a short fit to a part of the table predicts hidden entries of this part."""
    part, hidden = _part(seen)
    rows = ArrayRows(part.values, ~part.observed | hidden, name="X")
    trial = replace(
        parameters,
        random_state=0,
        sparse=side,
        standardize=False,
        max_steps=N_STEPS if parameters.max_steps is None else min(N_STEPS, parameters.max_steps),
        max_epochs=None,
        max_time=None,
        held_out=0.0,
        patience=None,
        revise=False,
        verbose=0,
    )
    try:
        outcome = run(PLANS[side](look_at(Table(rows, None), trial, None), trial, None, n_jobs))
    except NonFiniteError:
        return -np.inf
    unit = outcome.scale.unit
    settings = outcome.settings
    batch = StandardisedRows(rows, outcome.scale.mean, unit).take(np.arange(rows.n_rows))
    found = predict(
        outcome.posterior, batch, settings.make_algorithm(n_jobs), n_draws=N_DRAWS, stream=settings.stream
    )
    error, std = (part.values - found.mean * unit)[hidden], (found.std * unit)[hidden]
    return float((-np.log(2 * np.pi * std**2) / 2 - error**2 / (2 * std**2)).mean())


def _part(seen: Seen) -> tuple[Batch, np.ndarray[tuple[int, int], np.dtype[np.bool_]]]:
    """Return a standardised part of the table, and which of its observed entries are to be hidden."""
    stream = Stream.from_seed(0).child("sides")
    scale = seen.visible.scale
    rows = StandardisedRows(seen.visible.rows, scale.mean, scale.scale)
    share = min(1.0, (MOST_TRIED / (rows.n_rows * rows.n_columns)) ** 0.5)
    n_rows = min(rows.n_rows, max(FEWEST_TRIED_ROWS, int(share * rows.n_rows)))
    n_columns = min(rows.n_columns, MOST_TRIED // n_rows)
    whole = rows.take(sample_ids(rows, n_rows, stream.generator(0)))
    rng = stream.generator(1)
    chosen = np.sort(rng.permutation(rows.n_columns)[:n_columns])
    part = Batch(whole.values[:, chosen], whole.observed[:, chosen])
    hidden = (rng.random(part.observed.shape) < HIDDEN_SHARE) & part.observed
    return part, hidden
