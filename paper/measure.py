"""How a model is followed while it learns, and how its predictions of hidden entries are scored."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from bpfa import BPFA, Algorithm, Batch, Progress, posterior_draws
from bpfa._support.philox import Stream
from bpfa.inference.progress import Posterior

Array = np.ndarray[Any, Any]
# 95 % of a Gaussian is within so many deviations.
NORMAL_95 = 1.959964


class HiddenEntries(NamedTuple):
    """Rows with entries that are hidden from the local step and scored."""

    batch: Batch
    """What the local step sees."""
    truth: Array
    hidden: Array

    @classmethod
    def of(cls, values: Array, hidden: Array, ids: Array) -> HiddenEntries:
        """Those of some rows of a complete matrix."""
        return cls(Batch(values[ids], ~hidden[ids], ids), values[ids], hidden[ids])


class Draw(NamedTuple):
    """A draw from the predictive distribution of some rows."""

    prediction: Array
    """Without noise, rows x columns."""
    g_o: float | Array
    """Noise precision, the same for all columns or one for each."""


def draws(
    posterior: Posterior, entries: HiddenEntries, algorithm: Algorithm, n_draws: int, seed: int
) -> Iterator[Draw]:
    """Predictions of the rows by draws from the posterior."""
    stream = Stream.from_seed(seed).child("prediction")
    for draw in posterior_draws(posterior, entries.batch, algorithm, n_draws=n_draws, stream=stream):
        yield Draw(draw.mean, draw.g_o)


def draws_of_model(model: BPFA, entries: HiddenEntries, n_draws: int, seed: int) -> Iterator[Draw]:
    """Predictions by a fitted BPFA that was told not to standardise.

    Its posterior is in units of its own, in which the noise of all columns is the same.
    """
    units, batch = model.noise_ratio_, entries.batch
    seen = entries._replace(batch=Batch(batch.values / units, batch.observed, batch.ids))
    for prediction, g_o in draws(model.posterior_, seen, model.settings_.chosen(1), n_draws, seed):
        yield Draw(prediction * units, g_o / units**2)


def scores(predictions: Iterable[Draw], entries: HiddenEntries) -> dict[str, float]:
    """Score the hidden entries: log-likelihood an entry, squared error, and how many 95 % intervals cover.

    Examples
    --------
    >>> truth, hidden = np.zeros((2, 3)), np.ones((2, 3), dtype=bool)
    >>> entries = HiddenEntries.of(truth, hidden, np.arange(2))
    >>> exact = scores([Draw(truth, 1.0)], entries)
    >>> exact["mse"], exact["coverage"], round(exact["log_likelihood"], 4)
    (0.0, 1.0, -0.9189)
    """
    _, truth, hidden = entries
    densities, means, noise = [], [], []
    for prediction, g_o in predictions:
        error2 = np.where(hidden, truth - prediction, 0.0) ** 2
        log_density = (np.log(g_o / (2 * np.pi)) - g_o * error2) / 2
        densities.append(np.where(hidden, log_density, 0.0).sum(axis=1))
        means.append(prediction[hidden])
        noise.append(np.broadcast_to(1 / np.asarray(g_o), truth.shape)[hidden])
    # log of the mean over draws of the density of a row's entries (docs/math.md section 6)
    log_likelihood = np.logaddexp.reduce(densities, axis=0).sum() - len(truth) * np.log(len(densities))
    error = truth[hidden] - np.mean(means, axis=0)
    std = np.sqrt(np.var(means, axis=0) + np.mean(noise, axis=0))
    return {
        "log_likelihood": float(log_likelihood / hidden.sum()),
        "mse": float((error**2).mean()),
        "coverage": float((np.abs(error) < NORMAL_95 * std).mean()),
    }


class Followed(NamedTuple):
    """A training run that has been followed to its end."""

    last: Progress
    start_seconds: float
    """What the initialisation took."""
    seconds: float
    """Seconds of training, initialisation included."""
    curve: list[list[float]]
    """Seconds, initialisation included, and what was measured then."""

    def timing(self) -> dict[str, float]:
        """What every result says of its run."""
        return {
            "steps": self.last.step,
            "training_seconds": rounded(self.seconds),
            "start_seconds": rounded(self.start_seconds),
            "step_seconds": rounded((self.seconds - self.start_seconds) / self.last.step),
            "active": self.last.posterior.n_active(),
        }


def follow(
    training: Iterator[Progress],
    measure: Callable[[Progress], float] | None = None,
    *,
    n_steps: int | None = None,
    seconds: float | None = None,
    n_points: int = 12,
    clock: Callable[[], float] = time.perf_counter,
) -> Followed:
    """Run a training to a number of steps or seconds, measuring at points that lie ever further apart.

    What the measuring takes is not counted.
    """
    limit = n_steps if seconds is None else seconds
    assert limit is not None
    marks = list(np.geomspace(limit / 200, limit, n_points)) if measure else []
    curve: list[list[float]] = []
    spent, start_seconds, resumed = 0.0, 0.0, clock()
    for progress in training:
        spent += clock() - resumed
        if progress.step == 1:
            start_seconds = max(spent - progress.seconds, 0.0)
        position = progress.step if seconds is None else spent
        if marks and measure and position >= marks[0] * (1 - 1e-9):
            curve.append([rounded(spent), rounded(measure(progress))])
            marks = [mark for mark in marks if mark > position]
        if position >= limit:
            break
        resumed = clock()
    return Followed(progress, start_seconds, spent, curve)


def rounded(value: float, digits: int = 5) -> float:
    """The value with so many significant digits, as more would only fill the files."""
    return float(f"{value:.{digits}g}")
