"""Which pixels a microscope scans, and in which order: masks for sparse scans, with their dose and travel.

Every function draws a `Scan` of a picture of a given height and width. A scan can be passed to `inpaint` and
`denoise` as the mask: all pixels that were not scanned are missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt
from scipy.spatial import cKDTree

from bpfa._support.checks import check_integer, check_number

__all__ = ["Scan", "blue_noise", "line_hop", "lines", "random", "spiral"]

# How often the points of a blue-noise scan move away from one another, by which share of their overlap, and
# how far apart they would like to be, in units of the distance between points of a square grid.
RELAXATIONS, PUSH, WIDER = 40, 0.2, 1.2
# Number of nearest neighbours that a point moves away from.
NEIGHBOURS = 6


@dataclass(frozen=True, eq=False)
class Scan:
    """The pixels that a beam visits, in the order of the visits.

    Parameters
    ----------
    shape : pair of int
        Height and width of the picture.
    positions : int array, shape (n, 2)
        Row and column of every pixel that is visited. No pixel is visited twice.

    See Also
    --------
    bpfa.images.masks.random, bpfa.inpaint

    References
    ----------
    .. [1] A. Stevens, H. Yang, L. Carin, I. Arslan and N. D. Browning, "The Potential for Bayesian
       Compressive Sensing to Significantly Reduce Electron Dose in High-Resolution STEM Images", Microscopy
       63 (2014).

    Examples
    --------
    >>> scan = Scan((2, 3), [[0, 0], [0, 2], [1, 2]])
    >>> scan.missing
    array([[False,  True, False],
           [ True,  True, False]])
    >>> scan.dose, scan.travel
    (0.5, 3.0)
    """

    shape: tuple[int, int]
    positions: NDArray[np.int64]

    def __post_init__(self) -> None:
        height, width = _checked_shape(self.shape)
        object.__setattr__(self, "shape", (height, width))
        object.__setattr__(self, "positions", checked_positions(self.positions, self.shape))

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """True where a pixel is not visited."""
        return missing_from(self.positions, self.shape)

    @property
    def dose(self) -> float:
        """Share of the pixels that are visited, which is the dose relative to a full scan."""
        return len(self.positions) / (self.shape[0] * self.shape[1])

    @property
    def travel(self) -> float:
        """Length of the path of the beam from the first pixel to the last, in pixels."""
        return float(np.linalg.norm(np.diff(self.positions, axis=0), axis=1).sum())

    def until(self, share: float) -> Scan:
        """Return the beginning of the scan, up to this share of its visits: a scan that is still running.

        Parameters
        ----------
        share : float
            From 0 to 1.

        Returns
        -------
        Scan

        See Also
        --------
        bpfa.images.FrameRestorer.so_far

        Examples
        --------
        >>> len(Scan((2, 3), [[0, 0], [0, 2], [1, 2], [1, 1]]).until(0.5))
        2
        """
        n = int(np.ceil(check_number("share", share, low=0.0, high=1.0) * len(self)))
        return Scan(self.shape, self.positions[:n])


def checked_positions(positions: Any, shape: tuple[int, int]) -> NDArray[np.int64]:
    """Return the rows and columns of a scan as integers, after checking that all are pixels of the picture.

    Examples
    --------
    >>> checked_positions([[0, 5]], (4, 4))
    Traceback (most recent call last):
    ...
    ValueError: positions: (0, 5) is outside of the picture of 4 x 4 pixels; expected rows and columns in it
    """
    found = np.asarray(positions)
    if found.ndim != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu":
        raise ValueError(
            f"positions: {found.dtype} of shape {found.shape}; expected integers of shape (n, 2), "
            "the row and the column of every position"
        )
    outside = ((found < 0) | (found >= np.array(shape))).any(axis=1)
    if outside.any():
        place = tuple(int(i) for i in found[outside][0])
        raise ValueError(
            f"positions: {place} is outside of the picture of {shape[0]} x {shape[1]} pixels; "
            "expected rows and columns in it"
        )
    found = found.astype(np.int64)
    if len(np.unique(found @ np.array([shape[1], 1]))) < len(found):
        raise ValueError("positions: a pixel is visited twice; expected every position once")
    return found


def missing_from(positions: NDArray[np.int64], shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Return a mask that is True at every pixel that is not among the positions."""
    missing = np.ones(shape, dtype=bool)
    missing[tuple(positions.T)] = False
    return missing


