"""Fits that do not see some entries, by which groups of like rows are judged (docs/math.md section 23)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bpfa._support.checks import Array
from bpfa.data import FewHeldOutRows, Rows, sequential
from bpfa.estimator.findings import Findings
from bpfa.estimator.inputs import Table
from bpfa.estimator.parameters import Parameters
from bpfa.estimator.planning import look_at
from bpfa.estimator.sides import PLANS
from bpfa.fitting.limits import Limits
from bpfa.fitting.plan import Plan, Standing
from bpfa.fitting.run import Outcome, run
from bpfa.inference.progress import NonFiniteError
from bpfa.model.features import FactorisedFeatures, JointFeatures
from bpfa.model.posterior import GlobalPosterior

__all__ = ["further_fit", "with_hidden"]

# The share of the entries that is hidden if the fit has held out none, and about how many these are at most.
HIDDEN_SHARE, MOST_HIDDEN = 0.1, 5000
# A column with fewer observed entries loses none.
FEWEST_LEFT = 30
# The steps of a fit that begins with the posterior of another one, and the most of one that does not.
STEPS_ON, MOST_STEPS = 30, 500
# With fewer rows for every feature a fit begins anew: then features show for long where they began.
ROWS_PER_FEATURE = 200


def with_hidden(rows: Rows, outcome: Outcome, number: int) -> FewHeldOutRows:
    """Return a table with some entries hidden, none of them in columns with few observed entries.

    Parameters
    ----------
    rows : Rows
        What the fit saw.
    outcome : Outcome
        The fit, on whose seed the choice of the entries depends.
    number : int
        Every number hides other entries.
    """
    n_observed = np.zeros(rows.n_columns, np.int64)
    for batch in sequential(rows):
        n_observed += batch.observed.sum(axis=0)
    share = min(HIDDEN_SHARE, MOST_HIDDEN / n_observed.sum())
    stream = outcome.settings.stream.child("groups" if number == 0 else f"groups {number}")
    return FewHeldOutRows(rows, share, stream, spared=n_observed < FEWEST_LEFT)


def further_fit(
    outcome: Outcome, source: FewHeldOutRows, parameters: Parameters, n_jobs: int | None
) -> Outcome | None:
    """Return a fit with the settings of an earlier one that does not see the hidden entries.

    Parameters
    ----------
    outcome : Outcome
        The earlier fit.
    source : FewHeldOutRows
    parameters : Parameters
        Checked parameters of the earlier fit.
    n_jobs : int or None
        Number of threads.

    Returns
    -------
    Outcome or None
        None if it fails.
    """
    plan = _plan_alike(outcome, source, parameters, n_jobs)
    many_rows = source.n_rows >= ROWS_PER_FEATURE * outcome.settings.n_features
    # The posterior of a model of the transposed table is not at hand, nor are the states of a chain.
    if many_rows and outcome.settings.sparse == "rows" and outcome.settings.algorithm != "gibbs":
        plan = _going_on(plan, outcome)
    try:
        judged = run(plan)
    except NonFiniteError:
        return None
    if isinstance(judged.error, KeyboardInterrupt):
        raise judged.error
    return judged if judged.error is None else None


def _plan_alike(outcome: Outcome, source: FewHeldOutRows, parameters: Parameters, n_jobs: int | None) -> Plan:
    """Return the plan of a fit with the settings of the earlier fit."""
    settings = outcome.settings
    alike = replace(
        parameters,
        n_components=settings.n_features,
        init=settings.init,
        features=settings.features,
        sparse=settings.sparse,
        dropout=settings.options.get("dropout") or None,
        max_steps=min(outcome.n_steps, MOST_STEPS),
        max_epochs=None,
        held_out=0.0,
        patience=None,
        revise=False,
        random_state=settings.key % 2**32,
        verbose=0,
    )
    found = Findings(look_at(Table(source, None), alike, None), alike, n_jobs)
    return PLANS[settings.sparse](found, None)


def _going_on(plan: Plan, outcome: Outcome) -> Plan:
    """Return the plan with few steps, which begin with the posterior of the earlier fit.

    In the end the posterior is the mean of what its steps say, because step t has the size 1 / t. Nothing is
    left of the earlier posterior, which has seen the hidden entries, but the point where the features began.
    """
    posterior = outcome.posterior
    assert isinstance(posterior, GlobalPosterior)
    features = _scaled(posterior.features, outcome.scale.unit / plan.scale.unit)
    return replace(
        plan,
        settings=replace(plan.settings, step_delay=0.0, step_decay=1.0),
        limits=Limits(min(STEPS_ON, outcome.n_steps), None, None),
        standing=Standing(0, replace(posterior, features=features)),
    )


def _scaled(features: FactorisedFeatures | JointFeatures, ratio: Array) -> FactorisedFeatures | JointFeatures:
    """Return the distribution of the features with every column multiplied by a number."""
    if isinstance(features, FactorisedFeatures):
        return FactorisedFeatures(features.tau / ratio**2, features.mu / ratio)
    return JointFeatures(features.P / ratio[:, None, None] ** 2, features.h / ratio)
