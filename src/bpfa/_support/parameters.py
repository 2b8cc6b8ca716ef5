"""Parameters by declaration: the kind, range, default and meaning of each stand in one place."""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from typing import Any, Protocol

import numpy as np

from bpfa._support.checks import check_choice, check_integer, check_number

__all__ = [
    "Anything",
    "Boolean",
    "Choice",
    "Integer",
    "Kind",
    "Number",
    "checked",
    "declared",
    "kind_of",
    "summary_of",
]


class Kind(Protocol):
    """What values a parameter takes."""

    def check(self, name: str, value: Any) -> Any:
        """Return the value, or raise an error that names the parameter, the value and what is expected."""


@dataclass(frozen=True)
class Integer:
    """An integer in a range."""

    low: int
    high: int | None = None

    def check(self, name: str, value: Any) -> int:
        """Return the value as an int."""
        return check_integer(name, value, low=self.low, high=self.high)


@dataclass(frozen=True)
class Number:
    """A finite number in a range, whose lower end may be excluded."""

    low: float
    high: float = np.inf
    open_low: bool = False

    def check(self, name: str, value: Any) -> float:
        """Return the value as a float."""
        return check_number(name, value, low=self.low, high=self.high, open_low=self.open_low)


@dataclass(frozen=True)
class Choice:
    """One of several names."""

    names: tuple[str, ...]

    def check(self, name: str, value: Any) -> str:
        """Return the value if it is one of the names."""
        return check_choice(name, value, self.names)


@dataclass(frozen=True)
class Boolean:
    """True or False, and nothing that is merely truthy."""

    def check(self, name: str, value: Any) -> bool:
        """Return the value as a bool."""
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name}={value!r}: expected True or False")
        return bool(value)


@dataclass(frozen=True)
class Anything:
    """A value that is checked where it is used."""

    def check(self, name: str, value: Any) -> Any:
        """Return the value as it is."""
        return value


def declared(default: Any, kind: Kind, summary: str, *, optional: bool = False) -> Any:
    """Declare a parameter as the field of a frozen dataclass.

    Parameters
    ----------
    default : object
    kind : Kind
        What values it takes.
    summary : str
        One line that says what it is, for the command line and for documentation.
    optional : bool
        Whether None is a value too. It is where None is the default.

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
    metadata = {"kind": kind, "summary": summary, "optional": optional or default is None}
    return field(default=default, metadata=metadata)


def checked(parameters: Any) -> Any:
    """Return a dataclass of declared parameters with every value checked."""
    values = {}
    for parameter in fields(parameters):
        value = getattr(parameters, parameter.name)
        if not (value is None and parameter.metadata["optional"]):
            value = kind_of(parameter).check(parameter.name, value)
        values[parameter.name] = value
    return type(parameters)(**values)


def kind_of(parameter: Field[Any]) -> Kind:
    """Return what values a declared parameter takes."""
    kind: Kind = parameter.metadata["kind"]
    return kind


def summary_of(parameter: Field[Any]) -> str:
    """Return the line that says what a declared parameter is."""
    summary: str = parameter.metadata["summary"]
    return summary
