"""What the local methods share: their face, their start, the residual and the slab's conditional."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from bpfa._support.checks import Array, check_array
from bpfa._support.philox import RowDraws
from bpfa.data import Batch
from bpfa.model.sums import JointSums, LocalMoments, LocalSums
from bpfa.model.view import GlobalView

__all__ = ["LocalMethod", "LocalState", "Residual", "checked_start", "slab"]


class LocalState(NamedTuple):
    """Where a local method stands, or is to start: each rows x features."""

    z: Array
    """A state of z (Gibbs), or its probability theta."""
    w: Array
    """A state of w (Gibbs), or its mean m given z = 1; of no effect where z is 0."""

    @property
    def x(self) -> Array:
        """The products z w."""
        return self.z * self.w


class LocalMethod(Protocol):
    """The face of a local method; it sees a view, never the posterior."""

    def sums(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: LocalState | None = None
    ) -> LocalSums:
        """Sums over the rows of a batch."""

    def joint_sums(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: LocalState | None = None
    ) -> JointSums:
        """Sums over the rows of a batch for joint features."""

    def row_moments(
        self, view: GlobalView, batch: Batch, draws: RowDraws, start: LocalState | None = None
    ) -> LocalMoments:
        """Return the rows' own posterior: the moments behind the sums."""

    def samples(
        self, view: GlobalView, batch: Batch, draws: RowDraws, n_samples: int, start: LocalState | None = None
    ) -> Iterator[Array]:
        """Yield draws of x = z w from the local posterior, each rows x features."""


class Residual:
    """o (y - x phi), kept up to date while x changes one feature at a time."""

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
        """sum_d o_d phi_kd^2, rows x features"""
        self.s = batch.observed @ (phi2 + view.v).T
        """s_k = sum_d o_d (phi_kd^2 + v_kd), rows x features"""

    def c(self, k: int) -> Array:
        """c_k = sum_d o_d phi_kd (y_d - sum_{j != k} x_j phi_jd), for every row."""
        c: Array = self.r @ self.phi[k] + self.x[:, k] * self.phi2[:, k]
        return c

    def set(self, k: int, x_k: Array) -> None:
        """Give feature k new values of x."""
        self.r -= (x_k - self.x[:, k])[:, None] * (self.observed * self.phi[k])
        self.x[:, k] = x_k


def slab(view: GlobalView, k: int, s: Array, c: Array) -> tuple[Array, Array, Array]:
    """Precision kappa and mean m of w_k given z_k = 1, and the log odds of z_k with w_k integrated out."""
    kappa = view.g_w + view.g_o * s
    m = view.g_o * c / kappa
    log_odds = view.logit[k] + (np.log(view.g_w) - np.log(kappa)) / 2 + kappa * m**2 / 2
    return kappa, m, log_odds


def checked_start(start: LocalState, batch: Batch, n_features: int) -> LocalState:
    """Return copies of the arrays of a start that the caller handed in."""
    shape = (len(batch), n_features)
    z = check_array("start.z", start.z, shape).copy()
    if ((z < 0) | (z > 1)).any():
        raise ValueError(f"start.z: from {z.min()} to {z.max()}; expected numbers from 0 to 1")
    return LocalState(z, check_array("start.w", start.w, shape).copy())
