"""Step sizes of stochastic variational inference (docs/math.md section 2)."""

from __future__ import annotations

from dataclasses import dataclass

from bpfa._support.checks import check_integer, check_number

__all__ = ["Schedule"]


@dataclass(frozen=True)
class Schedule:
    """rho_t = max(least, (t + delay)^(-decay)), for steps t = 1, 2, ...

    The paper uses delay t0 = 0 and decay zeta = 0.75, so that rho_1 = 1 and the first batch replaces the
    initial posterior. The conditions of Robbins and Monro hold if the decay is in (0.5, 1].

    Parameters
    ----------
    delay : float
        t0 >= 0.
    decay : float
        zeta in [0, 1]; 0 keeps rho at 1.
    least : float
        The least step size, from 0 to 1. Where it is above 0, a run never stops learning, and forgets what it
        saw more than about 1 / least steps ago: this suits data that changes.

    See Also
    --------
    bpfa.train : The training loop.

    References
    ----------
    .. [1] H. Robbins and S. Monro, "A Stochastic Approximation Method", Annals of Mathematical Statistics 22
       (1951).
    .. [2] M. D. Hoffman, D. M. Blei, C. Wang and J. Paisley, "Stochastic Variational Inference", Journal of
       Machine Learning Research 14 (2013).

    Examples
    --------
    >>> Schedule()(1)
    1.0
    >>> Schedule(delay=15, decay=0.5)(1)
    0.25
    >>> Schedule(least=0.1)(1000)
    0.1
    """

    delay: float = 0.0
    decay: float = 0.75
    least: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "delay", check_number("delay", self.delay, low=0.0))
        object.__setattr__(self, "decay", check_number("decay", self.decay, low=0.0, high=1.0))
        object.__setattr__(self, "least", check_number("least", self.least, low=0.0, high=1.0))

    def __call__(self, step: int) -> float:
        """Return rho_t of step t >= 1."""
        return max(self.least, float((check_integer("step", step, low=1) + self.delay) ** -self.decay))
