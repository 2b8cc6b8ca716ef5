"""Items of a stream: frames, some of them with a mask, and the first of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bpfa.images.canvas import Canvas, axis_positions, missing_pixels
from bpfa.images.defaults import default_patch_size

__all__ = ["as_frame", "frame_and_mask", "observed_share", "options_of_first"]

# Widest patch of a frame if the user does not choose. The dictionary of a grey frame then fits into the fast
# memory of a processor.
WIDEST = 12


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


def observed_share(
    frame: Any, mask: Any, *, channel_axis: int | None = None, stack_axis: int | None = None
) -> float:
    """Return the share of the pixels of a frame that is observed.

    Parameters
    ----------
    frame : array
        Where it is not a number, a pixel is missing, unless it is on a GPU: it is not copied for this.
    mask : array-like or Scan, optional
    channel_axis, stack_axis : int, optional
        As in `inpaint`.

    Examples
    --------
    >>> observed_share(np.array([[1.0, np.nan], [2.0, 3.0]]), [[True, False], [False, False]])
    0.5
    """
    missing = np.zeros(frame.shape, dtype=bool)
    if mask is not None:
        missing |= missing_pixels(mask, frame.shape, axis_positions(frame.shape, channel_axis, stack_axis))
    if isinstance(frame, np.ma.MaskedArray):
        missing |= np.ma.getmaskarray(frame)
    if isinstance(frame, np.ndarray) and frame.dtype.kind == "f":
        missing |= np.isnan(np.asarray(frame))
    return 1.0 - float(missing.mean())


def options_of_first(frame: Any, mask: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options by which a model is fitted to the first frame, with the size of its patches.

    A frame that shows nothing, as before the beam is on, is refused: it has no scale and no features, and no
    later frame could be restored by its model.

    Parameters
    ----------
    frame, mask : array-like
    options : dict
        Those of `inpaint`.

    Examples
    --------
    >>> options_of_first(np.eye(64), None, {"n_draws": 2})
    {'n_draws': 2, 'patch_size': 8}
    >>> options_of_first(np.full((64, 64), 3.0), None, {})
    Traceback (most recent call last):
    ...
    ValueError: frame: every observed pixel is 3; expected a picture in the first frame, to learn from
    """
    axes = {name: options.get(name) for name in ("channel_axis", "stack_axis")}
    canvas = Canvas.of(frame, mask, **axes)
    if not canvas.values.any():
        raise ValueError(
            f"frame: every observed pixel is {canvas.mean[0]:g}; expected a picture in the first frame, to "
            "learn from"
        )
    if options.get("patch_size") is not None:
        return dict(options)
    _, height, width, n_channels = canvas.values.shape
    usual = default_patch_size(height, width, n_channels, float(canvas.observed.mean()))
    return options | {"patch_size": min(WIDEST, usual)}
