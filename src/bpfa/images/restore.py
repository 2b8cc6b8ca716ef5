"""Restore a picture from a posterior: predict all patches, and average the predictions where they overlap."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bpfa._support.checks import Array
from bpfa._support.philox import Stream
from bpfa._support.progress import tracked
from bpfa._support.threads import one_blas_thread
from bpfa.data.overlap import EMPTY_WEIGHT, NOISE_SHARE, Restored
from bpfa.data.patches import PatchRows, Strip
from bpfa.estimator import BPFA
from bpfa.images.canvas import Canvas
from bpfa.images.defaults import BURN_IN, N_DRAWS
from bpfa.images.draws import PatchDraws
from bpfa.inference.algorithms import ALGORITHMS, Algorithm
from bpfa.model.posterior import Posterior

__all__ = [
    "EMPTY_WEIGHT",
    "NOISE_SHARE",
    "PatchDraws",
    "Restored",
    "patch_algorithm",
    "restore",
    "restore_canvas",
]

Item = TypeVar("Item")
Result = TypeVar("Result")

# Number of patches that are predicted at a time; the arrays for this many fit into the cache.
STRIP_PATCHES = 1024


def restore_canvas(
    canvas: Canvas,
    size: tuple[int, int],
    stride: int,
    posterior: Posterior,
    algorithm: Algorithm,
    *,
    n_draws: int = N_DRAWS,
    n_samples: int = 1,
    stream: Stream,
    n_threads: int = 1,
    noise_share: float = NOISE_SHARE,
    verbose: int = 0,
) -> Restored:
    """Restore a picture from the posterior of a model of its patches.

    A backend that can restore a whole picture by itself does so; otherwise the algorithm predicts the patches
    strip by strip.

    Parameters
    ----------
    canvas : Canvas
    size : pair of int
        Height and width of a patch.
    stride : int
        Distance in pixels from one patch to the next.
    posterior : GlobalPosterior or ChainPosterior
    algorithm : Algorithm
        The algorithm that the posterior was trained by, on one thread.
    n_draws : int
        Number of draws from the posterior, at least 2.
    n_samples : int
        Number of samples of each patch under each of them.
    stream : Stream
        Source of random numbers.
    n_threads : int
        Number of strips predicted at the same time. The result does not depend on it.
    noise_share : float
        Share of the noise in the weights of patches; see `restore`.
    verbose : int
        1 shows a progress bar in terminals and notebooks.

    Examples
    --------
    >>> from bpfa import algorithm
    >>> from bpfa.inference.starts import random_posterior
    >>> canvas = Canvas.of(np.random.default_rng(0).normal(size=(6, 5)), np.eye(6, 5, dtype=bool))
    >>> posterior = random_posterior(canvas.patches((3, 3)), 4, seed=0)
    >>> restored = restore_canvas(canvas, (3, 3), 1, posterior, algorithm("gibbs-ssvi", n_jobs=1),
    ...                           n_draws=2, stream=Stream.from_seed(0))
    >>> canvas.image(restored.mean).shape
    (6, 5)
    """
    rows = canvas.patches(size, stride)
    # A backend has the usual weights built in.
    if noise_share == NOISE_SHARE:
        restored = algorithm.backend.restore_patches(
            rows,
            posterior,
            algorithm,
            n_draws=n_draws,
            n_samples=n_samples,
            stream=stream,
            n_threads=n_threads,
            verbose=verbose,
        )
        if restored is not None:
            return restored
    draws = PatchDraws(posterior, algorithm, n_draws=n_draws, n_samples=n_samples, stream=stream)
    strips = tracked(rows.strips(STRIP_PATCHES), "restoring", shown=bool(verbose))
    return restore(rows, draws, strips, n_threads, noise_share=noise_share)


def restore(
    rows: PatchRows,
    draws: PatchDraws,
    strips: Iterable[Strip],
    n_threads: int = 1,
    *,
    noise_share: float = NOISE_SHARE,
) -> Restored:
    """Predict every patch and average the predictions that overlap.

    A prediction is weighted by its certainty: by one over the sum of its variance and a share of the noise
    variance, half of it by default. All draws of all patches over a pixel form a weighted mixture. Its mean
    is the restored pixel, and its standard deviation is the uncertainty of that pixel. The deviation
    therefore contains both the uncertainty of each patch and the disagreement between patches. It does not
    shrink with the number of patches over a pixel, because their errors are similar.

    Parameters
    ----------
    rows : PatchRows
    draws : PatchDraws
    strips : iterable of Strip
        All strips of the rows.
    n_threads : int
        Number of strips predicted at the same time; the algorithm of the draws should itself use one thread.
        The result does not depend on it.
    noise_share : float
        Share of the noise variance that is added. A very large one gives all predictions the same weight.

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
    total, first, second = (np.zeros(rows.shape) for _ in range(3))
    informed = np.zeros(rows.shape, dtype=bool)

    def predicted(strip: Strip) -> tuple[Strip, NDArray[np.bool_], Array, Array]:
        batch = rows.take(strip.ids)
        has_observed: NDArray[np.bool_] = np.asarray(batch.observed.any(axis=1, keepdims=True))
        return strip, has_observed, *_mean_and_variance(draws.of(batch))

    for strip, has_observed, mean, variance in _in_order(predicted, strips, n_threads):
        weight = np.where(has_observed, 1.0, EMPTY_WEIGHT) / (variance + noise_share * draws.noise)
        _add_patches(total, weight, rows, strip)
        _add_patches(first, weight * mean, rows, strip)
        _add_patches(second, weight * (variance + mean**2), rows, strip)
        _add_patches(informed, np.broadcast_to(has_observed, mean.shape), rows, strip)
    return Restored.of_sums(total, first, second, informed)


