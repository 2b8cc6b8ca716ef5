"""What the tests of all compiled kernels share: methods, rows to run them on, and a comparison of sums."""

from dataclasses import fields

import numpy as np

from bpfa import Batch
from bpfa._support.philox import Stream
from bpfa.backends import numpy as specification
from bpfa.model.view import GlobalView

METHODS = {
    "gibbs": ("Gibbs", {"burn_in": 2, "n_samples": 2}),
    "gibbs two-step": ("Gibbs", {"burn_in": 2, "n_samples": 2, "blocked": False}),
    "gibbs, dropout": ("Gibbs", {"burn_in": 2, "n_samples": 2, "dropout": 0.3}),
    "spike-slab": ("SpikeSlab", {"n_sweeps": 3}),
    "mean-field": ("MeanField", {"n_sweeps": 3}),
}


def method_pair(kernels, name, **options):
    """The specification of a method, and the same method of a module of kernels with further options."""
    kind, settings = METHODS[name]
    return getattr(specification, kind)(**settings), getattr(kernels, kind)(**settings, **options)


def sparse_problem(seed, N, K, D, observed=0.6, expected_view=False, first_id=0, *, used=0.2):
    """Rows that each use this share of the features, a view near the one that made them, and draws."""
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(K, D)) * D**-0.5
    v = rng.uniform(0, 0.02, size=(K, D)) if expected_view else np.zeros((K, 1))
    view = GlobalView(phi, v, rng.normal(-1.5, 1.0, size=K), g_o=25.0, g_w=0.5)
    x = (rng.random((N, K)) < used) * rng.normal(size=(N, K)) * 1.4
    values = x @ phi + rng.normal(size=(N, D)) * 0.2
    batch = Batch(values, rng.random((N, D)) < observed, np.arange(first_id, first_id + N))
    return view, batch, Stream.from_seed(seed).rows(batch.ids, step=seed + 3)


def assert_same_sums(ours, theirs, rtol):
    for field in fields(theirs):
        a, b = np.broadcast_arrays(getattr(ours, field.name), getattr(theirs, field.name))
        scale = max(1.0, float(np.abs(b).max(initial=0.0)))
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale, err_msg=field.name)
