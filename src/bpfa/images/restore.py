"""From patches back to a picture: predictions of overlapping patches, averaged a strip at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa.backends.protocol import PatchAverage as Restored
from bpfa.data import Batch
from bpfa.data.patches import PatchRows, Strip
from bpfa.inference.algorithms import Algorithm
from bpfa.model.posterior import GlobalPosterior, Posterior

__all__ = ["PatchDraws", "Restored", "restore"]

Item = TypeVar("Item")
Made = TypeVar("Made")

# Patches predicted at a time: what is computed for them fits into the cache.
STRIP_PATCHES = 1024
# Share of the noise that is added to the variance of a prediction before it is weighted by one over it:
# without any, a patch whose few draws happen to agree would count for all; with all of it, certainty counts
# too little.
NOISE_SHARE = 0.5
# A patch of which nothing is observed counts so much less than others: only where there are no others.
EMPTY_WEIGHT = 1e-9


class PatchDraws:
    """Draws from the posterior of the globals, the same for all patches, and predictions of patches by them.

    Parameters
    ----------
    posterior : GlobalPosterior or ChainPosterior
    algorithm : Algorithm
        The one the posterior was trained by.
    n_draws : int
    stream : Stream
    """

    def __init__(self, posterior: Posterior, algorithm: Algorithm, *, n_draws: int, stream: Stream) -> None:
        self.algorithm = algorithm
        self.stream = stream.child("local")
        self.views = [posterior.sampled(stream.child("global").globals(m)) for m in range(n_draws)]
        self.noise = float(np.mean([1 / view.g_o for view in self.views]))
        """Variance of the noise."""
        # Under q the locals of algorithms that see expectations are independent of the globals.
        self.expected = None
        if algorithm.view == "expected":
            assert isinstance(posterior, GlobalPosterior)
            self.expected = posterior.expected()

    def of(self, batch: Batch) -> Iterator[Array]:
        """Yield predictions of the patches without noise, rows x columns, one for each draw."""
        local = self.algorithm.local
        if self.expected is not None:
            seen = batch.padded_to(self.expected.phi.shape[1])
            samples = local.samples(self.expected, seen, self.stream.rows(batch.ids, 0), len(self.views))
            for view, x in zip(self.views, samples, strict=True):
                yield x @ view.phi
            return
        for m, view in enumerate(self.views):
            yield next(iter(local.samples(view, batch, self.stream.rows(batch.ids, m), 1))) @ view.phi


def restore(rows: PatchRows, draws: PatchDraws, strips: Iterable[Strip], n_threads: int = 1) -> Restored:
    """Predict every patch and average the predictions that overlap.

    A prediction weighs as much as it is certain: by one over its variance and half the noise. The picture is
    the mean, and the deviation that of the weighted mixture of what all draws of all patches say of a pixel.
    So it holds both how far a patch is uncertain and how far patches disagree, and does not shrink with the
    number of patches over a pixel, whose errors are much alike.

    Parameters
    ----------
    rows : PatchRows
    draws : PatchDraws
    strips : iterable of Strip
        All strips of the rows.
    n_threads : int
        Strips predicted at a time; the algorithm of the draws should use one thread itself. The result does
        not depend on it.

    Examples
    --------
    >>> from bpfa import algorithm
    >>> from bpfa.inference.starts import random_posterior
    >>> picture = np.random.default_rng(0).normal(size=(1, 6, 5, 1))
    >>> rows = PatchRows(picture, picture > 0, (3, 3))
    >>> draws = PatchDraws(random_posterior(rows, 4, seed=0), algorithm("gibbs-ssvi"), n_draws=2,
    ...                    stream=Stream.from_seed(0))
    >>> restore(rows, draws, rows.strips(8)).mean.shape
    (1, 6, 5, 1)
    """
    weight, first, second = (np.zeros(rows.shape) for _ in range(3))
    informed = np.zeros(rows.shape, dtype=bool)

    def predicted(strip: Strip) -> tuple[Strip, NDArray[np.bool_], Array, Array]:
        batch = rows.take(strip.ids)
        some: NDArray[np.bool_] = np.asarray(batch.observed.any(axis=1, keepdims=True))
        return strip, some, *_moments(draws.of(batch))

    for strip, some, mean, variance in _in_order(predicted, strips, n_threads):
        share = np.where(some, 1.0, EMPTY_WEIGHT) / (variance + NOISE_SHARE * draws.noise)
        for total, part in ((weight, share), (first, share * mean), (second, share * (variance + mean**2))):
            _fold(total, part, rows, strip)
        _fold(informed, np.broadcast_to(some, mean.shape), rows, strip)
    # In place, as the picture may be large.
    first /= weight
    second /= weight
    second -= np.square(first, out=weight)
    std = np.sqrt(np.maximum(second, 0.0, out=second), out=second)
    return Restored(first, std, informed)


def _in_order(function: Callable[[Item], Made], items: Iterable[Item], n_threads: int) -> Iterator[Made]:
    """Yield what a function makes of items, by several threads but in order, and a few at a time.

    Threads that each have strips of their own need not wait for one another, as those that share a strip do
    several times for each of its draws: on a busy machine that takes most of the time.
    """
    # The libraries behind NumPy must not start threads of their own inside each of these.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n_threads) as pool:
        pending: deque[Future[Made]] = deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > 2 * n_threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _moments(predictions: Iterator[Array]) -> tuple[Array, Array]:
    """Return mean and variance over draws, by Welford's update."""
    mean = next(predictions).copy()
    squares, n = np.zeros_like(mean), 1
    for prediction in predictions:
        n += 1
        shift = prediction - mean
        mean += shift / n
        squares += shift * (prediction - mean)
    return mean, squares / (n - 1)


def _fold(total: NDArray[Any], part: NDArray[Any], rows: PatchRows, strip: Strip) -> None:
    """Add patches to the picture where they are; the sum of booleans is whether any is true."""
    height, width = rows.size
    # Axes: row of starts, start along x, then y, x and channel within the patch.
    patches = part.reshape(len(strip.y), len(rows.x), height, width, -1)
    picture = total[strip.slice]
    for row, y in enumerate(strip.y):
        for dx in range(width):
            # No two patches of a row begin at the same x, so that every pixel comes once.
            picture[y : y + height, rows.x + dx] += patches[row, :, :, dx].swapaxes(0, 1)
