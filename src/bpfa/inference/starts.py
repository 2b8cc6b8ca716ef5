"""Where the global posterior starts: at random, from the data, its components, or a Gibbs run on a subset."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bpfa._support.checks import Array, check_choice, check_instance, check_integer, check_number
from bpfa._support.philox import Stream
from bpfa.backends.numpy import Gibbs
from bpfa.backends.numpy.gibbs import moments
from bpfa.data import Batch, Rows, sample_ids
from bpfa.inference.factor_analysis import pairwise_covariance, row_sample
from bpfa.inference.sampler import GibbsSampler
from bpfa.model.features import FEATURES
from bpfa.model.posterior import GlobalPosterior
from bpfa.model.priors import Priors, as_priors
from bpfa.model.sums import JointSums, LocalSums

__all__ = [
    "common_posterior",
    "data_posterior",
    "gibbs_posterior",
    "principal_alone",
    "principal_posterior",
    "random_posterior",
]

# Rows looked at to learn the scale of the data.
N_SCALE_ROWS = 1000
# Where q(g_o) and q(pi) start: all the variance called noise, and one feature a row. Features then come in as
# they explain something; a start that calls less noise, or has more features on, lets random features divide
# the first residuals among them, and overfits for long (benchmarks/starts.py).
NOISE_SHARE, FEATURES_PER_ROW = 1.0, 1.0
# Of the start from principal components: how many there may be for each column (what is left over has to say
# what the noise is), and the share of the rows that use each of them.
PRINCIPAL_SHARE, PRINCIPAL_USE = 2 / 3, 0.99
# Components that hold so many times the average variance of a column are what rows have in common.
OUTSTANDING = 2.0


def random_posterior(
    rows: Rows,
    n_features: int,
    priors: Priors | None = None,
    *,
    seed: int | Stream | None = None,
    features: str = "factorised",
    weight_precision: str = "all",
    noise_share: float = NOISE_SHARE,
    features_per_row: float = FEATURES_PER_ROW,
) -> GlobalPosterior:
    """Start from features drawn from their prior, N(0, 1/D).

    Parameters
    ----------
    rows : Rows
        A few are read to learn the scale of the data.
    n_features : int
        K.
    priors : Priors, optional
    seed : int or Stream, optional
    features : str
        "factorised" or "joint": the form of q(phi).
    weight_precision : str
        "all" or "active": what q(g_w) is learned from.
    noise_share : float
        Share of the data's variance that is called noise at the start.
    features_per_row : float
        Features that a row is expected to use at the start; at most half of them.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rows = ArrayRows(np.random.default_rng(0).normal(size=(50, 4)))
    >>> random_posterior(rows, 3, seed=0).features.shape
    (3, 4)
    """
    rng = _begin(rows, n_features, seed)
    check_number("noise_share", noise_share, low=0.0, open_low=True)
    check_number("features_per_row", features_per_row, low=0.0, open_low=True)
    phi = rng.normal(scale=rows.n_columns**-0.5, size=(n_features, rows.n_columns))
    return _around(
        phi,
        _scale_batch(rows, rng),
        rows,
        as_priors(priors),
        features,
        weight_precision,
        noise_share,
        features_per_row,
    )


def data_posterior(
    rows: Rows,
    n_features: int,
    priors: Priors | None = None,
    *,
    seed: int | Stream | None = None,
    features: str = "factorised",
    weight_precision: str = "all",
) -> GlobalPosterior:
    """Start from rows of the data, each scaled to unit length, its missing entries drawn from the prior.

    Parameters are the first of `random_posterior`.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rows = ArrayRows(np.random.default_rng(0).normal(size=(50, 4)))
    >>> data_posterior(rows, 3, seed=0).features.shape
    (3, 4)
    """
    rng = _begin(rows, n_features, seed)
    batch = rows.take(sample_ids(rows, n_features, rng))
    phi = rng.normal(scale=rows.n_columns**-0.5, size=(n_features, rows.n_columns))
    # Rows repeat where there are fewer than features; the prior's draw then tells them apart.
    values, observed = np.resize(batch.values, phi.shape), np.resize(batch.observed, phi.shape)
    n_observed = observed.sum(axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        power = (values**2).sum(axis=1, keepdims=True) / np.maximum(n_observed, 1)
    usable = observed & (power > 0)
    unit = values / np.sqrt(np.where(power > 0, power, 1.0) * rows.n_columns)
    phi = np.where(usable, unit + 0.1 * phi * (n_features > len(batch)), phi)
    return _around(phi, _scale_batch(rows, rng), rows, as_priors(priors), features, weight_precision)


def principal_posterior(
    rows: Rows,
    n_features: int,
    priors: Priors | None = None,
    *,
    seed: int | Stream | None = None,
    features: str = "factorised",
    weight_precision: str = "all",
) -> GlobalPosterior:
    """Start from principal components, of the covariances of columns over the rows where both are observed.

    Nearly all rows use each of them, as in factor analysis; the fit then finds out which do not need to. With
    more features than two for three columns it is `common_posterior`. Parameters are the first of
    `random_posterior`.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rows = ArrayRows(np.random.default_rng(0).normal(size=(50, 4)))
    >>> principal_posterior(rows, 2, seed=0).pi.round(2)
    array([0.91, 0.91])
    """
    if not principal_alone(n_features, rows.n_columns):
        return common_posterior(
            rows, n_features, priors, seed=seed, features=features, weight_precision=weight_precision
        )
    start = random_posterior(
        rows, n_features, priors, seed=seed, features=features, weight_precision=weight_precision
    )
    return _with_components(start, *_components(rows, seed), n_features)


def principal_alone(n_features: int, n_columns: int) -> bool:
    """Whether there are columns enough for all features to start as principal components.

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
    features: str = "factorised",
    weight_precision: str = "all",
) -> GlobalPosterior:
    """Start from what nearly all rows have in common: the principal components that stand out.

    They hold at least twice the average variance of a column each, such as the mean and the gradients of
    patches of a picture. All other features are drawn from their prior, for what few rows have. Parameters
    are the first of `random_posterior`.

    Examples
    --------
    >>> from bpfa.data import ArrayRows
    >>> rng = np.random.default_rng(0)
    >>> rows = ArrayRows(rng.normal(size=(50, 1)) + 0.1 * rng.normal(size=(50, 4)))
    >>> common_posterior(rows, 3, seed=0).pi.round(2)
    array([0.88, 0.33, 0.33])
    """
    start = random_posterior(
        rows, n_features, priors, seed=seed, features=features, weight_precision=weight_precision
    )
    eigenvalues, vectors = _components(rows, seed)
    n_outstanding = int((eigenvalues > OUTSTANDING * eigenvalues.mean()).sum())
    return _with_components(start, eigenvalues, vectors, min(n_outstanding, n_features))


