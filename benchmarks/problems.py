"""What the kernels are timed on: rows, and a view of the globals under which they are sparse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from skimage import data as pictures

from bpfa import ArrayRows, Batch, Schedule, algorithm
from bpfa._support.philox import Stream
from bpfa.data import ShuffledEpochs
from bpfa.inference.starts import random_posterior
from bpfa.inference.svi import svi
from bpfa.model.view import GlobalView

OBSERVED = (0.2, 0.5, 1.0)


@dataclass(frozen=True)
class Problem:
    """Rows with a share of their entries observed, and the view that the local step uses."""

    view: GlobalView
    batch: Batch

    @property
    def draws(self):
        """The random numbers for the rows."""
        return Stream.from_seed(0).rows(self.batch.ids, step=1)

    def first(self, n_rows: int) -> Problem:
        """Return the problem with only the first rows."""
        batch = self.batch
        return Problem(self.view, Batch(batch.values[:n_rows], batch.observed[:n_rows], batch.ids[:n_rows]))


def picture_patches(n_rows: int) -> np.ndarray:
    """Return 8 x 8 patches of scikit-image's camera picture, with mean 0 and variance 1, in random order."""
    picture = pictures.camera().astype(np.float64)
    picture = (picture - picture.mean()) / picture.std()
    patches = sliding_window_view(picture, (8, 8)).reshape(-1, 64)
    chosen = np.random.default_rng(0).choice(len(patches), n_rows, replace=False)
    return patches[chosen].astype(np.float32)


def trained_problem(
    patches: np.ndarray, n_features: int, observed: float, *, sparse: bool = False, n_steps: int = 300
) -> Problem:
    """Return patches with a view drawn from the posterior of a short training run on them.

    The start of the training decides how many features a row uses: about ten, or three to seven with
    `sparse`, which takes the default start.
    """
    start = {} if sparse else {"noise_share": 0.1, "features_per_row": 10.0}
    mask = np.random.default_rng(1).random(patches.shape) < observed
    rows = ArrayRows(patches, ~mask)
    stream = Stream.from_seed(0)
    steps = svi(
        rows,
        random_posterior(rows, n_features, seed=0, **start),
        algorithm("gibbs-ssvi"),
        visits=ShuffledEpochs(1024, stream),
        n_steps=n_steps,
        schedule=Schedule(),
        stream=stream,
    )
    *_, last = steps
    view = last.posterior.sampled(np.random.default_rng(0))
    return Problem(view, rows.take(np.arange(rows.n_rows)))


def drawn_problem(n_rows: int, n_features: int, n_columns: int, observed: float) -> Problem:
    """Return rows drawn from the model, with about ten features each, and the view they were drawn from."""
    rng = np.random.default_rng(0)
    phi = rng.normal(scale=n_columns**-0.5, size=(n_features, n_columns))
    pi = min(0.5, 10 / n_features)
    x = (rng.random((n_rows, n_features)) < pi) * rng.normal(size=(n_rows, n_features))
    values = x @ phi + rng.normal(scale=0.1, size=(n_rows, n_columns))
    logit = np.full(n_features, np.log(pi / (1 - pi)))
    view = GlobalView(phi, np.zeros((n_features, 1)), logit, g_o=100.0, g_w=1.0)
    mask = rng.random(values.shape) < observed
    return Problem(view, Batch(values.astype(np.float32), mask))
