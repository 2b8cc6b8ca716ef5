"""The generalised Anscombe transform of counts and its exact unbiased inverse (docs/math.md section 20).

Everything here is in units of one count: z = k + n, where k is Poisson with mean lambda and n is Gaussian
with mean 0 and standard deviation s. Gains and offsets are the business of `Stabiliser`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, roots_legendre, xlogy

from bpfa._support.checks import Array

__all__ = ["UnbiasedInverse", "anscombe", "expected_anscombe"]

# Up to this mean the expectation is summed over the Poisson distribution; above it, or if the read noise
# alone has this variance, it is expanded in a series.
LARGE = 100.0
# Number of nodes of the Gauss-Legendre rule for the Gaussian part, which covers so many standard deviations.
NODES, TAIL = 128, 9.0
# Steps of the square root of the mean in the table: equal ones up to sqrt(LARGE), then equal ratios.
FINE_STEPS, RATIO = 2000, 1.002


def anscombe(z: ArrayLike, read_noise: float = 0.0) -> Array:
    """Return the transform 2 sqrt(z + 3/8 + s^2), after which the noise has a variance of about 1.

    Parameters
    ----------
    z : array-like
        Counts with Gaussian noise. Values below -3/8 - s^2 become 0.
    read_noise : float
        Standard deviation s of the Gaussian noise, in counts.

    Examples
    --------
    >>> bool(abs(anscombe(np.random.default_rng(0).poisson(20, 10_000)).std() - 1) < 0.02)
    True
    """
    return 2 * np.sqrt(np.maximum(np.asarray(z, dtype=float) + (0.375 + read_noise**2), 0.0))


def expected_anscombe(mean: ArrayLike, read_noise: float = 0.0) -> Array:
    """Return the expectation of the transform for each mean number of counts.

    Up to a mean of 100 it is summed over the Poisson distribution and integrated over the Gaussian one. For
    larger means, or a larger variance of the Gaussian noise, it is the Taylor series up to the fourth moment.

    Parameters
    ----------
    mean : array-like
        The means lambda, at least 0.
    read_noise : float
        Standard deviation s of the Gaussian noise, in counts.

    Examples
    --------
    >>> expected_anscombe([0.0, 1.0]).round(4)
    array([1.2247, 2.1869])
    """
    means = np.asarray(mean, dtype=float)
    expected = _by_expansion(means, read_noise)
    if read_noise**2 < LARGE and (small := means <= LARGE).any():
        expected[small] = _by_summation(means[small], read_noise)
    return expected


def _by_summation(means: Array, read_noise: float) -> Array:
    counts = np.arange(int(LARGE + 12 * np.sqrt(LARGE)) + 1.0)
    given_count = anscombe(counts) if read_noise == 0 else _given_count(counts, read_noise)
    log_probability = xlogy(counts, means[:, None]) - means[:, None] - gammaln(counts + 1)
    summed: Array = np.exp(log_probability) @ given_count
    return summed


def _given_count(counts: Array, read_noise: float) -> Array:
    """Return the expectation of the transform over the Gaussian noise, for each count.

    The transform is a square root that begins at n = n_0, so that the integral over t with n = n_0 + t^2 is
    that of a smooth function.
    """
    nodes, weights = roots_legendre(NODES)
    begin = -(counts + 0.375 + read_noise**2) / read_noise
    low, high = np.sqrt(np.maximum(-TAIL - begin, 0.0)), np.sqrt(np.maximum(TAIL - begin, 0.0))
    half = ((high - low) / 2)[:, None]
    t = low[:, None] + half * (1 + nodes)
    density = np.exp(-0.5 * (begin[:, None] + t**2) ** 2) / np.sqrt(2 * np.pi)
    integral: Array = (2 * np.sqrt(read_noise) * t * density * 2 * t * half) @ weights
    return integral


def _by_expansion(means: Array, read_noise: float) -> Array:
    variance = means + read_noise**2
    u = variance + 0.375
    fourth = means + 3 * variance**2
    series: Array = 2 * np.sqrt(u) - variance / 4 * u**-1.5 + means / 8 * u**-2.5 - 5 / 64 * fourth * u**-3.5
    return series


class UnbiasedInverse:
    """The inverse of `expected_anscombe`: the mean count whose transform has a given expectation.

    Applied to the expectation of the transform it gives the mean without bias, which the algebraic inverse
    (D/2)^2 - 3/8 - s^2 does not. It is tabulated, and interpolated linearly in the square root of the mean.

    Parameters
    ----------
    read_noise : float
        Standard deviation s of the Gaussian noise, in counts.
    largest : float
        Largest transformed value that is to be inverted.

    Examples
    --------
    >>> inverse = UnbiasedInverse(0.0, largest=10.0)
    >>> inverse(expected_anscombe([0.0, 0.5, 8.0])).round(4)
    array([0. , 0.5, 8. ])
    """

    def __init__(self, read_noise: float, largest: float) -> None:
        start = np.sqrt(LARGE)
        # The transform of t^2 is at least 2 t - 1/8 for t >= 1, so that the table reaches the largest value.
        end = max(2.0 * start, 0.5 * largest + 1.0)
        n_coarse = int(np.ceil(np.log(end / start) / np.log(RATIO))) + 1
        self._roots = np.concatenate(
            [np.linspace(0.0, start, FINE_STEPS + 1)[:-1], np.geomspace(start, end, n_coarse)]
        )
        # Summation and expansion differ by rounding and more where they meet, but the table must increase.
        self._expected = np.maximum.accumulate(expected_anscombe(self._roots**2, read_noise))

    def __call__(self, transformed: ArrayLike) -> Array:
        """Return the means for transformed values; 0 for those below the expectation at a mean of 0."""
        roots: Array = np.interp(np.asarray(transformed, dtype=float), self._expected, self._roots)
        return roots**2