def _in_order(function: Callable[[Item], Result], items: Iterable[Item], n_threads: int) -> Iterator[Result]:
    """Yield the results of a function in the order of its items, with a few items computed at a time.

    Each thread has a strip of its own. Threads that share a strip would have to wait for one another several
    times in each of its draws, which takes most of the time on a busy machine.
    """
    # The libraries behind NumPy must not start further threads inside each of these.
    with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
        pending: deque[Future[Result]] = deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > 2 * n_threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _mean_and_variance(predictions: Iterator[Array]) -> tuple[Array, Array]:
    """Return the mean and the variance over draws, computed by Welford's update."""
    mean = next(predictions).copy()
    squares, n = np.zeros_like(mean), 1
    for prediction in predictions:
        n += 1
        shift = prediction - mean
        mean += shift / n
        squares += shift * (prediction - mean)
    return mean, squares / (n - 1)


def _add_patches(picture: NDArray[Any], patches: NDArray[Any], rows: PatchRows, strip: Strip) -> None:
    """Add the patches of a strip to the picture at their places; for booleans, addition is a logical or."""
    height, width = rows.size
    # Axes: y and x at which a patch begins, then y, x and channel within the patch.
    placed = patches.reshape(len(strip.y), len(rows.x), height, width, -1)
    target = picture[strip.slice]
    for row, y in enumerate(strip.y):
        for dx in range(width):
            # The patches of a row all begin at different x, so that no pixel occurs twice in this sum.
            target[y : y + height, rows.x + dx] += placed[row, :, :, dx].swapaxes(0, 1)


def patch_algorithm(model: BPFA, burn_in: int = BURN_IN) -> Algorithm:
    """Return the algorithm of a model, on one thread, with chains long enough to predict single patches.

    Parameters
    ----------
    model : BPFA
    burn_in : int
        Sweeps before the first sample of a patch.

    Examples
    --------
    >>> model = BPFA(2, max_steps=2, random_state=0).fit(np.random.default_rng(0).normal(size=(20, 3)))
    >>> patch_algorithm(model, 9).local.burn_in
    9
    """
    settings = model.settings_
    if ALGORITHMS[settings.algorithm].method == "Gibbs":
        settings = replace(settings, options={**settings.options, "burn_in": burn_in})
    return settings.make_algorithm(n_jobs=1)
