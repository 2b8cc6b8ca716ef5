"""Signals of HyperSpy as pictures: what their axes mean, and signals made of what was restored.

Nothing here imports HyperSpy: a signal brings along all that is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bpfa.estimator.kept import with_notes
from bpfa.images.kept import notes_of
from bpfa.images.masks import Scan
from bpfa.images.result import ImageResult
from bpfa.images.spectra import Spectra

__all__ = [
    "MOST_CHANNELS",
    "SignalAxes",
    "as_arrays",
    "in_components",
    "is_signal",
    "mask_array",
    "restore_signal",
]

# A spectrum image with more channels than this is restored in components: patches of all of its channels
# would have thousands of values, most of them noise.
MOST_CHANNELS = 64
# Options that say what the noise is.
NOISE = "noise_model", "gain", "read_noise"


def is_signal(data: Any) -> bool:
    """Return whether an object is a signal of HyperSpy.

    Parameters
    ----------
    data : object

    Examples
    --------
    >>> is_signal(np.eye(2))
    False
    """
    return hasattr(data, "axes_manager") and hasattr(data, "_deepcopy_with_new_data")


@dataclass(frozen=True)
class SignalAxes:
    """What the axes of a signal's data mean: first those of the navigation, then those of the signal.

    Parameters
    ----------
    n_stack, n_picture, n_channels : int
        How many axes belong to slices of a stack, to height and width, and to channels, in this order.

    Examples
    --------
    >>> SignalAxes.of_dimensions(2, 1)
    SignalAxes(n_stack=0, n_picture=2, n_channels=1)
    """

    n_stack: int
    n_picture: int
    n_channels: int

    @classmethod
    def of_dimensions(cls, navigation: int, signal: int) -> SignalAxes:
        """Return the meaning of the axes of a signal with so many axes of either kind.

        Parameters
        ----------
        navigation, signal : int
        """
        if (navigation, signal) in ((0, 2), (2, 0), (1, 1)):
            return cls(0, 2, 0)
        if (navigation, signal) == (1, 2):
            return cls(1, 2, 0)
        if navigation in (2, 3) and signal in (1, 2):
            return cls(navigation - 2, 2, signal)
        raise ValueError(
            f"image: a signal with {navigation} axes of navigation and {signal} of the signal; expected an "
            "image, a stack of images, or a spectrum or a diffraction pattern at every position of a scan or "
            "of a stack of scans (change the axes with `transpose`, or pass `.data` and name the axes)"
        )

    def options(self) -> dict[str, int | None]:
        """Return these axes as options of `inpaint`, if all channels are one axis."""
        return {
            "stack_axis": 0 if self.n_stack else None,
            "channel_axis": self.n_stack + self.n_picture if self.n_channels else None,
        }


def mask_array(mask: Any) -> Any:
    """Return a mask that may be a signal as an array, and anything else as it is.

    Parameters
    ----------
    mask : array-like, Scan, signal or None
    """
    return np.asarray(mask.data) if is_signal(mask) else mask


def restore_signal(
    restore: Callable[..., ImageResult],
    signal: Any,
    mask: Any,
    options: dict[str, Any],
    *,
    keep_observed: bool,
) -> ImageResult:
    """Restore a signal, and return a result whose pictures are signals of the same class.

    Parameters
    ----------
    restore : callable
        `inpaint` or `denoise`.
    signal : signal of HyperSpy
        With its data in memory, or lazy.
    mask : array-like, Scan, signal or None
    options : dict
        Those of `restore`.
    keep_observed : bool
        Whether observed entries stay as they are.
    """
    manager = signal.axes_manager
    axes = SignalAxes.of_dimensions(manager.navigation_dimension, manager.signal_dimension)
    mask = mask_array(mask)
    if options.get("channel_axis") is not None or options.get("stack_axis") is not None:
        raise ValueError(
            "channel_axis, stack_axis: a signal knows its axes; expected neither, or `.data` as the image"
        )
    n_values = int(np.prod(signal.data.shape[axes.n_stack + 2 :])) if axes.n_channels else 1
    if axes.n_channels == 2 or n_values > MOST_CHANNELS:
        result = in_components(restore, signal.data, mask, axes, options, keep_observed=keep_observed)
    else:
        result = restore(np.asarray(signal.data), mask, **{**options, **axes.options()})
    return _with_signals(result, signal)


def in_components(
    restore: Callable[..., ImageResult],
    data: Any,
    mask: Any,
    axes: SignalAxes,
    options: dict[str, Any],
    *,
    keep_observed: bool,
) -> ImageResult:
    """Restore the maps of a few components of the spectra, and return the spectra that they stand for.

    Parameters
    ----------
    restore : callable
        `inpaint` or `denoise`.
    data : array or lazy array
    mask : array-like, Scan or None
        Of positions.
    axes : SignalAxes
        What the axes of the data mean.
    options : dict
        Those of `restore`.
    keep_observed : bool
        Whether observed entries stay as they are.
    """
    places = data.shape[: axes.n_stack + 2]
    missing = _missing_positions(mask, data.shape, places)
    if (model := options.get("model")) is None:
        noise_model = options.get("noise_model", "gaussian")
        spectra = Spectra.of(data, missing, n_axes=len(places), counts=noise_model.startswith("poisson"))
        # Dividing by the root of the mean spectrum has made the noise of counts nearly equal everywhere.
        own = {name: value for name, value in options.items() if name not in NOISE}
    else:
        notes = dict(notes_of(model))
        spectra = Spectra.by_kept(data, missing, n_axes=len(places), notes=notes)
        noise_model = notes["noise_of_spectra"]
        # To the patches of the maps, the model is one of pictures with a few channels.
        maps_alone = {name: note for name, note in notes.items() if not isinstance(note, np.ndarray)}
        own = options | {"model": with_notes(model, maps_alone)}
    found = restore(spectra.maps, missing, **own, **axes.options())
    kept = with_notes(
        found.model, notes_of(found.model) | spectra.notes() | {"noise_of_spectra": noise_model}
    )
    whole = {
        "image": spectra.restored(found.image, data, missing, keep_observed=keep_observed),
        "std": spectra.deviation(found.std, data, missing, keep_observed=keep_observed),
    }
    return replace(
        found,
        **whole,
        model=kept,
        missing=_over_channels(missing, data.shape),
        from_prior=_over_channels(np.asarray(found.from_prior.any(axis=-1)), data.shape),
        dictionary_image=None,
        noise_model=noise_model,
    )


def _missing_positions(mask: Any, shape: tuple[int, ...], places: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return at which positions of a scan there is no spectrum; a mask of single channels is refused."""
    if mask is None:
        return np.zeros(places, dtype=bool)
    if isinstance(mask, Scan):
        return np.broadcast_to(mask.missing, places)
    given = np.asarray(mask)
    if given.ndim == 2 and given.shape[1] == 2 and given.dtype.kind in "iu" and given.shape != places:
        found = np.ones(places[-2:], dtype=bool)
        found[tuple(given.T)] = False
        return np.broadcast_to(found, places)
    if given.shape == shape:
        flat = given.astype(bool).reshape(*places, -1)
        if (flat.any(axis=-1) != flat.all(axis=-1)).any():
            raise ValueError(
                f"mask: some channels of a position are missing; with {flat.shape[-1]} channels, which are "
                "restored in components, expected a mask of positions"
            )
        return flat[..., 0]
    if given.shape != places:
        raise ValueError(f"mask: shape {given.shape}; expected {places}, the positions of the scan")
    return given.astype(bool)


