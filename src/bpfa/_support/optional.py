"""Libraries that not every installation has, and an error that says how to install them."""

from __future__ import annotations

import importlib
from types import ModuleType

__all__ = ["library"]


def library(module: str, extra: str, *, purpose: str | None = None, alternative: str = "") -> ModuleType:
    """Import a library of one of the package's extras; where it is missing, the error says how to install it.

    Parameters
    ----------
    module : str
        Name to import, such as "pyarrow.parquet".
    extra : str
        The extra of bpfa that installs the library.
    purpose : str, optional
        What needs the library, for the error, such as "plots need matplotlib". By default the error says why
        the import failed, and that this file needs the library.
    alternative : str
        Added after the name of the extra in the error, where another extra may be the right one.

    Returns
    -------
    module

    Examples
    --------
    >>> library("json", "tables").dumps([1, 2])
    '[1, 2]'
    >>> library("no_such_library", "plots", purpose="plots need it")
    Traceback (most recent call last):
    ...
    ImportError: plots need it: pip install 'bpfa[plots]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        needed = f"{error}; this file needs {module}" if purpose is None else purpose
        raise ImportError(f"{needed}: pip install 'bpfa[{extra}]'{alternative}") from error
