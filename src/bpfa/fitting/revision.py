"""Features that die, double or are lacking: drop, merge and grow them where held-out entries say so.

A step of SVI moves features, but it seldom takes one out of use whose rows it would have to hand over to
others, tells twins apart, or finds what no feature comes near. Between steps such changes are tried at once,
and kept if the model then predicts held-out entries better: the number of features is that of the model.
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

# The share of the features that is tried to be dropped, or added, at first, and so many times by halves.
SHARE, HALVINGS = 1 / 4, 4
# Features whose directions are closer than this are tried to be merged, so many pairs at most.
CLOSE, MOST_PAIRS = 0.8, 4
# The share of the rows that counts as badly explained, and that uses a new feature.
BADLY = 0.1


class Revision(NamedTuple):
    """What came of a look at the features."""

    posterior: GlobalPosterior
    kept: tuple[str, ...]
    """Of the changes that were tried those that were kept, such as "dropped 3"."""


def revise(
    posterior: GlobalPosterior,
    score: Callable[[GlobalPosterior], float],
    batch: Batch,
    algorithm: Algorithm,
    *,
    most: int,
    stream: Stream,
) -> Revision:
    """Try to drop, merge and add features, and keep what raises the score.

    Parameters
    ----------
    posterior : GlobalPosterior
    score : callable
        From a posterior to how well it predicts; the same numbers must be drawn for each.
    batch : Batch
        Rows of the data in which badly explained ones are sought.
    algorithm : Algorithm
        How the posterior is trained.
    most : int
        The largest number of features.
    stream : Stream
    """

    def grown(posterior: GlobalPosterior) -> Iterator[tuple[str, GlobalPosterior]]:
        return _with_new_ones(posterior, batch, algorithm, most, stream)

    best, kept = score(posterior), []
    for proposals in (_without_the_least, _with_close_ones_merged, grown):
        for name, proposed in proposals(posterior):
            if (found := score(proposed)) > best:
                posterior, best = proposed, found
                kept.append(name)
                break
    return Revision(posterior, tuple(kept))


def _without_the_least(posterior: GlobalPosterior) -> Iterator[tuple[str, GlobalPosterior]]:
    """Yield the posterior without a quarter of its features, those that explain least, and without fewer."""
    K = posterior.n_features
    order = np.argsort(_energy(posterior))
    for n in _numbers(K - 1, K):
        keep = np.sort(order[n:])
        yield f"dropped {n}", mapped(posterior, np.eye(K)[keep])


def _with_close_ones_merged(posterior: GlobalPosterior) -> Iterator[tuple[str, GlobalPosterior]]:
    """Yield the posterior with all pairs of close features merged, then with each of them alone."""
    K, phi = posterior.n_features, posterior.features.mean
    length = np.sqrt((phi**2).sum(axis=1))
    unit = phi / np.where(length > 0, length, 1.0)[:, None]
    closeness = np.triu(np.abs(unit @ unit.T), 1)
    pairs: list[tuple[int, int]] = []
    for place in np.argsort(-closeness, axis=None)[: 10 * MOST_PAIRS]:
        j, k = divmod(int(place), K)
        if closeness[j, k] < CLOSE or len(pairs) == MOST_PAIRS:
            break
        if not {j, k} & {feature for pair in pairs for feature in pair}:
            pairs.append((j, k))
    sets = [pairs, *([pair] for pair in pairs)] if len(pairs) > 1 else [pairs] if pairs else []
    for chosen in sets:
        A = np.eye(K)
        for j, k in chosen:
            # phi_k is nearly a multiple of phi_j, and x_k of it is as much of phi_j.
            A[j, k] = phi[k] @ phi[j] / (phi[j] @ phi[j])
        A = np.delete(A, [k for _, k in chosen], axis=0)
        yield f"merged {len(chosen)}", mapped(posterior, A)


def _with_new_ones(
    posterior: GlobalPosterior, batch: Batch, algorithm: Algorithm, most: int, stream: Stream
) -> Iterator[tuple[str, GlobalPosterior]]:
    """Yield the posterior with new features, as badly explained rows would have them, and with fewer."""
    view = posterior.sampled(stream.generator(0))
    x = algorithm.local.row_moments(view, batch, stream.rows(batch.ids, 0)).x
    residual = np.where(batch.observed, batch.values - x @ view.phi, 0.0)
    n_observed = np.maximum(batch.observed.sum(axis=1), 1)
    badly = np.argsort((residual**2).sum(axis=1) / n_observed)[-max(2, round(BADLY * len(batch))) :]
    covariance = pairwise_covariance(Batch(residual[badly], batch.observed[badly]))
    eigenvalues, vectors = np.linalg.eigh(covariance)
    # What noise alone would give (Marchenko and Pastur), in rows that were chosen for having much of it.
    noise = float(np.median(eigenvalues))
    n_found = int((eigenvalues > noise * (1 + np.sqrt(len(covariance) / len(badly))) ** 2).sum())
    for n in _numbers(min(n_found, most - posterior.n_features), posterior.n_features):
        last = slice(len(covariance) - n, None)
        variance = np.maximum(eigenvalues[last] - noise, 0.0)
        phi = (vectors[:, last] * np.sqrt(variance * posterior.e / posterior.f)).T
        yield f"added {n}", extended(posterior, phi, BADLY)


def _numbers(most: int, K: int) -> Iterator[int]:
    """Yield a quarter of the features, half of that, and so on, at most `most` and at least 1.

    Examples
    --------
    >>> list(_numbers(100, 40)), list(_numbers(2, 40)), list(_numbers(0, 40))
    ([10, 5, 2, 1], [2, 1], [])
    """
    n = min(most, max(1, round(SHARE * K)))
    for _ in range(HALVINGS):
        if n < 1:
            return
        yield n
        n //= 2


def _energy(posterior: GlobalPosterior) -> Array:
    """Variance that each feature explains in all columns together."""
    energy: Array = posterior.pi * (posterior.features.mean**2).sum(axis=1)
    return energy


def mapped(posterior: GlobalPosterior, A: Array) -> GlobalPosterior:
    """Return the posterior of features whose use is x' = A x: some left out, or several in place of one.

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
    # A row uses the new feature if it uses one of those that it stands for.
    use = 1 - np.exp((A != 0) @ np.log1p(-_use(posterior)))
    return _with(posterior, posterior.features.mapped(A), use)


