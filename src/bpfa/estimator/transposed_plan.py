"""The plan of a fit in which every column uses a few features: a fit to the transposed table.

The plan has the columns of the table as its rows. Its outcome is turned into the outcome of a model of the
table itself, so that nothing after the fit has to know about it (docs/math.md section 18).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bpfa.data import ArrayRows, Rows, ShuffledEpochs, StandardisedRows, sample_ids
from bpfa.data.scaling import Scale
from bpfa.data.transposed import transposed
from bpfa.estimator.parameters import Parameters
from bpfa.estimator.planning import Seen, chosen_start, completed_settings, fit_limits, with_column_noise
from bpfa.estimator.resuming import Resumed
from bpfa.fitting.plan import SCORED_ROWS, HeldOut, Plan, Standing
from bpfa.fitting.run import Outcome
from bpfa.inference.settings import Settings
from bpfa.model.posterior import GlobalPosterior
from bpfa.prediction.loadings import column_loadings, model_of_rows
from bpfa.selection import defaults
from bpfa.selection.column_noise import column_noise

__all__ = ["plan_transposed_fit"]


def plan_transposed_fit(
    seen: Seen, parameters: Parameters, resumed: Resumed | None, n_jobs: int | None
) -> Plan:
    """Return the plan of a fit to a whole data set in which every column uses a few features.

    The parameters are those of `planning.plan_fit`.
    """
    visible, scale, sketch, spared = seen.visible
    n_rows, n_columns = visible.n_rows, visible.n_columns
    batch_size = parameters.batch_size or defaults.default_batch_size(n_columns)
    settings = replace(seen.settings, sparse="columns", batch_size=batch_size)
    if resumed is not None:
        start = resumed.start(parameters, settings)
        settings = completed_settings(settings, parameters, start, n_columns, n_rows)
        settings = resumed.checked_settings(settings, scale, n_rows, seen.digest)
        if parameters.patience is not None:
            # Only the converted form of the best model is in the file, and its score could not be beaten in
            # the same units.
            raise ValueError(
                f"resume: patience={parameters.patience} with sparse='columns'; expected patience=None"
            )
        scale, standing = resumed.scale, replace(resumed.standing(), best=None)
    else:
        scale = _with_noise_of_columns(visible, scale, parameters, settings, n_jobs)
        standing = Standing()
    columns = _transposed(visible, scale)
    unscaled = _unscaled(n_rows)
    if resumed is None:
        start = chosen_start(columns, unscaled, parameters, settings, n_columns, n_jobs, try_sparse=True)
        settings = completed_settings(settings, parameters, start, n_columns, n_rows)
    row_scale = with_column_noise(columns, unscaled, settings)
    rows = StandardisedRows(columns, row_scale.mean, row_scale.unit)
    return Plan(
        rows=rows,
        visits=ShuffledEpochs(settings.batch_size, settings.stream),
        settings=settings,
        limits=fit_limits(parameters, settings, n_columns, n_rows),
        scale=row_scale,
        held_out=_held_out_sample(rows, seen.table.rows, scale, settings),
        standing=standing,
        column_names=seen.table.names,
        data_digest=seen.digest,
        sketch=sketch,
        spared=spared,
        n_jobs=n_jobs,
        converted=_conversion(rows, scale, n_jobs),
        batches=seen.batches,
    )


def _unscaled(n_columns: int) -> Scale:
    """Return the scale of a table that is left as it is."""
    ones = np.ones(n_columns)
    return Scale(np.zeros(n_columns), ones, ones)


def _transposed(rows: Rows, scale: Scale) -> ArrayRows:
    """Return the transposed table, with every column of the table in its unit."""
    return transposed(StandardisedRows(rows, scale.mean, scale.unit))


def _with_noise_of_columns(
    visible: Rows, scale: Scale, parameters: Parameters, settings: Settings, n_jobs: int | None
) -> Scale:
    """Return the scale with the noise of every column of the table, if columns have levels of their own.

    In the transposed table it is a scale of every row, which the model itself does not have.
    """
    if settings.noise != "columns":
        return scale
    columns, shape = _transposed(visible, scale), (visible.n_columns, visible.n_rows)
    start = chosen_start(
        columns, _unscaled(shape[1]), parameters, settings, shape[0], n_jobs, try_sparse=False
    )
    standardised = StandardisedRows(visible, scale.mean, scale.scale)
    ratio = column_noise(standardised, start.n_features, settings.stream.child("column noise"))
    return scale._replace(noise_ratio=ratio)


def _held_out_sample(rows: StandardisedRows, table: Rows, scale: Scale, settings: Settings) -> HeldOut | None:
    """Return a sample of columns of the table whose held-out entries are to be scored during the fit."""
    if not settings.held_out or settings.diagnostic:
        return None
    ids = sample_ids(rows, SCORED_ROWS, settings.stream.child("held out").generator(0))
    batch, whole = rows.take(ids), rows.mapped(_transposed(table, scale).take(ids))
    mask = whole.observed & ~batch.observed
    if not mask.any():
        raise ValueError(
            f"held_out={settings.held_out}: no entry of {table.n_rows} x {table.n_columns} is held out; "
            "expected a larger share, or 0"
        )
    return HeldOut(batch, whole.values, mask)


def _conversion(rows: StandardisedRows, scale: Scale, n_jobs: int | None) -> Callable[[Outcome], Outcome]:
    """Return the function that turns the outcome of the transposed model into that of a model of the table.

    Parameters
    ----------
    rows : StandardisedRows
        The transposed table in the units of the transposed model.
    scale : Scale
        The units of the columns of the table.
    n_jobs : int or None
    """

    def converted(outcome: Outcome) -> Outcome:
        posterior, settings = outcome.posterior, outcome.settings
        assert isinstance(posterior, GlobalPosterior)
        algorithm = settings.make_algorithm(n_jobs)
        form = defaults.default_features(algorithm.view, posterior.n_features, rows.n_rows)
        loadings = column_loadings(
            posterior,
            rows,
            rows.scale,
            algorithm,
            settings.stream.child("loadings"),
            joint=form == "joint" and algorithm.draws_z_given_globals,
        )
        return replace(
            outcome,
            scale=scale,
            posterior=model_of_rows(loadings, posterior),
            # Training continues with the transposed model.
            last=posterior if outcome.last is None else outcome.last,
            n_rows_seen=rows.n_columns,
            loading_probabilities=loadings.probability,
        )

    return converted
