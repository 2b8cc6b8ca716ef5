"""Parameters by declaration: the kind, range, default and meaning of each one stand in one place.

The estimator, the functions for images, the command line and the tests all read the same declarations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, ClassVar, Protocol

import numpy as np

from bpfa._support.checks import check_choice, check_integer, check_number
from bpfa._support.threads import check_jobs

__all__ = [
    "Anything",
    "Boolean",
    "BooleanOrAuto",
    "Choice",
    "ChoiceOrNone",
    "Instance",
    "Integer",
    "IntegerOrPair",
    "Kind",
    "Number",
    "NumberOrAuto",
    "Seed",
    "Threads",
    "check_value",
    "checked",
    "declarations",
    "declared",
    "default_text_of",
    "kind_of",
    "redeclared",
    "summary_of",
]


class Kind(Protocol):
    """What values a parameter takes."""

    @property
    def value_type(self) -> type:
        """The type that the command line turns text into."""

    def check(self, name: str, value: Any) -> Any:
        """Return the value, or raise an error that names the parameter, the value and what is expected."""


@dataclass(frozen=True)
class Integer:
    """An integer in a range."""

    value_type: ClassVar[type] = int
    low: int
    high: int | None = None

    def check(self, name: str, value: Any) -> Any:
        """Return the value as an int."""
        return check_integer(name, value, low=self.low, high=self.high)


class IntegerOrPair(Integer):
    """An integer in a range, or a pair of them."""

    def check(self, name: str, value: Any) -> Any:
        """Return the value as an int, or as a tuple if it is a sequence."""
        if isinstance(value, Sequence) and not isinstance(value, str):
            return tuple(super(IntegerOrPair, self).check(name, number) for number in value)
        return super().check(name, value)


@dataclass(frozen=True)
class Number:
    """A finite number in a range, whose lower end may be excluded."""

    value_type: ClassVar[type] = float
    low: float
    high: float = np.inf
    open_low: bool = False

    def check(self, name: str, value: Any) -> float:
        """Return the value as a float."""
        return check_number(name, value, low=self.low, high=self.high, open_low=self.open_low)


@dataclass(frozen=True)
class NumberOrAuto(Number):
    """A finite number in a range, or "auto"."""

    value_type: ClassVar[type] = str

    def check(self, name: str, value: Any) -> Any:
        """Return the value as a float, or "auto"."""
        if isinstance(value, str) and value == "auto":
            return value
        try:
            return super().check(name, value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error}, or 'auto'") from None

    def from_text(self, text: str) -> Any:
        """Return the number that a text stands for, or the text itself if it is not a number."""
        try:
            return float(text)
        except ValueError:
            return text


@dataclass(frozen=True)
class Choice:
    """One of several names."""

    value_type: ClassVar[type] = str
    names: tuple[str, ...]

    def check(self, name: str, value: Any) -> str:
        """Return the value if it is one of the names."""
        return check_choice(name, value, self.names)


class ChoiceOrNone(Choice):
    """One of several names, of which "none" stands for None."""

    def check(self, name: str, value: Any) -> str | None:  # type: ignore[override]
        """Return the value if it is one of the names, and None for "none" and None."""
        if value is None:
            return None
        chosen = super().check(name, value)
        return None if chosen == "none" else chosen


@dataclass(frozen=True)
class Boolean:
    """True or False, and nothing that is merely truthy."""

    value_type: ClassVar[type] = bool

    def check(self, name: str, value: Any) -> bool:
        """Return the value as a bool."""
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name}={value!r}: expected True or False")
        return bool(value)


@dataclass(frozen=True)
class BooleanOrAuto:
    """True, False, or "auto"."""

    value_type: ClassVar[type] = str

    def check(self, name: str, value: Any) -> Any:
        """Return the value as a bool, or "auto"."""
        if isinstance(value, str) and value == "auto":
            return value
        if not isinstance(value, (bool, np.bool_)):
            kind = ValueError if isinstance(value, str) else TypeError
            raise kind(f"{name}={value!r}: expected True, False or 'auto'")
        return bool(value)

    def from_text(self, text: str) -> Any:
        """Return the truth value that a text stands for, or the text itself if it is not one.

        Examples
        --------
        >>> kind = BooleanOrAuto()
        >>> kind.from_text("yes"), kind.from_text("False"), kind.from_text("auto")
        (True, False, 'auto')
        """
        known = {"true": True, "yes": True, "false": False, "no": False}
        return known.get(text.lower(), text) if isinstance(text, str) else text


@dataclass(frozen=True)
class Threads:
    """A number of threads as scikit-learn counts them: -1 is all processors, -2 all but one."""

    value_type: ClassVar[type] = int

    def check(self, name: str, value: Any) -> Any:
        """Return the value as it is: the number of processors may differ where the value is used."""
        check_jobs(value)
        return value


@dataclass(frozen=True)
class Seed:
    """An integer seed, or a RandomState of NumPy."""

    value_type: ClassVar[type] = int
    high: ClassVar[int] = 2**64 - 1

    def check(self, name: str, value: Any) -> Any:
        """Return the value as it is."""
        if isinstance(value, np.random.RandomState):
            return value
        expected = f"a seed from 0 to {self.high}"
        try:
            check_integer(name, value, low=0, high=self.high)
        except ValueError:
            raise ValueError(f"{name}={value!r}: expected {expected}") from None
        except TypeError:
            raise TypeError(f"{name}={value!r}: expected {expected}, a RandomState, or None") from None
        return value


@dataclass(frozen=True)
class Instance:
    """An object of a class."""

    value_type: type

    def check(self, name: str, value: Any) -> Any:
        """Return the value if it is an instance of the class."""
        if not isinstance(value, self.value_type):
            raise TypeError(f"{name}={value!r}: expected an instance of {self.value_type.__name__}")
        return value


@dataclass(frozen=True)
class Anything:
    """A value that is checked where it is used."""

    value_type: type = object

    def check(self, name: str, value: Any) -> Any:
        """Return the value as it is."""
        return value


def declared(
    default: Any, kind: Kind, summary: str, *, optional: bool = False, by_default: str | None = None
) -> Any:
    """Declare a parameter as the field of a frozen dataclass.

    Parameters
    ----------
    default : object
    kind : Kind
        What values it takes.
    summary : str
        One line that says what it is, for the command line and for documentation.
    optional : bool
        Whether None is accepted as well. It always is where None is the default.
    by_default : str, optional
        What a default of None stands for, in a few words.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Parameters:
    ...     n_steps: int = declared(10, Integer(low=1), "Training steps.")
    >>> checked(Parameters(n_steps=3))
    Parameters(n_steps=3)
    >>> checked(Parameters(n_steps=0))
    Traceback (most recent call last):
    ...
    ValueError: n_steps=0: expected an integer >= 1
    """
    metadata = {
        "kind": kind,
        "summary": summary,
        "optional": optional or default is None,
        "by_default": by_default,
    }
    return field(default=default, metadata=metadata)


def redeclared(parameters: Any, name: str, *, default: Any = MISSING, by_default: str | None = None) -> Any:
    """Declare a parameter of another dataclass again: the same kind and summary, perhaps another default.

    Parameters
    ----------
    parameters : dataclass
        Where the parameter is declared first.
    name : str
    default : object, optional
        That of the first declaration if it is left out, together with what it stands for.
    by_default : str, optional
        What a default of None stands for here.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Parameters:
    ...     n_steps: int = declared(10, Integer(low=1), "Training steps.")
    >>> @dataclass(frozen=True)
    ... class Options:
    ...     n_steps: int = redeclared(Parameters, "n_steps", default=20)
    >>> Options().n_steps, summary_of(declarations(Options)["n_steps"])
    (20, 'Training steps.')
    """
    first = declarations(parameters)[name]
    if default is MISSING:
        default, by_default = first.default, by_default or default_text_of(first)
    return declared(
        default,
        kind_of(first),
        summary_of(first),
        optional=first.metadata["optional"],
        by_default=by_default,
    )


def declarations(parameters: Any) -> dict[str, Field[Any]]:
    """Return the declared parameters of a dataclass by name."""
    return {parameter.name: parameter for parameter in fields(parameters)}


def check_value(parameter: Field[Any], value: Any) -> Any:
    """Return a value of a declared parameter, checked."""
    if value is None and parameter.metadata["optional"]:
        return None
    return kind_of(parameter).check(parameter.name, value)


def checked(parameters: Any) -> Any:
    """Return a dataclass of declared parameters with every value checked."""
    values = {
        name: check_value(parameter, getattr(parameters, name))
        for name, parameter in declarations(parameters).items()
    }
    return type(parameters)(**values)


def kind_of(parameter: Field[Any]) -> Kind:
    """Return what values a declared parameter takes."""
    kind: Kind = parameter.metadata["kind"]
    return kind


def summary_of(parameter: Field[Any]) -> str:
    """Return the line that says what a declared parameter is."""
    summary: str = parameter.metadata["summary"]
    return summary


def default_text_of(parameter: Field[Any]) -> str | None:
    """Return what the default of a declared parameter stands for, if that has to be said."""
    text: str | None = parameter.metadata["by_default"]
    return text
