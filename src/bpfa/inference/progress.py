"""What a training run tells about itself, and how it ends when the numbers fail."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from bpfa._support.philox import GlobalDraws

__all__ = ["NonFiniteError", "Posterior", "Progress"]


@runtime_checkable
class Posterior(Protocol):
    """What is known of the globals: a variational posterior, or the states of a chain."""

    @property
    def n_features(self) -> int:
        """Number of features K."""

    @property
    def n_columns(self) -> int:
        """Number of columns D."""

    @property
    def noise_std(self) -> float:
        """Noise standard deviation."""

    def n_active(self) -> int:
        """Count the features in use."""

    def sampled(self, rng: np.random.Generator | GlobalDraws) -> Any:
        """Return a draw of every global."""


class Progress(NamedTuple):
    """The state of a training run after a step."""

    step: int
    """Steps (or sweeps of the sampler) done, counted from 1."""
    epoch: float
    """Epochs so far, of which each visits every row once."""
    seconds: float
    """Seconds of training so far, without what the caller does between steps."""
    rho: float
    """Size of the step; 1 for the sampler."""
    posterior: Posterior


class NonFiniteError(ArithmeticError):
    """A run met a number that is not finite; it stopped and kept its last good state.

    Attributes
    ----------
    step : int
        The step that failed.
    posterior : Posterior
        The state after the step before it.
    """

    def __init__(self, step: int, posterior: Posterior, cause: str) -> None:
        super().__init__(
            f"step {step} gave numbers that are not finite ({cause}); the state of step {step - 1} is kept "
            "in the attribute `posterior` of this error. Are the columns of the data on a scale near 1?"
        )
        self.step = step
        self.posterior = posterior
