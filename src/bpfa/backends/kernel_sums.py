"""From what kernels add up to the sums of a batch, for kernels of any device."""

from __future__ import annotations

import numpy as np

from bpfa._support.checks import Array
from bpfa.backends.kernel_methods import GIBBS, GIBBS_TWO_STEP, MEAN_FIELD
from bpfa.model.sums import JointSums, LocalSums, Sums, squared_error
from bpfa.model.view import GlobalView

__all__ = ["finished_sums"]


def finished_sums(
    method: int,
    n_samples: int,
    view: GlobalView,
    *,
    n_rows: int,
    n_observed: float,
    n: Array,
    total_zw2: Array,
    zw2: Array | None,
    x2: Array | None,
    w2: float,
    rr: float,
    xd: Array,
    xx: Array | None,
) -> Sums:
    """Return the sums, averaged over the kept samples.

    Parameters
    ----------
    method : int
    n_samples : int
    view : GlobalView
    n_rows : int
    n_observed : float
        Observed entries.
    n, total_zw2 : array, shape (K,)
        Sums over rows of z and z w^2.
    zw2 : array, shape (K, D), or None
        The latter over the rows that are observed in each column; None where nothing is missing.
    x2 : array, shape (K, D) or (K, 1), or None
        The same of E[x]^2; not for Gibbs sampling, where it is zw2.
    w2, rr : float
        Sums of E[w^2], needed for mean field alone, and of squared residuals.
    xd : array, shape (K, D)
        Sums of x with the residual, or with the data where features are joint.
    xx : array, shape (D or 1, K, K), or None
        Sums of x x^T where features are joint; overwritten, as it may be large.
    """
    gibbs = method in (GIBBS, GIBBS_TWO_STEP)
    n, all_zw2 = n / n_samples, float(total_zw2.sum()) / n_samples
    T = (total_zw2[:, None] if zw2 is None else zw2) / n_samples
    X2 = T
    if not gibbs:
        assert x2 is not None
        X2 = x2
    W2 = w2 if method == MEAN_FIELD else all_zw2 + (n_rows * view.n_features - float(n.sum())) / view.g_w
    SSE = squared_error(view, rr / n_samples, T, X2)
    shared = (n_rows, n, W2, all_zw2, n_observed, SSE)
    if xx is None:
        return LocalSums(*shared, T=T, S=xd / n_samples + X2 * view.phi)
    xx /= n_samples
    if not gibbs:
        # E[x_k^2] is E[z w^2], not E[x_k]^2.
        diagonal = np.arange(view.n_features)
        xx[:, diagonal, diagonal] += (T - X2).T
    return JointSums(*shared, XX=xx, XY=xd / n_samples)
