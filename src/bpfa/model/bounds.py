"""The evidence lower bound of a whole data set, derived from its definition and not from the updates."""

from __future__ import annotations

import numpy as np
from scipy.special import betaln, digamma, gammaln

from bpfa._support.checks import Array, check_array, check_instance
from bpfa.data import Batch
from bpfa.model.local import LocalPosterior, VariationalMethod
from bpfa.model.posterior import GlobalPosterior

__all__ = ["full_bound", "global_divergence"]


def full_bound(
    posterior: GlobalPosterior, batch: Batch, local: VariationalMethod, q: LocalPosterior
) -> float:
    """Return the bound of log p(Y): E_q[log p(Y, z, w, globals) - log q(z, w, globals)], over all rows.

    Parameters
    ----------
    posterior : GlobalPosterior
    batch : Batch
        All rows of the data set, so that `posterior.n_rows == len(batch)`; entries may be missing.
    local : MeanField or SpikeSlab
        The form of q(z, w).
    q : LocalPosterior
        The parameters of q(z, w), as `local.fit(posterior.expected(), batch)` returns them.

    Returns
    -------
    float

    See Also
    --------
    bpfa.held_out_score : How well a posterior predicts held-out entries.
    bpfa.train : The training loop.

    References
    ----------
    .. [1] M. D. Hoffman, D. M. Blei, C. Wang and J. Paisley, "Stochastic Variational Inference", Journal of
       Machine Learning Research 14 (2013).
    .. [2] A. Shah, D. A. Knowles and Z. Ghahramani, "An Empirical Study of Stochastic Variational Algorithms
       for the Beta Bernoulli Process", ICML (2015).

    Examples
    --------
    >>> from bpfa.inference.starts import random_posterior
    >>> from bpfa.backends.numpy import SpikeSlab
    >>> from bpfa.data import ArrayRows
    >>> rows = ArrayRows(np.random.default_rng(0).normal(size=(30, 4)))
    >>> posterior = random_posterior(rows, 3, seed=0)
    >>> batch, local = rows.take(np.arange(30)), SpikeSlab()
    >>> bound = full_bound(posterior, batch, local, local.fit(posterior.expected(), batch))
    >>> bool(np.isfinite(bound))
    True
    """
    _check_arguments(posterior, batch, local, q)
    view = posterior.expected()
    # The view of joint features has additional columns, for which the bound must not count any noise.
    seen = batch.padded_to(view.phi.shape[1])
    n_extra = len(batch) * (seen.n_columns - batch.n_columns)
    local_bound = float(local.bound(view, seen, q).sum() - n_extra / 2 * np.log(view.g_o / (2 * np.pi)))
    # The local bound uses log g_o, log g_w and log(1 - pi) of the view. The full bound needs their
    # expectations under q(globals) instead.
    log_g_o = digamma(posterior.c) - np.log(posterior.d)
    log_g_w = digamma(posterior.e) - np.log(posterior.f)
    log_not_pi = digamma(posterior.b) - digamma(posterior.a + posterior.b)
    # If the idle weights are integrated out, only the active ones depend on g_w.
    n_weights = q.theta.sum() if posterior.weight_precision == "active" else q.theta.size
    corrections = (
        batch.observed.sum() / 2 * (log_g_o - np.log(view.g_o))
        + n_weights / 2 * (log_g_w - np.log(view.g_w))
        + len(batch) * (log_not_pi + np.logaddexp(0.0, view.logit)).sum()
    )
    return local_bound + float(corrections) - global_divergence(posterior)


def _check_arguments(
    posterior: GlobalPosterior, batch: Batch, local: VariationalMethod, q: LocalPosterior
) -> None:
    """Refuse arguments of `full_bound` that do not fit one another."""
    check_instance("posterior", posterior, GlobalPosterior)
    check_instance("batch", batch, Batch)
    check_instance("local", local, VariationalMethod)
    check_instance("q", q, LocalPosterior)
    if posterior.weight_precision == "active" and not local.has_idle_weights:
        raise ValueError(
            "posterior.weight_precision='active': mean field has no idle weights; expected 'all'"
        )
    expected = (posterior.n_rows, posterior.n_columns)
    if batch.values.shape != expected:
        raise ValueError(f"batch: shape {batch.values.shape}; expected all rows of the data set, {expected}")
    for array in q:
        check_array("q", array, (posterior.n_rows, posterior.n_features))


def global_divergence(posterior: GlobalPosterior) -> float:
    """Return the Kullback-Leibler divergence of q(globals) from the prior."""
    priors = posterior.priors
    return float(
        posterior.features.divergence()
        + _beta_divergence(posterior.a, posterior.b, *priors.beta(posterior.n_features)).sum()
        + _gamma_divergence(posterior.c, posterior.d, priors.c0, priors.d0)
        + _gamma_divergence(posterior.e, posterior.f, priors.e0, priors.f0)
    )


def _beta_divergence(a: Array, b: Array, a0: float, b0: float) -> Array:
    """Return the divergence of Beta(a, b) from Beta(a0, b0)."""
    total = digamma(a + b)
    log_ratio: Array = betaln(a0, b0) - betaln(a, b)
    return log_ratio + (a - a0) * (digamma(a) - total) + (b - b0) * (digamma(b) - total)


def _gamma_divergence(shape: float, rate: float, shape0: float, rate0: float) -> float:
    """Return the divergence of Gamma(shape, rate) from Gamma(shape0, rate0)."""
    return float(
        (shape - shape0) * digamma(shape)
        - gammaln(shape)
        + gammaln(shape0)
        + shape0 * (np.log(rate) - np.log(rate0))
        + shape * (rate0 - rate) / rate
    )