def _components(rows: Rows, seed: int | Stream | None) -> tuple[Array, Array]:
    """Return the variances of the principal components, the smallest first, and their directions."""
    eigenvalues, vectors = np.linalg.eigh(
        pairwise_covariance(row_sample(rows, _stream(seed).child("initialise")))
    )
    return eigenvalues, vectors


def _with_components(
    start: GlobalPosterior, eigenvalues: Array, vectors: Array, n_principal: int
) -> GlobalPosterior:
    """Let the first features of a start be the largest principal components."""
    D = start.n_columns
    kept = slice(D - n_principal, None)
    noise = max(float(eigenvalues[: D - n_principal].mean()), float(eigenvalues[-1]) * 1e-6)
    if not n_principal or noise <= 0:
        return start
    # Weights of variance 1, so that a component that a share of the rows uses has the variance it should.
    strength = np.sqrt(np.maximum(eigenvalues[kept] - noise, noise) / PRINCIPAL_USE)
    phi = start.features.mean
    phi[:n_principal] = (vectors[:, kept] * strength).T[::-1]
    N, (a0, b0) = start.n_rows, start.priors.beta(start.n_features)
    use = start.pi.copy()
    use[:n_principal] = PRINCIPAL_USE
    n_weights = N * (use.sum() if start.weight_precision == "active" else start.n_features)
    e = start.priors.e0 + n_weights / 2
    return replace(
        start,
        a=a0 + N * use,
        b=b0 + N * (1 - use),
        d=start.c * noise,
        e=e,
        f=e,
        features=type(start.features).around(phi, D + N * PRINCIPAL_USE / noise),
    )


