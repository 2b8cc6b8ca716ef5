"""After a fit: whether rows are predicted by groups of like rows, and which rows are kept for that.

Groups are judged by entries that the fit has held out. If these are too few, entries are hidden for this
purpose, from further fits with the same settings.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from dataclasses import replace

from bpfa.data import Rows
from bpfa.data.held_out import RowsWithHeldOut
from bpfa.data.remote import are_patches
from bpfa.estimator.further_fit import further_fit, with_hidden
from bpfa.estimator.judging import (
    FEWEST_JUDGED,
    Fold,
    Judged,
    fitted_kinds,
    group_predictor,
    judged,
    kept_rows,
)
from bpfa.estimator.parameters import Parameters
from bpfa.estimator.planning import Seen
from bpfa.estimator.remote import chunks_elsewhere
from bpfa.fitting.data_digest import digest_sample
from bpfa.fitting.run import Outcome
from bpfa.prediction.groups import LikeRows
from bpfa.selection.defaults import LEAST_HELD_OUT
from bpfa.selection.group_choice import fewest_rows

__all__ = ["RowsNotSavedWarning", "check_groups", "warn_of_rows_not_saved", "with_like_rows"]

# The most entries that the kept rows have together; this many take 256 MiB.
MOST_KEPT_ENTRIES = 2**25
# The most further fits that are made where a fit has held out too few entries to judge groups by.
MOST_FITS = 5


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
        return "a single column; expected at least 2"
    n_kept, fewest = _n_kept(rows, parameters), fewest_rows(rows.n_columns)
    if n_kept < fewest:
        return f"{n_kept} rows to find like ones among; expected at least {fewest}"
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


def _grouped(outcome: Outcome, seen: Seen, parameters: Parameters, n_jobs: int | None) -> Outcome:
    """Return the outcome with groups if they are chosen, and as it is otherwise."""
    visible, n_kept = seen.visible.rows, _n_kept(seen.visible.rows, parameters)
    folds = _folds(outcome, visible, parameters, n_jobs)
    first = next(folds, None)
    found = None
    if first is not None:
        glance = parameters.groups == "auto"
        found = judged(first, lambda: tuple(folds), n_kept, n_jobs, glance=glance)
    if first is None or found is None:
        if parameters.groups is True:
            raise ValueError(
                f"groups=True: fewer than {FEWEST_JUDGED} entries to judge groups by; expected a larger "
                "table, or groups='auto'"
            )
        return outcome
    trial, mixture = found.trial, found.trial.mixture
    logging.getLogger("bpfa").info(
        "groups=%r: log-likelihood of hidden entries %+.4f (standard error %.4f) with %s",
        parameters.groups,
        trial.gain,
        trial.standard_error,
        "no groups" if mixture is None else mixture.in_words(),
    )
    if mixture is None or not (trial.is_better or parameters.groups is True):
        return outcome
    if first.outcome is outcome:
        return replace(outcome, like_rows=LikeRows.of(mixture, found.kept, found.kinds))
    return replace(outcome, like_rows=_like_rows(outcome, visible, found, n_kept, n_jobs))


def _like_rows(outcome: Outcome, visible: Rows, found: Judged, n_kept: int, n_jobs: int | None) -> LikeRows:
    """Return groups and kinds with the weights that were learned from further fits."""
    mixture, kept = found.trial.mixture, kept_rows(outcome, visible, n_kept, n_jobs)
    assert mixture is not None
    if found.mixture_before is not None:
        kinds = fitted_kinds(outcome, kept, found.mixture_before, n_jobs)
        kept = group_predictor(outcome, kept, found.mixture_before, n_jobs, kinds).completed_again()
    return LikeRows.of(mixture, kept, fitted_kinds(outcome, kept, mixture, n_jobs))


def _folds(outcome: Outcome, visible: Rows, parameters: Parameters, n_jobs: int | None) -> Iterator[Fold]:
    """Yield the fit with what it has held out, and further fits if that is not enough to decide."""
    share = float(digest_sample(visible).observed.mean())
    n_judged = 0.0
    if isinstance(visible, RowsWithHeldOut):
        held_out = outcome.settings.held_out
        n_judged = share * visible.n_rows * visible.n_columns * held_out / (1 - held_out)
        yield Fold(outcome, visible)
    for number in range(MOST_FITS):
        if n_judged >= LEAST_HELD_OUT:
            return
        source = with_hidden(visible, outcome, number)
        n_hidden = share * source.n_places
        if n_judged + (MOST_FITS - number) * n_hidden < FEWEST_JUDGED:
            return
        further = further_fit(outcome, source, parameters, n_jobs)
        if further is None:
            return
        n_judged += n_hidden
        yield Fold(further, source)