def random(shape: tuple[int, int], dose: float, *, seed: int | None = 0) -> Scan:
    """Return a scan of pixels that are drawn at random, visited from row to row.

    Every second row is scanned backwards, which keeps the path short. The path jumps over the pixels in
    between, for which the beam must be switched off.

    Parameters
    ----------
    shape : pair of int
        Height and width of the picture.
    dose : float
        Share of the pixels that are visited.
    seed : int, optional
        The same seed gives the same scan.

    Returns
    -------
    Scan

    See Also
    --------
    bpfa.images.masks.blue_noise, bpfa.images.masks.Scan

    Examples
    --------
    >>> scan = random((64, 64), 0.2)
    >>> len(scan), round(scan.dose, 2)
    (819, 0.2)
    """
    (height, width), n = _checked_shape(shape), _number_of_pixels(shape, dose)
    chosen = np.random.default_rng(seed).choice(height * width, size=n, replace=False)
    return Scan(shape, _serpentine(np.stack(np.divmod(chosen, width), axis=1)))


def lines(shape: tuple[int, int], dose: float, *, seed: int | None = None) -> Scan:
    """Return a scan of whole rows that are evenly spaced, every second one backwards.

    A line scan needs no fast beam blanker, but leaves bands without any observed pixel.

    Parameters
    ----------
    shape : pair of int
        Height and width of the picture.
    dose : float
        Share of the rows that are scanned.
    seed : int, optional
        Draws every row at random within its own band; by default each is in the middle of its band.

    Returns
    -------
    Scan

    See Also
    --------
    bpfa.images.masks.random, bpfa.images.masks.blue_noise, bpfa.images.masks.Scan

    Examples
    --------
    >>> scan = lines((10, 4), 0.2)
    >>> np.unique(scan.positions[:, 0]).tolist(), scan.dose
    ([2, 7], 0.2)
    """
    height, width = _checked_shape(shape)
    n = max(1, round(check_number("dose", dose, low=0.0, high=1.0, open_low=True) * height))
    edges = np.linspace(0, height, n + 1)
    share = 0.5 if seed is None else np.random.default_rng(seed).random(n)
    rows = np.minimum((edges[:-1] + share * np.diff(edges)).astype(np.int64), height - 1)
    places = np.stack(np.meshgrid(np.unique(rows), np.arange(width), indexing="ij"), axis=-1)
    return Scan(shape, _serpentine(places.reshape(-1, 2)))


def line_hop(shape: tuple[int, int], dose: float, *, seed: int | None = 0) -> Scan:
    """Return a scan of lines along which the beam hops up and down at random within a band of rows.

    Each band is as high as it takes for one pixel in each of its columns to make up the dose. The beam moves
    on by one column at a time, so that it is never far from where it was, and no band of the picture stays
    without observed pixels (Kovarik et al., Applied Physics Letters 109, 2016).

    Parameters
    ----------
    shape : pair of int
        Height and width of the picture.
    dose : float
        Share of the pixels that are visited.
    seed : int, optional
        The same seed gives the same scan.

    Returns
    -------
    Scan

    See Also
    --------
    bpfa.images.masks.random, bpfa.images.masks.blue_noise, bpfa.images.masks.Scan

    Examples
    --------
    >>> scan = line_hop((60, 60), 0.2)
    >>> round(scan.dose, 2), bool(scan.travel < random((60, 60), 0.2).travel * 1.5)
    (0.2, True)
    """
    (height, width), rng = _checked_shape(shape), np.random.default_rng(seed)
    n_bands = max(1, round(check_number("dose", dose, low=0.0, high=1.0, open_low=True) * height))
    edges = np.linspace(0, height, n_bands + 1).round().astype(np.int64)
    bands = []
    for band, (top, bottom) in enumerate(pairwise(edges)):
        columns = np.arange(width)[:: 1 if band % 2 == 0 else -1]
        row = int(rng.integers(top, bottom))
        rows = []
        for _ in range(width):
            rows.append(row)
            # One row up, one down, or straight on; the beam stays within its band.
            row = int(np.clip(row + rng.integers(-1, 2), top, bottom - 1))
        bands.append(np.stack([np.array(rows), columns], axis=1))
    return Scan(shape, np.concatenate(bands))


def spiral(shape: tuple[int, int], dose: float) -> Scan:
    """Return a scan along a spiral from the centre outwards, on to the corners of the picture.

    The windings are evenly spaced (a spiral of Archimedes), as far apart as the dose demands. The beam moves
    smoothly and never turns sharply.

    Parameters
    ----------
    shape : pair of int
        Height and width of the picture.
    dose : float
        Share of the pixels that are visited, approximately.

    Returns
    -------
    Scan

    See Also
    --------
    bpfa.images.masks.random, bpfa.images.masks.blue_noise, bpfa.images.masks.Scan

    Examples
    --------
    >>> scan = spiral((101, 101), 0.2)
    >>> scan.positions[0].tolist(), bool(0.18 < scan.dose < 0.22)
    ([50, 50], True)
    """
    height, width = _checked_shape(shape)
    dose = check_number("dose", dose, low=0.0, high=1.0, open_low=True)
    n, spacing = _number_of_pixels(shape, dose), 1 / dose
    for _ in range(8):
        positions = _spiral_pixels(height, width, spacing)
        if abs(len(positions) - n) <= 0.01 * n or (spacing <= 1 and len(positions) < n):
            break
        # A pixel next to the path may be counted once or twice, which the spacing makes up for.
        spacing = max(0.5, spacing * len(positions) / n)
    return Scan(shape, positions)


