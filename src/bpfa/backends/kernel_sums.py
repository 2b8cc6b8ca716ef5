"""The sums of a batch made from the totals that kernels add up, on any device."""

from __future__ import annotations

import numpy as np

from bpfa._support.checks import Array
from bpfa.backends.kernel_methods import GIBBS, GIBBS_TWO_STEP, MEAN_FIELD
from bpfa.model.sums import JointSums, LocalSums, Sums, squared_error
from bpfa.model.view import GlobalView

__all__ = ["sums_from_totals"]


def sums_from_totals(
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
    """Return the sums of a batch, averaged over the kept samples.

    Parameters
    ----------
    method : int
        One of the numbers in `bpfa.backends.kernel_methods`.
    n_samples : int
        How many samples of every row are in the totals; 1 for the variational methods.
    view : GlobalView
    n_rows : int
    n_observed : float
        Number of observed entries.
    n, total_zw2 : array, shape (K,)
        Totals of z and of z w^2 over all rows.
    zw2 : array, shape (K, D), or None
        Totals of z w^2 over the rows that are observed in each column; None where nothing is missing.
    x2 : array, shape (K, D) or (K, 1), or None
        Totals of E[x]^2 over the same rows; not needed for Gibbs sampling, where they equal those of z w^2.
    w2, rr : float
        Totals of E[w^2], which only mean field needs, and of squared residuals.
    xd : array, shape (K, D)
        Totals of x times the residual, or times the data for joint features.
    xx : array, shape (D or 1, K, K), or None
        Totals of x x^T for joint features. The array is overwritten, because it may be large.
    """
    gibbs = method in (GIBBS, GIBBS_TWO_STEP)
    n, all_zw2 = n / n_samples, float(total_zw2.sum()) / n_samples
    W2 = w2 if method == MEAN_FIELD else all_zw2 + (n_rows * view.n_features - float(n.sum())) / view.g_w
    if xx is not None and gibbs and not view.v.any():
        # Where everything is sampled, no variance adds to the squared residual.
        xx /= n_samples
        return JointSums(n_rows, n, W2, all_zw2, n_observed, rr / n_samples, XX=xx, XY=xd / n_samples)
    T = (total_zw2[:, None] if zw2 is None else zw2) / n_samples
    X2 = T if gibbs else x2
    assert X2 is not None
    SSE = squared_error(view, rr / n_samples, T, X2)
    shared = (n_rows, n, W2, all_zw2, n_observed, SSE)
    if xx is None:
        return LocalSums(*shared, T=T, S=xd / n_samples + X2 * view.phi)
    xx /= n_samples
    if not gibbs:
        # The diagonal of x x^T holds E[x_k]^2, but the sums need E[x_k^2] = E[z_k w_k^2].
        diagonal = np.arange(view.n_features)
        xx[:, diagonal, diagonal] += (T - X2).T
    return JointSums(*shared, XX=xx, XY=xd / n_samples)
