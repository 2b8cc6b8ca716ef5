"""After a fit: whether rows are predicted by groups of like rows, and which rows are kept for that.

Groups are judged by entries that the fit has held out. If it has held out none, they are judged by entries
that are hidden for this purpose, from a further fit with the same settings.
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from bpfa._support.philox import Stream
from bpfa.backends.registry import BACKENDS
from bpfa.data import Batch, FewHeldOutRows, Rows, StandardisedRows, sample_ids, sequential
from bpfa.data.held_out import RowsWithHeldOut
from bpfa.data.remote import are_patches
from bpfa.estimator.findings import Findings
from bpfa.estimator.inputs import Table
from bpfa.estimator.parameters import Parameters
from bpfa.estimator.planning import Seen, look_at
from bpfa.estimator.remote import chunks_elsewhere
from bpfa.estimator.sides import PLANS
from bpfa.fitting.run import Outcome, run
from bpfa.inference.progress import NonFiniteError
from bpfa.model.row_groups import KeptRows
from bpfa.model.row_kinds import RowKinds
from bpfa.prediction.groups import (
    GroupMixture,
    GroupPredictor,
    LikeRows,
    completed,
    fit_kinds,
    model_features,
    row_covariance,
)
from bpfa.prediction.missing import MissingPredictor
from bpfa.selection.group_choice import (
    KIND_PRIORS,
    HiddenDensities,
    MixtureTrial,
    candidate_groups,
    entry_densities,
)

__all__ = ["RowsNotSavedWarning", "check_groups", "warn_of_rows_not_saved", "with_like_rows"]

# The most entries that the kept rows have together; this many take 256 MiB.
MOST_KEPT_ENTRIES = 2**25
# The share of the entries that is hidden if the fit has held out none, about how many these are at most, and
# the most steps of the further fit.
HIDDEN_SHARE, MOST_HIDDEN, MOST_STEPS = 0.1, 5000, 500
# A column with fewer observed entries loses none.
FEWEST_LEFT = 30
# The fewest hidden entries by which groups can be judged, and the most rows and operations that it may take.
FEWEST_JUDGED, MOST_JUDGED_ROWS, MOST_OPERATIONS = 100, 2500, 5e10
# One in so many of these rows is judged first. Most tables without kinds of rows show it there already.
FIRST_OF = 6
# The least share of the entries of the kept rows that is missing, if these are completed a second time.
LEAST_COMPLETED = 0.02
# Draws from the posterior that complete the kept rows, and that predict hidden entries.
N_DRAWS = 8
# Rows that are completed at a time.
BLOCK_ROWS = 4096


class RowsNotSavedWarning(UserWarning):
    """A loaded model cannot predict rows by rows like them, because its file does not contain any rows."""


def warn_of_rows_not_saved() -> None:
    """Warn that a model predicts by its features alone, although groups of like rows predict better."""
    warnings.warn(
        "the model was saved without rows of its fit, among which like rows would be found, and predicts "
        "without them; save(path, with_rows=True) saves them",
        RowsNotSavedWarning,
        # The line that called `impute`.
        stacklevel=5,
    )


def check_groups(rows: Rows, parameters: Parameters) -> None:
    """Raise an error if the user demands groups and the table cannot have them."""
    problem = _problem(rows, parameters)
    if parameters.groups is True and problem is not None:
        raise ValueError(f"groups=True: {problem}, or groups='auto'")


def _problem(rows: Rows, parameters: Parameters) -> str | None:
    """Return why groups cannot be tried, and what is expected, or None if they can."""
    if are_patches(rows):
        return "patches of a picture; expected the rows of a table"
    if rows.n_columns < 2:
        return f"{rows.n_columns} columns; expected at least 2"
    if candidate_groups(_n_kept(rows, parameters), rows.n_columns) is None:
        return f"{_n_kept(rows, parameters)} rows to find like ones among; expected more"
    return None


def _n_kept(rows: Rows, parameters: Parameters) -> int:
    return min(rows.n_rows, parameters.group_rows, MOST_KEPT_ENTRIES // rows.n_columns)


def with_like_rows(outcome: Outcome, seen: Seen, parameters: Parameters, n_jobs: int | None) -> Outcome:
    """Return the outcome of a fit with groups of like rows, if they predict hidden entries better.

    Parameters
    ----------
    outcome : Outcome
    seen : Seen
        What the fit saw of its data.
    parameters : Parameters
        Checked parameters. If they demand groups, these need not be better.
    n_jobs : int or None
        Number of threads.
    """
    if parameters.groups is False or outcome.error is not None:
        return outcome
    if _problem(seen.table.rows, parameters) is not None:
        return outcome
    if parameters.groups == "auto" and chunks_elsewhere(seen.table.rows) > 1:
        logging.getLogger("bpfa").info("groups='auto': not tried on rows in several chunks; groups=True does")
        return outcome
    try:
        return _grouped(outcome, seen, parameters, n_jobs)
    except KeyboardInterrupt as interrupt:
        # The fit is complete, and is published before the exception is raised.
        return replace(outcome, error=interrupt)


class _Judged(NamedTuple):
    """What hidden entries say of groups and kinds."""

    trial: MixtureTrial
    mixture_before: GroupMixture | None
    """The mixture by which the kept rows were completed a second time, if they were."""
    kept: KeptRows
    kinds: tuple[RowKinds, ...]
    """The divisions into kinds that the mixture has."""


def _grouped(outcome: Outcome, seen: Seen, parameters: Parameters, n_jobs: int | None) -> Outcome:
    """Return the outcome with groups if they are chosen, and as it is otherwise."""
    source, judged_fit = seen.visible.rows, outcome
    if not isinstance(source, RowsWithHeldOut):
        source = _with_hidden(seen)
        further = _further_fit(outcome, source, parameters, n_jobs)
        judged = None if further is None else _judged(further, source, parameters, n_jobs)
        judged_fit = outcome if further is None else further
    else:
        judged = _judged(outcome, source, parameters, n_jobs)
    if judged is None:
        if parameters.groups is True:
            raise ValueError(
                f"groups=True: fewer than {FEWEST_JUDGED} entries to judge groups by; expected a larger "
                "table, or groups='auto'"
            )
        return outcome
    trial, mixture = judged.trial, judged.trial.mixture
    logging.getLogger("bpfa").info(
        "groups=%r: log-likelihood of hidden entries %+.4f (standard error %.4f) with %s",
        parameters.groups,
        trial.gain,
        trial.standard_error,
        "no groups" if mixture is None else mixture.in_words(),
    )
    if mixture is None or not (trial.is_better or parameters.groups is True):
        return outcome
    if judged_fit is outcome:
        return replace(outcome, like_rows=LikeRows.of(mixture, judged.kept, judged.kinds))
    kept = _kept_rows(outcome, seen.visible.rows, parameters, n_jobs)
    if judged.mixture_before is not None:
        kinds = _fitted_kinds(outcome, kept, judged.mixture_before, n_jobs)
        kept = _groups(outcome, kept, judged.mixture_before, n_jobs, kinds).completed_again()
    kinds = _fitted_kinds(outcome, kept, mixture, n_jobs)
    return replace(outcome, like_rows=LikeRows.of(mixture, kept, kinds))


def _judged(
    outcome: Outcome, source: RowsWithHeldOut, parameters: Parameters, n_jobs: int | None
) -> _Judged | None:
    """Return the comparison by hidden entries; None if there are too few of them."""
    candidates = candidate_groups(_n_kept(source, parameters), source.n_columns)
    assert candidates is not None
    kept = _kept_rows(outcome, source, parameters, n_jobs)
    kinds = _fitted_kinds(outcome, kept, candidates, n_jobs)
    judge = partial(_hidden_densities, outcome, source)
    if parameters.groups == "auto":
        few = judge(kept, candidates, kinds, n_jobs, FIRST_OF)
        if len(few.rows) >= FEWEST_JUDGED and (glance := MixtureTrial(candidates, few)).seems_no_better:
            return _Judged(glance, None, kept, ())
    hidden = judge(kept, candidates, kinds, n_jobs)
    if len(hidden.rows) < FEWEST_JUDGED:
        return None
    first = MixtureTrial(candidates, hidden)
    chosen = _chosen_kinds(candidates, kinds, first.mixture)
    found = _Judged(first, None, kept, chosen)
    if first.mixture is None or not first.is_better or not _pays_to_complete(kept, first.mixture):
        return found
    again = _groups(outcome, kept, first.mixture, n_jobs, chosen).completed_again()
    second = MixtureTrial(candidates, judge(again, candidates, kinds, n_jobs))
    if second.gain <= first.gain:
        return found
    return _Judged(second, first.mixture, again, _chosen_kinds(candidates, kinds, second.mixture))


def _pays_to_complete(kept: KeptRows, mixture: GroupMixture) -> bool:
    """Return whether the kept rows miss so many entries, and the mixture has such groups, that it pays.

    Kinds do not depend on how rows are completed, and covariances of many columns take too long.
    """
    missing = kept.variance > 0
    operations = missing.any(axis=1).sum() * len(mixture.members) * kept.values.shape[1] ** 3 / 3
    return bool(len(mixture.sizes) and missing.mean() >= LEAST_COMPLETED and operations <= MOST_OPERATIONS)


def _fitted_kinds(
    outcome: Outcome, kept: KeptRows, mixture: GroupMixture, n_jobs: int | None
) -> tuple[RowKinds, ...]:
    """Return the divisions of the kept rows into kinds that a mixture has."""
    covariance, stream = row_covariance(outcome.posterior), outcome.settings.stream.child("kinds")
    strengths = [share * covariance.shape[0] for share in KIND_PRIORS]
    found = {
        n: fit_kinds(
            kept, covariance, n, strengths, BACKENDS["cpu"].row_groups, stream.generator(n), n_jobs or 0
        )
        for n in sorted(set(mixture.kinds))
    }
    return tuple(
        found[n][int(np.argmin(np.abs(np.array(strengths) - rows)))]
        for n, rows in zip(mixture.kinds, mixture.kind_prior_rows, strict=True)
    )


def _chosen_kinds(
    candidates: GroupMixture, kinds: tuple[RowKinds, ...], mixture: GroupMixture | None
) -> tuple[RowKinds, ...]:
    """Return those of the divisions that a mixture has."""
    if mixture is None:
        return ()
    all_of_them = dict(
        zip(zip(candidates.kinds, candidates.kind_prior_rows, strict=True), kinds, strict=True)
    )
    return tuple(all_of_them[key] for key in zip(mixture.kinds, mixture.kind_prior_rows, strict=True))


def _with_hidden(seen: Seen) -> FewHeldOutRows:
    """Return the table with some entries hidden, none of them in columns with few observed entries."""
    rows, stream = seen.table.rows, seen.settings.stream.child("groups")
    n_observed = np.zeros(rows.n_columns, np.int64)
    for batch in sequential(rows):
        n_observed += batch.observed.sum(axis=0)
    share = min(HIDDEN_SHARE, MOST_HIDDEN / n_observed.sum())
    return FewHeldOutRows(rows, share, stream, spared=n_observed < FEWEST_LEFT)


def _further_fit(
    outcome: Outcome, source: FewHeldOutRows, parameters: Parameters, n_jobs: int | None
) -> Outcome | None:
    """Return a fit with the settings of the first one that does not see the hidden entries."""
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
    try:
        found = Findings(look_at(Table(source, None), alike, None), alike, n_jobs)
        judged = run(PLANS[settings.sparse](found, None))
    except NonFiniteError:
        return None
    if isinstance(judged.error, KeyboardInterrupt):
        raise judged.error
    return judged if judged.error is None else None


def _groups(
    outcome: Outcome, kept: KeptRows, mixture: GroupMixture, n_jobs: int | None, kinds: tuple[RowKinds, ...]
) -> GroupPredictor:
    # On the CPU, so that the choice does not depend on the device.
    kernels, features = BACKENDS["cpu"].row_groups, model_features(outcome.posterior)
    covariance = row_covariance(outcome.posterior)
    return GroupPredictor(mixture, kept, covariance, kernels, n_jobs or 0, kinds, features)


def _predictor(outcome: Outcome, n_jobs: int | None) -> MissingPredictor:
    algorithm = outcome.settings.make_algorithm(n_jobs)
    stream = outcome.settings.stream.child("use")
    return MissingPredictor(outcome.posterior, algorithm, n_draws=N_DRAWS, stream=stream)


def _kept_rows(outcome: Outcome, visible: Rows, parameters: Parameters, n_jobs: int | None) -> KeptRows:
    """Return a sample of the rows that a fit saw, in the units of its model and completed by it."""
    stream: Stream = outcome.settings.stream.child("kept rows")
    ids = sample_ids(visible, _n_kept(visible, parameters), stream.generator(0))
    rows = StandardisedRows(visible, outcome.scale.mean, outcome.scale.unit)
    predictor = _predictor(outcome, n_jobs)
    parts = [
        completed(rows.take(ids[start : start + BLOCK_ROWS]), predictor)
        for start in range(0, len(ids), BLOCK_ROWS)
    ]
    return KeptRows(
        np.concatenate([part.values for part in parts]), np.concatenate([part.variance for part in parts])
    )


def _hidden_densities(
    outcome: Outcome,
    source: RowsWithHeldOut,
    kept: KeptRows,
    candidates: GroupMixture,
    kinds: tuple[RowKinds, ...],
    n_jobs: int | None,
    every: int = 1,
) -> HiddenDensities:
    """Return what the model, and every group, say of entries that are hidden from them.

    Of the rows that there is time for, one in `every` is judged.
    """
    n_rows = _n_judged(source.n_columns, outcome.settings.n_features, len(kept), candidates)
    ids = source.ids_with_held_out(n_rows, outcome.settings.stream.child("judged rows").generator(0))
    ids = ids[::every]
    unseen, values, mask = source.take_held_out(ids)
    units = StandardisedRows(source, outcome.scale.mean, outcome.scale.unit)
    batch, truth = units.mapped(unseen), units.mapped(Batch(values, unseen.observed | mask, ids)).values
    mask = mask & unseen.observed.any(axis=1, keepdims=True)
    whole = _predictor(outcome, n_jobs).predict(batch)
    groups = _groups(outcome, kept, candidates, n_jobs, kinds)
    rows, columns = np.nonzero(mask)
    error, std = (truth - whole.mean)[mask], whole.std[mask]
    log_density = np.empty((1 + len(candidates), len(rows)))
    errors = np.empty_like(log_density)
    log_density[0], errors[0] = -np.log(2 * np.pi * std**2) / 2 - error**2 / (2 * std**2), error
    for part, found in groups.students(batch):
        chosen = np.flatnonzero(np.isin(rows, part))
        here = np.searchsorted(part, rows[chosen]), columns[chosen]
        log_density[1:, chosen], errors[1:, chosen] = entry_densities(
            found, truth[rows[chosen], here[1]], here
        )
    # From the units of the model to those of the standardised columns.
    return HiddenDensities(log_density, errors * outcome.scale.noise_ratio[columns], rows)


def _n_judged(n_columns: int, n_features: int, n_kept: int, candidates: GroupMixture) -> int:
    """Return how many rows there is time to judge."""
    operations = n_kept * n_columns + sum(set(candidates.kinds)) * n_columns**2
    if candidates.members:
        operations += len(candidates.members) * n_columns**3 // 3 + candidates.members[-1] * n_columns**2
    n_sizes = len(candidates.feature_members)
    operations += n_sizes * (8 * n_features**3 + 10 * n_features * n_columns) + n_features**2 * n_columns
    return int(np.clip(MOST_OPERATIONS / operations, 1, MOST_JUDGED_ROWS))
