"""Models that know their globals, and data drawn from them: the answers of diagnostics are then known."""

from dataclasses import replace

import numpy as np
import pandas

from bpfa import BPFA, GlobalPosterior, Priors
from bpfa.data.scaling import Scale
from bpfa.estimator.publishing import publish
from bpfa.model.features import FactorisedFeatures

# So large that a global is as good as known.
SURE = 1e8


def known_model(phi, pi, *, g_o=100.0, g_w=1.0, scale=None, names=None, **parameters):
    """A model that knows these globals, not in the order of use, of columns with this scale and mean 5."""
    phi, pi = np.asarray(phi, dtype=float), np.asarray(pi, dtype=float)
    (K, D), n_rows = phi.shape, 10_000
    posterior = GlobalPosterior(
        priors=Priors(),
        n_rows=n_rows,
        # The share of the prior is small compared with that of the rows.
        a=Priors().beta(K)[0] + n_rows * pi,
        b=Priors().beta(K)[1] + n_rows * (1 - pi),
        c=SURE * g_o,
        d=SURE,
        e=SURE * g_w,
        f=SURE,
        features=FactorisedFeatures.around(phi, tau=SURE),
    )
    some = np.random.default_rng(0).normal(size=(3, D))
    X = some if names is None else pandas.DataFrame(some, columns=names)
    model = BPFA(K, max_steps=1, random_state=0, **parameters).fit(X)
    columns = Scale(np.full(D, 5.0), np.ones(D) if scale is None else np.asarray(scale), np.ones(D))
    known = {"posterior": posterior, "last": None, "scale": columns, "n_rows_seen": n_rows}
    publish(model, replace(model._outcome, **known))
    return model


def drawn(model, n_rows, seed=0):
    """Rows drawn from what a model knows."""
    return model.sample(n_rows, random_state=seed)


PHI = np.array([[1.0, -2.0, 0.0, 0.0], [0.0, 0.0, 3.0, 1.0], [0.5, 0.5, 0.5, 0.5]])
PI = np.array([0.2, 0.4, 0.0])
SCALE = np.array([1.0, 2.0, 0.5, 10.0])
NAMES = ["CD3", "CD4", "CD8", "CD19"]


def as_names(X):
    return pandas.DataFrame(X, columns=NAMES)
