"""The view of the global variables that a local method sees (docs/math.md section 3)."""

from __future__ import annotations

from typing import NamedTuple

from bpfa._support.checks import Array, check_array, check_number

__all__ = ["GlobalView"]


class GlobalView(NamedTuple):
    """The global variables as a local method sees them: their expectations, or a draw.

    A local method does not distinguish the two: in a sampled view, `v` is zero.
    """

    phi: Array
    """Features, K x D: their mean, or a draw."""
    v: Array
    """Variance of phi, K x D, or K x 1 where it is the same in every column."""
    logit: Array
    """Log odds of a feature, K: E[log pi] - E[log(1 - pi)], or the log odds of a draw."""
    g_o: float
    """Noise precision."""
    g_w: float
    """Weight precision."""

    @property
    def n_features(self) -> int:
        """Number of features K."""
        return len(self.phi)

    @property
    def n_columns(self) -> int:
        """Number of columns, including those that an expected view of joint features adds."""
        return int(self.phi.shape[1])

    def checked(self) -> GlobalView:
        """Return the view with its arrays as float64, after checking shapes and values."""
        phi = check_array("view.phi", self.phi, (None, None))
        if 0 in phi.shape:
            raise ValueError(f"view.phi: shape {phi.shape}; expected at least one feature and one column")
        v = check_array("view.v", self.v, (None, None))
        if v.shape not in (phi.shape, (len(phi), 1)) or (v < 0).any():
            raise ValueError(
                f"view.v: shape {v.shape}, smallest {v.min(initial=0)}; "
                f"expected variances >= 0 of shape {phi.shape} or {(len(phi), 1)}"
            )
        logit = check_array("view.logit", self.logit, (len(phi),))
        g_o = check_number("view.g_o", self.g_o, low=0.0, open_low=True)
        g_w = check_number("view.g_w", self.g_w, low=0.0, open_low=True)
        return GlobalView(phi, v, logit, g_o, g_w)
