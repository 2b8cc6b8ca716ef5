"""The parameters of BPFA: the kind, range, default and summary of each, declared in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from numbers import Integral, Real
from typing import Any, ClassVar

from numpy.random import RandomState
from sklearn.utils._param_validation import Interval, StrOptions

from bpfa._support.parameters import (
    Boolean,
    BooleanOrAuto,
    Choice,
    Instance,
    Integer,
    Kind,
    Number,
    NumberOrAuto,
    Seed,
    Threads,
    checked,
    declarations,
    declared,
    kind_of,
)
from bpfa._support.philox import MAX_SWEEP, Stream
from bpfa.backends.numpy.gibbs import MOST_DROPOUT
from bpfa.backends.registry import check_device
from bpfa.inference.algorithms import ALGORITHMS
from bpfa.inference.training import INITIALISERS
from bpfa.model.features import FEATURES
from bpfa.model.posterior import WEIGHT_PRECISIONS
from bpfa.model.priors import Priors
from bpfa.selection.preferences import PREFERENCES, Preference

__all__ = [
    "DEFAULTS",
    "NOISE",
    "SPARSE",
    "Device",
    "Parameters",
    "check_parameters",
    "constraints_of",
    "scikit_learn_constraints",
]

NOISE = ("columns", "shared")
"""Whether every column has a noise level of its own."""
SPARSE = ("rows", "columns")
"""Which side of the table uses a few features of many."""


@dataclass(frozen=True)
class Device:
    """The name of a device, whether or not this machine has it."""

    value_type: ClassVar[type] = str

    def check(self, name: str, value: Any) -> str:
        """Return the name. What "auto" stands for is decided where the device is needed."""
        return value if isinstance(value, str) and value == "auto" else check_device(value)


@dataclass(frozen=True)
class Parameters:
    """The parameters of `BPFA`. Its documentation explains each of them in detail."""

    n_components: int | None = declared(
        None, Integer(low=1), "Largest number of features.", by_default="from the data"
    )
    algorithm: str = declared("gibbs-ssvi", Choice(tuple(ALGORITHMS)), "Inference algorithm.")
    sparse: str = declared(
        "auto", Choice(("auto", *SPARSE)), "What uses a few of the features: every row, or every column."
    )
    prefer: str = declared(
        "prediction",
        Choice(tuple(PREFERENCES)),
        "What the fit is to be best at: predicting entries, being read, or both in balance.",
    )
    features: str = declared("auto", Choice(("auto", *FEATURES)), "Form of the posterior of the features.")
    weight_precision: str = declared(
        "auto", Choice(("auto", *WEIGHT_PRECISIONS)), "Which weights the weight precision is learned from."
    )
    priors: Priors | None = declared(None, Instance(Priors), "Prior distributions.")
    batch_size: int | None = declared(None, Integer(low=1), "Number of rows in a training step.")
    max_epochs: float | None = declared(
        None,
        Number(low=0.0, open_low=True),
        "Largest number of passes over the data.",
        by_default="from the data",
    )
    max_steps: int | None = declared(None, Integer(low=1), "Largest number of training steps.")
    max_time: float | None = declared(
        None, Number(low=0.0, open_low=True), "Longest time for the training, in seconds."
    )
    step_delay: float = declared(20.0, Number(low=0.0), "Delay of the step sizes.")
    step_decay: float = declared(0.6, Number(low=0.0, high=1.0), "Decay of the step sizes.")
    burn_in: int = declared(3, Integer(low=0), "Number of sweeps of a row's chain that are discarded.")
    n_samples: int = declared(3, Integer(low=1), "Number of sweeps of a row's chain that are kept.")
    dropout: float | None = declared(
        None,
        Number(low=0.0, high=MOST_DROPOUT),
        "Share of a row's observed entries that each training step hides from its chain.",
        by_default="from the data",
    )
    n_sweeps: int = declared(
        10, Integer(low=1, high=MAX_SWEEP), "Number of sweeps over the features, for variational algorithms."
    )
    init: str = declared("auto", Choice(("auto", *INITIALISERS)), "How the features are initialised.")
    standardize: bool = declared(True, Boolean(), "Bring every column to mean 0 and variance 1.")
    noise: str = declared(
        "auto", Choice(("auto", *NOISE)), "Whether every column has a noise level of its own."
    )
    held_out: float | str = declared(
        "auto",
        NumberOrAuto(low=0.0, high=0.9),
        "Share of the entries that are hidden from the fit and scored; 'auto' hides a few in large tables.",
    )
    patience: int | None = declared(
        None,
        Integer(low=1),
        "Stop after this many held-out scores without improvement, and keep the best model.",
    )
    revise: bool = declared(
        False, Boolean(), "Drop, merge and add features where that improves the held-out scores."
    )
    groups: bool | str = declared(
        "auto", BooleanOrAuto(), "Whether rows are predicted by rows like them, as well as by the features."
    )
    group_rows: int = declared(
        20_000, Integer(low=1), "How many rows of the fit are kept to find like rows among."
    )
    total_rows: int | None = declared(
        None, Integer(low=1), "Number of rows of the whole stream, for partial_fit."
    )
    sparse_output: bool = declared(False, Boolean(), "Return the weights as a sparse array.")
    device: str = declared(
        "auto",
        Device(),
        "Where to compute: auto, cpu, cuda, cuda:1 and so on, or numpy (slow, for reference).",
    )
    n_jobs: int | None = declared(
        None, Threads(), "Number of threads; -1 is all processors, -2 all but one.", by_default="all"
    )
    random_state: Any = declared(None, Seed(), "Random seed; the same seed gives the same result.")
    verbose: int = declared(
        0, Integer(low=0), "Whether terminals and notebooks show a progress bar: 1, or 0."
    )

    @property
    def open_start(self) -> bool:
        """Whether the start of the features is left to the data."""
        return self.init == "auto"

    @property
    def preference(self) -> Preference:
        """The settings that follow from what the fit is to be best at."""
        return PREFERENCES[self.prefer]

    @property
    def scored_share(self) -> float:
        """The share of the entries that are held out and scored during the fit."""
        return 0.0 if isinstance(self.held_out, str) else self.held_out

    def key(self) -> int:
        """Return the key of the stream of random numbers: from a seed, a RandomState, or fresh entropy."""
        if isinstance(self.random_state, RandomState):
            return Stream.from_seed(int(self.random_state.randint(2**31))).key
        return Stream.from_seed(self.random_state).key


DEFAULTS = Parameters()
"""The parameters of an estimator for which the user has chosen nothing."""


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
    if parameters.patience is not None and not parameters.scored_share:
        raise ValueError(
            f"patience={parameters.patience}: there are no held-out scores to wait for; expected held_out > 0"
        )
    if parameters.revise and parameters.algorithm == "gibbs":
        raise ValueError("revise=True: not available for algorithm='gibbs'; expected another algorithm")
    if parameters.revise and not parameters.scored_share:
        raise ValueError("revise=True: nothing is held out to judge a change by; expected held_out > 0")
    if parameters.sparse == "columns" and parameters.algorithm == "gibbs":
        raise ValueError("sparse='columns': not available for algorithm='gibbs'; expected another algorithm")
    return parameters


def scikit_learn_constraints() -> dict[str, list[Any]]:
    """Return the declarations in the form of scikit-learn's `_parameter_constraints`.

    They accept and refuse the same values as `check_parameters`, with two exceptions that scikit-learn cannot
    express: it takes True for the integer 1, and it does not know the names of the devices.
    """
    return {
        name: [*constraints_of(kind_of(parameter)), *([None] if parameter.metadata["optional"] else [])]
        for name, parameter in declarations(Parameters).items()
    }


def constraints_of(kind: Kind) -> list[Any]:
    """Return a kind as constraints of scikit-learn, one of which a value must satisfy."""
    if isinstance(kind, Integer):
        return [Interval(Integral, kind.low, kind.high, closed="left" if kind.high is None else "both")]
    if isinstance(kind, NumberOrAuto):
        return [*constraints_of(Number(kind.low, kind.high, kind.open_low)), StrOptions({"auto"})]
    if isinstance(kind, Number):
        bounded = isfinite(kind.high)
        sides = {
            (True, True): "right",
            (True, False): "neither",
            (False, True): "both",
            (False, False): "left",
        }
        closed = sides[kind.open_low, bounded]
        return [Interval(Real, kind.low, kind.high if bounded else None, closed=closed)]
    if isinstance(kind, Choice):
        return [StrOptions(set(kind.names))]
    if isinstance(kind, Boolean):
        return ["boolean"]
    if isinstance(kind, BooleanOrAuto):
        return ["boolean", StrOptions({"auto"})]
    if isinstance(kind, Threads):
        return [Interval(Integral, None, -1, closed="right"), Interval(Integral, 1, None, closed="left")]
    if isinstance(kind, Seed):
        return [Interval(Integral, 0, kind.high, closed="both"), RandomState]
    return [kind.value_type]
