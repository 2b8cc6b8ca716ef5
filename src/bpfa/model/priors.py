"""The model (docs/math.md section 1): its priors, and data drawn from it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from bpfa._support.checks import Array, check_instance, check_integer, check_number
from bpfa._support.philox import GlobalDraws, Stream

__all__ = ["Priors", "Synthetic", "as_priors", "draw_data", "log_gamma_draw", "log_odds_draw"]


@dataclass(frozen=True)
class Priors:
    """The priors of the truncated beta-Bernoulli factor model; the defaults are those of the paper.

    With K features and D columns::

        pi_k ~ Beta(a/K, b (K-1)/K)        phi_kd ~ N(0, 1/D)
        g_o ~ Gamma(c0, rate d0)           g_w ~ Gamma(e0, rate f0)

    Parameters
    ----------
    a, b : float
        Concentration of the beta process. Under the prior a row has about a / b features.
    c0, d0 : float
        Shape and rate of the noise precision g_o.
    e0, f0 : float
        Shape and rate of the weight precision g_w.

    See Also
    --------
    bpfa.draw_data : Data drawn from the model.
    bpfa.BPFA : The estimator for tables.

    References
    ----------
    .. [1] J. Paisley and L. Carin, "Nonparametric Factor Analysis with Beta Process Priors", ICML (2009).
    .. [2] A. Shah, D. A. Knowles and Z. Ghahramani, "An Empirical Study of Stochastic Variational Algorithms
       for the Beta Bernoulli Process", ICML (2015).

    Examples
    --------
    >>> Priors(a=2.0).a
    2.0
    >>> Priors(d0=-1.0)
    Traceback (most recent call last):
    ...
    ValueError: d0=-1.0: expected a number > 0
    """

    a: float = 10.0
    b: float = 10.0
    c0: float = 1.0
    d0: float = 10.0
    e0: float = 1.0
    f0: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = check_number(field.name, getattr(self, field.name), low=0.0, open_low=True)
            object.__setattr__(self, field.name, value)

    def beta(self, n_features: int) -> tuple[float, float]:
        """Return the two parameters of the beta prior of pi_k.

        Parameters
        ----------
        n_features : int
            K.

        Returns
        -------
        tuple of two floats

        See Also
        --------
        bpfa.GlobalPosterior : The posterior, of which these parameters are the start.

        Examples
        --------
        >>> Priors(a=10.0, b=10.0).beta(5)
        (2.0, 8.0)
        """
        # With a single feature, b (K-1)/K would be 0, and a beta distribution needs a positive parameter.
        return self.a / n_features, self.b * max(n_features - 1, 1) / n_features


def as_priors(priors: Priors | None) -> Priors:
    """Return the given priors, or those of the paper by default."""
    if priors is None:
        return Priors()
    check_instance("priors", priors, Priors)
    return priors


class Synthetic(NamedTuple):
    """A data set drawn from the model, together with the variables that generated it.

    See Also
    --------
    bpfa.draw_data : Data drawn from the model.

    Examples
    --------
    >>> data = draw_data(100, 5, 3, g_o=100.0, g_w=1.0, seed=0)
    >>> bool(abs(np.std(data.y - data.signal) - 0.1) < 0.02)
    True
    """

    y: Array
    """The data with noise, rows x columns; nothing is missing."""
    z: Array
    """Rows x features, 0 or 1."""
    w: Array
    """Rows x features."""
    phi: Array
    """Features x columns."""
    pi: Array
    """The probability of every feature."""
    g_o: float
    """Precision of the noise."""
    g_w: float
    """Precision of the weights."""

    @property
    def signal(self) -> Array:
        """The data without its noise, (z * w) @ phi."""
        return (self.z * self.w) @ self.phi


def log_gamma_draw(shape: Array, rng: np.random.Generator | GlobalDraws) -> Array:
    """Return the logarithms of draws from Gamma(shape, 1), even where the draws would underflow to zero."""
    # If G ~ Gamma(s + 1) and U ~ Uniform(0, 1), then G U^(1/s) ~ Gamma(s).
    boosted = np.log(rng.standard_gamma(np.asarray(shape) + 1.0))
    draw: Array = boosted - rng.standard_exponential(np.shape(shape)) / shape
    return draw


def log_odds_draw(a: Array, b: Array, rng: np.random.Generator | GlobalDraws) -> Array:
    """Return log pi - log(1 - pi) of draws pi from Beta(a, b).

    It is the difference of the logarithms of two gamma draws.

    Parameters
    ----------
    a, b : array, shape (K,)
    rng : Generator or GlobalDraws

    Examples
    --------
    >>> from bpfa._support.philox import Stream
    >>> draws = log_odds_draw(np.array([1e9]), np.array([3e9]), Stream.from_seed(0).globals(step=1))
    >>> np.exp(draws).round(2)
    array([0.33])
    """
    if isinstance(rng, GlobalDraws):
        # The same numbers, in fewer calls.
        log_a, log_b = rng.log_gamma(np.array([a, b]))
    else:
        log_a, log_b = log_gamma_draw(a, rng), log_gamma_draw(b, rng)
    difference: Array = log_a - log_b
    return difference


def draw_data(
    n_rows: int,
    n_columns: int,
    n_features: int,
    *,
    priors: Priors | None = None,
    g_o: float | None = None,
    g_w: float | None = None,
    seed: int | None = None,
) -> Synthetic:
    """Draw a complete data set from the prior.

    Parameters
    ----------
    n_rows, n_columns, n_features : int
        N, D and K.
    priors : Priors, optional
    g_o, g_w : float, optional
        The noise precision and the weight precision; drawn from their priors by default.
    seed : int, optional

    Returns
    -------
    Synthetic

    See Also
    --------
    bpfa.Priors : The hyperparameters.
    bpfa.BPFA.sample : Draw new rows.

    References
    ----------
    .. [1] J. Paisley and L. Carin, "Nonparametric Factor Analysis with Beta Process Priors", ICML (2009).

    Examples
    --------
    >>> data = draw_data(100, 5, 3, g_o=100.0, g_w=1.0, seed=0)
    >>> data.y.shape, data.phi.shape
    ((100, 5), (3, 5))
    """
    n_rows = check_integer("n_rows", n_rows, low=1)
    n_columns = check_integer("n_columns", n_columns, low=1)
    n_features = check_integer("n_features", n_features, low=1)
    priors = as_priors(priors)
    rng = Stream.from_seed(seed).child("data").generator(step=0)
    g_o = rng.gamma(priors.c0) / priors.d0 if g_o is None else check_number("g_o", g_o, low=0, open_low=True)
    g_w = rng.gamma(priors.e0) / priors.f0 if g_w is None else check_number("g_w", g_w, low=0, open_low=True)
    pi = rng.beta(*priors.beta(n_features), size=n_features)
    phi = rng.normal(scale=n_columns**-0.5, size=(n_features, n_columns))
    z = (rng.random((n_rows, n_features)) < pi).astype(np.float64)
    w = rng.normal(scale=g_w**-0.5, size=(n_rows, n_features))
    noise = rng.normal(scale=g_o**-0.5, size=(n_rows, n_columns))
    return Synthetic((z * w) @ phi + noise, z, w, phi, pi, g_o, g_w)
