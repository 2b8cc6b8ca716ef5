"""Observed pixels of a frame that are hidden from the model, and tell how large its errors really are."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.images.canvas import axis_positions, missing_pixels
from bpfa.images.result import ImageResult

__all__ = ["Hidden", "HiddenPixels"]

# Share of the pixels that are hidden if they are observed; in small frames so many pixels, but at most this
# share. Every hidden pixel is one that the model cannot use: in small frames no more observed ones are hidden
# than the last number, which suffices if it is above FEW.
SHARE, PIXELS, MOST, MOST_OBSERVED = 0.01, 2000, 0.03, 600
# Largest share that is hidden while a frame is restored once more, only to learn how large the errors are.
MOST_AGAIN = 0.1
# Intervals are right if this share of the errors is within so many standard deviations.
COVERED, DEVIATIONS = 0.95, 1.96
# Errors of earlier frames are used as well until there are this many. Below the second number, the share that
# intervals cover would be wrong by more than a hundredth too often, and more errors are wanted. Below the
# third one, the deviations stay as they are.
ENOUGH, FEW, FEWEST = 1600, 500, 100
# Errors of earlier frames are not used if the share of this frame's errors that they cover differs from the
# expected one by more than this many standard errors.
SURPRISE = 2.5
# A frame shows another scene if the frame before explains less than this share of the variance of its hidden
# pixels, of which there must be so many. Another picture explains nothing, but for what is alike by chance.
EXPLAINED, FEWEST_COMPARED = 0.25, 50
# The factor is never smaller or larger than this.
SMALLEST, LARGEST = 0.5, 3.0


class Hidden(NamedTuple):
    """The hidden pixels of a frame."""

    places: NDArray[np.int64]
    """Where they are in the frame, flattened."""
    values: Array
    """What was scanned there."""
    channels: NDArray[np.int64]
    """The channel of each of them."""
    errors: Array
    """How far the restored frame is from these values, in units of its standard deviations."""


class HiddenPixels:
    """Hides a few observed pixels of every frame, and corrects its standard deviations by their errors.

    The errors of the hidden pixels, in units of their standard deviations, come from this frame and, as it
    has few of them, from the frames before, unless those showed another scene, the model has changed a lot
    since then, or they had clearly larger or smaller errors. If there are still too few, the frame is
    restored once more with other pixels hidden. All standard deviations are multiplied by the factor that
    makes intervals of 95 % cover 95 % of them.

    Parameters
    ----------
    seed : int

    Examples
    --------
    >>> hidden = HiddenPixels(seed=0)
    >>> places = hidden.choose(np.zeros((200, 100)), np.arange(20_000).reshape(200, 100) % 2 == 0)
    >>> 250 < len(places) < 350, bool((places % 2 == 1).all())
    (True, True)
    >>> hidden.add(2.0 * np.random.default_rng(1).normal(size=4000))
    >>> round(hidden.factor(), 1), hidden.n_wanted
    (2.0, 0)
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._errors: deque[Array] = deque()
        self._before: NDArray[Any] | None = None
        self._alone = False

    @property
    def n_wanted(self) -> int:
        """How many more errors are wanted before the deviations are corrected."""
        n = self._n_errors()
        return ENOUGH - n if n < FEW else 0

    def choose(
        self, values: NDArray[Any], missing: NDArray[np.bool_] | None, n_wanted: int | None = None
    ) -> NDArray[np.int64]:
        """Return the flat places of the pixels of a frame to be hidden, all of which are observed.

        Parameters
        ----------
        values : array
            Where it is not a number, a pixel is missing.
        missing : boolean array of the same shape, or None
        n_wanted : int, optional
            About how many; at most a tenth of those that are observed. By default as many as can be spared.
        """
        n = values.size
        n_observed = max(n if missing is None else n - int(np.count_nonzero(missing)), 1)
        # While errors of other frames are of no use, one frame should have enough of them.
        pixels = n if self._alone else PIXELS
        n_drawn = int(n * max(SHARE, min(MOST, pixels / n, MOST_OBSERVED / n_observed)))
        if n_wanted is not None:
            n_drawn = int(n * min(MOST_AGAIN, n_wanted / n_observed))
        # Drawn from all pixels, because to list those that are observed takes long. So does a search for the
        # few places that are drawn twice, which do no harm.
        drawn = self._rng.integers(0, n, n_drawn)
        observed = np.ones(len(drawn), dtype=bool)
        if missing is not None:
            observed &= ~missing.ravel()[drawn]
        if values.dtype.kind == "f":
            observed &= ~np.isnan(values.ravel()[drawn])
        chosen: NDArray[np.int64] = drawn[observed]
        return chosen

    def shows_another_scene(self, hidden: Hidden, image: Any) -> bool:
        """Return whether a frame shows another scene than the one before, and remember it for the next one.

        A scene that moves far between two frames is another one by this measure; one that only becomes
        brighter is not.

        Parameters
        ----------
        hidden : Hidden
        image : array
            The restored frame. One that is not in the memory of the host tells nothing.
        """
        before = self._before
        self._before = image.ravel().copy() if isinstance(image, np.ndarray) else None
        if before is None or len(hidden.places) < FEWEST_COMPARED:
            return False
        values = _centred(hidden.values, hidden.channels)
        left = values - _centred(before[hidden.places], hidden.channels)
        return bool(np.sum(left**2) > (1.0 - EXPLAINED) * np.sum(values**2))

    def add(self, errors: Array, *, alone: bool = False) -> None:
        """Add the errors of a frame.

        Parameters
        ----------
        errors : array
            In units of their standard deviations.
        alone : bool
            Whether the errors of earlier frames say nothing about this one.
        """
        own: Array = np.abs(errors[np.isfinite(errors)])
        self._alone = alone
        if alone or (self._errors and _differ(own, np.concatenate(self._errors))):
            self._errors.clear()
        self._errors.append(own)
        while self._n_errors() - len(self._errors[0]) >= ENOUGH:
            self._errors.popleft()

    def add_more(self, errors: Array) -> None:
        """Add further errors of the frame that came last.

        Parameters
        ----------
        errors : array
            In units of their standard deviations.
        """
        self._errors.append(np.abs(errors[np.isfinite(errors)]))

    def factor(self) -> float:
        """Return the factor of the standard deviations of the frame that came last."""
        if self._n_errors() < FEWEST:
            return 1.0
        found = np.concatenate(self._errors)
        return float(np.clip(np.quantile(found, COVERED) / DEVIATIONS, SMALLEST, LARGEST))

    def restored(
        self,
        restore: Callable[..., ImageResult],
        frame: Any,
        mask: Any,
        options: dict[str, Any],
        n_wanted: int | None = None,
    ) -> tuple[ImageResult, Hidden | None]:
        """Restore a frame with a few of its observed pixels hidden, and return it as if none had been.

        Parameters
        ----------
        restore : callable
            `inpaint`.
        frame, mask : array-like
            As in `inpaint`.
        options : dict
            Those of `inpaint`.
        n_wanted : int, optional
            As in `choose`.
        """
        values = np.asarray(frame)
        axes = axis_positions(values.shape, options.get("channel_axis"), options.get("stack_axis"))
        missing = np.zeros(values.shape, dtype=bool)
        if mask is not None:
            missing |= missing_pixels(mask, values.shape, axes)
        if isinstance(frame, np.ma.MaskedArray):
            missing |= np.ma.getmaskarray(frame)
        if not missing.any() and not (values.dtype.kind == "f" and np.isnan(values).any()):
            return restore(frame, mask, **options), None
        places = self.choose(values, missing, n_wanted)
        missing.ravel()[places] = True
        result = restore(values, missing, **options)
        at = np.unravel_index(places, values.shape)
        scanned = values[at].astype(np.float64)
        spread = np.maximum(result.std[at].astype(np.float64), 1e-300)
        channels = np.zeros_like(places) if axes[3] is None else at[axes[3]]
        found = Hidden(places, scanned, channels, (scanned - result.image[at]) / spread)
        image, std, hidden = (array.copy() for array in (result.image, result.std, result.missing))
        image[at], std[at], hidden[at] = values[at], 0, False
        return replace(result, image=image, std=std, missing=hidden), found

    def _n_errors(self) -> int:
        return sum(map(len, self._errors))


def _centred(values: Array, channels: NDArray[np.int64]) -> Array:
    """Return values without the mean of their channel."""
    means = np.bincount(channels, values) / np.maximum(np.bincount(channels), 1)
    return values - means[channels]


def _differ(errors: Array, earlier: Array) -> bool:
    """Return whether intervals that are right for earlier errors are too wide or too narrow for these."""
    if not len(errors) or not len(earlier):
        return False
    covered = float(np.mean(errors <= np.quantile(earlier, COVERED)))
    standard_error = np.sqrt(COVERED * (1 - COVERED) * (1 / len(errors) + 1 / len(earlier)))
    return bool(abs(covered - COVERED) > SURPRISE * standard_error)
