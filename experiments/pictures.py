"""Standard grey pictures of which some pixels are missing: loading, restoring and scoring them."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image
from scipy.interpolate import griddata

from bpfa import Algorithm, psnr
from bpfa._support.philox import Stream
from bpfa.images.canvas import Canvas
from bpfa.images.restore import NOISE_SHARE, restore_canvas
from bpfa.model.posterior import Posterior
from experiments import Array
from experiments.cells import DataFile


class PictureTask(NamedTuple):
    """A picture, the share of its pixels that are observed, and the noise on them."""

    picture: str
    observed: float
    noise: float
    """The standard deviation of the noise, in grey levels."""

    @property
    def title(self) -> str:
        """The task as the tables name it."""
        noise = f" + noise {self.noise:g}" if self.noise else ""
        return f"{self.picture.capitalize()}, {self.observed:.0%}{noise}"

    @property
    def file(self) -> DataFile:
        """The file of the picture."""
        return DataFile(f"images/{self.picture}.png", "a standard picture, from the BM3D authors' image set")


class HiddenPicture(NamedTuple):
    """A picture of which some pixels are missing."""

    truth: Array
    """The original picture."""
    seen: Array
    """The observed pixels, noise included; NaN where missing."""
    missing: Array


def read_picture(name: str, folder: Path) -> Array:
    """Read a picture from the data folder as grey levels from 0 to 255."""
    return np.asarray(Image.open(folder / "images" / f"{name}.png").convert("L")).astype(float)


def hide_pixels(task: PictureTask, folder: Path, seed: int) -> HiddenPicture:
    """Read the picture of a task, add the noise, and hide pixels at random."""
    truth = read_picture(task.picture, folder)
    rng = np.random.default_rng(seed)
    missing = rng.random(truth.shape) >= task.observed
    seen = truth + task.noise * rng.standard_normal(truth.shape)
    return HiddenPicture(truth, np.where(missing, np.nan, seen), missing)


def clipped_psnr(truth: Array, restored: Array, where: Array) -> float:
    """Return the PSNR in dB, over some pixels, of a restored picture clipped to grey levels from 0 to 255."""
    return psnr(truth, np.clip(restored, 0, 255), where)


def pixels_to_score(missing: Array, *, noisy: bool) -> Array:
    """Return which pixels a restoration is judged by: the missing ones, or all where there is noise.

    Examples
    --------
    >>> pixels_to_score(np.array([True, False]), noisy=True).tolist()
    [True, True]
    """
    return np.ones_like(missing) if noisy else missing


def psnrs(truth: Array, restored: Array, missing: Array) -> dict[str, float | None]:
    """Return the PSNR over all, missing and observed pixels; None where the picture is exact.

    It is None, too, where there are no such pixels.

    Examples
    --------
    >>> truth, missing = np.zeros((2, 2)), np.eye(2, dtype=bool)
    >>> found = psnrs(truth, np.where(missing, 2.55, 0.0), missing)
    >>> round(found["missing"], 9), found["observed"]
    (40.0, None)
    >>> psnrs(truth, truth + 2.55, truth > 0)["missing"] is None
    True
    """
    kinds = {"all": np.ones_like(missing), "missing": missing, "observed": ~missing}
    found = {
        kind: clipped_psnr(truth, restored, where) if where.any() else None for kind, where in kinds.items()
    }
    # JSON has no infinity.
    return {kind: None if value is None or not isfinite(value) else value for kind, value in found.items()}


def interpolated(seen: Array, missing: Array, kind: str) -> Array:
    """Fill in missing pixels by SciPy's interpolation of scattered points.

    Outside the convex hull of the observed pixels the nearest one is taken.

    Examples
    --------
    >>> seen = np.array([[0.0, 1.0, 2.0], [1.0, np.nan, 3.0], [2.0, 3.0, np.nan]])
    >>> float(interpolated(seen, np.isnan(seen), "linear")[1, 1])
    2.0
    """
    points, places = np.argwhere(~missing), np.argwhere(missing)
    values = griddata(points, seen[~missing], places, method=kind)
    nearest = griddata(points, seen[~missing], places, method="nearest")
    filled = seen.copy()
    filled[missing] = np.where(np.isnan(values), nearest, values)
    return filled


def restored_picture(
    canvas: Canvas,
    posterior: Posterior,
    algorithm: Algorithm,
    *,
    patch_size: int,
    stride: int,
    n_draws: int,
    stream: Stream,
    noise_factor: float = 1.0,
    n_threads: int = 1,
) -> Array:
    """Return the picture of a canvas as restored by draws from a posterior, in grey levels.

    Parameters
    ----------
    canvas : Canvas
    posterior : GlobalPosterior or ChainPosterior
    algorithm : Algorithm
        The one by which the posterior was trained.
    patch_size, stride : int
        The side of a patch, and the distance from one restored patch to the next.
    n_draws : int
    stream : Stream
    noise_factor : float
        The factor by which the share of the noise in the weights of overlapping patches is multiplied; a
        large one gives all patches the same weight.
    n_threads : int
    """
    restored = restore_canvas(
        canvas,
        (patch_size, patch_size),
        stride,
        posterior,
        algorithm,
        n_draws=n_draws,
        stream=stream,
        n_threads=n_threads,
        noise_share=noise_factor * NOISE_SHARE,
    )
    return canvas.image(restored.mean)
