"""How predictions of overlapping patches are weighted, and the picture that they are averaged into.

Every backend that restores pictures uses these weights, so that all of them compute the same average.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array

__all__ = ["EMPTY_WEIGHT", "NOISE_SHARE", "Restored"]

# A prediction is weighted by one over its variance plus this share of the noise variance. With a share of 0 a
# patch whose few draws happen to agree would outweigh all others; with a share of 1 the certainty of a
# prediction would count too little.
NOISE_SHARE = 0.5
# Factor on the weight of a patch without any observed pixel. It is so small that such patches matter only
# where every patch over a pixel is without an observed one.
EMPTY_WEIGHT = 1e-9


class Restored(NamedTuple):
    """A restored picture in standardised units; all arrays are slices x height x width x channels."""

    mean: Array
    """Estimate of every pixel."""
    std: Array
    """Standard deviation of every estimate."""
    informed: NDArray[np.bool_]
    """Whether any of the patches over a pixel has an observed pixel."""

    @classmethod
    def of_sums(cls, weight: Array, first: Array, second: Array, informed: NDArray[np.bool_]) -> Restored:
        """Return the picture, given the sums over the patches of every pixel, which are overwritten.

        Parameters
        ----------
        weight, first, second : array
            The sums of the weights, of the weighted means, and of the weighted second moments.
        informed : boolean array

        Examples
        --------
        >>> sums = np.array([2.0, 1.0]), np.array([6.0, 1.0]), np.array([26.0, 1.0])
        >>> Restored.of_sums(*sums, np.array([True, False])).std
        array([2., 0.])
        """
        # In place, because the picture may be large.
        first /= weight
        second /= weight
        second -= np.square(first, out=weight)
        std = np.sqrt(np.maximum(second, 0.0, out=second), out=second)
        return cls(first, std, informed)
