"""What a device offers that keeps the memory and the kernels for frames of one form from frame to frame."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa.data.patches import PatchRows
from bpfa.model.posterior import GlobalPosterior

__all__ = ["FrameArrays", "FrameDevice", "FrameFacts", "FrameForm"]


class FrameForm(NamedTuple):
    """The form of all frames of a stream."""

    learned: PatchRows
    """The patches that the model learns from; only where they are matters."""
    restored: PatchRows
    """The patches that are restored."""
    dtype: np.dtype[Any]
    keep_observed: bool
    """Whether observed pixels stay as they are."""


class FrameFacts(NamedTuple):
    """What is known of a frame once it has been copied to the device."""

    n_observed: Array
    """Number of observed pixels of each channel."""
    mean: Array
    """Their mean in units of the model, that is after the mean and the scale of `load`."""
    std: Array
    """Their standard deviation in these units."""
    n_infinite: int
    """Number of observed pixels that are infinite."""
    complete: bool
    """Whether no pixel is missing."""


class FrameArrays(NamedTuple):
    """A restored frame with four axes, on the host or on the device; what was not asked for is None."""

    image: Any
    std: Any
    missing: Any
    from_prior: Any
    errors: Array
    """Errors of the hidden pixels, in units of their standard deviations."""
    noise: float
    """Variance of the noise after the last step, in units of the model."""
    failed: int
    """Number of the first step that could not be made, or 0."""


class FrameDevice(Protocol):
    """Memory and kernels for frames of one form: pixels and mask go in, and what is asked for comes out."""

    @property
    def rows(self) -> Any:
        """The patches of the present frame that the model learns from, on the device."""

    @property
    def workspace(self) -> Any:
        """The `Workspace` in which steps on these patches take place."""

    def load(
        self,
        frame: Any,
        missing: NDArray[np.bool_] | None,
        hidden: NDArray[np.int64],
        *,
        mean: Array,
        scale: Array,
    ) -> FrameFacts:
        """Copy a frame to the device, and wait until it is known whether it can be restored.

        Parameters
        ----------
        frame : array, shape (slices, height, width, channels)
            On the host, or on the device.
        missing : boolean array of this shape, or None
        hidden : array of int64
            Flat places of observed pixels that are hidden from the model, to tell how large its errors are.
        mean, scale : array, shape (channels,)
            What is subtracted from the pixels of each channel, and what they are divided by after that.
        """

    def place_posterior(self, posterior: GlobalPosterior) -> Any:
        """Copy a posterior to the device."""

    def restore(self, posterior: Any, wanted: tuple[str, ...], *, to_host: bool = True) -> FrameArrays:
        """Restore the present frame, and wait for the result.

        Parameters
        ----------
        posterior : posterior on the device
        wanted : tuple of str
            "image", "std" or both.
        to_host : bool
            Whether the arrays are copied to the host, or stay on the device.
        """
