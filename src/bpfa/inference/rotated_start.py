"""Start from principal components that are rotated so that each row uses few of them.

The rotation of common factors is arbitrary as far as variances and covariances go. But if rows use only some
of the features, most weights are near zero and the others are large; among all rotations, the true one makes
the fourth powers of the weights largest (varimax, applied to the weights of the rows).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

import numpy as np

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import Rows
from bpfa.inference.factor_analysis import row_sample
from bpfa.inference.panel_factors import factor_analysis
from bpfa.inference.starts import (
    FeatureForm,
    common_posterior,
    principal_alone,
    random_posterior,
    with_features,
)
from bpfa.model.posterior import GlobalPosterior
from bpfa.model.priors import Priors

__all__ = ["ascended_rotation", "most_unequal_rotation", "rotated_posterior"]

# The most iterations of the factor analysis.
MAX_ITERATIONS = 50
# The rotation is iterated until its criterion grows by less than this share, at most so many times.
ROTATION_TOLERANCE, MAX_ROTATIONS = 1e-6, 200
# The smallest and the largest share of the rows that a feature can start with.
LEAST_USE, MOST_USE = 0.01, 0.99


def rotated_posterior(
    rows: Rows,
    n_features: int,
    priors: Priors | None = None,
    *,
    seed: int | Stream | None = None,
    **form: Unpack[FeatureForm],
) -> GlobalPosterior:
    """Start from principal components, rotated so that each row uses few of them.

    If there are more features than two thirds of the number of columns, there are too few components, and
    this is the same as `common_posterior`.

    Parameters
    ----------
    rows, n_features, priors, seed, **form
        As in `random_posterior`.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rng = np.random.default_rng(0)
    >>> weights = rng.normal(size=(2000, 2)) * (rng.random((2000, 2)) < [0.1, 0.4])
    >>> rows = ArrayRows(weights @ rng.normal(size=(2, 6)) + 0.1 * rng.normal(size=(2000, 6)))
    >>> np.sort(rotated_posterior(rows, 2, seed=0).pi).round(1)
    array([0.1, 0.4])
    """
    if not principal_alone(n_features, rows.n_columns):
        return common_posterior(rows, n_features, priors, seed=seed, **form)
    start = random_posterior(rows, n_features, priors, seed=seed, **form)
    stream = seed if isinstance(seed, Stream) else Stream.from_seed(seed)
    sample = row_sample(rows, stream.child("initialise"))
    analysis = factor_analysis(sample.values, sample.observed)
    analysis.fit(n_features, MAX_ITERATIONS)
    weights = (analysis.filled / np.sqrt(analysis.noise)) @ analysis.directions
    size = np.sqrt((weights**2).mean(axis=0))
    weights = weights / np.where(size > 0, size, 1.0)
    weights = weights @ most_unequal_rotation(weights)
    components = weights.T @ analysis.filled / len(weights)
    # If a share p of the rows uses a feature, with normal weights, their mean fourth power is 3 / p times
    # the square of their variance.
    fourth = (weights**4).mean(axis=0) / np.maximum((weights**2).mean(axis=0), 1e-300) ** 2
    use = np.clip(3 / np.maximum(fourth, 1e-300), LEAST_USE, MOST_USE)
    order = np.argsort(-use, kind="stable")
    components, use = components[order], use[order]
    phi = components / np.sqrt(use)[:, None]
    return with_features(start, phi, use, float(analysis.noise.mean()), float(use.mean()))


def most_unequal_rotation(weights: Array) -> Array:
    """Return the rotation of the weights that makes the sum of their fourth powers largest.

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
    >>> sparse = rng.normal(size=(5000, 2)) * (rng.random((5000, 2)) < 0.1)
    >>> turned = sparse @ np.array([[0.8, 0.6], [-0.6, 0.8]])
    >>> np.abs(most_unequal_rotation(turned)).round(1)
    array([[0.8, 0.6],
           [0.6, 0.8]])
    """
    return ascended_rotation(lambda rotated: weights.T @ (rotated**2 * rotated), weights, MAX_ROTATIONS)


def ascended_rotation(gradient: Callable[[Array], Array], weights: Array, most: int) -> Array:
    """Return a rotation of weights that makes a convex criterion of the rotated weights largest.

    Parameters
    ----------
    gradient : callable
        Returns the gradient of the criterion with respect to the rotation, given the rotated weights.
    weights : array, shape (n_rows, n_factors)
    most : int
        Largest number of iterations.
    """
    rotation = np.eye(weights.shape[1])
    criterion = 0.0
    for _ in range(most):
        # The orthogonal matrix nearest to the gradient increases a convex criterion.
        left, singular, right = np.linalg.svd(gradient(weights @ rotation))
        rotation = left @ right
        if singular.sum() <= criterion * (1 + ROTATION_TOLERANCE):
            break
        criterion = singular.sum()
    return rotation
