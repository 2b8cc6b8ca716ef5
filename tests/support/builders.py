"""Small random views, batches and posteriors."""

from dataclasses import fields

import numpy as np

from bpfa import Batch, GlobalPosterior, Priors, draw_data
from bpfa.model.features import FactorisedFeatures, JointFeatures
from bpfa.model.view import GlobalView

VIEWS = ("sampled", "expected")
MASKS = ("full", "random", "one entry", "empty row")


def random_view(rng, K, D, kind="sampled", g_o=4.0, g_w=0.25):
    """Return a view under which it is uncertain, for every feature of a row, whether it is on."""
    v = rng.uniform(0.05, 0.5, size=(K, D)) if kind == "expected" else np.zeros((K, 1))
    return GlobalView(rng.normal(size=(K, D)) * D**-0.5, v, rng.normal(size=K), g_o, g_w)


def random_mask(rng, N, D, kind="random"):
    """Return which entries are observed; the kind may ask for a special last row."""
    observed = rng.random((N, D)) < 0.6
    if kind == "full":
        observed[:] = True
    elif kind == "one entry":
        observed[-1] = np.arange(D) == rng.integers(D)
    elif kind == "empty row":
        observed[-1] = False
    return observed


def random_batch(rng, N, D, mask="random"):
    return Batch(rng.normal(size=(N, D)), random_mask(rng, N, D, mask))


def random_posterior(rng, n_rows, K, D, per_column=True, joint=False, weight_precision="all"):
    """Return a posterior with wide and unequal factors, so that every term of a bound has an effect."""
    return GlobalPosterior(
        priors=Priors(a=2.0, b=3.0, c0=1.5, d0=0.7, e0=2.5, f0=1.2),
        n_rows=n_rows,
        a=rng.uniform(1.0, 5.0, size=K),
        b=rng.uniform(1.0, 5.0, size=K),
        c=7.0,
        d=2.0,
        e=5.0,
        f=6.0,
        features=random_features(rng, K, D, per_column, joint),
        weight_precision=weight_precision,
    )


def random_features(rng, K, D, per_column=True, joint=False):
    n_precisions = D if per_column else 1
    tau = rng.uniform(5.0, 30.0, size=(K, n_precisions))
    mu = rng.normal(scale=8.0, size=(K, D))
    if not joint:
        return FactorisedFeatures(tau, mu)
    root = rng.normal(scale=2.0, size=(n_precisions, K, K))
    return JointFeatures(root @ root.transpose(0, 2, 1) + tau.T[:, :, None] * np.eye(K), mu)


def natural(posterior):
    """Return every natural parameter by its name."""
    features = {field.name: getattr(posterior.features, field.name) for field in fields(posterior.features)}
    return {name: getattr(posterior, name) for name in "abcdef"} | features


def data_with_holes(N=600, D=12, K=5, share=0.4, seed=0):
    """Return a matrix drawn from the model, rounded to single precision as on a device; NaN is missing."""
    y = draw_data(N, D, K, g_o=100.0, g_w=1.0, seed=seed).y
    rounded = y.astype(np.float32).astype(np.float64)
    return np.where(np.random.default_rng(seed).random(y.shape) < share, np.nan, rounded)
