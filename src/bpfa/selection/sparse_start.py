"""Whether a table wants many features that few rows have, before the fit.

From principal components, which nearly all rows use, a fit needs few steps, and on most tables it ends best.
But where each row has a few of many features, it does not find them: the components mix them. So a short fit
from the other start is made on some rows, and hidden entries tell whether it is clearly better than factor
analysis, which predicts as the components do.
"""

from __future__ import annotations

import numpy as np

from bpfa._support.philox import Stream
from bpfa.data import ArrayRows, Batch, Rows, sample_ids
from bpfa.inference.algorithms import algorithm
from bpfa.inference.factor_analysis import Factoring
from bpfa.inference.progress import NonFiniteError
from bpfa.inference.schedule import Schedule
from bpfa.inference.settings import Settings
from bpfa.inference.training import train
from bpfa.model.posterior import GlobalPosterior
from bpfa.prediction.predictions import predict

__all__ = ["sparse_is_better"]

# Rows that are looked at, and the share of their entries that is hidden.
MAX_ROWS, HIDDEN = 2048, 0.1
# Turns of the factor analysis at most.
MAX_TURNS = 30
# Of the short fit: steps, larger than those of a fit as they have no time to settle, rows of each, and draws.
N_STEPS, SCHEDULE, BATCH_SIZE, N_DRAWS = 50, Schedule(1.0, 0.5), 256, 5
# Clearly better: by this share of the squared error, and by so many standard errors of the difference.
MARGIN, STANDARD_ERRORS = 0.05, 3.0


def sparse_is_better(
    rows: Rows,
    n_factors: int,
    n_features: int,
    settings: Settings,
    *,
    dropout: float,
    n_jobs: int | None = None,
) -> bool:
    """Return whether features that few rows have predict hidden entries better than common factors.

    Parameters
    ----------
    rows : Rows
        With columns of mean 0 and a common scale near 1.
    n_factors : int
        Common factors of the factor analysis.
    n_features : int
        Features of the short fit.
    settings : Settings
        Of the fit that is to come. The trial runs on the CPU, whatever the device, so that the choice is the
        same on all of them.
    dropout : float
        Share of the entries that chains of the short fit do not see, as those of the fit will not.
    n_jobs : int, optional
        Threads.

    Examples
    --------
    >>> from bpfa import BPFA, draw_data
    >>> X = draw_data(1000, 20, 40, g_o=100.0, g_w=1.0, seed=0).y
    >>> model = BPFA(max_steps=1, random_state=0).fit(X)
    >>> len(model.components_), model.settings_.init
    (39, 'common')
    """
    stream = settings.stream.child("sparse start")
    batch = rows.take(sample_ids(rows, MAX_ROWS, stream.generator(0)))
    hidden = (stream.child("hidden").generator(0).random(batch.observed.shape) < HIDDEN) & batch.observed
    observed = batch.observed & ~hidden
    factoring = Factoring(batch.values, observed)
    factoring.settle(n_factors, MAX_TURNS)
    unit = np.ones(rows.n_columns)
    if settings.noise == "columns":
        unit = np.sqrt(factoring.noise / factoring.noise.mean())
    seen = Batch((batch.values / unit).astype(np.float32), observed)
    try:
        posterior = _short_fit(seen, n_features, settings, stream, dropout, n_jobs)
    except NonFiniteError:
        return False
    chosen = algorithm(settings.algorithm, n_jobs=n_jobs, **settings.options)
    found = predict(posterior, seen, chosen, n_draws=N_DRAWS, stream=stream)
    dense, sparse = (
        np.where(hidden, batch.values - predicted, 0.0) ** 2
        for predicted in (factoring.filled, found.mean * unit)
    )
    # Entries of a row err together, so that it is the rows that are many.
    gain = (dense - sparse).sum(axis=1)
    standard_error = gain.std() / np.sqrt(len(gain))
    return bool(gain.mean() > max(MARGIN * dense.sum() / len(gain), STANDARD_ERRORS * standard_error))


def _short_fit(
    seen: Batch, n_features: int, settings: Settings, stream: Stream, dropout: float, n_jobs: int | None
) -> GlobalPosterior:
    """Return the posterior after a few steps from the sparse start."""
    for progress in train(
        ArrayRows(seen.values, ~seen.observed),
        n_features,
        algorithm=settings.algorithm,
        features="joint",
        weight_precision=settings.weight_precision,
        priors=settings.priors,
        n_steps=N_STEPS,
        batch_size=BATCH_SIZE,
        schedule=SCHEDULE,
        init="common",
        seed=stream,
        n_jobs=n_jobs,
        **settings.options | {"dropout": dropout},
    ):
        posterior = progress.posterior
    assert isinstance(posterior, GlobalPosterior)
    return posterior
