"""Observed pixels of a frame that are hidden from the model, and tell how large its errors really are."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.images.canvas import axis_positions, missing_pixels
from bpfa.images.result import ImageResult

__all__ = ["HiddenPixels"]

# Share of the pixels that are hidden if they are observed; in small frames so many pixels, but at most this
# share. Every hidden pixel is one that the model cannot use.
SHARE, PIXELS, MOST = 0.01, 2000, 0.03
# Intervals are right if this share of the errors is within so many standard deviations.
COVERED, DEVIATIONS = 0.95, 1.96
# Errors of the last frames are used as well until there are this many, from at most so many frames.
ENOUGH, FRAMES = 800, 8
# They are not if the share of this frame's errors that they cover differs from the expected one by more
# than this many standard errors.
SURPRISE = 2.5
# The factor is never smaller or larger than this.
SMALLEST, LARGEST = 0.5, 3.0


class HiddenPixels:
    """Hides a few observed pixels of every frame, and corrects its standard deviations by their errors.

    The errors of the hidden pixels, in units of their standard deviations, come from this frame or, if it has
    few of them, from the last frames as well, unless those were clearly larger or smaller, as before a change
    of the scene. All standard deviations are multiplied by the factor that makes
    intervals of 95 % cover 95 % of them.

    Parameters
    ----------
    seed : int

    Examples
    --------
    >>> hidden = HiddenPixels(seed=0)
    >>> places = hidden.choose(np.zeros((200, 100)), np.arange(20_000).reshape(200, 100) % 2 == 0)
    >>> 250 < len(places) < 350, bool((places % 2 == 1).all())
    (True, True)
    >>> round(hidden.factor(2.0 * np.random.default_rng(1).normal(size=4000)), 1)
    2.0
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._errors: deque[Array] = deque(maxlen=FRAMES)

    def choose(self, values: NDArray[Any], missing: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """Return the flat places of the pixels of a frame to be hidden, all of which are observed.

        Parameters
        ----------
        values : array
            Where it is not a number, a pixel is missing.
        missing : boolean array of the same shape, or None
        """
        n = values.size
        # Drawn from all pixels, because to list those that are observed takes long. So does a search for the
        # few places that are drawn twice, which do no harm.
        drawn = self._rng.integers(0, n, int(n * min(MOST, max(SHARE, PIXELS / n))))
        observed = np.ones(len(drawn), dtype=bool)
        if missing is not None:
            observed &= ~missing.ravel()[drawn]
        if values.dtype.kind == "f":
            observed &= ~np.isnan(values.ravel()[drawn])
        chosen: NDArray[np.int64] = drawn[observed]
        return chosen

    def forget(self) -> None:
        """Forget the errors of earlier frames, after the scene has changed."""
        self._errors.clear()

    def factor(self, errors: Array) -> float:
        """Return the factor of the standard deviations of a frame, given the errors of its hidden pixels.

        Parameters
        ----------
        errors : array
            In units of their standard deviations.
        """
        own: Array = np.abs(errors[np.isfinite(errors)])
        if self._errors and _differ(own, np.concatenate(self._errors)):
            self.forget()
        self._errors.append(own)
        used: list[Array] = []
        for one in reversed(self._errors):
            used.append(one)
            if sum(map(len, used)) >= ENOUGH:
                break
        found = np.concatenate(used)
        if len(found) < ENOUGH // 8:
            return 1.0
        return float(np.clip(np.quantile(found, COVERED) / DEVIATIONS, SMALLEST, LARGEST))

    def restored(
        self, restore: Callable[..., ImageResult], frame: Any, mask: Any, options: dict[str, Any]
    ) -> ImageResult:
        """Restore a frame with a few of its observed pixels hidden, and return it as if none had been.

        Parameters
        ----------
        restore : callable
            `inpaint`.
        frame, mask : array-like
            As in `inpaint`.
        options : dict
            Those of `inpaint`.
        """
        values = np.asarray(frame)
        axes = axis_positions(values.shape, options.get("channel_axis"), options.get("stack_axis"))
        missing = np.zeros(values.shape, dtype=bool)
        if mask is not None:
            missing |= missing_pixels(mask, values.shape, axes)
        if isinstance(frame, np.ma.MaskedArray):
            missing |= np.ma.getmaskarray(frame)
        if not missing.any() and not (values.dtype.kind == "f" and np.isnan(values).any()):
            return restore(frame, mask, **options)
        places = self.choose(values, missing)
        missing.ravel()[places] = True
        result = restore(values, missing, **options)
        at = np.unravel_index(places, values.shape)
        spread = np.maximum(result.std[at].astype(np.float64), 1e-300)
        factor = self.factor((values[at].astype(np.float64) - result.image[at]) / spread)
        image, std, hidden = (
            result.image.copy(),
            result.std * result.std.dtype.type(factor),
            result.missing.copy(),
        )
        image[at], std[at], hidden[at] = values[at], 0, False
        return replace(result, image=image, std=std, missing=hidden)


def _differ(errors: Array, earlier: Array) -> bool:
    """Return whether intervals that are right for earlier errors are too wide or too narrow for these."""
    if not len(errors) or not len(earlier):
        return False
    covered = float(np.mean(errors <= np.quantile(earlier, COVERED)))
    standard_error = np.sqrt(COVERED * (1 - COVERED) * (1 / len(errors) + 1 / len(earlier)))
    return bool(abs(covered - COVERED) > SURPRISE * standard_error)
