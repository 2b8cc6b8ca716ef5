"""Items of a stream: frames, some of them with a mask."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["as_frame", "frame_and_mask"]


def frame_and_mask(item: Any) -> tuple[Any, Any]:
    """Return the frame and the mask of an item of a stream.

    Parameters
    ----------
    item : array-like, or pair of array-likes

    Examples
    --------
    >>> frame_and_mask("a frame"), frame_and_mask(("a frame", "its mask"))
    (('a frame', None), ('a frame', 'its mask'))
    """
    if not isinstance(item, tuple):
        return item, None
    if len(item) != 2:
        raise ValueError(f"a tuple of {len(item)}; expected a frame, or a pair of a frame and its mask")
    return item


def as_frame(frame: Any) -> Any:
    """Return a frame as an array, which it is already if it is on a GPU.

    Parameters
    ----------
    frame : array-like

    Examples
    --------
    >>> as_frame([[1, 2]])
    array([[1, 2]])
    """
    if hasattr(frame, "dtype") and hasattr(frame, "shape"):
        return frame
    try:
        return np.asarray(frame)
    except (TypeError, ValueError) as error:
        raise ValueError(f"frame: not an array of numbers ({error})") from error
