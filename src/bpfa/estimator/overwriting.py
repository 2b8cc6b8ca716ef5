"""What a model file may replace: nothing but an earlier model, and never the data."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

from safetensors import safe_open

from bpfa._support.files import check_writable, same_file
from bpfa.data import RowSource
from bpfa.fitting.checkpoint import Checkpoint

__all__ = [
    "check_checkpoint",
    "check_replaceable",
    "saved_steps",
    "warn_of_replacement",
]

# No more of a file is searched for the signs of a model.
MOST_HEADER_BYTES = 2**27


def check_replaceable(path: str | os.PathLike[str], *, damaged: bool = False) -> None:
    """Refuse to replace a file, unless it is empty or a model saved by bpfa.

    Parameters
    ----------
    path : path-like
        Nothing need be there.
    damaged : bool
        Whether a damaged model may be replaced as well.

    Examples
    --------
    >>> check_replaceable("/etc/hosts")
    Traceback (most recent call last):
    ...
    FileExistsError: /etc/hosts: exists and is not a model saved by bpfa; expected a new name, or a model
    """
    file = Path(path)
    if not file.exists():
        return
    if not file.is_file():
        raise FileExistsError(f"{path}: not a plain file; expected the name of a file to write")
    if file.stat().st_size == 0 or _metadata(file) is not None:
        return
    if not _begins_like_a_model(file):
        raise FileExistsError(
            f"{path}: exists and is not a model saved by bpfa; expected a new name, or a model"
        )
    if not damaged:
        raise FileExistsError(f"{path}: exists and is a damaged model; expected a new name, or a whole model")


def _begins_like_a_model(path: Path) -> bool:
    """Return whether a file begins like a model saved by bpfa, even if the rest is damaged or missing."""
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = stream.read(min(length, MOST_HEADER_BYTES))
    return header.startswith(b'{"__metadata__":{') and b'"bpfa":"' in header


def saved_steps(path: str | os.PathLike[str]) -> int | None:
    """Return the number of steps of a saved model, or None if there is none; its arrays are not read."""
    document = _metadata(Path(path))
    steps = document.get("n_steps") if isinstance(document, dict) else None
    return steps if isinstance(steps, int) else None


def _metadata(path: Path) -> object | None:
    """Return the document of a model, or None if there is no model that bpfa has saved."""
    try:
        with safe_open(path, framework="np") as file:
            document: object = json.loads((file.metadata() or {})["bpfa"])
    except Exception:
        # A file of another kind can make the library fail in many different ways.
        return None
    return document


def check_checkpoint(checkpoint: Checkpoint, rows: RowSource) -> None:
    """Refuse a checkpoint that cannot be written, or that would replace the data or another foreign file.

    Parameters
    ----------
    checkpoint : Checkpoint
    rows : RowSource
        The data. Sources on disk have the path of their file as a name.
    """
    # Other sources are named after their class, which is not a file of the data even if there is one.
    on_disk = rows.name != type(rows).__name__ and os.path.exists(rows.name)
    if on_disk and same_file(rows.name, checkpoint.path):
        raise ValueError(
            f"checkpoint={str(checkpoint.path)!r}: the file of the data; expected a file of its own"
        )
    check_writable(checkpoint.path)
    check_replaceable(checkpoint.path)


def warn_of_replacement(checkpoint: Checkpoint, resumed: str | os.PathLike[str] | None) -> None:
    """Warn if the file of a checkpoint holds a fit that the new one does not continue.

    Parameters
    ----------
    checkpoint : Checkpoint
    resumed : path-like or None
        The file that the new fit continues.
    """
    steps = saved_steps(checkpoint.path)
    if steps and not (resumed is not None and same_file(resumed, checkpoint.path)):
        warnings.warn(
            f"checkpoint={str(checkpoint.path)!r}: a fit of {steps} steps, which this fit will replace; "
            "resume=True continues it, and another file keeps it",
            stacklevel=3,
        )
