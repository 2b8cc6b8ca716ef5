"""How the picture of the dictionary and that of the groups are combined."""

from __future__ import annotations

from dataclasses import dataclass

from bpfa._support.checks import Array

__all__ = ["Verdict", "combined_variance"]

# Least probability of the dictionary in the mixture that the variance of a pixel belongs to.
LEAST_DICTIONARY = 0.3


@dataclass(frozen=True)
class Verdict:
    """How groups and dictionary are combined.

    Parameters
    ----------
    weight : float
        Weight of the groups in the combined picture; that of the dictionary is 1 - weight.
    correction : float
        Factor on the variance of a pixel.
    """

    weight: float
    correction: float = 1.0


def combined_variance(dictionary: Array, groups: Array, difference: Array, weight: float) -> Array:
    """Return the mean squared deviation of a mixture of both stages from the combined picture.

    The combined picture gives the groups the given weight. The mixture gives them the same probability, but
    the dictionary at least LEAST_DICTIONARY: groups are a better estimate, and a worse judge of their own
    errors (docs/math.md section 19).

    Parameters
    ----------
    dictionary, groups : arrays
        Variances according to both stages.
    difference : array
        Picture of the groups minus that of the dictionary.
    weight : float

    Examples
    --------
    >>> import numpy as np
    >>> combined_variance(np.array([1.0]), np.array([0.5]), np.array([2.0]), 0.5)
    array([1.75])
    """
    share = min(weight, 1 - LEAST_DICTIONARY)
    mixed: Array = share * (groups + ((1 - weight) * difference) ** 2) + (1 - share) * (
        dictionary + (weight * difference) ** 2
    )
    return mixed
