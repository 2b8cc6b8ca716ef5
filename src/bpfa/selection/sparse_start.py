"""Whether each row of a table uses a few of many features, decided by a trial before the fit.

From principal components, which nearly all rows use, a fit needs few steps, and for most tables the result is
the best. But if each row uses a few of many features, such a fit does not find them, because the components
mix them. Therefore a short fit from the sparse start is made on a sample of the rows. If it predicts hidden
entries clearly better than factor analysis, which predicts as well as the components, the sparse start is
taken (docs/math.md section 12).
"""

from __future__ import annotations

import numpy as np

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import ArrayRows, Batch, Rows, sample_ids
from bpfa.inference.algorithms import algorithm
from bpfa.inference.factor_analysis import FactorAnalysis
from bpfa.inference.progress import NonFiniteError
from bpfa.inference.schedule import Schedule
from bpfa.inference.settings import Settings
from bpfa.inference.training import train
from bpfa.model.posterior import GlobalPosterior
from bpfa.prediction.predictions import predict

__all__ = ["sparse_is_better"]

# The size of the sample, and the share of its entries that is hidden.
MAX_ROWS, HIDDEN_SHARE = 2048, 0.1
# The most iterations of the factor analysis.
MAX_ITERATIONS = 30
# The short fit: its number of steps, the rows of a step, and the draws that predict. Its steps are larger
# than those of a normal fit, because there are so few of them.
N_STEPS, BATCH_SIZE, N_DRAWS = 50, 256, 5
SCHEDULE = Schedule(1.0, 0.5)
# The sparse start is clearly better if it lowers the squared error by at least this share, and by at least
# this many standard errors of the difference.
LEAST_GAIN, STANDARD_ERRORS = 0.05, 3.0


def sparse_is_better(
    rows: Rows,
    n_factors: int,
    n_features: int,
    settings: Settings,
    *,
    dropout: float,
    n_jobs: int | None = None,
) -> bool:
    """Return whether the sparse start predicts hidden entries clearly better than factor analysis.

    Parameters
    ----------
    rows : Rows
        With columns of mean 0 and a common scale near 1.
    n_factors : int
        Number of common factors of the factor analysis.
    n_features : int
        Number of features of the short fit.
    settings : Settings
        Those of the fit that is planned. The trial always runs on the CPU, so that the choice does not depend
        on the device.
    dropout : float
        Share of a row's entries that its chain does not see in the short fit, as in the fit that is planned.
    n_jobs : int, optional
        Number of threads.

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
    hidden = (
        stream.child("hidden").generator(0).random(batch.observed.shape) < HIDDEN_SHARE
    ) & batch.observed
    observed = batch.observed & ~hidden
    analysis = FactorAnalysis(batch.values, observed)
    analysis.fit(n_factors, MAX_ITERATIONS)
    unit = np.ones(rows.n_columns)
    if settings.noise == "columns":
        unit = np.sqrt(analysis.noise / analysis.noise.mean())
    seen = Batch((batch.values / unit).astype(np.float32), observed)
    try:
        posterior = _short_fit(seen, n_features, settings, stream, dropout, n_jobs)
    except NonFiniteError:
        return False
    chosen = algorithm(settings.algorithm, n_jobs=n_jobs, **settings.options)
    found = predict(posterior, seen, chosen, n_draws=N_DRAWS, stream=stream)
    dense, sparse = (
        np.where(hidden, batch.values - predicted, 0.0) ** 2
        for predicted in (analysis.filled, found.mean * unit)
    )
    return _clearly_smaller(sparse, dense)


def _clearly_smaller(errors: Array, others: Array) -> bool:
    """Return whether squared errors, rows x columns, are clearly smaller than the others."""
    # The errors of the entries of a row are dependent; those of different rows are not.
    gain = (others - errors).sum(axis=1)
    standard_error = gain.std() / np.sqrt(len(gain))
    return bool(gain.mean() > max(LEAST_GAIN * others.sum() / len(gain), STANDARD_ERRORS * standard_error))


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
