"""Predictions of patches by draws from the posterior."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import Batch
from bpfa.inference.algorithms import Algorithm
from bpfa.model.posterior import GlobalPosterior, Posterior

__all__ = ["PatchDraws"]


class PatchDraws:
    """Draws of the global variables from a posterior, and the predictions of patches that follow from them.

    All patches are predicted by the same draws.

    Parameters
    ----------
    posterior : GlobalPosterior or ChainPosterior
    algorithm : Algorithm
        The algorithm that the posterior was trained by.
    n_draws : int
    stream : Stream
        Source of random numbers.

    Examples
    --------
    >>> from bpfa import algorithm
    >>> from bpfa.data.patches import PatchRows
    >>> from bpfa.inference.starts import random_posterior
    >>> picture = np.random.default_rng(0).normal(size=(1, 6, 5, 1))
    >>> rows = PatchRows(picture, picture > 0, (3, 3))
    >>> draws = PatchDraws(random_posterior(rows, 4, seed=0), algorithm("gibbs-ssvi"), n_draws=2,
    ...                    stream=Stream.from_seed(0))
    >>> [prediction.shape for prediction in draws.of(rows.take(np.arange(7)))]
    [(7, 9), (7, 9)]
    """

    def __init__(self, posterior: Posterior, algorithm: Algorithm, *, n_draws: int, stream: Stream) -> None:
        self.algorithm = algorithm
        self.stream = stream.child("local")
        self.views = [posterior.sampled(stream.child("global").globals(m)) for m in range(n_draws)]
        self.noise = float(np.mean([1 / view.g_o for view in self.views]))
        """Variance of the noise, averaged over the draws."""
        # For algorithms that see expectations, the local variables are independent of the globals under q.
        self.expected = None
        if algorithm.view == "expected":
            assert isinstance(posterior, GlobalPosterior)
            self.expected = posterior.expected()

    def of(self, batch: Batch) -> Iterator[Array]:
        """Yield for each draw a prediction of the patches without noise, rows x columns."""
        local = self.algorithm.local
        if self.expected is not None:
            seen = batch.padded_to(self.expected.phi.shape[1])
            samples = local.samples(self.expected, seen, self.stream.rows(batch.ids, 0), len(self.views))
            for view, x in zip(self.views, samples, strict=True):
                yield x @ view.phi
            return
        for m, view in enumerate(self.views):
            yield next(iter(local.samples(view, batch, self.stream.rows(batch.ids, m), 1))) @ view.phi
