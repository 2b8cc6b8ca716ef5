"""The contestants of `benchmarks.images`: ways to restore a picture, and what each of them is told.

The methods for complete pictures with Gaussian noise are applied in the usual way. Where pixels are
missing, linear interpolation fills them in first. Poisson noise is brought to a standard deviation of 1 by
Anscombe's transform, twice the square root of the count plus 3/8; what such a method returns is brought
back by the closed form of the exact unbiased inverse (Makitalo and Foi, 2011).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from skimage import restoration

from benchmarks.image_tasks import DamagedPicture, Task
from bpfa.images import ImageResult, denoise, inpaint
from experiments import Array
from experiments.pictures import interpolated

Restored = Array | ImageResult
TOLD_NOISE = "the noise level"
# Weights of total variation that scikit-image's calibration chooses from, for pictures from 0 to 1.
TV_WEIGHTS = np.geomspace(0.02, 0.6, 8)


class Effort(NamedTuple):
    """What the run of a contestant is given."""

    threads: int = 1
    seed: int = 0
    steps: int | None = None
    """Number of training steps of bpfa; its default if None."""
    device: str = "cpu"
    """Where bpfa computes."""


@dataclass(frozen=True)
class Contestant:
    """A way to restore a picture."""

    restore: Callable[[DamagedPicture, Effort], Restored]
    told: str = ""
    """What it is told that others have to find out."""
    package: str | None = None
    """An optional package that it needs."""
    install: str = ""
    """How that package is installed."""
    for_noise: bool = True
    """Whether it takes part in tasks with noise and no missing pixels."""
    for_holes: bool = True
    """Whether it takes part in tasks with missing pixels and no noise."""

    def takes(self, task: Task) -> bool:
        """Return whether it takes part in a task. Missing pixels with noise are for all."""
        return (task.observed < 1 or self.for_noise) and (task.noisy or self.for_holes)

    @property
    def unavailable(self) -> str | None:
        """One line of text if a package is not installed, otherwise None."""
        if self.package is None or importlib.util.find_spec(self.package) is not None:
            return None
        return f"{self.package} is not installed ({self.install})"


Denoiser = Callable[[Array, float], Array]
"""A function of a complete noisy picture, with values from 0 to about 1, and of its noise level."""


def denoised(picture: DamagedPicture, effort: Effort, *, denoiser: Denoiser) -> Array:
    """Restore a picture by a method for complete pictures with Gaussian noise."""
    task, seen = picture.task, picture.seen
    filled = interpolated(seen, picture.missing, "linear") if picture.missing.any() else seen
    if task.peak is None:
        return denoiser(filled / 255, task.noise / 255) * 255
    gain = 255 / task.peak
    roots = 2 * np.sqrt(filled / gain + 3 / 8)
    low, span = roots.min(), np.ptp(roots)
    return counts_from_roots(denoiser((roots - low) / span, 1 / span) * span + low) * gain


def counts_from_roots(roots: Array) -> Array:
    """Return the expected counts for the expected values of Anscombe's transform 2 sqrt(count + 3/8).

    Examples
    --------
    >>> counts = np.random.default_rng(0).poisson(4.0, 100_000)
    >>> round(float(counts_from_roots(np.mean(2 * np.sqrt(counts + 3 / 8)))), 1)
    4.0
    """
    # The expected value for counts that are all 0: nothing lies below it.
    d = np.maximum(roots, 2 * np.sqrt(3 / 8))
    found = d**2 / 4 + np.sqrt(3 / 2) / 4 / d - 11 / 8 / d**2 + 5 / 8 * np.sqrt(3 / 2) / d**3 - 1 / 8
    return np.maximum(found, 0.0)


def bm3d(values: Array, noise: float) -> Array:
    """BM3D with the default profile of its authors' package."""
    import bm3d as package

    return np.asarray(package.bm3d(values, noise))


def non_local_means(values: Array, noise: float) -> Array:
    """Non-local means with the settings of scikit-image's example for a known noise level."""
    return restoration.denoise_nl_means(
        values, patch_size=5, patch_distance=6, h=0.6 * noise, sigma=noise, fast_mode=True
    )


def total_variation(values: Array, noise: float) -> Array:
    """Chambolle's total variation; scikit-image finds the weight by predicting pixels from others."""
    calibrated = restoration.calibrate_denoiser(
        values, restoration.denoise_tv_chambolle, denoise_parameters={"weight": TV_WEIGHTS}
    )
    return np.asarray(calibrated(values))


def wavelet(values: Array, noise: float) -> Array:
    """BayesShrink, averaged over shifts of the picture; scikit-image estimates the noise level."""
    shifts = np.ndindex(4, 4)
    found = [
        np.roll(restoration.denoise_wavelet(np.roll(values, shift, (0, 1)), rescale_sigma=True), back, (0, 1))
        for shift in shifts
        for back in [tuple(-n for n in shift)]
    ]
    return np.mean(found, axis=0)


def interpolation(picture: DamagedPicture, effort: Effort, *, kind: str) -> Array:
    """SciPy's interpolation of scattered points."""
    return interpolated(picture.seen, picture.missing, kind)


def biharmonic(picture: DamagedPicture, effort: Effort) -> Array:
    """Solve the biharmonic equation, with scikit-image."""
    return restoration.inpaint_biharmonic(np.nan_to_num(picture.seen) / 255, picture.missing) * 255


def bpfa(picture: DamagedPicture, effort: Effort, *, refine: str | None) -> ImageResult:
    """Restore a picture by bpfa, with its defaults. It is told that counts are counts, but not their gain."""
    restore = denoise if picture.task.noisy else inpaint
    noise_model = {} if picture.task.peak is None else {"noise_model": "poisson"}
    return restore(
        picture.seen,
        refine=refine,
        max_steps=effort.steps,
        random_state=effort.seed,
        n_jobs=effort.threads,
        device=effort.device,
        **noise_model,
    )


def _denoiser(denoiser: Denoiser, **facts: Any) -> Contestant:
    return Contestant(partial(denoised, denoiser=denoiser), for_holes=False, **facts)


PYWAVELETS = {"package": "pywt", "install": "pip install PyWavelets"}
CONTESTANTS = {
    "cubic": Contestant(partial(interpolation, kind="cubic"), for_noise=False),
    "linear": Contestant(partial(interpolation, kind="linear"), for_noise=False),
    "biharmonic": Contestant(biharmonic, for_noise=False),
    "wavelet": _denoiser(wavelet, **PYWAVELETS),
    "TV": _denoiser(total_variation),
    "NLM": _denoiser(non_local_means, told=TOLD_NOISE),
    "BM3D": _denoiser(
        bm3d,
        told=TOLD_NOISE,
        package="bm3d",
        install="pip install bm3d, for non-commercial use only",
    ),
    "bpfa dictionary": Contestant(partial(bpfa, refine=None)),
    "bpfa groups": Contestant(partial(bpfa, refine="groups")),
}
