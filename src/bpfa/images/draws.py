"""Predictions of patches by draws from the posterior."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.data import Batch
from bpfa.inference.algorithms import Algorithm
from bpfa.model.posterior import Posterior
from bpfa.prediction.draws import draws_given_globals, expected_view

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
    n_samples : int
        Samples of the local variables of a patch under each draw, if the algorithm sees draws.
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

    def __init__(
        self,
        posterior: Posterior,
        algorithm: Algorithm,
        *,
        n_draws: int,
        n_samples: int = 1,
        stream: Stream,
    ) -> None:
        self.algorithm = algorithm
        self.stream = stream.child("local")
        self.views = [posterior.sampled(stream.child("global").globals(m)) for m in range(n_draws)]
        self.noise = float(np.mean([1 / view.g_o for view in self.views]))
        """Variance of the noise, averaged over the draws."""
        self.expected = expected_view(posterior, algorithm)
        self.n_samples = n_samples if self.expected is None else 1

    def of(self, batch: Batch) -> Iterator[Array]:
        """Yield for each sample of each draw a prediction of the patches without noise, rows x columns."""
        if self.n_samples > 1:
            for m, view in enumerate(self.views):
                draws = self.stream.rows(batch.ids, m)
                for x in self.algorithm.local.samples(view, batch, draws, self.n_samples):
                    yield x @ view.phi
            return
        given = self.views, len(self.views), self.expected, batch, self.algorithm, self.stream
        for draw in draws_given_globals(*given, continues=False):
            yield draw.mean
