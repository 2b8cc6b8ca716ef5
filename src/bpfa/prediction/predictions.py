"""Weights of the features in given rows, predictions of their entries, and new rows drawn from a model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import Batch
from bpfa.data.sketch import mixed
from bpfa.inference.algorithms import Algorithm
from bpfa.inference.sampler import ChainPosterior
from bpfa.model.marginals import Signal
from bpfa.model.posterior import GlobalPosterior, Posterior
from bpfa.model.view import GlobalView
from bpfa.prediction.draws import posterior_draws

__all__ = [
    "Prediction",
    "feature_means",
    "feature_usage",
    "features_in_use",
    "keyed_by_content",
    "predict",
    "row_weights",
    "sample_rows",
    "view_at_means",
]

# A feature is in use if more than this share of the rows uses it.
LEAST_SHARE = 1e-3
# The most draws of the globals that a sample of new rows is based on.
MAX_GLOBAL_DRAWS = 100


class Prediction(NamedTuple):
    """The predictive distribution of the entries of some rows, each rows x columns."""

    mean: Array
    std: Array
    """Standard deviation of an entry, from the uncertainty of the model and from the noise."""


def keyed_by_content(batch: Batch) -> Batch:
    """Return the rows with ids computed from their contents, so that equal rows get equal random numbers.

    A prediction for a row is then a function of the row alone, whatever other rows are in the batch.

    Examples
    --------
    >>> one = keyed_by_content(Batch([[1.0, 2.0], [3.0, np.nan]])).ids
    >>> other = keyed_by_content(Batch([[3.0, np.nan], [1.0, 2.0], [1.0, 2.5]])).ids
    >>> bool((one == other[[1, 0]]).all()), len(set(other.tolist()))
    (True, 3)
    """
    values = np.where(batch.observed, batch.values.astype(np.float64) + 0.0, np.nan)
    ids = np.zeros(len(batch), dtype=np.uint64)
    for bits in values.view(np.uint64).T:
        ids = mixed(ids, bits)
    # Row ids have 40 bits.
    return Batch.unchecked(batch.values, batch.observed, (ids >> np.uint64(24)).astype(np.int64))


def feature_means(posterior: Posterior) -> Array:
    """Return E[phi], K x D."""
    if isinstance(posterior, ChainPosterior):
        mean: Array = np.mean([view.phi for view in posterior.views], axis=0)
        return mean
    assert isinstance(posterior, GlobalPosterior)
    return posterior.features.mean


def features_in_use(posterior: Posterior, n_learned: float | None = None) -> NDArray[np.bool_]:
    """Return which features are in use, shape (K,).

    A feature is in use if more than one row in a thousand, and more than one row, uses it, and if it stands
    out from the noise. What it adds to a row that uses it has an expected square length, and this must be
    larger than the variance of the noise. A feature that the data does not need may remain switched on in
    some rows, where it is too small to make a difference.

    A feature that most rows use is judged by the variance that it explains. It must be larger than the
    largest variance that a direction explains in noise alone (the limit of Marchenko and Pastur). If there
    are more columns than rows, this does not apply, because a feature may then stand out in a few columns.

    Parameters
    ----------
    posterior : GlobalPosterior or ChainPosterior
    n_learned : float, optional
        The number of rows that the features were in effect learned from, which determines how much noise they
        contain; by default all rows. Steps on batches of a large table have learned from fewer.
    """
    D, observed = posterior.n_columns, 1.0
    if isinstance(posterior, ChainPosterior):
        n_rows, used = len(posterior.state.z), posterior.state.z.sum(axis=0)
        weight_variance = float(np.mean([1 / view.g_w for view in posterior.views]))
    else:
        assert isinstance(posterior, GlobalPosterior)
        n_rows, used = posterior.n_rows, posterior.a - posterior.priors.beta(posterior.n_features)[0]
        weight_variance = posterior.f / posterior.e
        # c counts half of the observed entries.
        observed = float(np.clip(2 * (posterior.c - posterior.priors.c0) / (n_rows * D), 1 / n_rows, 1.0))
    square_length = (feature_means(posterior) ** 2).sum(axis=1) * weight_variance / posterior.noise_std**2
    share = used / n_rows
    n_learned = n_rows if n_learned is None else min(n_rows, n_learned)
    of_noise = ((1 + np.sqrt(D / n_learned)) ** 2 - 1) / observed
    by_variance = (share > 0.5) & (n_rows >= D)
    stands_out = np.where(by_variance, share * square_length > of_noise, square_length > 1)
    in_use: NDArray[np.bool_] = (used > max(1.0, LEAST_SHARE * n_rows)) & stands_out
    return in_use


def feature_usage(posterior: Posterior) -> Array:
    """Return the share of the rows that use each feature, E[pi_k]."""
    if isinstance(posterior, ChainPosterior):
        share: Array = posterior.state.z.mean(axis=0)
        return share
    assert isinstance(posterior, GlobalPosterior)
    return posterior.pi


def view_at_means(posterior: Posterior) -> GlobalView:
    """Return the globals at their posterior means, as if they were known."""
    K = posterior.n_features
    phi, certain = feature_means(posterior), np.zeros((K, 1))
    if isinstance(posterior, ChainPosterior):
        logit, g_o, g_w = (
            np.mean([getattr(view, name) for view in posterior.views], axis=0)
            for name in ("logit", "g_o", "g_w")
        )
        return GlobalView(phi, certain, logit, float(g_o), float(g_w))
    assert isinstance(posterior, GlobalPosterior)
    pi = posterior.pi
    logit = np.log(pi) - np.log1p(-pi)
    return GlobalView(phi, certain, logit, posterior.c / posterior.d, posterior.e / posterior.f)


def row_weights(
    posterior: Posterior, batch: Batch, algorithm: Algorithm, stream: Stream, *, least_probability: float
) -> Array:
    """Return E[z w] of every feature in every row, rows x K, with the globals at their posterior means.

    It is zero if the row uses the feature with a smaller probability than `least_probability`.
    """
    keyed = keyed_by_content(batch)
    draws = stream.child("weights").rows(keyed.ids, 0)
    moments = algorithm.local.row_moments(view_at_means(posterior), keyed, draws)
    return np.where(moments.z < least_probability, 0.0, moments.x)


def predict(
    posterior: Posterior, batch: Batch, algorithm: Algorithm, *, n_draws: int, stream: Stream
) -> Prediction:
    """Predict every entry of some rows from the observed ones, by draws from the posterior."""
    # The variance has two parts: between draws, and within a draw, from its weights and from the noise.
    mean, squares, within = (np.zeros(batch.values.shape) for _ in range(3))
    keyed, stream = keyed_by_content(batch), stream.child("prediction")
    draws = posterior_draws(posterior, keyed, algorithm, n_draws=n_draws, stream=stream)
    for n, draw in enumerate(draws, start=1):
        if algorithm.draws_z_given_globals:
            found = algorithm.backend.signal(draw.x != 0, draw.phi, draw.g_o, draw.g_w, keyed)
        else:
            found = Signal(draw.mean, np.zeros_like(mean))
        # Welford's update of the mean over draws and of the sum of squares about it.
        shift = found.mean - mean
        mean += shift / n
        squares += shift * (found.mean - mean)
        within += (found.variance + 1 / draw.g_o - within) / n
    return Prediction(mean, np.sqrt(squares / n_draws + within))


def sample_rows(posterior: Posterior, n_rows: int, rng: np.random.Generator) -> Array:
    """Draw new rows, n_rows x D, from the posterior predictive distribution, noise included."""
    rows = []
    # Several rows share a draw of the globals, and are dependent as the rows of a data set are.
    for n in np.diff(np.linspace(0, n_rows, min(n_rows, MAX_GLOBAL_DRAWS) + 1).astype(int)):
        view = posterior.sampled(rng)
        shape = (n, posterior.n_features)
        z = rng.random(shape) < expit(view.logit)
        signal = (z * rng.normal(scale=view.g_w**-0.5, size=shape)) @ view.phi
        rows.append(signal + rng.normal(scale=view.g_o**-0.5, size=signal.shape))
    return np.concatenate(rows)