def _spiral_pixels(height: int, width: int, spacing: float) -> NDArray[np.int64]:
    """Return the pixels along a spiral whose windings are this far apart, in their order."""
    centre = np.array([(height - 1) / 2, (width - 1) / 2])
    pitch = spacing / (2 * np.pi)
    last = np.hypot(*centre) / pitch + 2 * np.pi
    # The length of the spiral up to the angle t is about pitch t^2 / 2; steps of half a pixel along it.
    angle = np.sqrt(np.arange(0.0, last**2, 1.0 / pitch))
    places = centre + pitch * angle[:, None] * np.stack([np.sin(angle), np.cos(angle)], axis=1)
    pixels = np.rint(places).astype(np.int64)
    inside = ((pixels >= 0) & (pixels < [height, width])).all(axis=1)
    pixels = pixels[inside]
    _, first = np.unique(pixels @ np.array([width, 1]), return_index=True)
    ordered: NDArray[np.int64] = pixels[np.sort(first)]
    return ordered


def blue_noise(shape: tuple[int, int], dose: float, *, seed: int | None = 0) -> Scan:
    """Return a scan of pixels that are spread evenly and yet irregularly, visited from row to row.

    Random points move away from their nearest neighbours, many times, and are then rounded to pixels. Few
    pixels are close together, and no large gap remains.

    Parameters
    ----------
    shape : pair of int
        Height and width of the picture.
    dose : float
        Share of the pixels that are visited.
    seed : int, optional
        The same seed gives the same scan.

    Returns
    -------
    Scan

    See Also
    --------
    bpfa.images.masks.random, bpfa.images.masks.Scan

    Examples
    --------
    >>> largest_gap = lambda scan: distance_transform_edt(scan.missing).max()
    >>> bool(largest_gap(blue_noise((48, 48), 0.1)) < largest_gap(random((48, 48), 0.1)))
    True
    """
    (height, width), n = _checked_shape(shape), _number_of_pixels(shape, dose)
    points = np.random.default_rng(seed).random((n, 2)) * [height, width]
    missing = missing_from(np.unique(_relaxed(points, (height, width)).astype(np.int64), axis=0), shape)
    # Points that share a pixel with another one go to the middle of the largest gaps.
    while lacking := n - np.count_nonzero(~missing):
        distance = distance_transform_edt(missing)
        assert isinstance(distance, np.ndarray)
        largest = np.argsort(-distance, axis=None, kind="stable")[: max(1, lacking // 4)]
        missing.ravel()[largest] = False
    return Scan(shape, _serpentine(np.argwhere(~missing)))


def _relaxed(points: NDArray[np.float64], shape: tuple[int, int]) -> NDArray[np.float64]:
    """Return points that have moved away from one another, on a picture whose opposite borders meet."""
    size = np.array(shape, dtype=float)
    spacing = WIDER * np.sqrt(size.prod() / len(points))
    for _ in range(RELAXATIONS if len(points) > NEIGHBOURS else 0):
        found = cKDTree(points, boxsize=size).query(points, k=NEIGHBOURS + 1)
        distance, neighbour = (np.asarray(array) for array in found)
        away = points[:, None] - points[neighbour[:, 1:]]
        away -= size * np.rint(away / size)
        near = np.maximum(distance[:, 1:], 1e-6)
        overlap = np.maximum(spacing - near, 0.0)
        points = points + PUSH * (away * (overlap / near)[..., None]).sum(axis=1)
        # The remainder of a tiny negative number can be rounded up to the size itself.
        points = np.minimum(points % size, np.nextafter(size, 0.0))
    return points


def _serpentine(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return pixels from row to row, those of every second row that has any from right to left."""
    row = np.unique(places[:, 0], return_inverse=True)[1]
    column = np.where(row % 2 == 0, places[:, 1], -places[:, 1])
    ordered: NDArray[np.int64] = places[np.lexsort((column, row))]
    return ordered


def _checked_shape(shape: Any) -> tuple[int, int]:
    """Return height and width as integers."""
    pair = tuple(shape)
    if len(pair) != 2:
        raise ValueError(f"shape={shape}: expected height and width")
    height, width = (check_integer("shape", n, low=1) for n in pair)
    return height, width


def _number_of_pixels(shape: Any, dose: float) -> int:
    """Return how many pixels make up a dose; at least one."""
    height, width = _checked_shape(shape)
    return max(1, round(check_number("dose", dose, low=0.0, high=1.0, open_low=True) * height * width))
