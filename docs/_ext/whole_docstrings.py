"""Methods that override others are shown with what the docstrings of the others say.

The docstring of such a method may be one sentence on what is particular to it. Its parameters, its result, an
example and the rest are written down only once, in the base class.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from itertools import pairwise
from typing import Any

# The sections that a method takes over. What a method yields takes the place of what it returns.
SECTIONS = ("Parameters", "Returns", "Yields", "See Also", "References", "Examples")
HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}$", flags=re.MULTILINE)


def sections_of(text: str) -> dict[str, str]:
    r"""Return the sections of a docstring by their names, each with its heading.

    Examples
    --------
    >>> sections_of("Add numbers.\n\nReturns\n-------\nint")
    {'Returns': 'Returns\n-------\nint'}
    """
    found = list(HEADING.finditer(text))
    edges = [*(match.start() for match in found), len(text)]
    return {match[1]: text[start:end] for match, (start, end) in zip(found, pairwise(edges), strict=True)}


def definitions(kind: type, name: str) -> list[str]:
    """Return the docstrings of a method in a class and in its base classes, the nearest first.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> [len(sections_of(text)) for text in definitions(ArrayRows, "take")]
    [0, 4]
    """
    values = [vars(base)[name] for base in kind.__mro__ if name in vars(base)]
    # A method that depends on the settings of an estimator is behind an attribute of its own.
    functions = [getattr(value, "fn", None) or getattr(value, "__func__", value) for value in values]
    return [inspect.cleandoc(value.__doc__) for value in functions if value.__doc__]


def completed(texts: list[str]) -> str:
    r"""Return a docstring with the sections that only those behind it have.

    Examples
    --------
    >>> completed(["Add numbers.", "Combine numbers.\n\nReturns\n-------\nint"])
    'Add numbers.\n\nReturns\n-------\nint'
    """
    whole, *others = texts
    for other in others:
        own = sections_of(whole)
        for name, section in sections_of(other).items():
            result_is_there = name in ("Returns", "Yields") and {"Returns", "Yields"} & set(own)
            if name in SECTIONS and name not in own and not result_is_there:
                whole = f"{whole.rstrip()}\n\n{section.rstrip()}"
    return whole


def complete(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Complete the docstring of a method, before numpydoc reads it."""
    if what != "method":
        return
    place, _, method = name.rpartition(".")
    module, _, kind = place.rpartition(".")
    if texts := definitions(getattr(import_module(module), kind), method):
        lines[:] = completed(texts).splitlines()


def setup(app: Any) -> dict[str, bool]:
    """Register the handler with Sphinx: numpydoc's has the usual priority, 500."""
    app.connect("autodoc-process-docstring", complete, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
