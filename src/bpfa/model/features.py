"""q(phi), the posterior of the features: factorised or joint (docs/math.md sections 2 and 5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from bpfa._support.checks import Array, check_array, check_instance
from bpfa._support.gaussian import gaussian_draws, moved_numbers, moved_precisions
from bpfa._support.philox import GlobalDraws
from bpfa.model.sums import JointSums, LocalSums, Sums

__all__ = ["FEATURES", "FactorisedFeatures", "JointFeatures"]


@dataclass(frozen=True)
class FactorisedFeatures:
    """Independent features: q(phi_kd) = N(mu_kd / tau_kd, 1 / tau_kd).

    Parameters
    ----------
    tau : array, shape (K, D), or (K, 1) while no missing entry has been seen
    mu : array, shape (K, D)

    Examples
    --------
    >>> features = FactorisedFeatures.around(np.ones((2, 3)), tau=4.0)
    >>> features.mean
    array([[1., 1., 1.],
           [1., 1., 1.]])
    >>> features.variance
    array([[0.25],
           [0.25]])
    """

    tau: Array
    mu: Array

    def __post_init__(self) -> None:
        mu = _checked_mean("mu", self.mu)
        tau = check_array("tau", self.tau, (len(mu), None))
        if tau.shape[1] not in (1, mu.shape[1]):
            raise ValueError(f"tau: shape {tau.shape}; expected {mu.shape} or {(len(mu), 1)}")
        if (tau <= 0).any():
            raise ValueError(f"tau: smallest {tau.min()}; expected numbers > 0")
        object.__setattr__(self, "mu", mu)
        object.__setattr__(self, "tau", tau)

    @classmethod
    def around(cls, phi: Array, tau: float) -> Self:
        """Return features with the means `phi` and the precision `tau`."""
        precision = np.full((len(phi), 1), tau)
        return cls(precision, phi * precision)

    @property
    def shape(self) -> tuple[int, int]:
        """K and D."""
        n_features, n_columns = self.mu.shape
        return n_features, n_columns

    @property
    def mean(self) -> Array:
        """E[phi], K x D."""
        mean: Array = self.mu / self.tau
        return mean

    @property
    def variance(self) -> Array:
        """Variance of phi, K x D, or K x 1 where it is the same in every column."""
        return 1.0 / self.tau

    def expected(self) -> tuple[Array, Array]:
        """Return phi and v of the expected view."""
        return self.mean, self.variance

    def sampled(self, rng: np.random.Generator | GlobalDraws) -> Array:
        """Return a draw of phi, K x D."""
        draw: Array = self.mean + rng.standard_normal(self.mu.shape) / np.sqrt(self.tau)
        return draw

    def target(self, sums: Sums, scale: float) -> Self:
        """Return the prior plus the sums times `scale`, which is s g_o."""
        check_instance("sums", sums, LocalSums)
        assert isinstance(sums, LocalSums)
        return replace(self, tau=self.shape[1] + scale * sums.T, mu=scale * sums.S)

    def step(self, sums: Sums, scale: float, rho: float) -> Self:
        """Move the natural parameters by rho towards those of `target(sums, scale)`."""
        target = self.target(sums, scale)
        return replace(
            self,
            tau=(1 - rho) * self.tau + rho * target.tau,
            mu=(1 - rho) * self.mu + rho * target.mu,
        )

    def with_means(self, chosen: Array, phi: Array) -> Self:
        """Return the features with the means `phi` where chosen, at unchanged precision."""
        return replace(self, mu=np.where(chosen[:, None], self.tau * phi, self.mu))

    def mapped(self, A: Array) -> Self:
        """Return the features that the same rows determine if they use x' = A x.

        Products of different entries of A are ignored, as factorised features have no place for them.
        """
        D = self.shape[1]
        return replace(self, tau=D + A**2 @ (self.tau - D), mu=A @ self.mu)

    def extended(self, phi: Array, tau: float) -> Self:
        """Return these features followed by more features with the means `phi` and the precision `tau`."""
        precision = np.full((len(phi), self.tau.shape[1]), tau)
        return replace(
            self, tau=np.concatenate([self.tau, precision]), mu=np.concatenate([self.mu, precision * phi])
        )

    def divergence(self) -> float:
        """Kullback-Leibler divergence from the prior, phi_kd ~ N(0, 1/D)."""
        D = self.shape[1]
        mean, variance = np.broadcast_arrays(self.mean, self.variance)
        return float((np.log(1 / (D * variance)) + D * (variance + mean**2) - 1).sum() / 2)


@dataclass(frozen=True)
class JointFeatures:
    """Features that are dependent within a column: q(phi_.d) = N(P_d^-1 h_d, P_d^-1).

    Parameters
    ----------
    P : array, shape (D, K, K), or (1, K, K) while no missing entry has been seen
    h : array, shape (K, D)

    Examples
    --------
    >>> features = JointFeatures.around(np.ones((2, 3)), tau=4.0)
    >>> features.mean
    array([[1., 1., 1.],
           [1., 1., 1.]])
    >>> features.variance
    array([[0.25],
           [0.25]])
    """

    P: Array
    h: Array

    def __post_init__(self) -> None:
        h = _checked_mean("h", self.h)
        n_features, n_columns = h.shape
        P = check_array("P", self.P, (None, n_features, n_features))
        if len(P) not in (1, n_columns):
            raise ValueError(f"P: {len(P)} matrices; expected 1, or {n_columns}, one for each column")
        object.__setattr__(self, "h", h)
        object.__setattr__(self, "P", P)

    @classmethod
    def around(cls, phi: Array, tau: float) -> Self:
        """Return features with the means `phi` and the precision `tau`, still independent of one another."""
        return cls(tau * np.eye(len(phi))[None], phi * tau)

    @property
    def shape(self) -> tuple[int, int]:
        """K and D."""
        n_features, n_columns = self.h.shape
        return n_features, n_columns

    @property
    def mean(self) -> Array:
        """E[phi], K x D."""
        return gaussian_draws(self.P, self.h, np.zeros_like(self.h))

    @property
    def variance(self) -> Array:
        """Variance of phi, K x D, or K x 1 where it is the same in every column."""
        return np.stack([np.diagonal(np.linalg.inv(P)) for P in self.P], axis=1)

    def expected(self) -> tuple[Array, Array]:
        """Return phi and v of the expected view, in which the covariance of the features is K more columns.

        Under q, E[phi_k phi_j] summed over the columns is mean_k mean_j + D (P^-1)_kj. The local variables of
        a row depend on the features only through these products and those with its data. Therefore nothing
        changes for a row if its features have K more columns, whose products with one another are D P^-1, and
        the row itself has zeros there (`Batch.padded_to`). This requires that one P serves all columns.
        """
        if len(self.P) != 1:
            raise ValueError(f"P: {len(self.P)} matrices; the expected view needs one for all columns")
        n_features, n_columns = self.shape
        root = np.linalg.cholesky(np.linalg.inv(self.P[0]))
        return np.hstack([self.mean, n_columns**0.5 * root]), np.zeros((n_features, 1))

    def sampled(self, rng: np.random.Generator | GlobalDraws) -> Array:
        """Return a draw of phi, K x D."""
        return gaussian_draws(self.P, self.h, rng.standard_normal(self.h.shape))

    def target(self, sums: Sums, scale: float) -> Self:
        """Return the prior plus the sums times `scale`, which is s g_o."""
        return self.step(sums, scale, rho=1.0)

    def step(self, sums: Sums, scale: float, rho: float) -> Self:
        """Move the natural parameters by rho towards those of `target(sums, scale)`."""
        # Not by way of `target`: P may be large, and is moved in one pass over it.
        check_instance("sums", sums, JointSums)
        assert isinstance(sums, JointSums)
        keep, gain = 1 - rho, rho * scale
        P, P_is_finite = moved_precisions(self.P, sums.XX, keep, gain, diagonal=rho * self.shape[1])
        h, h_is_finite = moved_numbers(self.h, sums.XY, keep, gain)
        # The constructor would look at all numbers once more; it is left to say what is wrong with them.
        return self._unchecked(P, h) if P_is_finite and h_is_finite else type(self)(P, h)

    @classmethod
    def _unchecked(cls, P: Array, h: Array) -> Self:
        features = object.__new__(cls)
        features.__dict__.update(P=P, h=h)
        return features

    def with_means(self, chosen: Array, phi: Array) -> Self:
        """Return the features with the means `phi` where chosen.

        No row may use the chosen features, so that they are independent of all others.
        """
        precision = self.P.diagonal(axis1=1, axis2=2).T
        return replace(self, h=np.where(chosen[:, None], precision * phi, self.h))

    def mapped(self, A: Array) -> Self:
        """Return the features that the same rows determine if they use x' = A x: A X X^T A^T and A X Y."""
        D = self.shape[1]
        # The part of P that comes from the prior does not change.
        prior = D * (np.eye(len(A)) - A @ A.T)
        return replace(self, P=A @ self.P @ A.T + prior, h=A @ self.h)

    def extended(self, phi: Array, tau: float) -> Self:
        """Return these features followed by independent ones with the means `phi` and the precision `tau`."""
        K, more = self.shape[0], len(phi)
        P = np.zeros((len(self.P), K + more, K + more))
        P[:, :K, :K] = self.P
        P[:, K:, K:] = tau * np.eye(more)
        return replace(self, P=P, h=np.concatenate([self.h, tau * phi]))

    def divergence(self) -> float:
        """Kullback-Leibler divergence from the prior, phi_kd ~ N(0, 1/D)."""
        (K, D), variance = self.shape, self.variance
        log_det = np.linalg.slogdet(self.P).logabsdet  # one for each column, or one for all
        columns = log_det - K * np.log(D) + D * (variance + self.mean**2).sum(axis=0) - K
        return float(columns.sum() / 2)


FEATURES: dict[str, type[FactorisedFeatures] | type[JointFeatures]] = {
    "joint": JointFeatures,
    "factorised": FactorisedFeatures,
}
"""The forms of q(phi) by name."""


def _checked_mean(name: str, value: Array) -> Array:
    array = check_array(name, value, (None, None))
    if 0 in array.shape:
        raise ValueError(f"{name}: shape {array.shape}; expected at least one feature and one column")
    return array