def _over_channels(positions: NDArray[np.bool_], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return a mask of positions as a mask of all channels, without memory for it."""
    extra = (1,) * (len(shape) - positions.ndim)
    return np.broadcast_to(positions.reshape(positions.shape + extra), shape)


def _with_signals(result: ImageResult, signal: Any) -> ImageResult:
    """Return a result whose pictures are signals, lazy ones if the original is lazy."""

    def as_signal(values: Any, what: str) -> Any:
        if values is None:
            return None
        new = signal._deepcopy_with_new_data(np.asarray(values) if not _is_lazy(values) else values)
        if what:
            title = str(signal.metadata.get_item("General.title", ""))
            new.metadata.set_item("General.title", f"{title} ({what})".strip())
        lazy = getattr(signal, "_lazy", False)
        return new.as_lazy() if lazy and not _is_lazy(new.data) else new

    return replace(
        result,
        image=as_signal(result.image, ""),
        std=as_signal(result.std, "standard deviation"),
        dictionary_image=as_signal(result.dictionary_image, "dictionary"),
    )


def _is_lazy(values: Any) -> bool:
    """Return whether an array is one of Dask, whose values are computed later."""
    return hasattr(values, "dask")


def as_arrays(result: ImageResult) -> ImageResult:
    """Return a result whose pictures are arrays, also if they were signals.

    Parameters
    ----------
    result : ImageResult
    """

    def array(values: Any) -> Any:
        return np.asarray(values.data) if is_signal(values) else values

    return replace(
        result,
        image=array(result.image),
        std=array(result.std),
        dictionary_image=array(result.dictionary_image),
    )
