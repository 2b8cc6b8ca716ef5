"""The options of `inpaint` and `denoise`: their names, types, defaults, ranges and descriptions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypedDict, TypeVar

from bpfa._support.parameters import (
    Anything,
    Choice,
    ChoiceOrNone,
    Instance,
    Integer,
    IntegerOrPair,
    Number,
    check_value,
    declarations,
    declared,
    redeclared,
)
from bpfa._support.philox import MAX_SWEEP
from bpfa.estimator import BPFA
from bpfa.estimator.parameters import Parameters
from bpfa.fitting.run import Callback
from bpfa.images import defaults
from bpfa.images.noise.choice import NOISE_MODELS
from bpfa.model.priors import Priors

__all__ = ["OptionArguments", "RestorationOptions", "takes_options"]

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class RestorationOptions:
    """The options of `inpaint` and `denoise`, which documents them.

    Options that are parameters of `BPFA` have the kind and the meaning that are declared there; some have a
    default of their own. Every value is checked against its declaration, and whatever depends on the picture
    is checked by `plan_restoration`.

    Examples
    --------
    >>> RestorationOptions(stride=2).n_draws
    8
    >>> RestorationOptions(stride=0)
    Traceback (most recent call last):
    ...
    ValueError: stride=0: expected an integer >= 1
    """

    channel_axis: int | None = declared(None, Anything(int), "Axis of the colours, detectors or energies.")
    stack_axis: int | None = declared(
        None, Anything(int), "Axis of the slices of a stack, which share their features."
    )
    patch_size: int | tuple[int, int] | None = declared(
        None,
        IntegerOrPair(low=1),
        "Height and width of a patch in pixels.",
        by_default="from the image",
    )
    stride: int | None = declared(
        None,
        Integer(low=1),
        "Distance in pixels between the patches that are restored.",
        by_default="from the patch size",
    )
    n_components: int | None = redeclared(
        Parameters, "n_components", default=None, by_default=str(defaults.N_COMPONENTS)
    )
    algorithm: str = redeclared(Parameters, "algorithm")
    features: str = redeclared(Parameters, "features", default=defaults.FEATURES)
    priors: Priors | None = redeclared(Parameters, "priors")
    init: str | None = redeclared(Parameters, "init", default=None, by_default="from the image")
    dropout: float | None = redeclared(Parameters, "dropout", default=None, by_default="from the image")
    max_epochs: float | None = redeclared(Parameters, "max_epochs", default=None)
    max_steps: int | None = redeclared(
        Parameters,
        "max_steps",
        default=None,
        by_default=f"{defaults.STEPS}, or {defaults.FEW_STEPS} if few pixels are observed",
    )
    max_time: float | None = redeclared(Parameters, "max_time")
    n_draws: int = declared(
        defaults.N_DRAWS,
        Integer(low=2, high=MAX_SWEEP // 2),
        "Number of draws from the posterior behind the result.",
    )
    patch_samples: int = declared(
        1,
        Integer(low=1, high=MAX_SWEEP // 4),
        "Number of samples of a patch's chain under each of these draws.",
    )
    patch_burn_in: int = declared(
        defaults.BURN_IN,
        Integer(low=0, high=MAX_SWEEP // 4),
        "Sweeps of a patch's chain before its first sample.",
    )
    refine: str | None = declared(
        "groups", ChoiceOrNone(("groups", "none")), "Second stage that refines what the dictionary restores."
    )
    noise_model: str = declared(
        "gaussian", Choice(NOISE_MODELS), "Noise of the pixels: equal everywhere, or that of counts."
    )
    gain: float | None = declared(
        None,
        Number(low=0.0, open_low=True),
        "Units of the image per count, for noise of counts.",
        by_default="learned",
    )
    read_noise: float | None = declared(
        None,
        Number(low=0.0),
        "Standard deviation of the Gaussian part of the noise of counts.",
        by_default="learned",
    )
    model: BPFA | None = declared(
        None, Instance(BPFA), "Kept model that restores the image without training."
    )
    update: int = declared(
        0, Integer(low=0), "Training steps in which a kept model goes on learning from the image."
    )
    forgetting: float = declared(
        0.0, Number(low=0.0, high=1.0), "Least size of these steps, for images that change."
    )
    random_state: Any = redeclared(Parameters, "random_state")
    device: str = redeclared(Parameters, "device")
    n_jobs: int | None = redeclared(Parameters, "n_jobs")
    verbose: int = redeclared(Parameters, "verbose")
    callbacks: Sequence[Callback] = declared(
        (), Anything(), "Functions that are called after every training step."
    )

    def __post_init__(self) -> None:
        for name, option in declarations(self).items():
            checked = check_value(option, getattr(self, name))
            if name == "refine":
                # "none" is how the command line writes None.
                object.__setattr__(self, name, checked)
        if self.update and self.model is None:
            raise ValueError(f"update={self.update}: expected a kept model as well (model=)")

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
        names = list(declarations(cls))
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
    patch_samples: int
    patch_burn_in: int
    refine: str | None
    noise_model: str
    gain: float | None
    read_noise: float | None
    model: BPFA | None
    update: int
    forgetting: float
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
            option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=option.type
        )
        for option in fields(RestorationOptions)
    ]
    function.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    return function
