"""Whether rows use only some of the features, decided by a trial before the fit (docs/math.md section 12).

From principal components, which nearly all rows use, a fit needs few steps, and for many tables the result is
the best. But if rows use only some of the features, such a fit does not find them, because the components mix
them. Therefore short fits from sparse starts are made on a sample of the rows, and the predictions of hidden
entries are compared with those of factor analysis, which predicts as well as the components do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bpfa._support.checks import Array
from bpfa.data import ArrayRows, Batch, Rows, sample_ids
from bpfa.inference.algorithms import algorithm
from bpfa.inference.panel_factors import factor_analysis
from bpfa.inference.progress import NonFiniteError
from bpfa.inference.schedule import Schedule
from bpfa.inference.settings import Settings
from bpfa.inference.training import train
from bpfa.prediction.predictions import predict

__all__ = ["StartTrial", "clearly_smaller"]

# The size of the sample, and the share of its entries that is hidden. From too few rows, features that each
# occur in few of them cannot be learned.
MAX_ROWS, HIDDEN_SHARE = 8192, 0.1
# The most iterations of the factor analysis.
MAX_ITERATIONS = 30
# A short fit: its number of steps, the rows of a step, and the draws that predict. Its steps are larger than
# those of a normal fit, because there are so few of them.
N_STEPS, BATCH_SIZE, N_DRAWS = 50, 256, 5
# Many features need more steps. While it is open whether they will predict better than others, the number of
# steps is doubled, up to this number: a fifth of the rows that the shortest such fit visits.
MAX_STEPS = 400
SCHEDULE = Schedule(1.0, 0.5)
# Errors are clearly smaller than others if the difference is at least this many standard errors.
STANDARD_ERRORS = 3.0


class StartTrial:
    """A sample of the rows with some entries hidden, to compare predictions after different starts.

    Parameters
    ----------
    rows : Rows
        With columns of mean 0 and a common scale near 1.
    n_factors : int
        Number of common factors of the factor analysis.
    settings : Settings
        Those of the fit that is planned. The trial always runs on the CPU, so that the choice does not depend
        on the device.
    n_jobs : int, optional
        Number of threads.

    Attributes
    ----------
    dense : array, shape (n_rows, n_columns)
        Squared errors of the hidden entries as predicted by factor analysis; 0 for all other entries.

    Examples
    --------
    >>> from bpfa import BPFA, draw_data
    >>> X = draw_data(1000, 20, 8, g_o=100.0, g_w=1.0, seed=1).y
    >>> model = BPFA(max_steps=1, random_state=0).fit(X)
    >>> len(model.components_), model.settings_.init
    (8, 'rotated')
    """

    def __init__(self, rows: Rows, n_factors: int, settings: Settings, n_jobs: int | None = None) -> None:
        self._stream = settings.stream.child("sparse start")
        batch = rows.take(sample_ids(rows, MAX_ROWS, self._stream.generator(0)))
        chosen = self._stream.child("hidden").generator(0).random(batch.observed.shape) < HIDDEN_SHARE
        self._hidden, self._truth = chosen & batch.observed, batch.values
        observed = batch.observed & ~chosen
        analysis = factor_analysis(batch.values, observed)
        analysis.fit(n_factors, MAX_ITERATIONS)
        self._unit = np.ones(rows.n_columns)
        if settings.noise == "columns":
            self._unit = np.sqrt(analysis.noise / analysis.noise.mean())
        self._seen = Batch((batch.values / self._unit).astype(np.float32), observed)
        self._settings, self._n_jobs = settings, n_jobs
        self.dense = self._squared_errors(analysis.filled)

    def errors(self, init: str, n_features: int, dropout: float = 0.0) -> Array:
        """Return the squared errors of the hidden entries after a short fit, as in `dense`.

        They are infinite if the fit fails.

        Parameters
        ----------
        init : str
            Where the features start.
        n_features : int
        dropout : float
            Share of a row's entries that its chain does not see, as in the fit that is planned.
        """
        try:
            *_, (_, errors) = self._errors_at([N_STEPS], init, n_features, dropout)
        except NonFiniteError:
            return np.where(self._hidden, np.inf, 0.0)
        return errors

    def errors_against(
        self, others: Array, least_gain: float, init: str, n_features: int, dropout: float = 0.0
    ) -> Array:
        """Return the squared errors of the hidden entries after a fit that goes on while its merit is open.

        The fit ends as soon as its errors are clearly smaller than others, or if they would not become small
        enough even if each further doubling of its steps lowered them by as much as the last one.

        Parameters
        ----------
        others : array, shape (n_rows, n_columns)
            Squared errors to compare with.
        least_gain : float
            By how much they must be lowered, as a share.
        init, n_features, dropout
            As in `errors`.
        """
        steps = [N_STEPS // 2, N_STEPS]
        while steps[-1] < MAX_STEPS:
            steps.append(2 * steps[-1])
        small_enough, before = (1 - least_gain) * others.sum(), np.inf
        errors = np.where(self._hidden, np.inf, 0.0)
        try:
            for step, errors in self._errors_at(steps, init, n_features, dropout):
                total, n_doublings = errors.sum(), len(steps) - 1 - steps.index(step)
                hopeless = total - n_doublings * (before - total) > small_enough
                if step >= N_STEPS and (hopeless or clearly_smaller(errors, others, least_gain)):
                    break
                before = total
        except NonFiniteError:
            return np.where(self._hidden, np.inf, 0.0)
        return errors

    def _squared_errors(self, predicted: Array) -> Array:
        errors: Array = np.where(self._hidden, self._truth - predicted, 0.0) ** 2
        return errors

    def _errors_at(
        self, steps: Sequence[int], init: str, n_features: int, dropout: float
    ) -> Iterator[tuple[int, Array]]:
        """Make a short fit, and yield some of its steps with the squared errors after them."""
        settings = self._settings
        chosen = algorithm(settings.algorithm, n_jobs=self._n_jobs, **settings.options)
        for progress in train(
            ArrayRows(self._seen.values, ~self._seen.observed),
            n_features,
            algorithm=settings.algorithm,
            features="joint",
            weight_precision=settings.weight_precision,
            priors=settings.priors,
            n_steps=steps[-1],
            batch_size=BATCH_SIZE,
            schedule=SCHEDULE,
            init=init,
            seed=self._stream,
            n_jobs=self._n_jobs,
            **settings.options | {"dropout": dropout},
        ):
            if progress.step in steps:
                found = predict(progress.posterior, self._seen, chosen, n_draws=N_DRAWS, stream=self._stream)
                yield progress.step, self._squared_errors(found.mean * self._unit)


def clearly_smaller(errors: Array, others: Array, least_gain: float) -> bool:
    """Return whether squared errors are smaller than others by a share, and by more than chance explains.

    Parameters
    ----------
    errors, others : array, shape (n_rows, n_columns)
    least_gain : float
        The least difference, as a share of the other errors.

    Examples
    --------
    >>> others = np.random.default_rng(0).random((100, 5))
    >>> clearly_smaller(0.9 * others, others, 0.05), clearly_smaller(0.97 * others, others, 0.05)
    (True, False)
    """
    # The errors of the entries of a row are dependent; those of different rows are not.
    gain = (others - errors).sum(axis=1)
    if not np.isfinite(gain).all():
        return False
    standard_error = gain.std() / np.sqrt(len(gain))
    return bool(gain.mean() > max(least_gain * others.sum() / len(gain), STANDARD_ERRORS * standard_error))
