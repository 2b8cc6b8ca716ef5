"""The options of `inpaint` and `denoise`: their names, types, defaults, ranges and descriptions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypedDict, TypeVar

from bpfa._support.checks import check_integer
from bpfa._support.philox import MAX_SWEEP
from bpfa.fitting.run import Callback
from bpfa.images import defaults
from bpfa.model.priors import Priors

__all__ = ["OptionArguments", "RestorationOptions", "takes_options"]

Function = TypeVar("Function", bound=Callable[..., Any])


def _about(
    description: str, *, low: int | None = None, high: int | None = None, pair: bool = False
) -> dict[str, Any]:
    """Return what is declared about an option.

    Parameters
    ----------
    description : str
        One line about the option.
    low, high : int, optional
        Range of an integer.
    pair : bool
        Whether two integers in this range are accepted as well as one.
    """
    return {"description": description, "low": low, "high": high, "pair": pair}


@dataclass(frozen=True, kw_only=True)
class RestorationOptions:
    """The options of `inpaint` and `denoise`, which documents them.

    Integers are checked against their declared range. Whatever depends on the picture is checked by
    `plan_restoration`, and the remaining parameters of `BPFA` are checked by `BPFA`, before the fit begins.

    Examples
    --------
    >>> RestorationOptions(stride=2).n_draws
    8
    >>> RestorationOptions(stride=0)
    Traceback (most recent call last):
    ...
    ValueError: stride=0: expected an integer >= 1
    """

    channel_axis: int | None = field(
        default=None, metadata=_about("Axis of the colours, detectors or energies.")
    )
    stack_axis: int | None = field(
        default=None, metadata=_about("Axis of the slices of a stack, which share their features.")
    )
    patch_size: int | tuple[int, int] | None = field(
        default=None, metadata=_about("Height and width of a patch in pixels.", low=1, pair=True)
    )
    stride: int | None = field(
        default=None, metadata=_about("Distance in pixels between the patches that are restored.", low=1)
    )
    n_components: int | None = field(default=None, metadata=_about("Largest number of features.", low=1))
    algorithm: str = field(default="gibbs-ssvi", metadata=_about("Inference algorithm."))
    features: str = field(
        default=defaults.FEATURES, metadata=_about("Form of the posterior of the features.")
    )
    priors: Priors | None = field(default=None, metadata=_about("Prior distributions."))
    init: str | None = field(default=None, metadata=_about("How the features are initialised."))
    dropout: float | None = field(
        default=None,
        metadata=_about("Share of a row's observed entries that each training step hides from its chain."),
    )
    max_epochs: float | None = field(default=None, metadata=_about("Largest number of passes over the data."))
    max_steps: int | None = field(default=None, metadata=_about("Largest number of training steps.", low=1))
    max_time: float | None = field(
        default=None, metadata=_about("Longest time for the training, in seconds.")
    )
    n_draws: int = field(
        default=defaults.N_DRAWS,
        metadata=_about("Number of draws from the posterior behind the result.", low=2, high=MAX_SWEEP // 2),
    )
    random_state: Any = field(
        default=None, metadata=_about("Random seed; the same seed gives the same result.")
    )
    device: str = field(default="auto", metadata=_about("Device that the model is computed on."))
    n_jobs: int | None = field(default=None, metadata=_about("Number of threads."))
    verbose: int = field(default=0, metadata=_about("Whether to show progress in terminals and notebooks."))
    callbacks: Sequence[Callback] = field(
        default=(), metadata=_about("Functions that are called after every training step.")
    )

    def __post_init__(self) -> None:
        for declared in fields(self):
            about, value = declared.metadata, getattr(self, declared.name)
            if about["low"] is None or value is declared.default:
                continue
            for number in value if about["pair"] and isinstance(value, Sequence) else [value]:
                check_integer(declared.name, number, low=about["low"], high=about["high"])

    @classmethod
    def of(cls, function: str, arguments: OptionArguments) -> RestorationOptions:
        """Return the options that the keyword arguments of a function stand for.

        Parameters
        ----------
        function : str
            Name of the function, for the error message.
        arguments : dict

        Examples
        --------
        >>> RestorationOptions.of("inpaint", {"stried": 2})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        TypeError: inpaint() got an unexpected keyword argument 'stried'; expected one of channel_axis, ...
        """
        names = [declared.name for declared in fields(cls)]
        for name in arguments:
            if name not in names:
                raise TypeError(
                    f"{function}() got an unexpected keyword argument {name!r}; "
                    f"expected one of {', '.join(names)}"
                )
        return cls(**arguments)


class OptionArguments(TypedDict, total=False):
    """The fields of `RestorationOptions` as keyword arguments, for type checkers and editors.

    Type checkers cannot derive this class from the other one. A test compares their names and types.
    """

    channel_axis: int | None
    stack_axis: int | None
    patch_size: int | tuple[int, int] | None
    stride: int | None
    n_components: int | None
    algorithm: str
    features: str
    priors: Priors | None
    init: str | None
    dropout: float | None
    max_epochs: float | None
    max_steps: int | None
    max_time: float | None
    n_draws: int
    random_state: Any
    device: str
    n_jobs: int | None
    verbose: int
    callbacks: Sequence[Callback]


def takes_options(function: Function) -> Function:
    """Show the options in the signature of a function instead of its `**options`.

    Examples
    --------
    >>> @takes_options
    ... def sharpen(image, **options): ...
    >>> list(inspect.signature(sharpen).parameters)[:3]
    ['image', 'channel_axis', 'stack_axis']
    """
    signature = inspect.signature(function)
    own = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    options = [
        inspect.Parameter(
            declared.name, inspect.Parameter.KEYWORD_ONLY, default=declared.default, annotation=declared.type
        )
        for declared in fields(RestorationOptions)
    ]
    function.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return function
