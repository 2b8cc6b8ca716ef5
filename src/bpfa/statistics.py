"""What a batch adds up to: the only thing the global posterior hears from the rows (MATH.md section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bpfa._checks import Array
from bpfa.data import Batch
from bpfa.view import GlobalView

__all__ = ["LocalMoments", "LocalSums"]


class LocalMoments(NamedTuple):
    """Expectations of the local variables of some rows, each rows x features."""

    z: Array
    """E[z]"""
    x: Array
    """E[x], with x = z w"""
    zw2: Array
    """E[z w^2]"""
    w2: Array
    """E[w^2]"""


@dataclass(frozen=True)
class LocalSums:
    """Additive sums over rows, named as in MATH.md; they add with `+`.

    Examples
    --------
    >>> view = GlobalView(np.ones((1, 2)), np.zeros((1, 1)), np.zeros(1), 1.0, 1.0)
    >>> batch = Batch(np.array([[1.0, 2.0]]))
    >>> one = np.ones((1, 1))
    >>> sums = LocalSums.of(view, batch, LocalMoments(z=one, x=one, zw2=one, w2=one))
    >>> (sums + sums).SSE
    2.0
    """

    n_rows: int
    """|B|"""
    n: Array
    """n_k = sum_i E z_ik, K"""
    T: Array
    """T_kd = sum_i o_id E[z_ik w_ik^2], K x D; K x 1 where no entry of any row is missing"""
    S: Array
    """S_kd = sum_i o_id E[x_ik] (y_id - sum_{j != k} x_ij phi_jd), K x D"""
    W2: float
    """sum_ik E[w_ik^2]"""
    O: float  # noqa: E741 - the name in MATH.md
    """Number of observed entries."""
    SSE: float
    """Expected squared error over the observed entries."""

    def __add__(self, other: LocalSums) -> LocalSums:
        # T of K x 1 (nothing missing) stands for the same number in every column and broadcasts.
        return LocalSums(
            self.n_rows + other.n_rows,
            self.n + other.n,
            self.T + other.T,
            self.S + other.S,
            self.W2 + other.W2,
            self.O + other.O,
            self.SSE + other.SSE,
        )

    @classmethod
    def of(cls, view: GlobalView, batch: Batch, moments: LocalMoments) -> LocalSums:
        """Sums of a batch whose local variables have these moments."""
        z, x, zw2, w2 = moments
        residual = batch.values - (x @ view.phi) * batch.observed
        T, X2 = _observed_sum(zw2, batch), _observed_sum(x**2, batch)
        phi2 = view.phi**2
        return cls(
            n_rows=len(batch),
            n=z.sum(axis=0),
            T=T,
            # Taking feature k out of the residual puts x_k phi_k back into it.
            S=x.T @ residual + X2 * view.phi,
            W2=float(w2.sum()),
            O=float(batch.observed.sum()),
            SSE=float((residual**2).sum() + (T * (phi2 + view.v) - X2 * phi2).sum()),
        )

    @classmethod
    def average(cls, samples: list[LocalSums]) -> LocalSums:
        """Average of the sums of several samples of the local variables of the same rows."""
        total = samples[0]
        for sums in samples[1:]:
            total = total + sums
        m = len(samples)
        return cls(
            samples[0].n_rows,
            total.n / m,
            total.T / m,
            total.S / m,
            total.W2 / m,
            samples[0].O,
            total.SSE / m,
        )


def _observed_sum(per_feature: Array, batch: Batch) -> Array:
    """sum_i o_id f_ik, K x D; K x 1 when nothing is missing, as it is then the same in every column."""
    if batch.complete:
        return per_feature.sum(axis=0)[:, None]
    return per_feature.T @ batch.observed.astype(np.float64)
