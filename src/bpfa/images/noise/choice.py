"""Which noise a picture has: what the user says, and what is learned from the picture."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from bpfa._support.checks import Array
from bpfa.images.noise.blocks import MOST_BLOCKS, Blocks, blocks_of
from bpfa.images.noise.relation import FEWEST_BLOCKS, Line, fit_line
from bpfa.images.noise.stabiliser import Stabiliser

__all__ = ["NOISE_MODELS", "choose_noise"]

NOISE_MODELS = ("gaussian", "poisson", "poisson-gaussian", "auto")

# "auto" takes the variance to grow with the mean if a one-sided test of the slope rejects 0 at this level,
# and if the variance grows by this factor over the means of the flat blocks. Less would hardly matter, and
# the little texture that is left in flat blocks can make as much of a difference.
LEVEL, LEAST_RATIO = 0.001, 1.3
# Channels share gain and read noise unless a chi-square test of equal gains rejects them at this level.
CHANNEL_LEVEL = 0.01
# A channel of a picture with many of them is judged by this many blocks.
FEWEST_OF_CHANNEL = 64
# A pixel is negative if it is further below 0 than rounding to single precision can make it.
ROUNDING = 1e-5


def choose_noise(
    pixels: Array,
    observed: NDArray[np.bool_],
    noise_model: str,
    gain: float | None = None,
    read_noise: float | None = None,
) -> Stabiliser | None:
    """Return the noise of a picture, or None if it is Gaussian with the same variance everywhere.

    Parameters
    ----------
    pixels : array, shape (slices, height, width, channels)
    observed : boolean array of the same shape
    noise_model : str
        "gaussian", "poisson", "poisson-gaussian" or "auto".
    gain, read_noise : float, optional
        What is known of the noise; the rest is learned.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> signal = np.tile(np.linspace(1, 20, 128), (1, 128, 1))[..., None]
    >>> observed = np.ones(signal.shape, bool)
    >>> choose_noise(rng.normal(signal), observed, "auto") is None
    True
    >>> noise = choose_noise(4.0 * rng.poisson(signal), observed, "auto")
    >>> noise.kind, bool(abs(noise.gain[0] - 4) < 0.2)
    ('poisson', True)
    """
    _check_given(noise_model, gain, read_noise)
    if noise_model == "gaussian":
        return None
    smallest, largest = (float(end(pixels[observed])) for end in (np.min, np.max))
    negative = smallest < -ROUNDING * (largest - smallest)
    if noise_model == "poisson" and negative:
        raise ValueError(
            f"noise_model='poisson': the image has negative pixels, down to {smallest:g}; expected counts "
            "times a gain, or noise_model='poisson-gaussian' for counts with read noise"
        )
    n_channels = pixels.shape[-1]
    most = max(FEWEST_OF_CHANNEL, MOST_BLOCKS // n_channels)
    channels = [blocks_of(pixels[..., i], observed[..., i], most) for i in range(n_channels)]
    kind = noise_model if noise_model != "auto" else _decide(channels, gain, read_noise, negative=negative)
    if kind == "gaussian":
        return None
    intercept = 0.0 if kind == "poisson" else None if read_noise is None else read_noise**2
    slopes, intercepts = _lines(channels, gain, intercept)
    noise = Stabiliser(
        kind,
        gain=slopes,
        read_noise=np.sqrt(np.maximum(intercepts, 0.0)),
        offset=np.maximum(-intercepts, 0.0) / slopes,
    )
    logging.getLogger("bpfa").info(
        "noise_model=%r: %s noise, gain %s, read noise %s", noise_model, kind, noise.gain, noise.read_noise
    )
    return noise


def _check_given(noise_model: str, gain: float | None, read_noise: float | None) -> None:
    """Refuse what does not belong to a model of the noise."""
    for name, value in (("gain", gain), ("read_noise", read_noise)):
        if value is not None and noise_model == "gaussian":
            raise ValueError(
                f"{name}={value:g}: Gaussian noise has none; expected noise_model='poisson-gaussian', or "
                "another model for counts"
            )
    if read_noise and noise_model == "poisson":
        raise ValueError(
            f"read_noise={read_noise:g}: Poisson noise has none; expected noise_model='poisson-gaussian'"
        )


def _decide(channels: list[Blocks], gain: float | None, read_noise: float | None, *, negative: bool) -> str:
    """Return "gaussian", "poisson" or "poisson-gaussian", by the line of each channel."""
    logger = logging.getLogger("bpfa")
    lines = [line for line in map(fit_line, channels) if line is not None and line.slope_error > 0]
    if not lines:
        logger.info("noise_model='auto': too few flat blocks to tell; Gaussian noise is assumed")
        return "gaussian"
    score = float(sum(line.slope / line.slope_error for line in lines) / np.sqrt(len(lines)))
    ratio = float(np.median([line.range_ratio for line in lines]))
    if score < norm.isf(LEVEL) or ratio < LEAST_RATIO:
        logger.info(
            "noise_model='auto': Gaussian noise; the slope of the variance is %.1f standard errors, and over "
            "the means the variance changes by a factor of %.2f",
            score,
            ratio,
        )
        return "gaussian"
    away = float(sum(line.intercept / line.intercept_error for line in lines) / np.sqrt(len(lines)))
    if negative or read_noise or abs(away) > norm.isf(LEVEL):
        return "poisson-gaussian"
    return "poisson"


def _lines(channels: list[Blocks], gain: float | None, intercept: float | None) -> tuple[Array, Array]:
    """Return slope and intercept of each channel: those of all channels together, unless they differ."""
    known = {"slope": gain, "intercept": intercept}
    if gain is not None and intercept is not None:
        return np.full(len(channels), gain), np.full(len(channels), intercept)
    pooled = fit_line(Blocks.joined(channels), **known)
    if pooled is None:
        raise ValueError(
            f"gain={gain}: the noise cannot be learned, because fewer than {FEWEST_BLOCKS} blocks of the "
            "image are flat and noisy; expected a larger image, or gain=1 and read_noise=0 if the values are "
            "counts as they were recorded"
        )
    lines = [fit_line(blocks, **known) or pooled for blocks in channels]
    if _alike(lines, pooled):
        lines = [pooled] * len(channels)
    slopes = np.array([line.slope for line in lines])
    if slopes.min() <= 0:
        raise ValueError(
            f"gain={gain}: the gain cannot be learned, because the variance of the noise does not grow with "
            "the mean; expected a number > 0, or noise_model='gaussian'"
        )
    return slopes, np.array([line.intercept for line in lines])


def _alike(lines: list[Line], pooled: Line) -> bool:
    """Return whether the channels may have the same line, by a chi-square test of what was learned."""
    statistic, freedom = 0.0, 0
    for name in ("slope", "intercept"):
        errors = np.array([getattr(line, f"{name}_error") for line in lines])
        if (errors > 0).all():
            differences = np.array([getattr(line, name) for line in lines]) - getattr(pooled, name)
            # Slope and intercept of a channel are strongly correlated, so that only one of them is tested.
            statistic, freedom = float(np.sum((differences / errors) ** 2)), len(lines) - 1
            break
    return freedom == 0 or statistic < chi2.isf(CHANNEL_LEVEL, freedom)
