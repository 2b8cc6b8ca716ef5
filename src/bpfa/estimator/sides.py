"""Which side of a table is sparse: whether every row or every column uses a few features of many.

For tables with more columns than rows this is decided by a trial, unless the user says it. Both models are
fitted to a part of the table, and the one that predicts hidden entries better is taken.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import ArrayRows, ShuffledEpochs, StandardisedRows, sample_ids
from bpfa.data.remote import RemoteRows, origin_of
from bpfa.data.transposed import MOST_ENTRIES
from bpfa.estimator.findings import Findings, unscaled
from bpfa.estimator.parameters import SPARSE
from bpfa.estimator.planning import completed_settings, first_settings, plan_fit
from bpfa.estimator.resuming import Resumed
from bpfa.estimator.transposed_plan import plan_transposed_fit
from bpfa.fitting.limits import Limits
from bpfa.fitting.plan import Plan, Standing
from bpfa.fitting.run import run
from bpfa.inference.progress import NonFiniteError
from bpfa.prediction.predictions import predict
from bpfa.selection import defaults
from bpfa.selection.component_count import component_count
from bpfa.selection.start_choice import Start

__all__ = ["PLANS", "chosen_side"]

Planner = Callable[[Findings, Resumed | None], Plan]

PLANS: dict[str, Planner] = {"rows": plan_fit, "columns": plan_transposed_fit}
"""The function that plans a fit, by the side of the table that is sparse."""

# With fewer rows the outcome of a trial is a matter of chance.
FEWEST_ROWS = 20
# The part of a table that a trial sees has about this many entries, and at least so many rows if there are
# that many; otherwise it is of the same shape as the table, on which the outcome depends. The last number is
# the share of its entries that is hidden.
MOST_TRIED, FEWEST_TRIED_ROWS, HIDDEN_SHARE = 150_000, 50, 0.1
# Its factors are counted anew if it has less than this share of the entries of the table.
LARGE_SHARE = 0.5
# The steps of each fit of a trial, and the draws that predict.
N_STEPS, N_DRAWS = 10, 5


def chosen_side(found: Findings, resumed: Resumed | None) -> str:
    """Return the side of a table that is sparse, "rows" or "columns".

    Parameters
    ----------
    found : Findings
        What is found out about the table before the fit.
    resumed : Resumed or None
        A saved fit that is to be continued, whose choice is kept.
    """
    parameters, rows = found.parameters, found.seen.visible.rows
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
    may_be_columns = (
        rows.n_columns > rows.n_rows >= FEWEST_ROWS and rows.n_rows * rows.n_columns <= MOST_ENTRIES
    )
    elsewhere = isinstance(origin_of(rows), RemoteRows)
    if not may_be_columns or elsewhere or parameters.algorithm == "gibbs":
        return "rows"
    part = _part(found)
    scores = {side: _score(side, part, found) for side in SPARSE}
    # The rows if the scores are equal.
    best = max(scores, key=lambda side: scores[side])
    logging.getLogger("bpfa").info(
        "sparse='auto': %s (log-likelihood of hidden entries: rows %.4f, columns %.4f)",
        best,
        scores["rows"],
        scores["columns"],
    )
    return best


class _Part(NamedTuple):
    """The part of a table that a trial sees, with every column in its unit, and what is known about it."""

    values: Array
    observed: NDArray[np.bool_]
    """The entries that a fit sees."""
    hidden: NDArray[np.bool_]
    """The entries that it is judged by."""
    row_noise: Array
    """The noise of every row relative to the other rows."""
    n_factors: int
    """The number of common factors."""


def _score(side: str, part: _Part, found: Findings) -> float:
    """Return how well a short fit to a part of a table predicts the hidden entries of this part.

    The score is their mean log-likelihood, with every column in its unit.
    """
    values, observed, hidden, unit = (
        part.values,
        part.observed,
        part.hidden,
        np.ones((1, part.values.shape[1])),
    )
    start = found.start_of_rows
    if side == "columns":
        # The rows of this model are the columns of the table, and its columns are the rows.
        values, observed, hidden, unit = values.T, observed.T, hidden.T, part.row_noise[None, :]
        start = found.start_of_columns
    if start.init != "common":
        start = Start(part.n_factors, start.init)
    plan = _trial_plan(ArrayRows(values / unit, ~observed), start, found)
    try:
        posterior = run(plan).posterior
    except NonFiniteError:
        return -np.inf
    settings = plan.settings
    batch = plan.rows.take(np.arange(plan.rows.n_rows))
    predicted = predict(
        posterior,
        batch,
        settings.make_algorithm(found.n_jobs),
        n_draws=N_DRAWS,
        stream=settings.stream,
    )
    error, std = (values - predicted.mean * unit)[hidden], (predicted.std * unit)[hidden]
    return float((-np.log(2 * np.pi * std**2) / 2 - error**2 / (2 * std**2)).mean())


def _trial_plan(rows: ArrayRows, start: Start, found: Findings) -> Plan:
    """Return the plan of a short fit, with a seed of its own, so that only the data decides."""
    most = found.parameters.max_steps
    trial = replace(
        found.parameters,
        random_state=0,
        batch_size=None,
        held_out=0.0,
        patience=None,
        revise=False,
    )
    settings = first_settings(trial, rows.n_rows, rows.n_columns)
    settings = completed_settings(settings, trial, start, rows.n_rows, rows.n_columns)
    return Plan(
        rows=rows,
        visits=ShuffledEpochs(settings.batch_size, settings.stream),
        settings=settings,
        limits=Limits(N_STEPS if most is None else min(N_STEPS, most), None, None),
        scale=unscaled(rows.n_columns),
        held_out=None,
        standing=Standing(),
        n_jobs=found.n_jobs,
    )


def _part(found: Findings) -> _Part:
    """Return the part of the table that both models are fitted to."""
    stream = Stream.from_seed(0).child("sides")
    table, scale = found.seen.visible.rows, found.scale
    rows = StandardisedRows(table, scale.mean, scale.unit)
    share = min(1.0, (MOST_TRIED / (rows.n_rows * rows.n_columns)) ** 0.5)
    n_rows = min(rows.n_rows, max(FEWEST_TRIED_ROWS, int(share * rows.n_rows)))
    n_columns = min(rows.n_columns, MOST_TRIED // n_rows)
    ids = sample_ids(rows, n_rows, stream.generator(0))
    whole = rows.take(ids)
    rng = stream.generator(1)
    chosen = np.sort(rng.permutation(rows.n_columns)[:n_columns])
    values, observed = whole.values[:, chosen], whole.observed[:, chosen]
    hidden = (rng.random(observed.shape) < HIDDEN_SHARE) & observed
    seen, n_factors = observed & ~hidden, found.n_factors
    is_small = n_rows * n_columns < LARGE_SHARE * rows.n_rows * rows.n_columns
    if is_small and found.parameters.n_components is None:
        # A small part of a table does not show as many factors as the whole of it.
        largest = min(n_factors, defaults.most_components(n_rows, n_columns))
        n_factors = component_count(ArrayRows(values, ~seen), largest, stream.child("count"))
    return _Part(values, seen, hidden, found.scale_of_rows.noise_ratio[ids], n_factors)
