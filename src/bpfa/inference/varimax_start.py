"""Start from principal components that are rotated to a simple structure: each row has few large weights.

This is the classic rotation of factor analysis (varimax with Kaiser's normalisation), applied to the weights
of the rows. It serves fits that are to be read (docs/math.md section 11). The rotated start, in comparison,
looks for features that only few rows use, and follows the rows with the most extreme weights.
"""

from __future__ import annotations

from typing import Unpack

import numpy as np

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import Rows
from bpfa.inference.factor_analysis import FactorAnalysis, row_sample
from bpfa.inference.rotated_start import ascended_rotation
from bpfa.inference.starts import (
    FeatureForm,
    common_posterior,
    principal_alone,
    random_posterior,
    with_features,
)
from bpfa.model.posterior import GlobalPosterior
from bpfa.model.priors import Priors

__all__ = ["simple_structure", "varimax_posterior"]

# The most iterations of the factor analysis.
MAX_ITERATIONS = 50
# Normal weights have a mean fourth power of 3. If it is smaller than this, weights are spread evenly, or take
# two values: all rows use such a component, for example because it is the level of a row, and rotating it
# would only spread it over other components.
EVENLY_SPREAD = 2.8
# The share of the rows that use such a component at the start, and any other component.
USE_BY_ALL, USE = 0.99, 0.5
# The rotation is iterated at most so many times, and is found from at most so many rows.
MAX_ROTATIONS, MAX_ROWS = 300, 4096


def varimax_posterior(
    rows: Rows,
    n_features: int,
    priors: Priors | None = None,
    *,
    seed: int | Stream | None = None,
    **form: Unpack[FeatureForm],
) -> GlobalPosterior:
    """Start from principal components, rotated by varimax so that each row has few large weights.

    Half of the rows use a rotated component at the start. If there are more features than two thirds of the
    number of columns, there are too few components, and this is the same as `common_posterior`.

    Parameters
    ----------
    rows, n_features, priors, seed, **form
        As in `random_posterior`.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rng = np.random.default_rng(0)
    >>> weights = rng.normal(size=(2000, 2)) * (rng.random((2000, 2)) < 0.3)
    >>> rows = ArrayRows(weights @ [[1, 1, 1, 0, 0], [0, 0, 1, 1, 1]] + 0.1 * rng.normal(size=(2000, 5)))
    >>> found = np.abs(varimax_posterior(rows, 2, seed=0).features.mean)
    >>> (found / found.max(axis=1, keepdims=True)).round(1)
    array([[0., 0., 1., 1., 1.],
           [1., 1., 1., 0., 0.]])
    """
    if not principal_alone(n_features, rows.n_columns):
        return common_posterior(rows, n_features, priors, seed=seed, **form)
    start = random_posterior(rows, n_features, priors, seed=seed, **form)
    stream = seed if isinstance(seed, Stream) else Stream.from_seed(seed)
    sample = row_sample(rows, stream.child("initialise"))
    analysis = FactorAnalysis(sample.values, sample.observed)
    analysis.fit(n_features, MAX_ITERATIONS)
    # The strongest component first.
    weights = ((analysis.filled / np.sqrt(analysis.noise)) @ analysis.directions)[:, ::-1]
    size = np.sqrt((weights**2).mean(axis=0))
    weights = weights / np.where(size > 0, size, 1.0)
    by_all = (weights**4).mean(axis=0) < EVENLY_SPREAD
    some = weights[:, ~by_all]
    weights[:, ~by_all] = some @ simple_structure(some[:: -(-len(some) // MAX_ROWS)])
    components = weights.T @ analysis.filled / len(weights)
    use = np.where(by_all, USE_BY_ALL, USE)
    phi = components / np.sqrt(use)[:, None]
    return with_features(start, phi, use, float(analysis.noise.mean()), float(use.mean()))


def simple_structure(weights: Array) -> Array:
    """Return the rotation of the weights to a simple structure: varimax with Kaiser's normalisation.

    Every row is scaled to the same length, so that all rows count the same. The rotation then maximises the
    variance of the squared weights, summed over the factors.

    Parameters
    ----------
    weights : array, shape (n_rows, n_factors)
        Uncorrelated, with variance 1.

    Returns
    -------
    array, shape (n_factors, n_factors)
        Orthogonal; `weights @ rotation` are the rotated weights.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sparse = rng.normal(size=(5000, 2)) * (rng.random((5000, 2)) < 0.3)
    >>> turned = sparse @ np.array([[0.8, 0.6], [-0.6, 0.8]])
    >>> np.abs(simple_structure(turned)).round(1)
    array([[0.8, 0.6],
           [0.6, 0.8]])
    """
    n_factors = weights.shape[1]
    length = np.linalg.norm(weights, axis=1, keepdims=True)
    normalised = weights * np.sqrt(n_factors) / np.where(length > 0, length, 1.0)

    def gradient(rotated: Array) -> Array:
        squares = rotated * rotated
        towards: Array = normalised.T @ (rotated * (squares - squares.mean(axis=0)))
        return towards

    return ascended_rotation(gradient, normalised, MAX_ROTATIONS if n_factors > 1 else 0)
