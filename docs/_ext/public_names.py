"""The default role of docstrings: a public name of bpfa becomes a link, and anything else is shown as code.

Docstrings put names of parameters, values and functions between single backticks. Only public names have a
page to link to.
"""

from __future__ import annotations

import inspect
from functools import cache
from importlib import import_module
from typing import Any

from docutils import nodes
from sphinx import addnodes

MODULES = ("bpfa", "bpfa.images", "bpfa.images.masks", "bpfa.data", "bpfa.plots", "bpfa.report")


@cache
def places() -> dict[str, str]:
    """Return the full name under which the reference has each public name, method and property.

    Examples
    --------
    >>> places()["BPFA.fit"], places()["open_rows"], "held_out" in places()
    ('bpfa.BPFA.fit', 'bpfa.open_rows', False)
    """
    found: dict[str, str] = {}
    for module in reversed(MODULES):
        for name in import_module(module).__all__:
            value = getattr(import_module(module), name)
            if inspect.ismodule(value):
                continue
            found[name] = found[f"{module}.{name}"] = f"{module}.{name}"
            if inspect.isclass(value):
                for member in _members_of(value):
                    found[f"{name}.{member}"] = f"{module}.{name}.{member}"
    return found


def _members_of(kind: type) -> list[str]:
    """Return the public methods of a class that bpfa itself defines."""
    own = (name for base in kind.__mro__ if base.__module__.startswith("bpfa") for name in vars(base))
    return sorted({name for name in own if not name.startswith("_") and callable(getattr(kind, name))})


def name_role(
    role: str, rawtext: str, text: str, lineno: int, inliner: Any, options: Any = None, content: Any = ()
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Turn a text between single backticks into a link or into code."""
    code = nodes.literal(rawtext, text, classes=["py", "py-obj"])
    name = text.removesuffix("()").lstrip("~")
    # Inside a class, the name of a method may stand without that of the class.
    inside = inliner.document.settings.env.ref_context.get("py:class")
    place = places().get(f"{inside}.{name}") or places().get(name)
    if place is None:
        return [code], []
    link = addnodes.pending_xref(
        rawtext, code, refdomain="py", reftype="obj", reftarget=place, refexplicit=True, refwarn=True
    )
    return [link], []


def setup(app: Any) -> dict[str, bool]:
    """Register the role with Sphinx."""
    app.add_role("name", name_role)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
