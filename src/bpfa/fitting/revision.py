"""Dropping, merging and adding features where this improves held-out scores (docs/math.md section 14).

A step of SVI moves features, but it rarely removes one whose rows other features would have to take over,
separates two that are nearly equal, or finds structure that no feature comes near. Such changes are tried
between steps, and kept if the model then predicts held-out entries better. The model thus determines the
number of features itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import Batch
from bpfa.inference.algorithms import Algorithm
from bpfa.inference.factor_analysis import pairwise_covariance
from bpfa.model.features import FactorisedFeatures, JointFeatures
from bpfa.model.posterior import GlobalPosterior

__all__ = ["Revision", "extended", "mapped", "revise"]

# The first attempt drops or adds this share of the features. Each later one, up to MAX_ATTEMPTS, halves it.
FIRST_SHARE, MAX_ATTEMPTS = 1 / 4, 4
# Pairs of features are merged if the absolute cosine between them is at least this, up to MAX_PAIRS at once.
LEAST_COSINE, MAX_PAIRS = 0.8, 4
# The share of the rows that counts as badly explained. A new feature is used by the same share.
BADLY_EXPLAINED = 0.1


class Revision(NamedTuple):
    """The result of an attempt to revise the features."""

    posterior: GlobalPosterior
    kept: tuple[str, ...]
    """The changes that were kept, such as "dropped 3"."""


def revise(
    posterior: GlobalPosterior,
    score: Callable[[GlobalPosterior], float],
    batch: Batch,
    algorithm: Algorithm,
    *,
    most: int,
    stream: Stream,
) -> Revision:
    """Try to drop, merge and add features, and keep the changes that raise the score.

    Parameters
    ----------
    posterior : GlobalPosterior
    score : callable
        Returns how well a posterior predicts. It must use the same random numbers for every posterior.
    batch : Batch
        A sample of the rows, among which badly explained ones are sought.
    algorithm : Algorithm
        The algorithm by which the posterior is trained.
    most : int
        The largest number of features.
    stream : Stream
    """

    def with_added(posterior: GlobalPosterior) -> Iterator[tuple[str, GlobalPosterior]]:
        return _with_features_added(posterior, batch, algorithm, most, stream)

    best, kept = score(posterior), []
    for proposals in (_with_features_dropped, _with_similar_merged, with_added):
        for name, proposed in proposals(posterior):
            if (found := score(proposed)) > best:
                posterior, best = proposed, found
                kept.append(name)
                break
    return Revision(posterior, tuple(kept))


def _with_features_dropped(posterior: GlobalPosterior) -> Iterator[tuple[str, GlobalPosterior]]:
    """Yield the posterior without a quarter of its features, those that explain least, then without fewer."""
    K = posterior.n_features
    order = np.argsort(_energy(posterior))
    for n in _attempts(K - 1, K):
        keep = np.sort(order[n:])
        yield f"dropped {n}", mapped(posterior, np.eye(K)[keep])


def _with_similar_merged(posterior: GlobalPosterior) -> Iterator[tuple[str, GlobalPosterior]]:
    """Yield the posterior with all pairs of similar features merged, then with each pair merged alone."""
    K, phi = posterior.n_features, posterior.features.mean
    length = np.sqrt((phi**2).sum(axis=1))
    unit = phi / np.where(length > 0, length, 1.0)[:, None]
    cosines = np.triu(np.abs(unit @ unit.T), 1)
    pairs: list[tuple[int, int]] = []
    for place in np.argsort(-cosines, axis=None)[: 10 * MAX_PAIRS]:
        j, k = divmod(int(place), K)
        if cosines[j, k] < LEAST_COSINE or len(pairs) == MAX_PAIRS:
            break
        if not {j, k} & {feature for pair in pairs for feature in pair}:
            pairs.append((j, k))
    sets = [pairs, *([pair] for pair in pairs)] if len(pairs) > 1 else [pairs] if pairs else []
    for chosen in sets:
        A = np.eye(K)
        for j, k in chosen:
            # phi_k is nearly a multiple of phi_j, so that x_k phi_k is nearly x_k A_jk phi_j.
            A[j, k] = phi[k] @ phi[j] / (phi[j] @ phi[j])
        A = np.delete(A, [k for _, k in chosen], axis=0)
        yield f"merged {len(chosen)}", mapped(posterior, A)


def _with_features_added(
    posterior: GlobalPosterior, batch: Batch, algorithm: Algorithm, most: int, stream: Stream
) -> Iterator[tuple[str, GlobalPosterior]]:
    """Yield the posterior with new features from badly explained rows added, then with fewer of them."""
    view = posterior.sampled(stream.generator(0))
    x = algorithm.local.row_moments(view, batch, stream.rows(batch.ids, 0)).x
    residual = np.where(batch.observed, batch.values - x @ view.phi, 0.0)
    n_observed = np.maximum(batch.observed.sum(axis=1), 1)
    badly = np.argsort((residual**2).sum(axis=1) / n_observed)[-max(2, round(BADLY_EXPLAINED * len(batch))) :]
    covariance = pairwise_covariance(Batch(residual[badly], batch.observed[badly]))
    eigenvalues, vectors = np.linalg.eigh(covariance)
    # Eigenvalues of noise alone stay below a limit (Marchenko and Pastur). The noise level is that of these
    # rows, which were chosen for their large residuals.
    noise = float(np.median(eigenvalues))
    n_found = int((eigenvalues > noise * (1 + np.sqrt(len(covariance) / len(badly))) ** 2).sum())
    for n in _attempts(min(n_found, most - posterior.n_features), posterior.n_features):
        last = slice(len(covariance) - n, None)
        variance = np.maximum(eigenvalues[last] - noise, 0.0)
        phi = (vectors[:, last] * np.sqrt(variance * posterior.e / posterior.f)).T
        yield f"added {n}", extended(posterior, phi, BADLY_EXPLAINED)


def _attempts(most: int, K: int) -> Iterator[int]:
    """Yield a quarter of the number of features, half of that, and so on, from at most `most` down to 1.

    Examples
    --------
    >>> list(_attempts(100, 40)), list(_attempts(2, 40)), list(_attempts(0, 40))
    ([10, 5, 2, 1], [2, 1], [])
    """
    n = min(most, max(1, round(FIRST_SHARE * K)))
    for _ in range(MAX_ATTEMPTS):
        if n < 1:
            return
        yield n
        n //= 2


def _energy(posterior: GlobalPosterior) -> Array:
    """Return the variance that each feature explains in all columns together."""
    energy: Array = posterior.pi * (posterior.features.mean**2).sum(axis=1)
    return energy


def mapped(posterior: GlobalPosterior, A: Array) -> GlobalPosterior:
    """Return the posterior after the features are dropped or merged so that their weights are x' = A x.

    Parameters
    ----------
    posterior : GlobalPosterior
    A : array, shape (K', K)

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> from bpfa.inference.starts import random_posterior
    >>> rows = ArrayRows(np.random.default_rng(0).normal(size=(50, 4)))
    >>> mapped(random_posterior(rows, 3, seed=0), np.eye(3)[:2]).n_features
    2
    """
    # A row uses the new feature if it uses any of the features that were merged into it.
    use = 1 - np.exp((A != 0) @ np.log1p(-_use(posterior)))
    return _with(posterior, posterior.features.mapped(A), use)


def extended(posterior: GlobalPosterior, phi: Array, use: float) -> GlobalPosterior:
    """Return the posterior with features added.

    Parameters
    ----------
    posterior : GlobalPosterior
    phi : array, shape (K', D)
        Means of the new features.
    use : float
        Share of the rows that use each new feature.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> from bpfa.inference.starts import random_posterior
    >>> rows = ArrayRows(np.random.default_rng(0).normal(size=(50, 4)))
    >>> extended(random_posterior(rows, 3, seed=0), np.ones((1, 4)), use=0.1).n_features
    4
    """
    g_o, g_w = posterior.c / posterior.d, posterior.e / posterior.f
    # The precision that they would have if these rows had been seen.
    tau = posterior.n_columns + posterior.n_rows * use * g_o / g_w
    uses = np.append(_use(posterior), np.full(len(phi), use))
    return _with(posterior, posterior.features.extended(phi, tau), uses)


def _use(posterior: GlobalPosterior) -> Array:
    """Return the share of the rows that use each feature, without the contribution of the prior."""
    a0, b0 = posterior.priors.beta(posterior.n_features)
    a, b = np.maximum(posterior.a - a0, 0.0), np.maximum(posterior.b - b0, 0.0)
    share: Array = a / np.maximum(a + b, np.finfo(float).tiny)
    return np.clip(share, 0.0, 1 - 1e-12)


def _with(
    posterior: GlobalPosterior, features: FactorisedFeatures | JointFeatures, use: Array
) -> GlobalPosterior:
    """Return the posterior with other features, each used by a share of the rows, and the same E[g_w]."""
    priors, N = posterior.priors, posterior.n_rows
    a0, b0 = priors.beta(len(use))
    n_weights = N * (use.sum() if posterior.weight_precision == "active" else len(use))
    e = priors.e0 + n_weights / 2
    f = e * posterior.f / posterior.e
    return replace(posterior, a=a0 + N * use, b=b0 + N * (1 - use), e=e, f=f, features=features)
