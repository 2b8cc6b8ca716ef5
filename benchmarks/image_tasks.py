"""The pictures and the tasks of `benchmarks.images`: what is hidden, and which noise is added."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import skimage.data
from PIL import Image

from experiments import Array
from experiments.cells import DataFile
from experiments.pictures import pixels_to_score

SHARED = ("house", "peppers", "lena", "barbara", "boat")
"""Pictures of the data folder."""
BUNDLED = (
    "camera",
    "astronaut",
    "chelsea",
    "coffee",
    "coins",
    "moon",
    "page",
    "text",
    "brick",
    "grass",
    "gravel",
    "cell",
    "ihc",
    "clock_motion",
)
"""Pictures that are part of the scikit-image package, so that nothing is downloaded."""
PICTURES = (*SHARED, *BUNDLED)
CHOSEN_ON = ("camera", "astronaut", "brick", "grass", "coins", "cell", "clock_motion")
"""Pictures on parts of which the settings of groups were chosen (`benchmarks.group_settings`); the last two
only for how wide intervals are."""


@dataclass(frozen=True)
class Task:
    """What is done to a picture before it is restored.

    Examples
    --------
    >>> TASKS["observed-50-noise-15"].title, TASKS["observed-20"].scored
    ('50 % observed, noise 15', 'missing pixels')
    """

    observed: float = 1.0
    """Share of the pixels that are observed."""
    noise: float = 0.0
    """Standard deviation of the Gaussian noise, in grey levels."""
    peak: float | None = None
    """Expected count at grey level 255, if the noise is Poisson noise."""

    @property
    def noisy(self) -> bool:
        """Whether the observed pixels have noise."""
        return bool(self.noise) or self.peak is not None

    @property
    def title(self) -> str:
        """The task as the tables name it."""
        parts = [f"{100 * self.observed:g} % observed"] if self.observed < 1 else []
        parts += [f"noise {self.noise:g}"] if self.noise else []
        parts += [f"Poisson noise, peak {self.peak:g}"] if self.peak is not None else []
        title = ", ".join(parts)
        return title[0].upper() + title[1:]

    @property
    def scored(self) -> str:
        """The pixels over which PSNR and coverage are taken."""
        return "all pixels" if self.noisy else "missing pixels"


TASKS = {
    "noise-15": Task(noise=15.0),
    "noise-25": Task(noise=25.0),
    "noise-50": Task(noise=50.0),
    "observed-50-noise-15": Task(observed=0.5, noise=15.0),
    "observed-20": Task(observed=0.2),
    "observed-10": Task(observed=0.1),
    "poisson-10": Task(peak=10.0),
}


class DamagedPicture(NamedTuple):
    """A picture as the contestants see it, and the original."""

    truth: Array
    seen: Array
    """Observed pixels with their noise; NaN where a pixel is missing."""
    missing: Array
    task: Task

    @property
    def scored(self) -> Array:
        """True at the pixels over which PSNR and coverage are taken."""
        return pixels_to_score(self.missing, noisy=self.task.noisy)


def picture_file(name: str) -> DataFile:
    """Return the file of a picture; its path is absolute for a picture of scikit-image."""
    if name in SHARED:
        return DataFile(f"images/{name}.png", "a standard picture, from the BM3D authors' image set")
    path = Path(skimage.data.__file__).parent / f"{name}.png"
    return DataFile(str(path), "a picture in recent versions of scikit-image")


def damaged_picture(
    name: str, task: Task, folder: Path, *, seed: int = 0, size: int | None = None
) -> DamagedPicture:
    """Read a picture in grey levels, cut out its middle, add the noise, and hide pixels at random."""
    truth = np.asarray(Image.open(folder / picture_file(name).path).convert("L")).astype(float)
    if size is not None:
        truth = middle(truth, size)
    return damage(truth, task, seed)


def middle(picture: Array, size: int) -> Array:
    """Return the square of this side in the middle of a picture, or what there is of it.

    Examples
    --------
    >>> middle(np.arange(20).reshape(4, 5), 2)
    array([[ 6,  7],
           [11, 12]])
    """
    top, left = (max(0, (side - size) // 2) for side in picture.shape[:2])
    return picture[top : top + size, left : left + size]


def damage(truth: Array, task: Task, seed: int) -> DamagedPicture:
    """Add the noise of a task to a picture, and hide pixels at random.

    Examples
    --------
    >>> picture = damage(np.full((50, 50), 255.0), TASKS["poisson-10"], seed=0)
    >>> bool(np.isin(picture.seen / 25.5, np.arange(40)).all()), picture.missing.any()
    (True, np.False_)
    """
    rng = np.random.default_rng(seed)
    missing = rng.random(truth.shape) >= task.observed
    if task.peak is not None:
        seen = rng.poisson(truth / 255 * task.peak) * (255 / task.peak)
    else:
        seen = truth + task.noise * rng.standard_normal(truth.shape)
    return DamagedPicture(truth, np.where(missing, np.nan, seen), missing, task)
