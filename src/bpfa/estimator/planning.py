"""From checked parameters and a data set to the plan of a run: its settings, units, start and limits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bpfa._support.philox import Stream
from bpfa.backends.registry import check_device
from bpfa.data import Rows, RowSource, ShuffledEpochs, SinglePass, StandardisedRows
from bpfa.data.batches import BatchedRows, BatchEffects
from bpfa.data.scaling import Scale
from bpfa.data.sketch import EntrySketch
from bpfa.estimator.inputs import Table
from bpfa.estimator.parameters import Parameters
from bpfa.estimator.remote import chunks_elsewhere, with_devices
from bpfa.estimator.resuming import Resumed
from bpfa.estimator.visible import (
    Visible,
    column_scale,
    held_out_rows,
    sketch_after,
    visible_rows,
    with_default_share,
)
from bpfa.fitting.data_digest import data_digest, digest_sample
from bpfa.fitting.limits import Limits
from bpfa.fitting.plan import Plan, Standing, held_out_sample
from bpfa.fitting.run import Outcome
from bpfa.inference.algorithms import ALGORITHMS
from bpfa.inference.settings import Settings
from bpfa.inference.starts import principal_alone
from bpfa.model.priors import as_priors
from bpfa.selection import defaults
from bpfa.selection.batch_effects import batch_effects
from bpfa.selection.column_noise import column_noise
from bpfa.selection.preferences import sparser_priors
from bpfa.selection.start_choice import Start, choose_start

if TYPE_CHECKING:
    from bpfa.estimator.findings import Findings

__all__ = [
    "Seen",
    "chosen_start",
    "column_scale",
    "completed_settings",
    "first_settings",
    "fit_limits",
    "look_at",
    "plan_first_part",
    "plan_fit",
    "plan_next_part",
    "with_column_noise",
]


def first_settings(parameters: Parameters, n_rows: int, n_columns: int, n_chunks: int = 1) -> Settings:
    """Return the settings that do not depend on the number of features; that number is still 0.

    Parameters
    ----------
    parameters : Parameters
        Checked parameters.
    n_rows, n_columns : int
        Shape of the whole data set.
    n_chunks : int
        Into how many chunks it is divided, if it is on other machines.
    """
    method = ALGORITHMS[parameters.algorithm].method
    weight_precision = parameters.weight_precision
    if weight_precision == "auto":
        weight_precision = "all" if method == "MeanField" else "active"
    return Settings(
        n_features=0,
        algorithm=parameters.algorithm,
        features=parameters.features,
        weight_precision=weight_precision,
        priors=as_priors(parameters.priors),
        batch_size=parameters.batch_size or defaults.default_batch_size(n_rows, n_chunks),
        step_delay=parameters.step_delay,
        step_decay=parameters.step_decay,
        init=parameters.preference.init if parameters.open_start else parameters.init,
        noise="columns" if parameters.noise == "auto" else parameters.noise,
        held_out=parameters.scored_share,
        options=_local_options(parameters, method),
        device=check_device(parameters.device),
        key=parameters.key(),
        prefer=parameters.prefer,
    )


def _local_options(parameters: Parameters, method: str) -> dict[str, Any]:
    """Return the options of the local method."""
    dropout = parameters.dropout or 0.0
    if method == "Gibbs":
        return {"burn_in": parameters.burn_in, "n_samples": parameters.n_samples, "dropout": dropout}
    # `algorithm` raises an error if there is dropout and the method does not support it.
    return {"n_sweeps": parameters.n_sweeps, **({"dropout": dropout} if dropout else {})}


def completed_settings(
    settings: Settings, parameters: Parameters, start: Start, n_rows: int, n_columns: int, n_chunks: int = 1
) -> Settings:
    """Return the settings with the number of features, and with everything that depends on it."""
    features = parameters.features
    if features == "auto":
        view = ALGORITHMS[settings.algorithm].view
        features = defaults.default_features(view, start.n_features, n_columns, n_chunks)
    options = settings.options
    if parameters.dropout is None and settings.algorithm == "gibbs-ssvi":
        sparse = _sparse_by_choice_of_data(parameters, start.init)
        dropout = defaults.SPARSE_DROPOUT if sparse else parameters.preference.dropout
        options = options | {"dropout": dropout}
    priors = settings.priors
    if parameters.preference.rows_without_features:
        rows_without_features = parameters.preference.rows_without_features
        priors = sparser_priors(priors, rows_without_features, n_rows, start.n_features)
    most = 0
    if parameters.revise:
        by_shape = defaults.most_components(n_rows, n_columns)
        most = by_shape if parameters.n_components is None else start.n_features
    return replace(
        settings,
        **start._asdict(),
        features=features,
        most_features=most,
        options=options,
        priors=priors,
    )


def _sparse_by_choice_of_data(parameters: Parameters, init: str) -> bool:
    """Return whether the sparse start was chosen because of the data, not by the user."""
    return init == "common" and parameters.open_start


def _start_is_open(parameters: Parameters) -> bool:
    """Return whether a trial is to decide if rows use only some of the features."""
    # The benefit of the sparse start has been measured for fits of this kind only.
    measured_kind = parameters.algorithm == "gibbs-ssvi" and parameters.features != "factorised"
    open_to_data = parameters.n_components is None and parameters.open_start
    return open_to_data and measured_kind and not (parameters.revise or parameters.preference.reads)


def fit_limits(parameters: Parameters, settings: Settings, n_rows: int, n_columns: int) -> Limits:
    """Return the limits of a fit. If the user sets none, the number of steps depends on the start."""
    max_steps, max_time = parameters.max_steps, parameters.max_time
    batch_size = n_rows if settings.algorithm == "gibbs" else settings.batch_size
    if parameters.max_epochs is not None:
        steps = max(1, round(parameters.max_epochs * -(-n_rows // batch_size)))
        max_steps = steps if max_steps is None else min(steps, max_steps)
    if max_steps is None and max_time is None:
        max_steps = _default_steps(parameters, settings, n_rows, n_columns)
    return Limits(max_steps, max_time, parameters.patience)


def _default_steps(parameters: Parameters, settings: Settings, n_rows: int, n_columns: int) -> int:
    if settings.algorithm == "gibbs":
        return defaults.SWEEPS
    components = settings.init in ("principal", "rotated", "varimax")
    principal = components and principal_alone(settings.n_features, n_columns)
    fewest = defaults.OTHER_STEPS
    if principal and not settings.most_features:
        fewest = defaults.PRINCIPAL_STEPS
        if settings.init == "varimax":
            fewest = defaults.READABLE_STEPS
        if settings.sparse == "columns":
            rotated = settings.init != "principal"
            fewest = defaults.column_steps(n_rows, settings.batch_size, rotated=rotated)
    elif _sparse_by_choice_of_data(parameters, settings.init):
        fewest = defaults.SPARSE_STEPS
    return defaults.default_steps(n_rows, settings.batch_size, fewest)


class Seen(NamedTuple):
    """What a fit to a whole data set sees of it, and the settings that do not depend on the features."""

    table: Table
    settings: Settings
    digest: str
    visible: Visible
    batches: BatchEffects | None = None


def look_at(table: Table, parameters: Parameters, resumed: Resumed | None) -> Seen:
    """Decide what is held out from a fit, and find the means and scales of the columns of the rest.

    Parameters
    ----------
    table : Table
    parameters : Parameters
        Checked parameters.
    resumed : Resumed or None
        A saved fit that is to be continued.
    """
    sample = digest_sample(table.rows)
    settings = first_settings(
        parameters, table.rows.n_rows, table.rows.n_columns, chunks_elsewhere(table.rows)
    )
    settings = with_devices(table.rows, settings, parameters.device)
    if resumed is not None and parameters.random_state is None:
        settings = replace(settings, key=resumed.outcome.settings.key)
    if parameters.held_out == "auto":
        settings = with_default_share(settings, table.rows, sample)
    batches = None
    if table.batches is not None:
        # Entries that are held out do not help to find the effects of batches either.
        shown = held_out_rows(table.rows, settings) or table.rows
        batches = batch_effects(shown, *table.batches, settings.stream.child("batches"))
        table = table._replace(rows=BatchedRows(table.rows, batches, table.batches[1]))
    visible = visible_rows(table.rows, settings, standardize=parameters.standardize)
    return Seen(table, settings, data_digest(table.rows, sample), visible, batches)


def plan_fit(found: Findings, resumed: Resumed | None) -> Plan:
    """Return the plan of a fit to a whole data set.

    Parameters
    ----------
    found : Findings
        What is found out about the data set before the fit.
    resumed : Resumed or None
        A saved fit that this one continues.
    """
    seen, parameters = found.seen, found.parameters
    visible, scale, sketch, spared = seen.visible
    settings, n_rows, n_columns = seen.settings, visible.n_rows, visible.n_columns
    n_chunks = chunks_elsewhere(visible)
    if resumed is not None:
        start = resumed.start(parameters, settings)
        settings = completed_settings(settings, parameters, start, n_rows, n_columns, n_chunks)
        settings = resumed.checked_settings(settings, scale, n_rows, seen.digest)
        scale, standing = resumed.scale, resumed.standing()
    else:
        start = found.start_of_rows
        settings = completed_settings(settings, parameters, start, n_rows, n_columns, n_chunks)
        scale, standing = found.scale_with(start.n_features), Standing()
    return Plan(
        rows=StandardisedRows(found.linked, scale.mean, scale.unit),
        visits=ShuffledEpochs(settings.batch_size, settings.stream),
        settings=settings,
        limits=fit_limits(parameters, settings, n_rows, n_columns),
        scale=scale,
        held_out=held_out_sample(StandardisedRows(visible, scale.mean, scale.unit), settings),
        standing=standing,
        column_names=seen.table.names,
        data_digest=seen.digest,
        sketch=sketch,
        spared=spared,
        n_jobs=found.n_jobs,
        batches=seen.batches,
    )


def plan_first_part(table: Table, parameters: Parameters, n_jobs: int | None) -> Plan:
    """Return the plan of a pass over the first part of a stream, which determines units and features.

    The effects of batches, if there are any, are those of this part, too.

    The sparse start is not tried, because it needs more steps than a single pass has. No entries of a stream
    are held out.
    """
    if parameters.sparse == "columns":
        raise ValueError(
            "sparse='columns': partial_fit sees only a part of the rows; expected 'rows' or 'auto', or fit"
        )
    n_rows, n_columns = table.rows.n_rows, table.rows.n_columns
    total = max(parameters.total_rows or 0, n_rows)
    settings, batches = first_settings(parameters, total, n_columns), None
    if table.batches is not None:
        batches = batch_effects(table.rows, *table.batches, settings.stream.child("batches"))
        table = table._replace(rows=BatchedRows(table.rows, batches, table.batches[1]))
    scale = column_scale(table.rows, standardize=parameters.standardize)
    start = chosen_start(table.rows, scale, parameters, settings, total, n_jobs, try_sparse=False)
    settings = completed_settings(settings, parameters, start, total, n_columns)
    scale, sketch = with_column_noise(table.rows, scale, settings), EntrySketch()
    plan = _plan_part(table, settings, scale, parameters, Standing(), 0, sketch, n_jobs)
    return replace(plan, batches=batches)


def plan_next_part(rows: RowSource, parameters: Parameters, earlier: Outcome, n_jobs: int | None) -> Plan:
    """Return the plan of a pass over a later part of a stream, with the settings and units of the first."""
    if earlier.settings.sparse == "columns":
        raise ValueError(
            "partial_fit: the model was fitted with sparse='columns'; expected one with sparse='rows'"
        )
    standing = Standing(earlier.n_steps, earlier.posterior, earlier.history)
    table, n_seen = Table(rows, earlier.column_names), earlier.n_rows_seen
    scale = earlier.scale.after_more(rows)
    plan = _plan_part(table, earlier.settings, scale, parameters, standing, n_seen, earlier.sketch, n_jobs)
    return replace(plan, batches=earlier.batches)


def _plan_part(
    table: Table,
    settings: Settings,
    scale: Scale,
    parameters: Parameters,
    standing: Standing,
    n_seen: int,
    sketch: EntrySketch | None,
    n_jobs: int | None,
) -> Plan:
    if parameters.groups is True:
        raise ValueError("groups=True: partial_fit keeps no rows; expected 'auto' or False, or fit")
    rows = table.rows
    epochs = np.asarray(0.0 if standing.history is None else standing.history["epoch"]).ravel()
    visits = SinglePass(
        settings.batch_size,
        total_rows=max(parameters.total_rows or 0, n_seen + rows.n_rows),
        first_id=n_seen,
        first_step=standing.step + 1,
        epochs_before=float(epochs[-1]),
        rows_per_epoch=parameters.total_rows or rows.n_rows,
    )
    return Plan(
        rows=StandardisedRows(rows, scale.mean, scale.unit),
        visits=visits,
        settings=settings,
        limits=Limits(None, None, None),
        scale=scale,
        held_out=None,
        standing=standing,
        column_names=table.names,
        sketch=sketch_after(sketch, rows),
        n_jobs=n_jobs,
    )


def chosen_start(
    visible: Rows,
    scale: Scale,
    parameters: Parameters,
    settings: Settings,
    n_rows: int,
    n_jobs: int | None,
    *,
    try_sparse: bool,
    try_many: bool = True,
    n_factors: int | None = None,
) -> Start:
    """Return the number of features and their start: those that the user sets, or a choice by the data.

    Parameters
    ----------
    visible : Rows
        The data without the entries that are held out.
    scale : Scale
        Mean and scale of its columns.
    parameters : Parameters
    settings : Settings
    n_rows : int
        Number of rows of the whole data set.
    n_jobs : int or None
    try_sparse : bool
        Whether sparse starts are tried, unless the user has chosen a start.
    try_many : bool
        Whether a start with more features than columns is one of them.
    n_factors : int, optional
        The number of common factors, if it is known already.
    """
    if parameters.n_components is not None:
        return Start(parameters.n_components, settings.init)
    sparse_dropout = None
    if try_sparse and _start_is_open(parameters):
        sparse_dropout = defaults.SPARSE_DROPOUT if parameters.dropout is None else parameters.dropout
    if parameters.preference.reads:
        # Fits that are to be read have the same number of features for every seed, so that their features
        # can be compared.
        settings = replace(settings, key=Stream.from_seed(0).key)
    return choose_start(
        StandardisedRows(visible, scale.mean, scale.scale),
        settings,
        defaults.most_components(n_rows, visible.n_columns),
        n_factors=n_factors,
        sparse_dropout=sparse_dropout,
        try_many=try_many,
        n_jobs=n_jobs,
    )


def with_column_noise(visible: Rows, scale: Scale, settings: Settings) -> Scale:
    """Return the scale with the noise of every column, if columns have noise levels of their own."""
    if settings.noise != "columns":
        return scale
    standardised = StandardisedRows(visible, scale.mean, scale.scale)
    ratio = column_noise(standardised, settings.n_features, settings.stream.child("column noise"))
    return scale._replace(noise_ratio=ratio)
