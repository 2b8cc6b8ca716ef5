"""What the local methods share: the residual, and the distribution of a weight whose feature is on."""

from __future__ import annotations

import numpy as np

from bpfa._support.checks import Array
from bpfa.data import Batch
from bpfa.model.view import GlobalView

__all__ = ["Residual", "slab"]


class Residual:
    """The residual o (y - x phi) of every row, kept up to date while x changes one feature at a time."""

    def __init__(self, view: GlobalView, batch: Batch, x: Array) -> None:
        if view.phi.shape[1] != batch.n_columns:
            raise ValueError(
                f"batch: {batch.n_columns} columns; expected {view.phi.shape[1]}, as the view has"
            )
        self.phi = view.phi
        self.observed = batch.observed
        self.x = x
        self.r = batch.values - (x @ view.phi) * batch.observed
        phi2 = view.phi**2
        self.phi2 = batch.observed @ phi2.T
        """sum_d o_d phi_kd^2, rows x features."""
        self.s = batch.observed @ (phi2 + view.v).T
        """s_k = sum_d o_d (phi_kd^2 + v_kd), rows x features."""

    def c(self, k: int) -> Array:
        """c_k = sum_d o_d phi_kd (y_d - sum_{j != k} x_j phi_jd), for every row."""
        c: Array = self.r @ self.phi[k] + self.x[:, k] * self.phi2[:, k]
        return c

    def set(self, k: int, x_k: Array) -> None:
        """Set x of feature k to new values."""
        self.r -= (x_k - self.x[:, k])[:, None] * (self.observed * self.phi[k])
        self.x[:, k] = x_k


def slab(view: GlobalView, k: int, s: Array, c: Array) -> tuple[Array, Array, Array]:
    """Return kappa and m of w_k given z_k = 1, and the log odds of z_k with w_k integrated out."""
    kappa = view.g_w + view.g_o * s
    m = view.g_o * c / kappa
    log_odds = view.logit[k] + (np.log(view.g_w) - np.log(kappa)) / 2 + kappa * m**2 / 2
    return kappa, m, log_odds
