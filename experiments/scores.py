"""How well hidden entries are predicted, and how many of them the 95 % intervals cover.

Predictions and their scores are those of `bpfa.prediction`; the coverage is added here.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from bpfa import BPFA, Algorithm, Batch, SeenInFitWarning, posterior_draws
from bpfa._support.philox import Stream
from bpfa.model.local import LocalState
from bpfa.model.posterior import Posterior
from bpfa.prediction.draws import PosteriorDraw, expected_view
from bpfa.prediction.scores import score_draws
from experiments import Array

# 95 % of a Gaussian lies within this many standard deviations of its mean.
NORMAL_95 = 1.959964


class HiddenEntries(NamedTuple):
    """Rows of which some entries are hidden from the local step, and scored."""

    batch: Batch
    """What the local step sees of the rows."""
    truth: Array
    """The values of all entries, rows x columns."""
    hidden: Array
    """True at the entries to score."""

    @classmethod
    def of(cls, values: Array, hidden: Array, ids: Array) -> HiddenEntries:
        """Return the hidden entries of the rows `ids` of a complete matrix."""
        return cls(Batch(values[ids], ~hidden[ids], ids), values[ids], hidden[ids])

    def in_units(self, units: Array) -> HiddenEntries:
        """Return the same entries with every column divided by its unit."""
        batch = Batch(self.batch.values / units, self.batch.observed, self.batch.ids)
        return HiddenEntries(batch, self.truth / units, self.hidden)


def coverage(error: Array, std: Array, level: float = 0.95) -> float:
    """Return the share of the errors that lie inside the interval of this probability, 95 % by default.

    Examples
    --------
    >>> error = np.array([0.0, 1.9, -2.0, 1.0])
    >>> coverage(error, np.ones(4)), coverage(error, np.ones(4), 0.99)
    (0.75, 1.0)
    """
    width = NORMAL_95 if level == 0.95 else float(ndtri((1 + level) / 2))
    return float((np.abs(error) < width * std).mean())


def gaussian_scores(truth: Array, mean: Array, std: Array) -> dict[str, float]:
    """Score Gaussian predictions of entries: log-likelihood per entry, squared error and coverage.

    Examples
    --------
    >>> found = gaussian_scores(np.zeros(3), np.zeros(3), np.ones(3))
    >>> round(found["log_likelihood"], 4), found["mse"], found["coverage"]
    (-0.9189, 0.0, 1.0)
    """
    error = truth - mean
    log_density = -0.5 * (np.log(2 * np.pi * std**2) + (error / std) ** 2)
    return {
        "log_likelihood": float(log_density.mean()),
        "mse": float((error**2).mean()),
        "coverage": coverage(error, std),
    }


def posterior_scores(
    posterior: Posterior, entries: HiddenEntries, algorithm: Algorithm, n_draws: int, seed: int
) -> dict[str, float]:
    """Score the predictions of hidden entries by draws from a posterior; see `draw_scores`."""
    return draw_scores(_draws(posterior, entries, algorithm, n_draws, seed), entries, n_draws=n_draws)


def spaced_scores(
    posterior: Posterior, entries: HiddenEntries, algorithm: Algorithm, n_draws: int, seed: int
) -> dict[str, float]:
    """Score as `posterior_scores` does, but with the burn-in of a chain before each of its draws.

    Algorithms that see draws do so anyway. Of an algorithm that sees expectations, `posterior_draws` takes
    successive states of the chain.
    """
    if algorithm.view == "expected" and algorithm.local.continues_from_x:
        draws = _spaced_draws(posterior, entries, algorithm, n_draws, seed)
    else:
        draws = _draws(posterior, entries, algorithm, n_draws, seed)
    return draw_scores(draws, entries, n_draws=n_draws)


def _spaced_draws(
    posterior: Posterior, entries: HiddenEntries, algorithm: Algorithm, n_draws: int, seed: int
) -> Iterator[PosteriorDraw]:
    stream = Stream.from_seed(seed).child("prediction")
    expected = expected_view(posterior, algorithm, entries.batch)
    assert expected is not None
    batch, state = entries.batch.padded_to(expected.n_columns), None
    for m in range(n_draws):
        draws = stream.child("local").rows(batch.ids, m)
        x = next(iter(algorithm.local.samples(expected, batch, draws, 1, state)))
        view = posterior.sampled(stream.child("global").generator(m))
        yield PosteriorDraw(x, view.phi, view.g_o, view.g_w)
        state = LocalState((x != 0).astype(np.float64), x)


def model_scores(model: BPFA, entries: HiddenEntries, n_draws: int, seed: int) -> dict[str, float]:
    """Score the predictions of hidden entries by the features of a BPFA fitted with `standardize=False`.

    Its posterior is in units in which all columns have the same noise; the scores are in those of the data.
    Groups and kinds of rows are not used: see `imputed_scores`.
    """
    units = model.noise_ratio_
    seen = entries.in_units(units)
    draws = _draws(model.posterior_, seen, model.settings_.make_algorithm(1), n_draws, seed)
    return draw_scores(draws, seen, n_draws=n_draws, units=units)


def imputed_scores(model: BPFA, entries: HiddenEntries) -> dict[str, float]:
    """Score hidden entries as a user of `impute` sees them: by means and deviations, with groups of rows.

    "log_likelihood" is the Gaussian density of every hidden entry, "density" the density that the model
    itself gives to the hidden entries of a row together, both per entry.
    """
    truth, hidden = entries.truth, entries.hidden
    mean, std = model.impute(np.where(hidden, np.nan, truth), return_std=True)
    with warnings.catch_warnings():
        # No hidden entry was in the fit, but the other entries of the rows were.
        warnings.simplefilter("ignore", SeenInFitWarning)
        density = model.held_out_score(truth, hidden).log_likelihood
    return {**gaussian_scores(truth[hidden], mean[hidden], std[hidden]), "density": density}


def _draws(
    posterior: Posterior, entries: HiddenEntries, algorithm: Algorithm, n_draws: int, seed: int
) -> Iterator[PosteriorDraw]:
    stream = Stream.from_seed(seed).child("prediction")
    return posterior_draws(posterior, entries.batch, algorithm, n_draws=n_draws, stream=stream)


def draw_scores(
    draws: Iterable[PosteriorDraw], entries: HiddenEntries, *, n_draws: int, units: Array | None = None
) -> dict[str, float]:
    """Score the hidden entries: log-likelihood per entry, squared error, and coverage of 95 % intervals.

    With `units`, one for each column, entries are scored as if they were multiplied by them.

    Examples
    --------
    >>> truth, hidden = np.zeros((2, 3)), np.ones((2, 3), dtype=bool)
    >>> entries = HiddenEntries.of(truth, hidden, np.arange(2))
    >>> exact = PosteriorDraw(np.zeros((2, 1)), np.zeros((1, 3)), g_o=1.0, g_w=1.0)
    >>> found = draw_scores([exact], entries, n_draws=1)
    >>> found["mse"], found["coverage"], round(found["log_likelihood"], 4)
    (0.0, 1.0, -0.9189)
    """
    batch, truth, hidden = entries
    means, noise = [], []

    def noted() -> Iterator[PosteriorDraw]:
        for draw in draws:
            means.append(draw.mean[hidden])
            noise.append(1 / draw.g_o)
            yield draw

    score = score_draws(noted(), batch, truth, hidden, n_draws=n_draws, units=units)
    std = np.sqrt(np.var(means, axis=0) + np.mean(noise))
    return {
        "log_likelihood": score.log_likelihood,
        "mse": score.mse,
        "coverage": coverage(truth[hidden] - np.mean(means, axis=0), std),
    }
