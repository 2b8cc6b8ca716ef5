"""Mean field by gradient ascent on the local bound, which is how the paper says that it was optimised.

The paper gives neither the number of steps, nor their size, nor where they start. The size is found here by
trial: a row takes a longer step after one that raised its bound, and a shorter one after one that did not,
which is taken back. This is plain gradient ascent at its most favourable.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bpfa.backends.numpy import MeanField, SpikeSlab
from bpfa.data import Batch
from bpfa.model.local import LocalPosterior, RowStart
from bpfa.model.view import GlobalView

STARTS = {"middle": "theta = 1/2 and m = 0", "random": "theta uniform and m from its prior"}
FIRST_SIZE, LONGER, SHORTER = 0.05, 1.5, 0.3
# The log odds of theta and log kappa stay where both can be computed with.
LARGEST_ODDS, LARGEST_LOG = 20.0, 25.0


class Climber(NamedTuple):
    """The parameters of q without bounds: the log odds of theta, m, and log kappa, each rows x features.

    Arrays are those of NumPy or of CuPy.
    """

    odds: Any
    m: Any
    log_kappa: Any

    def moved(self, slope: Climber, size: Any) -> Climber:
        """Return the parameters after a step of this size, one for each row."""
        odds, m, log_kappa = (value + size[:, None] * rise for value, rise in zip(self, slope, strict=True))
        return Climber(odds.clip(-LARGEST_ODDS, LARGEST_ODDS), m, log_kappa.clip(-LARGEST_LOG, LARGEST_LOG))


@dataclass(frozen=True)
class LocalBound:
    """The local bound of `MeanField` or `SpikeSlab` for some rows, and its gradient.

    Parameters
    ----------
    view : GlobalView
    batch : Batch
    idle : bool
        Whether q(w) is the prior where z = 0, as in spike and slab.
    xp : module
        NumPy or CuPy.
    """

    view: GlobalView
    batch: Batch
    idle: bool
    xp: Any = np

    @cached_property
    def _arrays(self) -> tuple[Any, ...]:
        """Return y, o, phi, logit, sum_d o phi^2 and sum_d o (phi^2 + v)."""
        xp, view = self.xp, self.view
        y, o = xp.asarray(self.batch.values, float), xp.asarray(self.batch.observed, float)
        phi, logit = xp.asarray(view.phi), xp.asarray(view.logit)
        v = xp.broadcast_to(xp.asarray(view.v), phi.shape)
        return y, o, phi, logit, o @ (phi**2).T, o @ (phi**2 + v).T

    def and_slope(self, here: Climber) -> tuple[Any, Climber]:
        """Return the bound of every row, up to a constant, and its gradient in the parameters."""
        xp, g_o, g_w = self.xp, self.view.g_o, self.view.g_w
        y, o, phi, logit, phi2, s = self._arrays
        odds, m, log_kappa = here
        theta, variance = 1 / (1 + xp.exp(-odds)), xp.exp(-log_kappa)
        x, second = theta * m, m**2 + variance
        residual = y - (x @ phi) * o
        # Minus twice the divergence of q(w) from the prior; in spike and slab it counts as far as z = 1.
        weight = np.log(g_w) - log_kappa + 1 - g_w * second
        counts = theta if self.idle else 1.0
        # log theta = -log(1 + e^-odds), log(1 - theta) = log theta - odds
        entropy = xp.logaddexp(0.0, -odds) + (1 - theta) * odds
        squared_error = (residual**2).sum(axis=1) + (theta * second * s - x**2 * phi2).sum(axis=1)
        bound = (theta * logit + entropy + counts * weight / 2).sum(axis=1) - g_o / 2 * squared_error
        c = residual @ phi.T + x * phi2
        in_theta = logit + g_o * (m * c - second * s / 2) - odds + (weight / 2 if self.idle else 0.0)
        in_m = g_o * theta * (c - m * s) - counts * g_w * m
        in_variance = (counts * (1 / variance - g_w) - g_o * theta * s) / 2
        return bound, Climber(theta * (1 - theta) * in_theta, in_m, -variance * in_variance)


def climbed(bound_of: LocalBound, here: Climber, n_steps: int) -> Climber:
    """Return the parameters after `n_steps` steps; the bound of no row ever falls."""
    xp = bound_of.xp
    size = xp.full(len(here.m), FIRST_SIZE)
    bound, slope = bound_of.and_slope(here)
    for _ in range(n_steps):
        tried = here.moved(slope, size)
        found, slope_there = bound_of.and_slope(tried)
        better = found >= bound
        bound = xp.where(better, found, bound)
        size = size * xp.where(better, LONGER, SHORTER)
        rows = better[:, None]
        here = Climber(*(xp.where(rows, new, old) for new, old in zip(tried, here, strict=True)))
        slope = Climber(*(xp.where(rows, new, old) for new, old in zip(slope_there, slope, strict=True)))
    return here


@dataclass(frozen=True)
class _Climbing:
    """What the two methods share: how many steps they take, where these start, and the array module."""

    n_steps: int = 20
    start: str = "middle"
    xp: Any = np
    has_idle_weights: ClassVar[bool]

    def fit(self, view: GlobalView, batch: Batch, start: RowStart = None) -> LocalPosterior:
        """Return the local posterior that gradient ascent reaches; a row starts anew at every visit."""
        shape = (len(batch), view.n_features)
        odds, m = np.zeros(shape), np.zeros(shape)
        if self.start == "random":
            rng = np.random.default_rng([int(batch.ids[0]), len(batch)])
            odds, m = rng.logistic(size=shape), rng.normal(size=shape) / np.sqrt(view.g_w)
        kappa = np.full(shape, np.log(view.g_w))
        here = Climber(*(self.xp.asarray(value) for value in (odds, m, kappa)))
        found = climbed(LocalBound(view, batch, self.has_idle_weights, self.xp), here, self.n_steps)
        odds, m, log_kappa = (value if self.xp is np else value.get() for value in found)
        return LocalPosterior(1 / (1 + np.exp(-odds)), m, np.exp(log_kappa))


class ClimbingMeanField(_Climbing, MeanField):
    """Mean field, q(z) q(w), by gradient ascent."""


class ClimbingSpikeSlab(_Climbing, SpikeSlab):
    """Spike and slab, q(z, w), by gradient ascent."""
