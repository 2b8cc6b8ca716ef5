"""The plan of a fit in which every column uses a few features: a fit to the transposed table.

The plan has the columns of the table as its rows. Its outcome is turned into the outcome of a model of the
table itself, so that nothing after the fit has to know about it (docs/math.md section 18).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bpfa.data import ArrayRows, Rows, ShuffledEpochs, StandardisedRows, sample_ids
from bpfa.data.scaling import Scale
from bpfa.data.transposed import transposed
from bpfa.estimator.findings import Findings, unscaled
from bpfa.estimator.planning import completed_settings, fit_limits, with_column_noise
from bpfa.estimator.resuming import Resumed
from bpfa.fitting.plan import SCORED_ROWS, HeldOut, Plan, Standing
from bpfa.fitting.run import Outcome
from bpfa.inference.settings import Settings
from bpfa.model.posterior import GlobalPosterior
from bpfa.prediction.loadings import column_loadings, model_of_rows, new_entry_noise
from bpfa.selection import defaults

__all__ = ["plan_transposed_fit"]


def plan_transposed_fit(found: Findings, resumed: Resumed | None) -> Plan:
    """Return the plan of a fit to a whole data set in which every column uses a few features.

    The parameters are those of `planning.plan_fit`.
    """
    seen, parameters, settings = found.seen, found.parameters, found.settings_of_columns
    visible, scale, sketch, spared = seen.visible
    n_rows, n_columns = visible.n_rows, visible.n_columns
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
        columns = _transposed(visible, scale)
        row_scale = with_column_noise(columns, unscaled(n_rows), settings)
    else:
        settings = completed_settings(settings, parameters, found.start_of_columns, n_columns, n_rows)
        scale, standing = found.scale, Standing()
        columns, row_scale = found.columns, found.scale_of_rows
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
        n_jobs=found.n_jobs,
        converted=_conversion(rows, scale, found.n_jobs),
        batches=seen.batches,
    )


def _transposed(rows: Rows, scale: Scale) -> ArrayRows:
    """Return the transposed table, with every column of the table in its unit."""
    return transposed(StandardisedRows(rows, scale.mean, scale.unit))


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
        noise = new_entry_noise(loadings, by_column=settings.noise == "columns")
        return replace(
            outcome,
            scale=scale,
            posterior=model_of_rows(loadings, posterior, noise),
            # Training continues with the transposed model.
            last=posterior if outcome.last is None else outcome.last,
            n_rows_seen=rows.n_columns,
            loading_probabilities=loadings.probability,
        )

    return converted
