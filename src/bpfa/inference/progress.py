"""What a training run reports after every step, and the error that ends it if a number is not finite."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any, NamedTuple

from bpfa._support.checks import check_integer
from bpfa.model.posterior import Posterior

__all__ = ["NonFiniteError", "Progress", "step_numbers"]


class Progress(NamedTuple):
    """The state of a training run after a step.

    See Also
    --------
    bpfa.train : The training loop.

    Examples
    --------
    >>> import bpfa
    >>> y = bpfa.draw_data(100, 4, 2, g_o=100.0, g_w=1.0, seed=0).y
    >>> progress = next(iter(bpfa.train(y, n_features=3, batch_size=50, n_steps=2, seed=0)))
    >>> progress.step, progress.epoch, progress.posterior.n_features
    (1, 0.5, 3)
    """

    step: int
    """The number of steps (or sweeps of the sampler) so far, including those of the runs before this one."""
    epoch: float
    """The number of epochs so far; an epoch visits every row once."""
    seconds: float
    """Seconds of training so far, without the time that the caller takes between steps."""
    rho: float
    """Size of the step; 1 for the sampler."""
    state: Posterior
    """The posterior in the memory where the run keeps it, which may be that of a device."""

    @property
    def posterior(self) -> Any:
        """The posterior in the memory of the host. If it is on a GPU, this waits for it and makes a copy."""
        return self.state.host()


def step_numbers(n_steps: int | None, first_step: int) -> Iterable[int]:
    """Return the numbers of the steps of a run, which never ends if `n_steps` is None.

    Examples
    --------
    >>> list(step_numbers(3, first_step=5))
    [5, 6, 7]
    """
    first_step = check_integer("first_step", first_step, low=1)
    if n_steps is None:
        return count(first_step)
    return range(first_step, first_step + check_integer("n_steps", n_steps, low=1))


class NonFiniteError(ArithmeticError):
    """A step gave a number that is not finite; the run stopped and kept the posterior of the step before.

    Attributes
    ----------
    step : int
        The step that failed.
    posterior : Posterior
        The posterior after the step before the one that failed.
    """

    def __init__(self, step: int, posterior: Posterior, cause: str) -> None:
        super().__init__(
            f"step {step} gave numbers that are not finite ({cause}); the state of step {step - 1} is kept "
            "in the attribute `posterior` of this error. Are the columns of the data on a scale near 1?"
        )
        self.step = step
        self.posterior = posterior
