"""What a training run tells about itself, and how it ends when the numbers fail."""

from __future__ import annotations

from typing import Any, NamedTuple

from bpfa.model.posterior import Posterior

__all__ = ["NonFiniteError", "Progress"]


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
    state: Posterior
    """The posterior where the run keeps it, which may be the memory of a device."""

    @property
    def posterior(self) -> Any:
        """The posterior in the memory of the host; on a GPU this waits for the device and makes a copy."""
        return self.state.host()


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
