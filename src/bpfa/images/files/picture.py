"""An image as it stands in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Picture", "TiffNotes"]


@dataclass(frozen=True)
class TiffNotes:
    """What a TIFF file says about an image in addition to its pixels."""

    axes: str
    """One letter for each axis of the values, as tifffile names them."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    resolution: dict[str, Any] = field(default_factory=dict)
    """Pixels per unit in x and y, and the unit, as arguments of `tifffile.imwrite`; empty if not given."""
    imagej: dict[str, Any] = field(default_factory=dict)
    """What ImageJ has noted about the image."""
    ome: str | None = None
    """The OME description, if the file has one and contains no other image."""

    def fit(self, values: NDArray[Any]) -> bool:
        """Return whether these values can be stored exactly as those that were read."""
        same = self.shape == values.shape and self.dtype == values.dtype
        return same and "S" not in self.axes[:-1]


@dataclass(frozen=True)
class Picture:
    """An image as it stands in a file.

    Parameters
    ----------
    path : Path
        The file that it was read from.
    values : array
        The two axes that are neither that of the channels nor that of the stack are y and x, in this order.
    channel_axis, stack_axis : int, optional
    transparent : boolean array, optional
        True at pixels that the alpha channel marks as transparent. The channel itself is not kept.
    notes : TiffNotes, optional
        What a TIFF file says about the image in addition to its pixels.
    signal : dict, optional
        The axes and the metadata of a file of a microscope.
    detector : pair of int, optional
        Shape of a detector whose pixels are the channels, at every position of a scan.
    is_scan : bool
        Whether the file says that its channels were recorded at every position of a scan.

    Examples
    --------
    >>> picture = Picture(Path("a.npy"), np.zeros((3, 64, 48)))
    >>> picture.with_axes(channel_axis=0, stack_axis=None).pixels
    (64, 48)
    """

    path: Path
    values: NDArray[Any]
    channel_axis: int | None = None
    stack_axis: int | None = None
    transparent: NDArray[np.bool_] | None = None
    notes: TiffNotes | None = None
    signal: dict[str, Any] | None = None
    detector: tuple[int, int] | None = None
    is_scan: bool = False

    @classmethod
    def of_scan(cls, path: Path, values: NDArray[Any], scanned: Sequence[bool], **others: Any) -> Picture:
        """Return the picture of a file that says which of its axes were scanned.

        If a signal was scanned along two of three axes, it is a spectrum image, and the third axis holds its
        channels. If it was scanned along one of three axes, it is a stack of images. If it was scanned along
        the first two of four axes, the pixels of the detector are channels.

        Parameters
        ----------
        path : Path
        values : array
        scanned : sequence of bool
            One for each axis.
        **others
            Further fields.

        Examples
        --------
        >>> for scanned in ([True, True, False], [True, False, False], [True, True, False, False]):
        ...     picture = Picture.of_scan(Path("a.hspy"), np.zeros((2, 3, 4, 5)[: len(scanned)]), scanned)
        ...     print(picture.values.shape, picture.channel_axis, picture.stack_axis, picture.detector)
        (2, 3, 4) 2 None None
        (2, 3, 4) None 0 None
        (2, 3, 20) 2 None (4, 5)
        """
        if list(scanned) == [True, True, False, False]:
            height, width = values.shape[2:]
            joined = values.reshape(*values.shape[:2], height * width)
            return cls(path, joined, channel_axis=2, detector=(height, width), is_scan=True, **others)
        if len(scanned) == 3 and sum(scanned) == 2:
            return cls(path, values, channel_axis=list(scanned).index(False), is_scan=True, **others)
        if len(scanned) == 3 and sum(scanned) == 1:
            return cls(path, values, stack_axis=list(scanned).index(True), **others)
        return cls(path, values, **others)

    @property
    def pixels(self) -> tuple[int, ...]:
        """Shape of the image without the axis of the channels."""
        return tuple(n for axis, n in enumerate(self.values.shape) if axis != self.channel_axis)

    @property
    def n_channels(self) -> int:
        """Number of channels, which is 1 for a grey image."""
        return 1 if self.channel_axis is None else int(self.values.shape[self.channel_axis])

    def with_axes(self, channel_axis: int | None, stack_axis: int | None) -> Picture:
        """Return the picture with the axes that the user names, after checking that they leave an image."""
        channel = self.channel_axis if channel_axis is None else self._from_first("channel", channel_axis)
        stack = self.stack_axis if stack_axis is None else self._from_first("stack", stack_axis)
        named = [axis for axis in (channel, stack) if axis is not None]
        if len(set(named)) < len(named) or self.values.ndim - len(named) != 2:
            raise ValueError(
                f"{self.path}: shape {self.values.shape}, channel axis {channel}, stack axis {stack}; "
                "expected two further axes, height and width: "
                "name all others with --channel-axis and --stack-axis"
            )
        return replace(self, channel_axis=channel, stack_axis=stack)

    def _from_first(self, name: str, axis: int) -> int:
        """Return an axis counted from the first one, also if it was counted from the last."""
        ndim = self.values.ndim
        if not -ndim <= axis < ndim:
            raise ValueError(
                f"--{name}-axis {axis}: {self.path} has {ndim} axes; expected {-ndim} to {ndim - 1}"
            )
        return axis % ndim
