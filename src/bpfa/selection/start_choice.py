"""How many features a fit has and where they start, if the data is to decide."""

from __future__ import annotations

import logging
from typing import NamedTuple

from bpfa.data import Rows
from bpfa.inference.settings import Settings
from bpfa.selection import defaults
from bpfa.selection.component_count import component_count
from bpfa.selection.start_trial import StartTrial, clearly_smaller

__all__ = ["Start", "choose_start"]

# By how much, as a share, a sparse start must lower the squared error of hidden entries to be taken. Rotated
# components cost nothing. Many features that start at random take more steps, and longer ones; but where
# rotated components are better than others, rows are known to use only some of the features.
LEAST_GAIN_ROTATED, LEAST_GAIN_COMMON, LEAST_GAIN_OVER_ROTATED = 0.01, 0.05, 0.03


class Start(NamedTuple):
    """How many features a fit has, and where they start."""

    n_features: int
    init: str


def choose_start(
    rows: Rows,
    settings: Settings,
    largest: int,
    *,
    n_factors: int | None = None,
    sparse_dropout: float | None = None,
    try_many: bool = True,
    n_jobs: int | None = None,
) -> Start:
    """Return the number of features and the start that suit the data.

    Parameters
    ----------
    rows : Rows
        With columns of mean 0 and variance 1, without the entries that are held out.
    settings : Settings
        Those of the fit; the number of features is not used.
    largest : int
        The largest number of common factors to consider.
    n_factors : int, optional
        The number of common factors, if it is known already.
    sparse_dropout : float, optional
        If given, a trial decides whether rows use only some of the features; where these outnumber the
        columns, the chains of the trial do not see this share of a row's entries. Otherwise all features
        start as `settings` says.
    try_many : bool
        Whether the trial includes a start with more features than columns.
    n_jobs : int, optional
        Number of threads.
    """
    if n_factors is None:
        n_factors = component_count(rows, largest, settings.stream.child("count"))
    dense = Start(n_factors, settings.init)
    if sparse_dropout is None or not defaults.start_is_tried(rows.n_rows, n_factors, rows.n_columns):
        return dense
    n_many = defaults.sparse_components(rows.n_columns) if try_many else 0
    try_rotated = defaults.rotation_is_tried(n_factors, rows.n_columns)
    if not (n_many or try_rotated):
        return dense
    trial = StartTrial(rows, n_factors, settings, n_jobs)
    chosen, least = dense, trial.dense
    if try_rotated:
        errors = trial.errors("rotated", n_factors)
        if clearly_smaller(errors, least, LEAST_GAIN_ROTATED):
            chosen, least = Start(n_factors, "rotated"), errors
    if n_many:
        least_gain = LEAST_GAIN_OVER_ROTATED if chosen.init == "rotated" else LEAST_GAIN_COMMON
        errors = trial.errors_against(least, least_gain, "common", n_many, sparse_dropout)
        if clearly_smaller(errors, least, least_gain):
            chosen = Start(n_many, "common")
    if chosen != dense:
        logging.getLogger("bpfa").info("init='auto': %s, %d features", chosen.init, chosen.n_features)
    return chosen
