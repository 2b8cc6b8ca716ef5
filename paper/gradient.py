"""Mean field by gradient ascent on the local bound, which is how the paper says that it was optimised.

The paper gives neither the number of steps, nor their size, nor where they start. The size is found here by
trial: a row takes a longer step after one that raised its bound, and a shorter one after one that did not,
which is taken back. This is plain gradient ascent at its most favourable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from bpfa._support.philox import RowDraws
from bpfa.backends.numpy import MeanField, SpikeSlab
from bpfa.data import Batch
from bpfa.model.local import LocalPosterior, RowStart
from bpfa.model.view import GlobalView
from experiments import Array

STARTS = {"middle": "theta = 1/2, m = 0", "random": "theta uniform, m from the prior"}
FIRST_SIZE, LONGER, SHORTER = 0.05, 1.5, 0.3
# theta and kappa stay where their logarithms are finite.
LEAST = 1e-9


class Climber(NamedTuple):
    """The parameters of q without bounds: the log odds of theta, m, and log kappa, each rows x features."""

    odds: Array
    m: Array
    log_kappa: Array

    def posterior(self) -> LocalPosterior:
        """Return the local posterior with these parameters."""
        theta = np.clip(expit(self.odds), LEAST, 1 - LEAST)
        return LocalPosterior(theta, self.m, np.exp(self.log_kappa))

    def moved(self, gradient: Climber, size: Array) -> Climber:
        """Return the parameters after a step of this size, one for each row."""
        return Climber(*(value + size[:, None] * slope for value, slope in zip(self, gradient, strict=True)))

    def where(self, chosen: Array, other: Climber) -> Climber:
        """Return these parameters in the chosen rows, and others elsewhere."""
        return Climber(*(np.where(chosen[:, None], a, b) for a, b in zip(self, other, strict=True)))


def gradient_of(method: Any, view: GlobalView, batch: Batch, q: LocalPosterior) -> Climber:
    """Return the gradient of the local bound of `MeanField` or `SpikeSlab` in the parameters of a climber."""
    phi2 = batch.observed @ (view.phi**2).T
    s = batch.observed @ (view.phi**2 + view.v).T
    residual = batch.values - (q.x @ view.phi) * batch.observed
    c = residual @ view.phi.T + q.x * phi2
    theta, m, variance = q.theta, q.m, 1 / q.kappa
    # In spike and slab, the terms of a weight count as far as its feature is on.
    counts = theta if method.has_idle_weights else 1.0
    in_theta = view.logit + view.g_o * (m * c - (m**2 + variance) * s / 2) - logit(theta)
    if method.has_idle_weights:
        in_theta = in_theta + (np.log(view.g_w * variance) + 1 - view.g_w * (m**2 + variance)) / 2
    in_m = view.g_o * theta * (c - m * s) - counts * view.g_w * m
    in_variance = -view.g_o * theta * s / 2 + counts * (q.kappa - view.g_w) / 2
    return Climber(theta * (1 - theta) * in_theta, in_m, -variance * in_variance)


def climbed(method: Any, view: GlobalView, batch: Batch, start: Climber, n_steps: int) -> LocalPosterior:
    """Return the local posterior after `n_steps` steps; the bound of no row ever falls."""
    here, size = start, np.full(len(batch), FIRST_SIZE)
    q = here.posterior()
    bound = method.bound(view, batch, q)
    slope = gradient_of(method, view, batch, q)
    for _ in range(n_steps):
        tried = here.moved(slope, size)
        q_tried = tried.posterior()
        found = method.bound(view, batch, q_tried)
        better = np.isfinite(found) & (found >= bound)
        here, bound = tried.where(better, here), np.where(better, found, bound)
        size = size * np.where(better, LONGER, SHORTER)
        slope = gradient_of(method, view, batch, here.posterior())
    return here.posterior()


@dataclass(frozen=True)
class _Climbing:
    """What the two methods share: where they start, and how many steps they take."""

    n_steps: int = 20
    start: str = "middle"

    def fit(self, view: GlobalView, batch: Batch, start: RowStart = None) -> LocalPosterior:
        """Return the local posterior that gradient ascent reaches; a row starts anew at every visit."""
        shape = (len(batch), view.n_features)
        odds, m = np.zeros(shape), np.zeros(shape)
        if self.start == "random":
            rng = np.random.default_rng([int(batch.ids[0]), len(batch)])
            odds, m = rng.logistic(size=shape), rng.normal(size=shape) / np.sqrt(view.g_w)
        here = Climber(odds, m, np.full(shape, np.log(view.g_w)))
        with np.errstate(over="ignore", invalid="ignore"):
            return climbed(self, view, batch, here, self.n_steps)


class ClimbingMeanField(_Climbing, MeanField):
    """Mean field, q(z) q(w), by gradient ascent."""


class ClimbingSpikeSlab(_Climbing, SpikeSlab):
    """Spike and slab, q(z, w), by gradient ascent."""
