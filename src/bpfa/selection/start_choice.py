"""How many features a fit has and where they start, if the data is to decide."""

from __future__ import annotations

import logging
from typing import NamedTuple

from bpfa.data import Rows
from bpfa.inference.settings import Settings
from bpfa.selection import defaults
from bpfa.selection.component_count import component_count
from bpfa.selection.sparse_start import sparse_is_better

__all__ = ["Start", "choose_start"]


class Start(NamedTuple):
    """How many features a fit has, and where they start."""

    n_features: int
    init: str


def choose_start(
    rows: Rows,
    settings: Settings,
    largest: int,
    *,
    sparse_dropout: float | None = None,
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
        The largest number of common factors to consider. With very many columns it is taken as it is.
    sparse_dropout : float, optional
        If given, a trial decides whether each row uses a few of many features; the chains of the trial do not
        see this share of a row's entries. Otherwise all features start as `settings` says.
    n_jobs : int, optional
        Number of threads.
    """
    if rows.n_columns > defaults.FEW_COLUMNS:
        return Start(largest, settings.init)
    n_factors = component_count(rows, largest, settings.stream.child("count"))
    n_sparse = defaults.sparse_components(n_factors, rows.n_rows, rows.n_columns)
    if not n_sparse or sparse_dropout is None:
        return Start(n_factors, settings.init)
    if not sparse_is_better(rows, n_factors, n_sparse, settings, dropout=sparse_dropout, n_jobs=n_jobs):
        return Start(n_factors, settings.init)
    logging.getLogger("bpfa").info("init='auto': %d features, each of which few rows use", n_sparse)
    return Start(n_sparse, "common")
