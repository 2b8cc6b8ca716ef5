"""Spike and slab by Titsias & Lazaro-Gredilla (docs/math.md section 4), for Titsias-SVI and Titsias-SSVI."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import expit

from bpfa._support.checks import Array
from bpfa.backends.numpy.base import slab
from bpfa.backends.numpy.variational import Variational
from bpfa.model.local import LocalPosterior, MethodName
from bpfa.model.view import GlobalView

__all__ = ["SpikeSlab"]


class SpikeSlab(Variational):
    """w depends on z under q: w_ik | z_ik = 1 ~ N(m_ik, 1/kappa_ik), and w_ik | z_ik = 0 ~ N(0, 1/g_w).

    Parameters
    ----------
    n_sweeps : int
        Number of sweeps over the features.

    Examples
    --------
    >>> from bpfa.data import Batch
    >>> view = GlobalView(np.eye(2), np.zeros((2, 1)), np.zeros(2), g_o=100.0, g_w=0.1)
    >>> SpikeSlab().fit(view, Batch(np.array([[3.0, 0.0]]))).theta.round(2)
    array([[1.  , 0.03]])
    """

    kind: ClassVar[MethodName] = "SpikeSlab"
    has_idle_weights: ClassVar[bool] = True

    def update(
        self, view: GlobalView, k: int, s: Array, c: Array, theta: Array
    ) -> tuple[Array, Array, Array]:
        """Return the optimal joint factor of z and w, which does not depend on the old theta."""
        kappa, m, log_odds = slab(view, k, s, c)
        return expit(log_odds), m, kappa

    def w2(self, view: GlobalView, q: LocalPosterior) -> Array:
        """Return E[w^2] = theta (m^2 + 1/kappa) + (1 - theta) / g_w."""
        w2: Array = q.theta * (q.m**2 + 1 / q.kappa) + (1 - q.theta) / view.g_w
        return w2

    def weight_terms(self, view: GlobalView, q: LocalPosterior) -> Array:
        """Return minus theta times the divergence of N(m, 1/kappa) from the prior; z = 0 adds nothing."""
        terms: Array = q.theta * (np.log(view.g_w / q.kappa) + 1 - view.g_w * (q.m**2 + 1 / q.kappa)) / 2
        return terms
