"""Mean field, q(z) q(w) (docs/math.md section 4), for MF-SVI and MF-SSVI."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import expit

from bpfa._support.checks import Array
from bpfa.backends.numpy.variational import Variational
from bpfa.model.local import LocalPosterior, MethodName
from bpfa.model.view import GlobalView

__all__ = ["MeanField"]


class MeanField(Variational):
    """z and w are independent under q: z_ik ~ Bernoulli(theta_ik), w_ik ~ N(m_ik, 1/kappa_ik).

    Parameters
    ----------
    n_sweeps : int
        Number of sweeps over the features.

    Examples
    --------
    >>> from bpfa.data import Batch
    >>> view = GlobalView(np.eye(2), np.zeros((2, 1)), np.zeros(2), g_o=100.0, g_w=0.1)
    >>> MeanField().fit(view, Batch(np.array([[3.0, 0.0]]))).theta.round(2)
    array([[1., 0.]])
    """

    kind: ClassVar[MethodName] = "MeanField"
    has_idle_weights: ClassVar[bool] = False

    def update(
        self, view: GlobalView, k: int, s: Array, c: Array, theta: Array
    ) -> tuple[Array, Array, Array]:
        """Return the optimal factor of w given the old theta, and the optimal theta given that factor."""
        kappa = view.g_w + view.g_o * theta * s
        m = view.g_o * theta * c / kappa
        theta = expit(view.logit[k] + view.g_o * (m * c - (m**2 + 1 / kappa) * s / 2))
        return theta, m, kappa

    def w2(self, view: GlobalView, q: LocalPosterior) -> Array:
        """Return E[w^2] = m^2 + 1/kappa, which does not depend on z."""
        w2: Array = q.m**2 + 1 / q.kappa
        return w2

    def weight_terms(self, view: GlobalView, q: LocalPosterior) -> Array:
        """Return minus the divergence of N(m, 1/kappa) from the prior N(0, 1/g_w)."""
        terms: Array = (np.log(view.g_w / q.kappa) + 1 - view.g_w * (q.m**2 + 1 / q.kappa)) / 2
        return terms
