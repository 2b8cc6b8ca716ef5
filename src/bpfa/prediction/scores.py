"""How well a model predicts held-out entries, and the PSNR of pictures (docs/math.md section 6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import (
    Array,
    as_real_array,
    check_array,
    check_instance,
    check_mask,
    check_number,
)
from bpfa._support.philox import Stream
from bpfa.data import ArrayRows, Batch
from bpfa.inference.algorithms import Algorithm
from bpfa.model.marginals import log_predictive
from bpfa.model.posterior import Posterior
from bpfa.prediction.draws import PosteriorDraw, posterior_draws

__all__ = ["HeldOutScore", "RowScores", "held_out_score", "psnr", "row_scores", "score_draws", "score_rows"]

# Rows that are predicted at a time.
BLOCK_ROWS = 4096


class HeldOutScore(NamedTuple):
    """Scores over held-out entries.

    See Also
    --------
    bpfa.held_out_score : How well a posterior predicts held-out entries.

    Examples
    --------
    >>> HeldOutScore(log_likelihood=-1.2, mse=0.8, n_entries=100).mse
    0.8
    """

    log_likelihood: float
    """Predictive log-likelihood per held-out entry."""
    mse: float
    """Mean squared error of the mean prediction."""
    n_entries: int
    """Number of held-out entries."""

    @classmethod
    def over(cls, scores: Iterable[HeldOutScore]) -> HeldOutScore:
        """Return the score over the entries of several scores together.

        Parameters
        ----------
        scores : iterable of HeldOutScore

        Returns
        -------
        HeldOutScore

        See Also
        --------
        bpfa.held_out_score : How well a posterior predicts held-out entries.

        Examples
        --------
        >>> HeldOutScore.over([HeldOutScore(-1.0, 0.5, 10), HeldOutScore(-2.0, 1.5, 30)])
        HeldOutScore(log_likelihood=-1.75, mse=1.25, n_entries=40)
        """
        log_likelihood, mse, n_entries = (np.array(values) for values in zip(*scores, strict=True))
        total = int(n_entries.sum())
        return cls(float(log_likelihood @ n_entries / total), float(mse @ n_entries / total), total)


class RowScores(NamedTuple):
    """What is predicted for the held-out entries of some rows."""

    log_density: Array
    """Logarithm of the joint density of the held-out entries of every row."""
    mean: Array
    """Mean prediction of every entry, rows x columns."""

    def summed(self, truth: Array, held_out: NDArray[np.bool_], units: Array | None = None) -> HeldOutScore:
        """Return the score over all held-out entries; the parameters are those of `score_rows`."""
        log_density, n_entries = self.log_density, int(held_out.sum())
        error = np.where(held_out, truth - self.mean, 0.0)
        if units is not None:
            error, log_density = error * units, log_density - held_out @ np.log(units)
        squared_error, scale = (error**2).sum(), max(n_entries, 1)
        return HeldOutScore(float(log_density.sum() / scale), float(squared_error / scale), n_entries)


def held_out_score(
    posterior: Posterior,
    data: Any,
    held_out: Any,
    algorithm: Algorithm,
    *,
    n_draws: int = 20,
    seed: int | None = None,
) -> HeldOutScore:
    """Score the predictions of held-out entries.

    Parameters
    ----------
    posterior : GlobalPosterior or ChainPosterior
    data : array-like, shape (rows, columns)
        With the true values at the held-out entries. NaN marks a missing entry.
    held_out : boolean array-like of the same shape
        True at the entries that the local step does not see and that are scored.
    algorithm : Algorithm
        The algorithm by which the posterior was trained.
    n_draws : int
        Number M of draws from the posterior.
    seed : int, optional

    Returns
    -------
    HeldOutScore

    See Also
    --------
    bpfa.BPFA.score : Log-likelihood of hidden entries.
    bpfa.HeldOutScore : The result, with its parts.
    bpfa.posterior_draws : Draws from a posterior.

    References
    ----------
    .. [1] A. Shah, D. A. Knowles and Z. Ghahramani, "An Empirical Study of Stochastic Variational Algorithms
       for the Beta Bernoulli Process", ICML (2015).
    .. [2] T. Gneiting and A. E. Raftery, "Strictly Proper Scoring Rules, Prediction, and Estimation", Journal
       of the American Statistical Association 102 (2007).

    Examples
    --------
    >>> from bpfa import algorithm
    >>> from bpfa.inference.starts import random_posterior
    >>> y = np.random.default_rng(0).normal(size=(50, 4))
    >>> held_out = np.zeros(y.shape, dtype=bool)
    >>> held_out[:, 0] = True
    >>> posterior = random_posterior(ArrayRows(y), 3, seed=0)
    >>> score = held_out_score(posterior, y, held_out, algorithm("mf-ssvi"), seed=0)
    >>> score.n_entries
    50
    """
    rows = ArrayRows(data)
    check_instance("posterior", posterior, Posterior)
    if rows.n_columns != posterior.n_columns:
        raise ValueError(f"data: {rows.n_columns} columns; expected {posterior.n_columns}, as in the model")
    held_out = check_mask("held_out", held_out, rows.values.shape)
    if not held_out.any():
        raise ValueError("held_out: no entry is held out; expected at least one")
    if (held_out & ~rows.observed).any():
        row, column = np.argwhere(held_out & ~rows.observed)[0]
        raise ValueError(
            f"held_out: the entry at row {row}, column {column} is NaN in data; expected its value"
        )
    stream = Stream.from_seed(seed).child("prediction")
    scores = []
    for first in range(0, rows.n_rows, BLOCK_ROWS):
        ids = np.arange(first, min(first + BLOCK_ROWS, rows.n_rows))
        truth, scored = rows.values[ids], held_out[ids]
        batch = Batch(truth, rows.observed[ids] & ~scored, ids)
        scores.append(score_rows(posterior, batch, truth, scored, algorithm, n_draws=n_draws, stream=stream))
    return HeldOutScore.over(scores)


def score_rows(
    posterior: Posterior,
    batch: Batch,
    truth: Array,
    held_out: NDArray[np.bool_],
    algorithm: Algorithm,
    *,
    n_draws: int,
    stream: Stream,
    integrated: bool = False,
    units: Array | None = None,
) -> HeldOutScore:
    """Score the predictions of the held-out entries of some rows.

    Parameters
    ----------
    posterior : GlobalPosterior or ChainPosterior
    batch : Batch
        The rows as the local step sees them, without the held-out entries.
    truth : array, shape (rows, columns)
        With the true values at the held-out entries.
    held_out : boolean array, shape (rows, columns)
    algorithm : Algorithm
        The algorithm by which the posterior was trained.
    n_draws : int
    stream : Stream
    integrated : bool
        Integrate out the weights of every draw, if the algorithm allows it (docs/math.md section 13). This
        estimates the same quantity with less variance.
    units : array, shape (columns,), optional
        Score every entry as if it were multiplied by the unit of its column.
    """
    draws = posterior_draws(posterior, batch, algorithm, n_draws=n_draws, stream=stream)
    integrated = integrated and algorithm.draws_z_given_globals
    return score_draws(draws, batch, truth, held_out, n_draws=n_draws, integrated=integrated, units=units)


def score_draws(
    draws: Iterable[PosteriorDraw],
    batch: Batch,
    truth: Array,
    held_out: NDArray[np.bool_],
    *,
    n_draws: int,
    integrated: bool = False,
    units: Array | None = None,
) -> HeldOutScore:
    """Score the held-out entries of some rows by `n_draws` draws that predict them.

    The other parameters are those of `score_rows`, which makes the draws itself.

    Examples
    --------
    >>> truth, held_out = np.zeros((2, 3)), np.ones((2, 3), dtype=bool)
    >>> exact = PosteriorDraw(np.zeros((2, 1)), np.zeros((1, 3)), g_o=1.0, g_w=1.0)
    >>> score = score_draws([exact], Batch(truth, ~held_out), truth, held_out, n_draws=1)
    >>> round(score.log_likelihood, 4), score.mse
    (-0.9189, 0.0)
    """
    scores = row_scores(draws, batch, truth, held_out, n_draws=n_draws, integrated=integrated)
    return scores.summed(truth, held_out, units)


def row_scores(
    draws: Iterable[PosteriorDraw],
    batch: Batch,
    truth: Array,
    held_out: NDArray[np.bool_],
    *,
    n_draws: int,
    integrated: bool = False,
) -> RowScores:
    """Return what draws predict for held-out entries; the parameters are those of `score_draws`."""
    log_likelihood, mean = np.full(len(batch), -np.inf), np.zeros(truth.shape)
    for draw in draws:
        if integrated:
            log_density, expected = log_predictive(
                draw.x != 0, draw.phi, draw.g_o, draw.g_w, batch, truth, held_out
            )
            # The squares of entries beyond 1e154 overflow. The density of such held-out entries is nearly 0.
            overflowed = np.where(held_out.any(axis=1), -np.inf, 0.0)
            log_density = np.where(np.isfinite(log_density), log_density, overflowed)
        else:
            expected = draw.mean
            error2 = np.where(held_out, truth - expected, 0.0) ** 2
            log_density = held_out.sum(axis=1) / 2 * np.log(draw.g_o / (2 * np.pi))
            log_density -= draw.g_o / 2 * error2.sum(axis=1)
        # The logarithm of the mean density of the row over the draws, not the mean of logarithms.
        log_likelihood = np.logaddexp(log_likelihood, log_density - np.log(n_draws))
        mean += expected / n_draws
    return RowScores(log_likelihood, mean)


def psnr(truth: Any, restored: Any, where: Any = None, *, peak: float = 255.0) -> float:
    """Return the peak signal-to-noise ratio 20 log10(peak / rmse) in dB, over all or some of the pixels.

    Parameters
    ----------
    truth, restored : array-like of the same shape
    where : boolean array-like of that shape, optional
        True at the pixels to count; all by default. The PSNR over all pixels, over missing ones and over
        observed ones differ by many dB, so a report should say which of them it gives.
    peak : float
        Largest possible pixel value.

    Returns
    -------
    float
        Infinity if the two pictures agree at all of these pixels.

    See Also
    --------
    bpfa.inpaint : Fill in missing pixels.
    bpfa.denoise : Remove noise.

    Examples
    --------
    >>> round(psnr(np.zeros((2, 2)), np.full((2, 2), 2.55)), 9)
    40.0
    """
    peak = check_number("peak", peak, low=0.0, open_low=True)
    truth = as_real_array("truth", truth)
    truth = check_array("truth", truth, truth.shape)
    restored = check_array("restored", restored, truth.shape)
    chosen = np.ones(truth.shape, dtype=bool) if where is None else check_mask("where", where, truth.shape)
    if not chosen.any():
        raise ValueError("where: no pixel is chosen; expected at least one")
    mse = float(((truth - restored)[chosen] ** 2).mean())
    return float("inf") if mse == 0 else float(10 * np.log10(peak**2 / mse))
