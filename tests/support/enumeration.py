"""The exact posterior of one row: all 2^K states of z are enumerated, and w is integrated out."""

from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import log_expit, logsumexp


class Exact(NamedTuple):
    states: np.ndarray
    """All states of z, 2^K x K"""
    p: np.ndarray
    """P(z | y) of each state"""
    x: np.ndarray
    """E[x | y] with x = z w, K"""
    zw2: np.ndarray
    """E[z w^2 | y], K"""
    log_evidence: float
    """log p(y)"""

    @property
    def z(self):
        """P(z_k = 1 | y), K"""
        return self.p @ self.states


def enumerate_row(view, y, observed):
    """Return the posterior of z and w of one row given the globals.

    The variance v of phi enters as E[phi phi^T] = phi phi^T + diag(v) in the quadratic form of w. With v = 0
    this is the model itself; with v > 0 it is the best q(z, w) given independent factors of the globals.
    """
    y, phi = y[observed], view.phi[:, observed]
    v = np.broadcast_to(view.v, view.phi.shape)[:, observed].sum(axis=1)
    states = np.array(list(product((0.0, 1.0), repeat=len(phi))))
    log_joint, x, zw2 = np.empty(len(states)), np.zeros(states.shape), np.zeros(states.shape)
    for i, z in enumerate(states):
        on = z == 1
        A = view.g_w * np.eye(on.sum()) + view.g_o * (phi[on] @ phi[on].T + np.diag(v[on]))
        covariance = np.linalg.inv(A)
        mean = covariance @ (view.g_o * phi[on] @ y)
        x[i, on], zw2[i, on] = mean, mean**2 + np.diag(covariance)
        log_joint[i] = (
            log_expit(np.where(on, view.logit, -view.logit)).sum()
            + len(y) / 2 * np.log(view.g_o / (2 * np.pi))
            - view.g_o / 2 * y @ y
            + on.sum() / 2 * np.log(view.g_w)
            - np.linalg.slogdet(A).logabsdet / 2
            + mean @ A @ mean / 2
        )
    log_evidence = logsumexp(log_joint)
    p = np.exp(log_joint - log_evidence)
    return Exact(states, p, p @ x, p @ zw2, log_evidence)
