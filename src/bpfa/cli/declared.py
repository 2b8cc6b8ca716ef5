"""Options of commands that are parameters of the library, made from the declarations of the parameters.

The type, range, default and help of such an option come from its declaration in `bpfa.estimator.parameters`
or `bpfa.images.options`. Only what the program does differently is said here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import Field
from math import isfinite
from typing import Annotated, Any, TypeVar

import typer

from bpfa._support.parameters import (
    Boolean,
    BooleanOrAuto,
    Choice,
    Integer,
    Kind,
    Number,
    NumberOrAuto,
    Seed,
    check_value,
    declarations,
    default_text_of,
    kind_of,
    summary_of,
)

__all__ = ["RENAMED", "WrongOption", "library_options", "option", "takes"]

Command = TypeVar("Command", bound=Callable[..., None])

# Options whose name is not that of the library's parameter, by the library's name.
RENAMED = {"n_components": "components", "random_state": "seed", "n_jobs": "jobs", "patch_size": "patch"}
SHORT = {"n_jobs": ("--jobs", "-j")}
# A command gives the same result every time, unless another seed is given.
OWN_DEFAULTS = {"random_state": 0}
OWN_DEFAULT_TEXTS = {"channel_axis": "from the file", "stack_axis": "from the file"}


def takes(*options: inspect.Parameter) -> Callable[[Command], Command]:
    """Give a command these options, in this order, after its arguments.

    Typer reads the options from the signature of a function. The function itself receives them as keyword
    arguments, of which it names those that it needs.

    Examples
    --------
    >>> @takes(option("loud", bool, False), option("seed", int, 0))
    ... def command(source: str, *, seed: int, **options: Any) -> None: ...
    >>> list(inspect.signature(command).parameters)
    ['source', 'loud', 'seed']
    """

    def with_options(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        keywords = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
        own = [argument for argument in signature.parameters.values() if argument.kind not in keywords]
        command.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
        return command

    return with_options


def option(name: str, kind: Any, default: Any, *flags: str, **settings: Any) -> inspect.Parameter:
    """Return an option of a command; `flags` and `settings` are arguments of `typer.Option`."""
    annotation = Annotated[kind, typer.Option(*flags, **settings)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def library_options(declared: type, *names: str) -> tuple[inspect.Parameter, ...]:
    """Return the options for some declared parameters, by the library's names for them.

    Examples
    --------
    >>> from bpfa.estimator.parameters import Parameters
    >>> [option.name for option in library_options(Parameters, "n_components", "random_state")]
    ['components', 'seed']
    """
    return tuple(_library_option(declarations(declared)[name]) for name in names)


def _library_option(parameter: Field[Any]) -> inspect.Parameter:
    name, kind = parameter.name, kind_of(parameter)
    own_name = RENAMED.get(name, name)
    flags = (f"--{own_name}",) if isinstance(kind, Boolean) else SHORT.get(name, ())
    default = OWN_DEFAULTS.get(name, parameter.default)
    value_type = kind.value_type if default is not None else kind.value_type | None

    def check(value: Any) -> Any:
        if isinstance(kind, (NumberOrAuto, BooleanOrAuto)):
            value = kind.from_text(value)
        try:
            return check_value(parameter, value)
        except (TypeError, ValueError) as error:
            what_is_wrong = str(error).removeprefix(f"{name}=")
            raise WrongOption(f"--{own_name.replace('_', '-')} {what_is_wrong}") from None

    return option(own_name, value_type, default, *flags, help=_help(parameter), callback=check)


def _help(parameter: Field[Any]) -> str:
    """Return the summary of a parameter, its choices, its range, and what a default of None stands for."""
    kind, text = kind_of(parameter), summary_of(parameter)
    if isinstance(kind, Choice):
        text += f" One of {', '.join(kind.names)}."
    if limits := _range(kind):
        text += f" [{limits}]"
    default = OWN_DEFAULT_TEXTS.get(parameter.name, default_text_of(parameter))
    return text if default is None else f"{text} [default: {default}]"


def _range(kind: Kind) -> str:
    """Return the range of a parameter in the way typer writes ranges, which cannot be open in typer."""
    if isinstance(kind, Integer):
        return f"x>={kind.low}" if kind.high is None else f"{kind.low}<=x<={kind.high}"
    if isinstance(kind, Number):
        sign = ">" if kind.open_low else ">="
        if isfinite(kind.high):
            return f"{kind.low:g}{sign.replace('>', '<')}x<={kind.high:g}"
        return f"x{sign}{kind.low:g}"
    # The largest seed is not worth a place in the help.
    return "x>=0" if isinstance(kind, Seed) else ""


class WrongOption(typer.BadParameter):
    """A value that an option does not take. The message is that of the library, which names the value."""

    def format_message(self) -> str:
        """Return the message as it is."""
        return self.message
