"""The variational posterior of the global variables, in natural parameters (docs/math.md section 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.special import digamma

from bpfa._support.checks import Array, check_array, check_choice, check_instance, check_integer, check_number
from bpfa._support.gaussian import moved_numbers
from bpfa._support.philox import GlobalDraws
from bpfa.model.features import FactorisedFeatures, JointFeatures
from bpfa.model.priors import Priors, log_odds_draw
from bpfa.model.summary import ReadableSummary, Summary
from bpfa.model.sums import Sums
from bpfa.model.view import GlobalView

__all__ = ["WEIGHT_PRECISIONS", "GlobalPosterior", "Posterior"]

WEIGHT_PRECISIONS = ("active", "all")


@runtime_checkable
class Posterior(Protocol):
    """What is known about the globals: a variational posterior, or the states of a chain."""

    @property
    def n_features(self) -> int:
        """Number of features K."""

    @property
    def n_columns(self) -> int:
        """Number of columns D."""

    @property
    def noise_std(self) -> float:
        """Noise standard deviation."""

    def n_active(self) -> int:
        """Count the features that rows use."""

    def sampled(self, rng: np.random.Generator | GlobalDraws) -> Any:
        """Return a draw of every global.

        Parameters
        ----------
        rng : Generator or GlobalDraws

        Returns
        -------
        GlobalView

        See Also
        --------
        bpfa.posterior_draws : Draws of everything, rows included.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(100, 4, 2, g_o=100.0, g_w=1.0, seed=0).y
        >>> posterior = BPFA(3, max_steps=5, random_state=0).fit(X).posterior_
        >>> posterior.sampled(np.random.default_rng(0)).phi.shape
        (3, 4)
        """

    def host(self) -> Any:
        """Return the posterior in the memory of the host: itself, or a copy from a device.

        Returns
        -------
        GlobalPosterior or ChainPosterior

        See Also
        --------
        bpfa.train : Its steps report posteriors, which may be on a device.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(100, 4, 2, g_o=100.0, g_w=1.0, seed=0).y
        >>> posterior = BPFA(3, max_steps=5, random_state=0).fit(X).posterior_
        >>> posterior.host() is posterior
        True
        """

    def summary(self) -> ReadableSummary:
        """Return a summary for the history, which may have to be read from a device later.

        Returns
        -------
        Summary

        See Also
        --------
        bpfa.GlobalPosterior.n_active : How many features are used.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(100, 4, 2, g_o=100.0, g_w=1.0, seed=0).y
        >>> posterior = BPFA(3, max_steps=5, random_state=0).fit(X).posterior_
        >>> posterior.summary() == (posterior.noise_std, posterior.n_active())
        True
        """

    def check_finite(self) -> None:
        """Raise a ValueError if a step on a device has failed; on the host, a failing step raises at once.

        See Also
        --------
        bpfa.NonFiniteError : What a fit raises whose numbers are no longer finite.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(100, 4, 2, g_o=100.0, g_w=1.0, seed=0).y
        >>> posterior = BPFA(3, max_steps=5, random_state=0).fit(X).posterior_
        >>> posterior.check_finite()
        """


@dataclass(frozen=True)
class GlobalPosterior(Posterior):
    """q(pi) q(phi) q(g_o) q(g_w) in natural parameters. It is immutable: a step returns a new one.

    ::

        q(pi_k) = Beta(a_k, b_k)      q(phi): `features`
        q(g_o)  = Gamma(c, d)         q(g_w) = Gamma(e, f)

    Parameters
    ----------
    priors : Priors
    n_rows : int
        Size N of the whole data set, to which the sums of a batch are scaled.
    a, b : array, shape (K,)
    c, d, e, f : float
    features : FactorisedFeatures or JointFeatures
        q(phi).
    weight_precision : str
        Which weights q(g_w) is learned from: "all" of them, as in the paper, or only the "active" ones, with
        the idle ones integrated out. The model is the same; but the idle weights only repeat the g_w that
        they were drawn with, so that learning from them is slow (docs/math.md section 5).

    See Also
    --------
    bpfa.ChainPosterior : The posterior of the sampler.
    bpfa.posterior_draws : Draws from a posterior.

    References
    ----------
    .. [1] M. D. Hoffman, D. M. Blei, C. Wang and J. Paisley, "Stochastic Variational Inference", Journal of
       Machine Learning Research 14 (2013).
    .. [2] M. D. Hoffman and D. M. Blei, "Structured Stochastic Variational Inference", AISTATS (2015).

    Examples
    --------
    >>> import bpfa
    >>> y = bpfa.draw_data(100, 4, 2, g_o=100.0, g_w=1.0, seed=0).y
    >>> *_, progress = bpfa.train(y, n_features=3, batch_size=100, n_steps=20, seed=0)
    >>> posterior = progress.posterior
    >>> posterior.n_features, posterior.n_columns, posterior.pi.shape
    (3, 4, (3,))
    """

    priors: Priors
    n_rows: int
    a: Array
    b: Array
    c: float
    d: float
    e: float
    f: float
    features: FactorisedFeatures | JointFeatures
    weight_precision: str = "all"

    def __post_init__(self) -> None:
        check_instance("priors", self.priors, Priors)
        check_choice("weight_precision", self.weight_precision, WEIGHT_PRECISIONS)
        K = self.n_features
        for name in "ab":
            array = check_array(name, getattr(self, name), (K,))
            if array.min() <= 0:
                raise ValueError(f"{name}: smallest {array.min()}; expected numbers > 0")
            object.__setattr__(self, name, array)
        object.__setattr__(self, "n_rows", check_integer("n_rows", self.n_rows, low=1))
        for name in "cdef":
            object.__setattr__(self, name, check_number(name, getattr(self, name), low=0.0, open_low=True))

    @property
    def n_features(self) -> int:
        """Number of features K."""
        return self.features.shape[0]

    @property
    def n_columns(self) -> int:
        """Number of columns D."""
        return self.features.shape[1]

    @property
    def joint(self) -> bool:
        """Whether the features are joint."""
        return isinstance(self.features, JointFeatures)

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
        """Count the features that are used by more than this share of the rows, and by more than one row.

        Parameters
        ----------
        share : float

        Returns
        -------
        int

        See Also
        --------
        bpfa.GlobalPosterior.summary : The same, with the noise.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(100, 4, 2, g_o=100.0, g_w=1.0, seed=0).y
        >>> posterior = BPFA(3, max_steps=5, random_state=0).fit(X).posterior_
        >>> posterior.n_active(share=0.5) <= posterior.n_active() <= posterior.n_features
        True
        """
        used = self.a - self.priors.beta(self.n_features)[0]
        return int(np.count_nonzero(used > max(1.0, share * self.n_rows)))

    def host(self) -> GlobalPosterior:
        """Return this posterior, which is in the memory of the host."""
        return self

    def summary(self) -> Summary:
        """Return what the history of a fit records of this posterior."""
        return Summary(self.noise_std, self.n_active())

    def check_finite(self) -> None:
        """Do nothing: natural parameters that are not finite are refused when a posterior is made."""

    def expected(self) -> GlobalView:
        """Return the expected view, which mean-field (unstructured) algorithms see.

        Returns
        -------
        GlobalView

        See Also
        --------
        bpfa.GlobalPosterior.sampled : A draw instead of expectations.
        bpfa.Algorithm.view_of : The view that an algorithm sees.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(100, 4, 2, g_o=100.0, g_w=1.0, seed=0).y
        >>> posterior = BPFA(3, algorithm="mf-svi", max_steps=5, random_state=0).fit(X).posterior_
        >>> posterior.expected().phi.shape
        (3, 4)
        """
        phi, v = self.features.expected()
        return GlobalView(
            phi=phi,
            v=v,
            logit=digamma(self.a) - digamma(self.b),
            g_o=self.c / self.d,
            g_w=self.e / self.f,
        )

    def sampled(self, rng: np.random.Generator | GlobalDraws) -> GlobalView:
        """Return a sampled view, a draw of every global, which structured algorithms see."""
        return GlobalView(
            phi=self.features.sampled(rng),
            v=np.zeros((self.n_features, 1)),
            logit=log_odds_draw(self.a, self.b, rng),
            g_o=rng.gamma(self.c) / self.d,
            g_w=rng.gamma(self.e) / self.f,
        )

    def target(self, sums: Sums, g_o: float) -> GlobalPosterior:
        """Return the prior plus the sums scaled to N rows, which is the result of a step of size one.

        Parameters
        ----------
        sums : LocalSums or JointSums
            The sums of a batch of at least one row, as `bpfa.model.local.local_sums` returns them.
        g_o : float
            Noise precision of the view under which the sums were taken.

        Returns
        -------
        GlobalPosterior

        See Also
        --------
        bpfa.GlobalPosterior.step : A step of any size.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(100, 4, 2, g_o=100.0, g_w=1.0, seed=0).y
        >>> posterior = BPFA(3, max_steps=5, random_state=0).fit(X).posterior_
        >>> from bpfa import Batch
        >>> from bpfa.model.sums import JointSums, LocalMoments
        >>> ones = np.ones((100, 3))  # the moments of z and w if every row used every feature
        >>> view = posterior.sampled(np.random.default_rng(0))
        >>> sums = JointSums.of(view, Batch(X), LocalMoments(ones, ones, ones, ones))
        >>> bool((posterior.target(sums, view.g_o).pi > 0.9).all())
        True
        """
        ab, numbers = self._target_except_features(sums)
        features = self.features.target(sums, self.n_rows / sums.n_rows * g_o)
        return replace(self, a=ab[0], b=ab[1], **numbers, features=features)

    def _target_except_features(self, sums: Sums) -> tuple[Array, dict[str, Any]]:
        """Return the targets of a and b, and of c to f."""
        if sums.n_rows < 1:
            raise ValueError(f"sums: of {sums.n_rows} rows; expected a batch of at least one row")
        if len(sums.n) != self.n_features:
            raise ValueError(f"sums: of {len(sums.n)} features; expected {self.n_features}")
        s, priors = self.n_rows / sums.n_rows, self.priors
        a0, b0 = priors.beta(self.n_features)
        if self.weight_precision == "active":
            n_weights, squares = float(sums.n.sum()), sums.ZW2
        else:
            n_weights, squares = sums.n_rows * self.n_features, sums.W2
        return np.array([a0 + s * sums.n, b0 + s * (sums.n_rows - sums.n)]), {
            "c": priors.c0 + s * sums.O / 2,
            "d": priors.d0 + s * sums.SSE / 2,
            "e": priors.e0 + s * n_weights / 2,
            "f": priors.f0 + s * squares / 2,
        }

    def step(self, sums: Sums, rho: float, g_o: float) -> GlobalPosterior:
        """Move every natural parameter by rho towards `target(sums, g_o)`.

        Parameters
        ----------
        sums : LocalSums or JointSums
            As for `target`.
        rho : float
            Size of the step, from 0 to 1.
        g_o : float
            As for `target`.

        Returns
        -------
        GlobalPosterior

        See Also
        --------
        bpfa.GlobalPosterior.target : Where a step leads.
        bpfa.Schedule : The sizes of steps.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(100, 4, 2, g_o=100.0, g_w=1.0, seed=0).y
        >>> posterior = BPFA(3, max_steps=5, random_state=0).fit(X).posterior_
        >>> from bpfa import Batch
        >>> from bpfa.model.sums import JointSums, LocalMoments
        >>> ones = np.ones((100, 3))  # the moments of z and w if every row used every feature
        >>> view = posterior.sampled(np.random.default_rng(0))
        >>> sums = JointSums.of(view, Batch(X), LocalMoments(ones, ones, ones, ones))
        >>> moved, target = posterior.step(sums, rho=0.25, g_o=view.g_o), posterior.target(sums, view.g_o)
        >>> bool(np.allclose(moved.a, 0.75 * posterior.a + 0.25 * target.a))
        True
        """
        rho = check_number("rho", rho, low=0.0, high=1.0)
        target_ab, target = self._target_except_features(sums)
        features = self.features.step(sums, self.n_rows / sums.n_rows * g_o, rho)
        ab, finite = moved_numbers(np.array([self.a, self.b]), target_ab, 1 - rho, rho)
        numbers = {name: (1 - rho) * getattr(self, name) + rho * new for name, new in target.items()}
        changed = {"a": ab[0], "b": ab[1], **numbers, "features": features}
        if not (finite and ab.min() > 0 and all(x > 0 and isfinite(x) for x in numbers.values())):
            return replace(self, **changed)  # raises an error that says what is wrong
        # The constructor would check everything once more, which takes longer than a small step.
        moved = object.__new__(type(self))
        moved.__dict__.update(self.__dict__, **changed)
        return moved