def gibbs_posterior(
    rows: Rows,
    n_features: int,
    priors: Priors | None = None,
    *,
    seed: int | Stream | None = None,
    features: str = "factorised",
    weight_precision: str = "all",
    n_subset: int = 1000,
    n_sweeps: int = 30,
    local: Gibbs | None = None,
) -> GlobalPosterior:
    """Start from a run of the uncollapsed Gibbs sampler on a random subset of the rows, scaled to all N.

    Parameters
    ----------
    rows : Rows
    n_features : int
    priors : Priors, optional
    seed : int or Stream, optional
    features, weight_precision : str
        As in `random_posterior`; the sampler draws phi and g_w in the same way.
    n_subset : int
        Rows of the subset; all rows when there are fewer.
    n_sweeps : int
        Sweeps of the sampler. The sums of the last state become the posterior, as those of a batch would.
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
    start = random_posterior(
        rows, n_features, priors, seed=stream, features=features, weight_precision=weight_precision
    )
    rng = stream.generator(0)
    batch = rows.take(sample_ids(rows, n_subset, rng))
    sampler = GibbsSampler(
        batch,
        start.priors,
        start.sampled(rng),
        stream,
        local,
        features=features,
        weight_precision=weight_precision,
    )
    for _ in range(n_sweeps):
        sampler.sweep()
    kind: type[LocalSums] | type[JointSums] = JointSums if features == "joint" else LocalSums
    sums = kind.of(sampler.view, batch, moments(sampler.view, sampler.state))
    posterior = start.target(sums, sampler.view.g_o)
    # A feature that no row uses would have mean zero and could never wake under an expected view: it keeps
    # the sampler's draw from the prior.
    return replace(posterior, features=posterior.features.with_means(sums.n == 0, sampler.view.phi))


def _begin(rows: Rows, n_features: int, seed: int | Stream | None) -> np.random.Generator:
    """Check what the starts have in common and return where their random numbers come from."""
    check_instance("rows", rows, Rows)
    check_integer("n_features", n_features, low=1)
    return _stream(seed).child("initialise").generator(0)


def _stream(seed: int | Stream | None) -> Stream:
    return seed if isinstance(seed, Stream) else Stream.from_seed(seed)


def _scale_batch(rows: Rows, rng: np.random.Generator) -> Batch:
    return rows.take(sample_ids(rows, N_SCALE_ROWS, rng))


def _around(
    phi: Array,
    sample: Batch,
    rows: Rows,
    priors: Priors,
    features: str,
    weight_precision: str,
    noise_share: float = NOISE_SHARE,
    features_per_row: float = FEATURES_PER_ROW,
) -> GlobalPosterior:
    """Return a confident posterior around these features, at the scale of a sample of the data."""
    form = FEATURES[check_choice("features", features, tuple(FEATURES))]
    n_features, D = phi.shape
    N = rows.n_rows
    with np.errstate(over="ignore"):
        variance = float((sample.values**2).sum() / max(sample.observed.sum(), 1)) or 1.0
    if not np.isfinite(variance * N * D):
        raise ValueError(f"rows: entries as large as {abs(sample.values).max():g}; expected a scale near 1")
    pi = min(0.5, features_per_row / n_features)
    # Features of unit length and pi K of them in a row: the weights must carry D times the variance.
    g_w = pi * n_features / (D * variance)
    # Each parameter as if all N rows had spoken, so that neither view is vague.
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