def extended(posterior: GlobalPosterior, phi: Array, use: float) -> GlobalPosterior:
    """Return the posterior with more features.

    Parameters
    ----------
    posterior : GlobalPosterior
    phi : array, shape (K', D)
        Their means.
    use : float
        Share of the rows that use each of them.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> from bpfa.inference.starts import random_posterior
    >>> rows = ArrayRows(np.random.default_rng(0).normal(size=(50, 4)))
    >>> extended(random_posterior(rows, 3, seed=0), np.ones((1, 4)), use=0.1).n_features
    4
    """
    g_o, g_w = posterior.c / posterior.d, posterior.e / posterior.f
    # As sure of them as if those rows had been seen.
    tau = posterior.n_columns + posterior.n_rows * use * g_o / g_w
    uses = np.append(_use(posterior), np.full(len(phi), use))
    return _with(posterior, posterior.features.extended(phi, tau), uses)


def _use(posterior: GlobalPosterior) -> Array:
    """Share of the rows that use each feature, the prior left out."""
    a0, b0 = posterior.priors.beta(posterior.n_features)
    a, b = np.maximum(posterior.a - a0, 0.0), np.maximum(posterior.b - b0, 0.0)
    share: Array = a / np.maximum(a + b, np.finfo(float).tiny)
    return np.clip(share, 0.0, 1 - 1e-12)


def _with(
    posterior: GlobalPosterior, features: FactorisedFeatures | JointFeatures, use: Array
) -> GlobalPosterior:
    """Return the posterior with other features, each used by a share of the rows; E[g_w] stays."""
    priors, N = posterior.priors, posterior.n_rows
    a0, b0 = priors.beta(len(use))
    n_weights = N * (use.sum() if posterior.weight_precision == "active" else len(use))
    e = priors.e0 + n_weights / 2
    f = e * posterior.f / posterior.e
    return replace(posterior, a=a0 + N * use, b=b0 + N * (1 - use), e=e, f=f, features=features)
