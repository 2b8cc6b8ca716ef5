"""The parameters of BPFA: the kind, range, default and summary of each, declared in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from bpfa._support.parameters import Anything, Boolean, Choice, Integer, Number, checked, declared, kind_of
from bpfa._support.philox import MAX_SWEEP, Stream
from bpfa._support.threads import check_jobs
from bpfa.backends.numpy.gibbs import MOST_DROPOUT
from bpfa.inference.algorithms import ALGORITHMS
from bpfa.inference.training import INITIALISERS
from bpfa.model.features import FEATURES
from bpfa.model.posterior import WEIGHT_PRECISIONS
from bpfa.model.priors import Priors

__all__ = ["DEFAULTS", "NOISE", "Parameters", "check_parameters", "scikit_learn_constraints"]

NOISE = ("columns", "shared")
"""Whether every column has a noise level of its own."""


@dataclass(frozen=True)
class Parameters:
    """The parameters of `BPFA`. Its documentation explains each of them in detail."""

    n_components: int | None = declared(None, Integer(low=1), "Largest number of features.")
    algorithm: str = declared("gibbs-ssvi", Choice(tuple(ALGORITHMS)), "Inference algorithm.")
    features: str = declared("auto", Choice(("auto", *FEATURES)), "Form of the posterior of the features.")
    weight_precision: str = declared(
        "auto", Choice(("auto", *WEIGHT_PRECISIONS)), "Which weights the weight precision is learned from."
    )
    priors: Priors | None = declared(None, Anything(), "Prior distributions of the model.")
    batch_size: int | None = declared(None, Integer(low=1), "Number of rows in a training step.")
    max_epochs: float | None = declared(
        None, Number(low=0.0, open_low=True), "Largest number of passes over the data."
    )
    max_steps: int | None = declared(None, Integer(low=1), "Largest number of training steps.")
    max_time: float | None = declared(
        None, Number(low=0.0, open_low=True), "Longest training time in seconds."
    )
    step_delay: float = declared(20.0, Number(low=0.0), "Delay in the formula of the step sizes.")
    step_decay: float = declared(0.6, Number(low=0.0, high=1.0), "Exponent in the formula of the step sizes.")
    burn_in: int = declared(3, Integer(low=0), "Sweeps of a row's Gibbs chain that are discarded.")
    n_samples: int = declared(3, Integer(low=1), "Sweeps of a row's Gibbs chain that are kept.")
    dropout: float | None = declared(
        None,
        Number(low=0.0, high=MOST_DROPOUT),
        "Share of a row's entries that its chain does not see in a step.",
    )
    n_sweeps: int = declared(
        10, Integer(low=1, high=MAX_SWEEP), "Sweeps over the features in a variational local step."
    )
    init: str = declared("auto", Choice(("auto", *INITIALISERS)), "Values that the features start from.")
    standardize: bool = declared(
        True, Boolean(), "Scale every column to mean 0 and variance 1 before the fit."
    )
    noise: str = declared(
        "auto", Choice(("auto", *NOISE)), "Whether every column has a noise level of its own."
    )
    held_out: float = declared(
        0.0, Number(low=0.0, high=0.9), "Share of the entries to hold out from the fit and to score."
    )
    patience: int | None = declared(
        None,
        Integer(low=1),
        "Number of held-out scores in a row without improvement after which the fit ends.",
    )
    revise: bool = declared(
        False, Boolean(), "Drop, merge and add features where this improves held-out scores."
    )
    total_rows: int | None = declared(
        None, Integer(low=1), "Number of rows of the whole stream, for partial_fit."
    )
    sparse_output: bool = declared(False, Boolean(), "Let transform return a sparse array.")
    device: str = declared("auto", Anything(), "Where to compute: auto, cpu, cuda, cuda:1 or numpy.")
    n_jobs: int | None = declared(
        None, Anything(), "Number of threads; by default, and with -1, all processors."
    )
    random_state: Any = declared(
        None, Anything(), "Seed of the random numbers; the same seed gives exactly the same model."
    )
    verbose: int = declared(0, Integer(low=0), "1 shows a progress bar.")

    @property
    def open_start(self) -> bool:
        """Whether the start of the features is left to the data."""
        return self.init == "auto"

    def key(self) -> int:
        """Return the key of the random numbers, from the seed, from a RandomState or from fresh entropy."""
        if self.random_state is None:
            return Stream.from_seed(None).key
        if isinstance(self.random_state, Integral):
            return Stream.from_seed(int(self.random_state)).key
        return Stream.from_seed(int(check_random_state(self.random_state).randint(2**31))).key


DEFAULTS = Parameters()
"""The default values of all parameters."""


def check_parameters(given: Mapping[str, Any]) -> Parameters:
    """Check the parameters of an estimator, each by itself and in combination, and return them.

    Parameters
    ----------
    given : mapping
        As `BPFA.get_params` returns them.

    Examples
    --------
    >>> check_parameters({"n_components": 3}).n_components
    3
    >>> check_parameters({"patience": 2})
    Traceback (most recent call last):
    ...
    ValueError: patience=2: there are no held-out scores to wait for; expected held_out > 0
    """
    parameters: Parameters = checked(Parameters(**given))
    check_jobs(parameters.n_jobs)
    if parameters.patience is not None and not parameters.held_out:
        raise ValueError(
            f"patience={parameters.patience}: there are no held-out scores to wait for; expected held_out > 0"
        )
    if parameters.revise and parameters.algorithm == "gibbs":
        raise ValueError("revise=True: not available for algorithm='gibbs'; expected another algorithm")
    if parameters.revise and not parameters.held_out:
        raise ValueError("revise=True: nothing is held out to judge a revision by; expected held_out > 0")
    return parameters


def scikit_learn_constraints() -> dict[str, list[Any]]:
    """Return the declared kinds and ranges in the form of scikit-learn's `_parameter_constraints`."""
    return {
        parameter.name: [_constraint(kind_of(parameter)), *([None] if parameter.metadata["optional"] else [])]
        for parameter in fields(Parameters)
        if not isinstance(kind_of(parameter), Anything)
    } | {
        "priors": [Priors, None],
        "device": [str],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }


def _constraint(kind: Any) -> Any:
    if isinstance(kind, Integer):
        return Interval(Integral, kind.low, kind.high, closed="left" if kind.high is None else "both")
    if isinstance(kind, Number):
        high = None if kind.high == float("inf") else kind.high
        sides = {
            (True, True): "neither",
            (True, False): "right",
            (False, True): "left",
            (False, False): "both",
        }
        return Interval(Real, kind.low, high, closed=sides[kind.open_low, high is None])
    if isinstance(kind, Choice):
        return StrOptions(set(kind.names))
    return "boolean"
