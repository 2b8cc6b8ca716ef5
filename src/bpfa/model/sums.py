"""The sums over the rows of a batch: all that the global posterior learns from (docs/math.md section 4)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np

from bpfa._support.checks import Array
from bpfa.data import Batch
from bpfa.model.view import GlobalView

__all__ = ["JointSums", "LocalMoments", "LocalSums", "RowSums", "Sums", "squared_error", "sums_of"]


class LocalMoments(NamedTuple):
    """Expectations of the local variables of some rows; each array is rows x features."""

    z: Array
    """E[z]"""
    x: Array
    """E[x], with x = z w"""
    zw2: Array
    """E[z w^2]"""
    w2: Array
    """E[w^2]"""


@dataclass(frozen=True)
class RowSums:
    """The sums over rows that do not depend on the form of the features; sums are added with `+`."""

    n_rows: int
    """|B|"""
    n: Array
    """n_k = sum_i E z_ik, K"""
    W2: float
    """sum_ik E[w_ik^2]"""
    ZW2: float
    """sum_ik E[z_ik w_ik^2], over the active weights only"""
    O: float  # noqa: E741 - the name in docs/math.md section 4
    """Number of observed entries."""
    SSE: float
    """Expected squared error over the observed entries."""

    def __add__(self, other: Self) -> Self:
        # A sum that is the same in every column is stored as one column, which broadcasts.
        return type(self)(*(a + b for a, b in zip(self._values(), other._values(), strict=True)))

    @classmethod
    def average(cls, samples: list[Self]) -> Self:
        """Return the average of the sums of several samples of the local variables of the same rows."""
        columns = zip(*(sums._values() for sums in samples), strict=True)
        # For the counts, which are the same in every sample, the division is exact.
        n_rows, *rest = (sum(column[1:], start=column[0]) / len(samples) for column in columns)
        return cls(int(n_rows), *rest)

    def _values(self) -> list[Any]:
        return [getattr(self, field.name) for field in fields(self)]


@dataclass(frozen=True)
class LocalSums(RowSums):
    """The sums for factorised features.

    Examples
    --------
    >>> view = GlobalView(np.ones((1, 2)), np.zeros((1, 1)), np.zeros(1), 1.0, 1.0)
    >>> one = np.ones((1, 1))
    >>> sums = LocalSums.of(view, Batch([[1.0, 2.0]]), LocalMoments(z=one, x=one, zw2=one, w2=one))
    >>> (sums + sums).SSE
    2.0
    """

    T: Array
    """T_kd = sum_i o_id E[z_ik w_ik^2], K x D; K x 1 where no entry of any row is missing"""
    S: Array
    """S_kd = sum_i o_id E[x_ik] (y_id - sum_{j != k} x_ij phi_jd), K x D"""

    @classmethod
    def of(cls, view: GlobalView, batch: Batch, moments: LocalMoments) -> LocalSums:
        """Sums of a batch whose local variables have these moments."""
        z, x, zw2, w2 = moments
        residual = batch.values - (x @ view.phi) * batch.observed
        T, X2 = _observed_sum(zw2, batch), _observed_sum(x**2, batch)
        return cls(
            n_rows=len(batch),
            n=z.sum(axis=0),
            W2=float(w2.sum()),
            ZW2=float(zw2.sum()),
            O=float(batch.observed.sum()),
            SSE=squared_error(view, float((residual**2).sum()), T, X2),
            T=T,
            # Taking feature k out of the residual puts x_k phi_k back into it.
            S=x.T @ residual + X2 * view.phi,
        )

    def cropped_to(self, n_columns: int) -> LocalSums:
        """Return these sums: for factorised features, no columns are added to the view."""
        return self


@dataclass(frozen=True)
class JointSums(RowSums):
    """The sums for joint features (docs/math.md section 5).

    Examples
    --------
    >>> view = GlobalView(np.ones((2, 3)), np.zeros((2, 1)), np.zeros(2), 1.0, 1.0)
    >>> two = np.array([[1.0, 2.0]])
    >>> JointSums.of(view, Batch([[1.0, 1.0, 1.0]]), LocalMoments(z=two, x=two, zw2=two**2, w2=two)).XX
    array([[[1., 2.],
            [2., 4.]]])
    """

    XX: Array
    """sum_i o_id E[x_i x_i^T], D x K x K; 1 x K x K where no entry of any row is missing"""
    XY: Array
    """sum_i o_id E[x_ik] y_id, K x D"""

    @classmethod
    def of(cls, view: GlobalView, batch: Batch, moments: LocalMoments) -> JointSums:
        """Sums of a batch whose local variables have these moments."""
        x, zw2 = moments.x, moments.zw2
        shared = LocalSums.of(view, batch, moments)
        masks = [slice(None)] if batch.complete else list(batch.observed.T)
        # Under a factorised q, the products z w of two features are independent; in a sample they are fixed.
        XX = np.stack([x[o].T @ x[o] + np.diag((zw2[o] - x[o] ** 2).sum(axis=0)) for o in masks])
        return cls(
            shared.n_rows, shared.n, shared.W2, shared.ZW2, shared.O, shared.SSE, XX=XX, XY=x.T @ batch.values
        )

    def cropped_to(self, n_columns: int) -> JointSums:
        """Return the sums without the columns that were added for the view (docs/math.md section 5)."""
        n_extra = self.XY.shape[1] - n_columns
        if not n_extra:
            return self
        return replace(self, O=self.O - n_extra * self.n_rows, XY=self.XY[:, :n_columns])


Sums = LocalSums | JointSums
"""The sums that a global posterior learns from, which depend on the form of its features."""


def sums_of(view: GlobalView, batch: Batch, moments: LocalMoments, *, joint: bool) -> Sums:
    """Return the sums of a batch whose local variables have these moments, for the form of the features."""
    return JointSums.of(view, batch, moments) if joint else LocalSums.of(view, batch, moments)


def _observed_sum(per_feature: Array, batch: Batch) -> Array:
    """Return sum_i o_id f_ik, K x D, or K x 1 if nothing is missing and all columns are the same."""
    sums: Array = per_feature.sum(axis=0)[:, None] if batch.complete else per_feature.T @ batch.observed
    return sums


def squared_error(view: GlobalView, residual2: float, T: Array, X2: Array) -> float:
    """Return SSE: the squared residual at the mean of x, plus what the variances of x and phi add to it."""
    if T is X2:
        # Where nothing is missing, one number of T and of v stands for all columns.
        added = T * view.v
        return float(residual2 + added.sum() * (view.phi.shape[1] // added.shape[1]))
    phi2 = view.phi**2
    return float(residual2 + (T * (phi2 + view.v) - X2 * phi2).sum())
