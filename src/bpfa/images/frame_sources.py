"""Where frames come from: a folder that is being written, a stack, a movie, or a simulated scan."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import check_choice, check_integer, check_number
from bpfa._support.optional import library
from bpfa.images import masks
from bpfa.images.files import Picture, read_image

__all__ = [
    "MOVIES",
    "SCANS",
    "LiveFrame",
    "check_grey",
    "folder_frames",
    "movie_frames",
    "paced",
    "simulated_frames",
    "stack_frames",
]

MOVIES = (".gif", ".avi", ".mp4", ".mov", ".mkv")
SCANS: dict[str, Callable[..., masks.Scan]] = {
    "random": masks.random,
    "line-hop": masks.line_hop,
    "lines": masks.lines,
    "spiral": lambda shape, dose, seed: masks.spiral(shape, dose),
    "blue-noise": masks.blue_noise,
}
"""The scans that can be simulated."""
# Seconds between two looks at a folder, and how long the size of a file must not have changed.
LOOK, SETTLED = 0.1, 0.2


class LiveFrame(NamedTuple):
    """A frame, which pixels of it are missing, and the truth if it is known."""

    values: NDArray[Any]
    missing: NDArray[np.bool_] | None
    name: str
    truth: NDArray[Any] | None = None
    problem: str | None = None
    """Why the frame could not be read."""


def folder_frames(folder: Path, *, idle: float, suffixes: tuple[str, ...] = ()) -> Iterator[LiveFrame]:
    """Yield the pictures of a folder, in the order of their names, and those that are still to come.

    A file that cannot be read when nothing has been added to it for a moment gives a frame with a problem.

    Parameters
    ----------
    folder : Path
    idle : float
        Seconds without a new file after which the frames end.
    suffixes : tuple of str
        Suffixes of the files to read; by default all that are not hidden.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     for number in range(2):
    ...         np.save(Path(name, f"{number}.npy"), np.full((4, 4), number))
    ...     [int(frame.values.max()) for frame in folder_frames(Path(name), idle=0.3)]
    [0, 1]
    """
    seen: set[str] = set()
    last = time.monotonic()
    while time.monotonic() - last < idle:
        new = sorted(path for path in folder.iterdir() if _is_new(path, seen, suffixes))
        for path in new:
            _wait_until_settled(path)
            seen.add(path.name)
            last = time.monotonic()
            try:
                picture = read_image(path)
                check_grey(picture)
            except (OSError, ValueError, TypeError) as error:
                yield LiveFrame(np.empty((0, 0)), None, path.name, problem=str(error))
                continue
            yield from stack_frames(picture)
        time.sleep(LOOK)


def _is_new(path: Path, seen: set[str], suffixes: tuple[str, ...]) -> bool:
    hidden = path.name.startswith(".") or path.suffix in (".tmp", ".part")
    return not hidden and path.name not in seen and (not suffixes or path.suffix.lower() in suffixes)


def _wait_until_settled(path: Path) -> None:
    """Wait until nothing is added to a file any more."""
    size = -1
    while path.exists() and path.stat().st_size != size:
        size = path.stat().st_size
        if time.time() - path.stat().st_mtime > SETTLED:
            return
        time.sleep(SETTLED / 2)


def stack_frames(picture: Picture) -> Iterator[LiveFrame]:
    """Yield the slices of a stack, or a single picture as the only frame.

    Parameters
    ----------
    picture : Picture

    Examples
    --------
    >>> stack = Picture(Path("a.npy"), np.zeros((3, 8, 9)), stack_axis=0)
    >>> [frame.values.shape for frame in stack_frames(stack)]
    [(8, 9), (8, 9), (8, 9)]
    """
    values, hidden = picture.values, picture.transparent
    check_grey(picture)
    if picture.stack_axis is None:
        yield LiveFrame(values, hidden, picture.path.name)
        return
    for number, frame in enumerate(np.moveaxis(values, picture.stack_axis, 0)):
        missing = None if hidden is None else np.moveaxis(hidden, picture.stack_axis, 0)[number]
        yield LiveFrame(np.ascontiguousarray(frame), missing, f"{picture.path.name} {number}")


def check_grey(picture: Picture) -> None:
    """Refuse pictures with colours, and those with more axes than a stack has.

    Parameters
    ----------
    picture : Picture
    """
    shape = picture.values.shape
    if picture.channel_axis is not None or len(shape) - (picture.stack_axis is not None) != 2:
        raise ValueError(
            f"{picture.path}: shape {shape}; expected a grey image, or a stack of them (name its axis)"
        )


def movie_frames(path: Path) -> Iterator[LiveFrame]:
    """Yield the frames of a movie, in grey.

    Parameters
    ----------
    path : Path
        With one of the suffixes `MOVIES`.
    """
    imageio = library("imageio.v3", "movies", purpose="movies need imageio")
    for number, frame in enumerate(imageio.imiter(path)):
        grey = frame if frame.ndim == 2 else frame[..., :3].mean(axis=2).round().astype(frame.dtype)
        yield LiveFrame(grey, None, f"{path.name} {number}")


def simulated_frames(
    picture: NDArray[Any], *, scan: str, dose: float, n_frames: int, drift: float = 0.0, seed: int = 0
) -> Iterator[LiveFrame]:
    """Yield frames as a microscope would scan them from a picture, each by another mask.

    Parameters
    ----------
    picture : array, shape (height, width), or (slices, height, width) for a scene that moves
    scan : {"random", "line-hop", "lines", "spiral", "blue-noise"}
    dose : float
        Share of the pixels that are scanned.
    n_frames : int
    drift : float
        How many pixels the scene, mirrored at its borders, moves from frame to frame along its diagonal.
    seed : int

    Examples
    --------
    >>> frames = list(simulated_frames(np.eye(32), scan="random", dose=0.25, n_frames=3, drift=1.0))
    >>> len(frames), float(frames[0].missing.mean())
    (3, 0.75)
    """
    check_choice("scan", scan, tuple(SCANS))
    check_number("dose", dose, low=0.0, high=1.0, open_low=True)
    check_integer("n_frames", n_frames, low=1)
    stack = picture if picture.ndim == 3 else picture[None]
    for number in range(n_frames):
        shift = round(drift * number)
        slice_ = stack[number % len(stack)]
        height, width = slice_.shape
        rows, columns = (_mirrored(np.arange(n) + shift, n) for n in (height, width))
        truth = np.ascontiguousarray(slice_[np.ix_(rows, columns)])
        missing = SCANS[scan]((height, width), dose, seed=seed + number).missing
        # What was not scanned must not be known to anybody.
        yield LiveFrame(np.where(missing, 0, truth).astype(truth.dtype), missing, f"frame {number}", truth)


def _mirrored(places: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return places along an axis of this length that is mirrored at both ends."""
    folded = places % (2 * n)
    return np.minimum(folded, 2 * n - 1 - folded)


def paced(frames: Iterator[LiveFrame], rate: float | None) -> Iterator[LiveFrame]:
    """Yield frames at this rate a second, as they would come from a microscope; None for no waiting.

    Parameters
    ----------
    frames : iterator of LiveFrame
    rate : float or None
    """
    began = time.monotonic()
    for number, frame in enumerate(frames):
        if rate is not None:
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
        yield frame
