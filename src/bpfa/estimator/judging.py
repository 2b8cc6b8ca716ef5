"""How well groups and kinds of rows predict entries that they have not seen (docs/math.md section 23).

The entries are those that a fit has held out. Where these are too few to decide, further fits do not see
entries that are hidden for this purpose, and what all fits say of their own entries is taken together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bpfa._support.philox import Stream
from bpfa.backends.registry import BACKENDS
from bpfa.data import Batch, Rows, StandardisedRows, sample_ids
from bpfa.data.held_out import RowsWithHeldOut
from bpfa.fitting.run import Outcome
from bpfa.model.row_groups import KeptRows
from bpfa.model.row_kinds import RowKinds
from bpfa.prediction.groups import (
    GroupMixture,
    GroupPredictor,
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

__all__ = ["FEWEST_JUDGED", "Fold", "Judged", "fitted_kinds", "group_predictor", "judged", "kept_rows"]

# The fewest hidden entries by which groups can be judged, and the most rows and operations that it may take.
FEWEST_JUDGED, MOST_JUDGED_ROWS, MOST_OPERATIONS = 100, 2500, 5e10
# One in so many of these rows is judged first. Most tables without kinds of rows show it there already.
# So many kinds are enough for that.
FIRST_OF, FIRST_KINDS = 6, 4
# The least share of the entries of the kept rows that is missing, if these are completed a second time.
LEAST_COMPLETED = 0.02
# Draws from the posterior that complete the kept rows, and that predict hidden entries.
N_DRAWS = 8
# Rows that are completed at a time.
BLOCK_ROWS = 4096


class Fold(NamedTuple):
    """A fit, and a table with entries that it has not seen."""

    outcome: Outcome
    source: RowsWithHeldOut


class Judged(NamedTuple):
    """What hidden entries say of groups and kinds."""

    trial: MixtureTrial
    mixture_before: GroupMixture | None
    """The mixture by which the kept rows were completed a second time, if they were."""
    kept: KeptRows
    """The rows that were kept of the first fold."""
    kinds: tuple[RowKinds, ...]
    """The divisions into kinds, of the first fold, that the mixture has."""


class _Prepared(NamedTuple):
    """A fold with its kept rows, and the divisions of them into kinds as far as they have been needed."""

    fold: Fold
    kept: KeptRows
    known: dict[int, list[RowKinds]]

    @classmethod
    def of(cls, fold: Fold, n_kept: int, n_jobs: int | None) -> _Prepared:
        return cls(fold, kept_rows(fold.outcome, fold.source, n_kept, n_jobs), {})

    def kinds(self, mixture: GroupMixture | None, n_jobs: int | None) -> tuple[RowKinds, ...]:
        """Return the divisions that a mixture has."""
        return (
            () if mixture is None else fitted_kinds(self.fold.outcome, self.kept, mixture, n_jobs, self.known)
        )

    def predictor(self, mixture: GroupMixture, n_jobs: int | None) -> GroupPredictor:
        return group_predictor(self.fold.outcome, self.kept, mixture, n_jobs, self.kinds(mixture, n_jobs))


def judged(
    first: Fold,
    more: Callable[[], Sequence[Fold]],
    n_kept: int,
    n_jobs: int | None,
    *,
    glance: bool,
) -> Judged | None:
    """Return the comparison by hidden entries; None if there are too few of them.

    Parameters
    ----------
    first : Fold
    more : callable
        Makes the other folds, which need a fit each.
    n_kept : int
        Number of rows that are kept.
    n_jobs : int or None
        Number of threads.
    glance : bool
        Whether a part of the entries of the first fold may show that groups are of no use.
    """
    candidates = candidate_groups(n_kept, first.source.n_columns)
    assert candidates is not None
    folds = [_Prepared.of(first, n_kept, n_jobs)]
    if glance:
        few_kinds = _with_few_kinds(candidates)
        few = _densities(folds, few_kinds, n_jobs, FIRST_OF)
        if len(few.rows) >= FEWEST_JUDGED and (trial := MixtureTrial(few_kinds, few)).seems_no_better:
            return Judged(trial, None, folds[0].kept, folds[0].kinds(trial.mixture, n_jobs))
    folds += [_Prepared.of(fold, n_kept, n_jobs) for fold in more()]
    hidden = _densities(folds, candidates, n_jobs)
    if len(hidden.rows) < FEWEST_JUDGED:
        return None
    trial, before = MixtureTrial(candidates, hidden), None
    if trial.mixture is not None and trial.is_better and _pays_to_complete(folds[0].kept, trial.mixture):
        again = [
            part._replace(kept=part.predictor(trial.mixture, n_jobs).completed_again()) for part in folds
        ]
        second = MixtureTrial(candidates, _densities(again, candidates, n_jobs))
        if second.gain > trial.gain:
            trial, before, folds = second, trial.mixture, again
    return Judged(trial, before, folds[0].kept, folds[0].kinds(trial.mixture, n_jobs))


def _with_few_kinds(candidates: GroupMixture) -> GroupMixture:
    """Return the candidates without divisions into many kinds, which take most of the time.

    Rows of many kinds are predicted better by fewer kinds as well, if not as well as by so many.
    """
    n_groups = len(candidates) - len(candidates.kinds)
    places = [*range(n_groups), *(n_groups + i for i, n in enumerate(candidates.kinds) if n <= FIRST_KINDS)]
    return candidates.chosen(np.array(places), np.zeros(len(places)))


def _pays_to_complete(kept: KeptRows, mixture: GroupMixture) -> bool:
    """Return whether the kept rows miss so many entries, and the mixture has such groups, that it pays.

    Kinds do not depend on how rows are completed, and covariances of many columns take too long.
    """
    missing = kept.variance > 0
    operations = missing.any(axis=1).sum() * len(mixture.members) * kept.values.shape[1] ** 3 / 3
    return bool(len(mixture.sizes) and missing.mean() >= LEAST_COMPLETED and operations <= MOST_OPERATIONS)


def fitted_kinds(
    outcome: Outcome,
    kept: KeptRows,
    mixture: GroupMixture,
    n_jobs: int | None,
    known: dict[int, list[RowKinds]] | None = None,
) -> tuple[RowKinds, ...]:
    """Return the divisions of the kept rows into kinds that a mixture has.

    Parameters
    ----------
    outcome : Outcome
    kept : KeptRows
    mixture : GroupMixture
    n_jobs : int or None
    known : dict, optional
        Divisions that have been found before, by their numbers of kinds; new ones are added.
    """
    found = {} if known is None else known
    covariance, stream = row_covariance(outcome.posterior), outcome.settings.stream.child("kinds")
    strengths, kernels = [share * covariance.shape[0] for share in KIND_PRIORS], BACKENDS["cpu"].row_groups
    for n in sorted(set(mixture.kinds) - set(found)):
        found[n] = fit_kinds(kept, covariance, n, strengths, kernels, stream.generator(n), n_jobs or 0)
    return tuple(
        found[n][int(np.argmin(np.abs(np.array(strengths) - rows)))]
        for n, rows in zip(mixture.kinds, mixture.kind_prior_rows, strict=True)
    )


def group_predictor(
    outcome: Outcome, kept: KeptRows, mixture: GroupMixture, n_jobs: int | None, kinds: tuple[RowKinds, ...]
) -> GroupPredictor:
    """Return what predicts rows by a mixture, on the CPU, so that no choice depends on the device."""
    kernels, features = BACKENDS["cpu"].row_groups, model_features(outcome.posterior)
    covariance = row_covariance(outcome.posterior)
    return GroupPredictor(mixture, kept, covariance, kernels, n_jobs or 0, kinds, features)


def _predictor(outcome: Outcome, n_jobs: int | None) -> MissingPredictor:
    algorithm = outcome.settings.make_algorithm(n_jobs)
    stream = outcome.settings.stream.child("use")
    return MissingPredictor(outcome.posterior, algorithm, n_draws=N_DRAWS, stream=stream)


def kept_rows(outcome: Outcome, visible: Rows, n_kept: int, n_jobs: int | None) -> KeptRows:
    """Return a sample of the rows that a fit saw, in the units of its model and completed by it."""
    stream: Stream = outcome.settings.stream.child("kept rows")
    ids = sample_ids(visible, n_kept, stream.generator(0))
    rows = StandardisedRows(visible, outcome.scale.mean, outcome.scale.unit)
    predictor = _predictor(outcome, n_jobs)
    parts = [
        completed(rows.take(ids[start : start + BLOCK_ROWS]), predictor)
        for start in range(0, len(ids), BLOCK_ROWS)
    ]
    return KeptRows(
        np.concatenate([part.values for part in parts]), np.concatenate([part.variance for part in parts])
    )


def _densities(
    folds: Sequence[_Prepared], candidates: GroupMixture, n_jobs: int | None, every: int = 1
) -> HiddenDensities:
    """Return what the model, and every group, say of the hidden entries of all folds.

    A row has the same number in all of them: what is hidden of it is not independent.
    """
    parts = [_hidden_densities(part, candidates, n_jobs, every) for part in folds]
    return HiddenDensities(*(np.concatenate(arrays, axis=-1) for arrays in zip(*parts, strict=True)))


def _hidden_densities(
    part: _Prepared, candidates: GroupMixture, n_jobs: int | None, every: int = 1
) -> HiddenDensities:
    """Return what the model, and every group, say of entries that are hidden from them.

    Of the rows that there is time for, one in `every` is judged.
    """
    outcome, source = part.fold
    n_rows = _n_judged(source.n_columns, outcome.settings.n_features, len(part.kept), candidates)
    ids = source.ids_with_held_out(n_rows, outcome.settings.stream.child("judged rows").generator(0))
    ids = ids[::every]
    unseen, values, mask = source.take_held_out(ids)
    units = StandardisedRows(source, outcome.scale.mean, outcome.scale.unit)
    batch, truth = units.mapped(unseen), units.mapped(Batch(values, unseen.observed | mask, ids)).values
    mask = mask & unseen.observed.any(axis=1, keepdims=True)
    whole = _predictor(outcome, n_jobs).predict(batch)
    groups = part.predictor(candidates, n_jobs)
    rows, columns = np.nonzero(mask)
    error, std = (truth - whole.mean)[mask], whole.std[mask]
    log_density = np.empty((1 + len(candidates), len(rows)))
    errors = np.empty_like(log_density)
    log_density[0], errors[0] = -np.log(2 * np.pi * std**2) / 2 - error**2 / (2 * std**2), error
    for chosen_rows, found in groups.students(batch):
        chosen = np.flatnonzero(np.isin(rows, chosen_rows))
        here = np.searchsorted(chosen_rows, rows[chosen]), columns[chosen]
        log_density[1:, chosen], errors[1:, chosen] = entry_densities(
            found, truth[rows[chosen], here[1]], here
        )
    # From the units of the model to those of the standardised columns.
    return HiddenDensities(log_density, errors * outcome.scale.noise_ratio[columns], ids[rows])


def _n_judged(n_columns: int, n_features: int, n_kept: int, candidates: GroupMixture) -> int:
    """Return how many rows there is time to judge."""
    operations = n_kept * n_columns + sum(set(candidates.kinds)) * n_columns**2
    if candidates.members:
        operations += len(candidates.members) * n_columns**3 // 3 + candidates.members[-1] * n_columns**2
    n_sizes = len(candidates.feature_members)
    operations += n_sizes * (8 * n_features**3 + 10 * n_features * n_columns) + n_features**2 * n_columns
    return int(np.clip(MOST_OPERATIONS / operations, 1, MOST_JUDGED_ROWS))
