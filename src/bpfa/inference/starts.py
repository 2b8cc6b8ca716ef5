"""Where the global posterior starts: at random, from rows, from principal components, or from a Gibbs run.

All starts are called in the same way; `random_posterior` describes the parameters that they share.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict, Unpack

import numpy as np

from bpfa._support.checks import Array, check_choice, check_instance, check_integer, check_number
from bpfa._support.philox import Stream
from bpfa.backends.numpy import Gibbs
from bpfa.backends.numpy.gibbs import moments
from bpfa.data import Batch, Rows, sample_ids
from bpfa.inference.eigenpairs import EXACT_COLUMNS, largest_eigenpairs
from bpfa.inference.factor_analysis import pairwise_covariance, row_sample
from bpfa.inference.panel_factors import factor_analysis
from bpfa.inference.sampler import GibbsSampler
from bpfa.model.features import FEATURES
from bpfa.model.posterior import GlobalPosterior
from bpfa.model.priors import Priors, as_priors
from bpfa.model.sums import sums_of

__all__ = [
    "PAIRED_COLUMNS",
    "FeatureForm",
    "common_posterior",
    "data_posterior",
    "gibbs_posterior",
    "principal_alone",
    "principal_posterior",
    "random_posterior",
    "with_features",
]

# The number of rows from which the scale of the data is estimated.
N_SCALE_ROWS = 1000
# Where q(g_o) and q(pi) start: all of the variance is attributed to noise, and a row uses one feature.
# Features then come into use as they explain something. With less noise or more features at the start, random
# features would divide the first residuals among themselves, and the model would overfit for a long time
# (benchmarks/starts.py).
NOISE_SHARE, FEATURES_PER_ROW = 1.0, 1.0
# For the start from principal components: the largest number of components for each column, because the noise
# is estimated from the components that remain, and the share of the rows that use each component.
PRINCIPAL_SHARE, PRINCIPAL_USE = 2 / 3, 0.99
# The most iterations of the factor analysis that finds them.
MAX_ITERATIONS = 10
# A component stands out if its variance is more than this many times the average variance of a column.
OUTSTANDING = 2.0
# Up to this number of columns, products of two columns are averaged over the rows that have both if entries
# are missing: columns may be missing together, as the channels of a pixel are.
PAIRED_COLUMNS = 1024


class FeatureForm(TypedDict, total=False):
    """The form of the posterior that a start returns."""

    features: str
    """The form of q(phi): "factorised" (by default) or "joint"."""
    weight_precision: str
    """The weights that q(g_w) is learned from: "all" (by default) or "active"."""


def random_posterior(
    rows: Rows,
    n_features: int,
    priors: Priors | None = None,
    *,
    seed: int | Stream | None = None,
    noise_share: float = NOISE_SHARE,
    features_per_row: float = FEATURES_PER_ROW,
    **form: Unpack[FeatureForm],
) -> GlobalPosterior:
    """Start from features drawn from their prior, N(0, 1/D).

    Parameters
    ----------
    rows : Rows
        Some of them are read to learn the scale of the data.
    n_features : int
        K.
    priors : Priors, optional
        Those of the paper by default.
    seed : int or Stream, optional
    noise_share : float
        The share of the variance of the data that is attributed to noise at the start.
    features_per_row : float
        The number of features that a row is expected to use at the start; at most half of all features.
    **form
        `features` and `weight_precision`, as in `FeatureForm`.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rows = ArrayRows(np.random.default_rng(0).normal(size=(50, 4)))
    >>> random_posterior(rows, 3, seed=0).features.shape
    (3, 4)
    """
    rng = _generator(rows, n_features, seed)
    check_number("noise_share", noise_share, low=0.0, open_low=True)
    check_number("features_per_row", features_per_row, low=0.0, open_low=True)
    phi = rng.normal(scale=rows.n_columns**-0.5, size=(n_features, rows.n_columns))
    sample = _scale_batch(rows, rng)
    return _confident_posterior(phi, sample, rows, priors, noise_share, features_per_row, **form)


def data_posterior(
    rows: Rows,
    n_features: int,
    priors: Priors | None = None,
    *,
    seed: int | Stream | None = None,
    **form: Unpack[FeatureForm],
) -> GlobalPosterior:
    """Start from rows of the data, scaled to unit length, with missing entries drawn from the prior.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rows = ArrayRows(np.random.default_rng(0).normal(size=(50, 4)))
    >>> data_posterior(rows, 3, seed=0).features.shape
    (3, 4)
    """
    rng = _generator(rows, n_features, seed)
    batch = rows.take(sample_ids(rows, n_features, rng))
    phi = rng.normal(scale=rows.n_columns**-0.5, size=(n_features, rows.n_columns))
    # If there are fewer rows than features, rows repeat, and a draw from the prior makes them differ.
    values, observed = np.resize(batch.values, phi.shape), np.resize(batch.observed, phi.shape)
    n_observed = observed.sum(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        power = (values**2).sum(axis=1, keepdims=True) / np.maximum(n_observed, 1)
    usable = observed & (power > 0)
    unit = values / np.sqrt(np.where(power > 0, power, 1.0) * rows.n_columns)
    phi = np.where(usable, unit + 0.1 * phi * (n_features > len(batch)), phi)
    return _confident_posterior(phi, _scale_batch(rows, rng), rows, priors, **form)


def principal_posterior(
    rows: Rows,
    n_features: int,
    priors: Priors | None = None,
    *,
    seed: int | Stream | None = None,
    **form: Unpack[FeatureForm],
) -> GlobalPosterior:
    """Start from principal components: the common factors of a quick factor analysis.

    At the start, nearly all rows use each component, as in factor analysis; the fit then finds out which rows
    do not need it. If there are more features than two thirds of the number of columns, this is the same as
    `common_posterior`.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rows = ArrayRows(np.random.default_rng(0).normal(size=(50, 4)))
    >>> principal_posterior(rows, 2, seed=0).pi.round(2)
    array([0.91, 0.91])
    """
    if not principal_alone(n_features, rows.n_columns):
        return common_posterior(rows, n_features, priors, seed=seed, **form)
    start = random_posterior(rows, n_features, priors, seed=seed, **form)
    sample = row_sample(rows, _stream(seed).child("initialise"))
    analysis = factor_analysis(sample.values, sample.observed)
    analysis.fit(n_features, MAX_ITERATIONS)
    noise = float(analysis.noise.mean())
    # A factor that does not stand out from the noise starts as large as the noise.
    strength = np.sqrt(np.maximum(analysis.common, 1.0))
    components = (analysis.directions * strength).T[::-1] * np.sqrt(analysis.noise)
    return _with_components(start, components, noise)


def principal_alone(n_features: int, n_columns: int) -> bool:
    """Return whether there are enough columns for all features to start as principal components.

    Examples
    --------
    >>> principal_alone(8, n_columns=12), principal_alone(9, n_columns=12)
    (True, False)
    """
    return n_features <= int(PRINCIPAL_SHARE * n_columns)


def common_posterior(
    rows: Rows,
    n_features: int,
    priors: Priors | None = None,
    *,
    seed: int | Stream | None = None,
    **form: Unpack[FeatureForm],
) -> GlobalPosterior:
    """Start from what nearly all rows have in common: the principal components that stand out.

    The variance of each of them is more than twice the average variance of a column. In the patches of a
    picture they are, for example, the mean and the gradients. All other features are drawn from their prior;
    they are for what only few rows have.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rng = np.random.default_rng(0)
    >>> rows = ArrayRows(rng.normal(size=(50, 1)) + 0.1 * rng.normal(size=(50, 4)))
    >>> common_posterior(rows, 3, seed=0).pi.round(2)
    array([0.88, 0.33, 0.33])
    """
    start = random_posterior(rows, n_features, priors, seed=seed, **form)
    sample = row_sample(rows, _stream(seed).child("initialise"))
    eigenvalues, vectors, mean = _principal_components(sample, n_features)
    n_outstanding = int((eigenvalues > OUTSTANDING * mean).sum())
    D = start.n_columns
    remaining = (D * mean - eigenvalues[:n_outstanding].sum()) / max(1, D - n_outstanding)
    noise = max(float(remaining), float(eigenvalues[0]) * 1e-6)
    if not n_outstanding or noise <= 0:
        return start
    strength = np.sqrt(np.maximum(eigenvalues[:n_outstanding] - noise, noise))
    return _with_components(start, vectors[:n_outstanding] * strength[:, None], noise)


def _principal_components(sample: Batch, most: int) -> tuple[Array, Array, float]:
    """Return the largest principal components, and the average variance of a column.

    Returns
    -------
    variances : array, shape (n,)
        Variance of each component, the largest first.
    directions : array, shape (n, n_columns)
    mean : float
    """
    D = sample.values.shape[1]
    if D <= EXACT_COLUMNS or (D <= PAIRED_COLUMNS and not sample.observed.all()):
        eigenvalues, vectors = np.linalg.eigh(pairwise_covariance(sample))
        return eigenvalues[::-1][:most], vectors.T[::-1][:most], float(eigenvalues.mean())
    # If missing entries are 0 and each column is divided by the share of its observed entries, products of
    # two columns are right on average if they are not missing together, but squares are too large; this is
    # subtracted from the diagonal.
    share = np.maximum(sample.observed.mean(axis=0), 1.0 / len(sample))
    values = sample.values.astype(np.float64)
    square = (values**2).mean(axis=0)
    eigenvalues, vectors = largest_eigenpairs(
        values / share, square / share - square / share**2, min(most, D)
    )
    return eigenvalues[::-1], vectors.T[::-1], float((square / share).mean())


def _with_components(start: GlobalPosterior, components: Array, noise: float) -> GlobalPosterior:
    """Return a start whose first features are components that nearly all rows use."""
    phi, use = start.features.mean, start.pi.copy()
    # A component which only a share of the rows uses must be larger to have the same variance.
    phi[: len(components)] = components * PRINCIPAL_USE**-0.5
    use[: len(components)] = PRINCIPAL_USE
    return with_features(start, phi, use, noise, PRINCIPAL_USE)


def with_features(
    start: GlobalPosterior, phi: Array, use: Array, noise: float, mean_use: float
) -> GlobalPosterior:
    """Return a start with other features, each used by its own share of the rows with weights near 1.

    Parameters
    ----------
    start : GlobalPosterior
        Where everything else is taken from.
    phi : array, shape (K, D)
    use : array, shape (K,)
        Share of the rows that use each feature.
    noise : float
        Variance of the noise.
    mean_use : float
        Share of the rows that the precision of the features is based on.
    """
    N, (a0, b0) = start.n_rows, start.priors.beta(start.n_features)
    n_weights = N * (use.sum() if start.weight_precision == "active" else start.n_features)
    e = start.priors.e0 + n_weights / 2
    return replace(
        start,
        a=a0 + N * use,
        b=b0 + N * (1 - use),
        d=start.c * noise,
        e=e,
        f=e,
        features=type(start.features).around(phi, start.n_columns + N * mean_use / noise),
    )


def gibbs_posterior(
    rows: Rows,
    n_features: int,
    priors: Priors | None = None,
    *,
    seed: int | Stream | None = None,
    n_subset: int = 1000,
    n_sweeps: int = 30,
    local: Gibbs | None = None,
    **form: Unpack[FeatureForm],
) -> GlobalPosterior:
    """Start from a run of the uncollapsed Gibbs sampler on a random subset of the rows, scaled to all N.

    The sampler draws phi and g_w in the form of the posterior.

    Parameters
    ----------
    rows, n_features, priors, seed, **form
        As in `random_posterior`.
    n_subset : int
        Number of rows of the subset; all rows if there are fewer.
    n_sweeps : int
        Number of sweeps of the sampler. The posterior is made from the sums of its last state, like those of
        a batch.
    local : Gibbs, optional
        How z and w are drawn, and on which device.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rows = ArrayRows(np.random.default_rng(0).normal(size=(50, 4)))
    >>> gibbs_posterior(rows, 3, seed=0, n_subset=20, n_sweeps=2).n_rows
    50
    """
    n_subset = check_integer("n_subset", n_subset, low=1)
    n_sweeps = check_integer("n_sweeps", n_sweeps, low=1)
    stream = _stream(seed).child("gibbs initialise")
    start = random_posterior(rows, n_features, priors, seed=stream, **form)
    rng = stream.generator(0)
    batch = rows.take(sample_ids(rows, n_subset, rng))
    sampler = GibbsSampler(batch, start.priors, start.sampled(rng), stream, local, **form)
    for _ in range(n_sweeps):
        sampler.sweep()
    sums = sums_of(sampler.view, batch, moments(sampler.view, sampler.state), joint=start.joint)
    posterior = start.target(sums, sampler.view.g_o)
    # A feature that no row uses would have mean zero, and could never come into use under an expected view.
    # It keeps the sampler's draw from the prior instead.
    return replace(posterior, features=posterior.features.with_means(sums.n == 0, sampler.view.phi))


def _generator(rows: Rows, n_features: int, seed: int | Stream | None) -> np.random.Generator:
    """Check the arguments that all starts share, and return the source of their random numbers."""
    check_instance("rows", rows, Rows)
    check_integer("n_features", n_features, low=1)
    return _stream(seed).child("initialise").generator(0)


def _stream(seed: int | Stream | None) -> Stream:
    return seed if isinstance(seed, Stream) else Stream.from_seed(seed)


def _scale_batch(rows: Rows, rng: np.random.Generator) -> Batch:
    """Return a random sample of the rows, from which the scale of the data is estimated."""
    return rows.take(sample_ids(rows, N_SCALE_ROWS, rng))


def _confident_posterior(
    phi: Array,
    sample: Batch,
    rows: Rows,
    priors: Priors | None,
    noise_share: float = NOISE_SHARE,
    features_per_row: float = FEATURES_PER_ROW,
    /,
    *,
    features: str = "factorised",
    weight_precision: str = "all",
) -> GlobalPosterior:
    """Return a confident posterior with the means `phi`, at the scale of a sample of the data."""
    priors = as_priors(priors)
    form = FEATURES[check_choice("features", features, tuple(FEATURES))]
    n_features, D = phi.shape
    N = rows.n_rows
    with np.errstate(over="ignore"):
        variance = float((sample.values**2).sum() / max(sample.observed.sum(), 1)) or 1.0
    if not np.isfinite(variance * N * D):
        raise ValueError(f"rows: entries as large as {abs(sample.values).max():g}; expected a scale near 1")
    pi = min(0.5, features_per_row / n_features)
    # A row uses pi K features of unit length, so that the squares of its weights must add up to D variances.
    g_w = pi * n_features / (D * variance)
    # Every parameter is set as if all N rows had been seen, so that draws from the posterior vary little.
    n_weights = N * n_features * (pi if weight_precision == "active" else 1.0)
    c, e = priors.c0 + N * D / 2, priors.e0 + n_weights / 2
    a0, b0 = priors.beta(n_features)
    return GlobalPosterior(
        priors=priors,
        n_rows=N,
        a=np.full(n_features, a0 + N * pi),
        b=np.full(n_features, b0 + N * (1 - pi)),
        c=c,
        d=c * noise_share * variance,
        e=e,
        f=e / g_w,
        features=form.around(phi, D + N * pi / (noise_share * variance) / g_w),
        weight_precision=weight_precision,
    )
