"""Checks of arguments. Every error names the argument, its value, and what would be accepted."""

from __future__ import annotations

import operator
from math import isfinite, isinf
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def check_integer(name: str, value: Any, *, low: int, high: int | None = None) -> int:
    """Return `value` as an int, after checking that it is an integer in [low, high]."""
    try:
        number = None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        number = None
    if number is not None and low <= number and (high is None or number <= high):
        return number
    # The words are put together only here: a fit checks its numbers at every step.
    accepted = f"an integer >= {low}" if high is None else f"an integer from {low} to {high}"
    if number is None:
        raise TypeError(f"{name}={value!r}: expected {accepted}")
    raise ValueError(f"{name}={number}: expected {accepted}")


def check_number(name: str, value: Any, *, low: float, high: float = np.inf, open_low: bool = False) -> float:
    """Return `value` as a finite float in [low, high], or in (low, high] if `open_low` is true."""
    try:
        number = None if isinstance(value, (bool, np.bool_, str)) else float(value)
    except (TypeError, ValueError):
        number = None
    if number is not None and isfinite(number) and low <= number <= high and not (open_low and number == low):
        return number
    accepted = f"a number {'>' if open_low else '>='} {low:g}"
    accepted += "" if isinf(high) else f" and <= {high:g}"
    if number is None:
        raise TypeError(f"{name}={value!r}: expected {accepted}")
    raise ValueError(f"{name}={number!r}: expected {accepted}")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return `value`, after checking that it is one of `choices`."""
    if not isinstance(value, str):
        raise TypeError(f"{name}={value!r}: expected one of {', '.join(map(repr, choices))}")
    if value not in choices:
        raise ValueError(f"{name}={value!r}: expected one of {', '.join(map(repr, choices))}")
    return value


def check_array(name: str, value: Any, shape: tuple[int | None, ...]) -> Array:
    """Return `value` as a finite float64 array of this shape, in which None stands for any length."""
    array = as_real_array(name, value)
    if array.ndim != len(shape) or any(
        n is not None and n != m for n, m in zip(shape, array.shape, strict=True)
    ):
        expected = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"
        raise ValueError(f"{name}: shape {array.shape}, expected {expected}")
    finite = np.isfinite(array)
    if not finite.all():
        where = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise ValueError(f"{name}: {array[where]} at {where}; expected finite numbers")
    return array


def as_real_array(name: str, value: Any, *, keep_single: bool = False) -> Array:
    """Return `value` as a float64 array, and refuse anything that does not consist of real numbers.

    With `keep_single`, a float32 array keeps its type, so that large data are not copied.
    """
    array = _as_array(name, value)
    if array.dtype == object:
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"{name}: an array of objects that are not numbers; expected numbers") from None
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name}: dtype {array.dtype}; expected real numbers")
    if keep_single and array.dtype == np.float32:
        return array
    return array.astype(np.float64, copy=False)


def _as_array(name: str, value: Any) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except ValueError:
        raise ValueError(f"{name}: rows of different lengths; expected a rectangular array") from None


def check_instance(name: str, value: Any, kind: type) -> None:
    """Refuse a value that is not an instance of this class."""
    if not isinstance(value, kind):
        raise TypeError(f"{name}: {type(value).__name__}; expected {kind.__name__}")


def check_mask(name: str, value: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return `value` as a boolean array of this shape; numbers are accepted if all of them are 0 or 1."""
    mask = _as_array(name, value)
    if mask.dtype != bool:
        if mask.dtype.kind not in "fiu" or not np.isin(mask, (0, 1)).all():
            raise TypeError(f"{name}: dtype {mask.dtype}; expected booleans, or only zeros and ones")
        mask = mask.astype(bool)
    if mask.shape != shape:
        raise ValueError(f"{name}: shape {mask.shape}, expected {shape}")
    return mask
