"""Predictions of the missing entries of rows, from which a table is filled in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bpfa._support.checks import check_integer
from bpfa._support.philox import MAX_SWEEP, Stream
from bpfa.data import Batch
from bpfa.inference.algorithms import Algorithm
from bpfa.model.collapsed import MissingEntries
from bpfa.model.posterior import GlobalPosterior, Posterior
from bpfa.model.view import GlobalView
from bpfa.prediction.dense_rows import predict_dense_rows, uses_all_features
from bpfa.prediction.predictions import Prediction, feature_usage, keyed_by_content, predict

__all__ = ["MissingPredictor"]

# z is sampled with the weights integrated out if there are at most this many features, and if at most this
# many operations are needed to switch the features of a row in which it differs from most rows. A switch
# takes K^2 operations, which is too many where each row uses a few of many features.
MOST_FEATURES, MOST_OPERATIONS = 64, 2**14
# A row is settled, and takes no further draws, once the squared standard error of the mean of each of its
# missing entries is at most this share, divided by the number of draws asked for, of the variance of the
# entry. Its expected squared error then exceeds the smallest possible one by about that share, which is 0.1 %
# if 50 draws are asked for.
SETTLED = 0.05
# The draws after which this is tried first. It is tried again whenever their number has doubled.
FIRST_DRAWS = 16
# How many numbers the draws of the features may take that are kept, or used at a time; this many take 64 MiB.
DRAWN_NUMBERS = 2**23


class MissingPredictor:
    """Predicts the missing entries of one block of rows after another, from the same draws of the globals.

    Parameters
    ----------
    posterior : GlobalPosterior or ChainPosterior
    algorithm : Algorithm
        The algorithm by which the posterior was trained.
    n_draws : int
        Number of draws from the posterior.
    stream : Stream

    Examples
    --------
    >>> from bpfa import ArrayRows, algorithm
    >>> from bpfa.inference.starts import random_posterior
    >>> rows = ArrayRows(np.random.default_rng(0).normal(size=(50, 4)))
    >>> predictor = MissingPredictor(random_posterior(rows, 3, seed=0), algorithm("gibbs-ssvi"),
    ...                              n_draws=10, stream=Stream.from_seed(0))
    >>> found = predictor.predict(Batch([[1.0, np.nan, 0.5, -1.0]]))
    >>> bool(found.std[0, 1] > 0), found.mean.shape
    (True, (1, 4))
    """

    def __init__(self, posterior: Posterior, algorithm: Algorithm, *, n_draws: int, stream: Stream) -> None:
        self.posterior, self.algorithm, self.stream = posterior, algorithm, stream
        self.n_draws = check_integer("n_draws", n_draws, low=1, high=MAX_SWEEP // 2)
        self._kept: list[GlobalView] = []
        # With more columns than rows, a factorisation for every row and draw would take longer than the fit.
        self._is_dense = (
            algorithm.draws_z_given_globals
            and isinstance(posterior, GlobalPosterior)
            and posterior.n_columns > posterior.n_rows
        )

    def predict(self, batch: Batch) -> Prediction:
        """Return the means and standard deviations of the missing entries; those of others mean nothing."""
        if self._is_dense and uses_all_features(self.posterior):
            return predict_dense_rows(self.posterior, batch)
        if not self._collapses():
            return predict(self.posterior, batch, self.algorithm, n_draws=self.n_draws, stream=self.stream)
        keyed = keyed_by_content(batch)
        left = np.arange(len(keyed))
        mean, variance = np.zeros(keyed.values.shape), np.zeros(keyed.values.shape)
        found: MissingEntries | None = None
        for views in self._views():
            if found is None:
                found = MissingEntries.before_draws(keyed, views[0].logit > 0)
            self._add_draws(found, views, keyed)
            settled = found.is_settled(SETTLED / self.n_draws) | (found.n_draws == self.n_draws)
            mean[left[settled]], variance[left[settled]] = found.mean[settled], found.variance[settled]
            open_rows = np.flatnonzero(~settled)
            if not len(open_rows):
                break
            left, found = left[open_rows], found.chosen(open_rows)
            keyed = Batch.unchecked(keyed.values[open_rows], keyed.observed[open_rows], keyed.ids[open_rows])
        return Prediction(mean, np.sqrt(variance))

    def _add_draws(self, found: MissingEntries, views: Sequence[GlobalView], batch: Batch) -> None:
        """Continue the chains under some draws of the globals."""
        local: Any = self.algorithm.local
        stream, n_jobs = self.stream.child("prediction").child("local"), getattr(local, "n_jobs", None)
        self.algorithm.backend.add_draws(found, views, batch, stream, local.burn_in + 1, n_jobs=n_jobs)

    def _collapses(self) -> bool:
        """Return whether z is sampled with the weights integrated out of the chain."""
        if not (self.algorithm.draws_z_given_globals and self.algorithm.local.continues_from_x):
            return False
        usage, K = feature_usage(self.posterior), self.posterior.n_features
        switches = float(np.minimum(usage, 1 - usage).sum())
        return K <= MOST_FEATURES and switches * K**2 <= MOST_OPERATIONS

    def _views(self) -> Iterator[Sequence[GlobalView]]:
        """Yield the draws of the globals in rounds, after each of which some rows may have settled."""
        size = self.posterior.n_features * self.posterior.n_columns
        largest = max(1, DRAWN_NUMBERS // size)
        first = 0
        while first < self.n_draws:
            last = min(first + min(max(FIRST_DRAWS, first), largest), self.n_draws)
            yield [self._view(m, keep=m < largest) for m in range(first, last)]
            first = last

    def _view(self, m: int, *, keep: bool) -> GlobalView:
        """Return draw m of the globals, and keep it for the next block of rows if asked to."""
        if m < len(self._kept):
            return self._kept[m]
        stream = self.stream.child("prediction").child("global")
        view: GlobalView = self.posterior.sampled(stream.generator(m))
        if keep:
            self._kept.append(view)
        return view
