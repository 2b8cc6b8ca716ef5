"""How names and parameters that are to go are kept for a while: docs/project/stability.md says how long.

Nothing is deprecated at the moment. When something is, its old form goes on working and warns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from inspect import cleandoc, signature
from typing import Any, ParamSpec, TypeVar

__all__ = ["deprecated", "renamed_parameter", "warn_deprecated"]

P = ParamSpec("P")
R = TypeVar("R")


def warn_deprecated(what: str, *, use: str, removed_in: str, stacklevel: int = 2) -> None:
    """Warn that something will go, with its replacement and the version in which it goes.

    The warning is a `FutureWarning`, which Python shows to users, and not a `DeprecationWarning`, which it
    hides from them.

    Parameters
    ----------
    what : str
        What is deprecated, as a user writes it.
    use : str
        What to write instead.
    removed_in : str
        The version that will not have it any more.
    stacklevel : int
        How far up the caller is whose line the warning shows; 2 is the caller of the function that warns.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_deprecated("hide=0.1", use="dropout=0.1", removed_in="0.4")
    >>> print(caught[0].message)
    hide=0.1 is deprecated and will be removed in bpfa 0.4; use dropout=0.1
    """
    message = f"{what} is deprecated and will be removed in bpfa {removed_in}; use {use}"
    warnings.warn(message, FutureWarning, stacklevel=stacklevel + 1)


def deprecated(*, since: str, use: str, removed_in: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function or a method warn when it is called, and say in its documentation that it will go.

    Parameters
    ----------
    since : str
        The version that warns for the first time.
    use : str
        What to call instead.
    removed_in : str
        The version that will not have the function any more.

    Returns
    -------
    function
        A decorator.

    Examples
    --------
    >>> @deprecated(since="0.2", use="impute", removed_in="0.4")
    ... def fill(value: int) -> int:
    ...     '''Fill in.'''
    ...     return value
    >>> print(fill.__doc__)
    Fill in.
    <BLANKLINE>
    .. deprecated:: 0.2
       Will be removed in 0.4; use `impute`.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def warning(*arguments: P.args, **named: P.kwargs) -> R:
            warn_deprecated(f"{function.__name__}()", use=use, removed_in=removed_in)
            return function(*arguments, **named)

        text = function.__doc__ or ""
        note = f".. deprecated:: {since}\n   Will be removed in {removed_in}; use `{use}`."
        warning.__doc__ = f"{cleandoc(text)}\n\n{note}"
        return warning

    return decorate


def renamed_parameter(
    old: str, new: str, *, removed_in: str
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Let a function accept a keyword argument by its former name, with a warning.

    Parameters
    ----------
    old, new : str
        The former and the present name.
    removed_in : str
        The version that will not accept the former name any more.

    Returns
    -------
    function
        A decorator.

    Examples
    --------
    >>> import warnings
    >>> @renamed_parameter("hide", "dropout", removed_in="0.4")
    ... def train(dropout: float = 0.0) -> float:
    ...     return dropout
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     train(hide=0.1)
    0.1
    >>> train(hide=0.1, dropout=0.2)
    Traceback (most recent call last):
    ...
    TypeError: hide and dropout: two names of one parameter; expected dropout alone
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        if new not in signature(function).parameters:
            raise TypeError(f"new={new!r}: not a parameter of {function.__name__}")

        @wraps(function)
        def renaming(*arguments: Any, **named: Any) -> R:
            if old in named:
                value = named.pop(old)
                if new in signature(function).bind_partial(*arguments, **named).arguments:
                    raise TypeError(f"{old} and {new}: two names of one parameter; expected {new} alone")
                warn_deprecated(f"{old}={value!r}", use=f"{new}={value!r}", removed_in=removed_in)
                named[new] = value
            return function(*arguments, **named)

        return renaming

    return decorate
