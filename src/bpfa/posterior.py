"""The variational posterior of the global variables, in natural parameters (MATH.md section 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import digamma

from bpfa._checks import Array, check_array, check_instance, check_integer, check_number
from bpfa.model import Priors, log_gamma_draw
from bpfa.statistics import LocalSums
from bpfa.view import GlobalView

__all__ = ["GlobalPosterior"]


@dataclass(frozen=True)
class GlobalPosterior:
    """q(pi) q(phi) q(g_o) q(g_w), as natural parameters; immutable, a step returns a new one.

    ::

        q(pi_k) = Beta(a_k, b_k)      q(phi_kd) = N(mu_kd / tau_kd, 1 / tau_kd)
        q(g_o)  = Gamma(c, d)         q(g_w)    = Gamma(e, f)

    Parameters
    ----------
    priors : Priors
    n_rows : int
        Size N of the whole data set, to which the sums of a batch are scaled.
    a, b : array, shape (K,)
    c, d, e, f : float
    tau : array, shape (K, D), or (K, 1) while no missing entry has been seen
    mu : array, shape (K, D)
    """

    priors: Priors
    n_rows: int
    a: Array
    b: Array
    c: float
    d: float
    e: float
    f: float
    tau: Array
    mu: Array

    def __post_init__(self) -> None:
        check_instance("priors", self.priors, Priors)
        mu = check_array("mu", self.mu, (None, None))
        if 0 in mu.shape:
            raise ValueError(f"mu: shape {mu.shape}; expected at least one feature and one column")
        tau = check_array("tau", self.tau, (len(mu), None))
        if tau.shape[1] not in (1, mu.shape[1]):
            raise ValueError(f"tau: shape {tau.shape}; expected {mu.shape} or {(len(mu), 1)}")
        a, b = check_array("a", self.a, (len(mu),)), check_array("b", self.b, (len(mu),))
        for name, array in (("a", a), ("b", b), ("tau", tau)):
            if (array <= 0).any():
                raise ValueError(f"{name}: smallest {array.min()}; expected numbers > 0")
            object.__setattr__(self, name, array)
        object.__setattr__(self, "mu", mu)
        object.__setattr__(self, "n_rows", check_integer("n_rows", self.n_rows, low=1))
        for name in "cdef":
            object.__setattr__(self, name, check_number(name, getattr(self, name), low=0.0, open_low=True))

    @property
    def n_features(self) -> int:
        """Number of features K."""
        return int(self.mu.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of columns D."""
        return int(self.mu.shape[1])

    @property
    def pi(self) -> Array:
        """E[pi_k]."""
        pi: Array = self.a / (self.a + self.b)
        return pi

    @property
    def noise_std(self) -> float:
        """Noise standard deviation at the expected precision."""
        return float((self.d / self.c) ** 0.5)

    def n_active(self, share: float = 0.001) -> int:
        """Count the features that more than this share of the rows, and more than one row, use."""
        used = self.a - self.priors.beta(self.n_features)[0]
        return int((used > max(1.0, share * self.n_rows)).sum())

    def expected(self) -> GlobalView:
        """Return the expected view: what mean-field (unstructured) algorithms see."""
        return GlobalView(
            phi=self.mu / self.tau,
            v=1.0 / self.tau,
            logit=digamma(self.a) - digamma(self.b),
            g_o=self.c / self.d,
            g_w=self.e / self.f,
        )

    def sampled(self, rng: np.random.Generator) -> GlobalView:
        """Return a sampled view: a draw of every global, as structured algorithms see."""
        noise = rng.standard_normal(self.mu.shape)
        return GlobalView(
            phi=self.mu / self.tau + noise / np.sqrt(self.tau),
            v=np.zeros((self.n_features, 1)),
            # log pi - log(1 - pi) of a beta draw is the difference of two log gamma draws.
            logit=log_gamma_draw(self.a, rng) - log_gamma_draw(self.b, rng),
            g_o=rng.gamma(self.c) / self.d,
            g_w=rng.gamma(self.e) / self.f,
        )

    def target(self, sums: LocalSums, g_o: float) -> GlobalPosterior:
        """Return prior plus sums scaled to N rows: where a step of size one leads.

        Parameters
        ----------
        sums : LocalSums
            Of a batch of at least one row.
        g_o : float
            Noise precision of the view that the sums were taken under.
        """
        if sums.n_rows < 1:
            raise ValueError(f"sums: of {sums.n_rows} rows; expected a batch of at least one row")
        if sums.S.shape != self.mu.shape:
            raise ValueError(f"sums.S: shape {sums.S.shape}, expected {self.mu.shape}")
        s, priors = self.n_rows / sums.n_rows, self.priors
        a0, b0 = priors.beta(self.n_features)
        return replace(
            self,
            a=a0 + s * sums.n,
            b=b0 + s * (sums.n_rows - sums.n),
            c=priors.c0 + s * sums.O / 2,
            d=priors.d0 + s * sums.SSE / 2,
            e=priors.e0 + s * sums.n_rows * self.n_features / 2,
            f=priors.f0 + s * sums.W2 / 2,
            tau=self.n_columns + s * g_o * sums.T,
            mu=s * g_o * sums.S,
        )

    def step(self, sums: LocalSums, rho: float, g_o: float) -> GlobalPosterior:
        """Move every natural parameter by rho towards `target(sums, g_o)`."""
        rho = check_number("rho", rho, low=0.0, high=1.0)
        target = self.target(sums, g_o)

        def moved(old: Array, new: Array) -> Array:
            return (1 - rho) * old + rho * new

        return replace(
            self,
            a=moved(self.a, target.a),
            b=moved(self.b, target.b),
            c=(1 - rho) * self.c + rho * target.c,
            d=(1 - rho) * self.d + rho * target.d,
            e=(1 - rho) * self.e + rho * target.e,
            f=(1 - rho) * self.f + rho * target.f,
            tau=moved(self.tau, target.tau),
            mu=moved(self.mu, target.mu),
        )
