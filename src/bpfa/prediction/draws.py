"""Joint draws of globals and locals from a posterior: the one way in which everything is predicted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from bpfa._support.checks import Array, check_instance, check_integer
from bpfa._support.philox import MAX_SWEEP, Stream
from bpfa.data import Batch
from bpfa.inference.algorithms import Algorithm
from bpfa.model.local import LocalState
from bpfa.model.posterior import GlobalPosterior, Posterior
from bpfa.model.view import GlobalView

__all__ = ["PosteriorDraw", "draws_given_globals", "expected_view", "posterior_draws"]


class PosteriorDraw(NamedTuple):
    """A draw from the posterior of everything that predicts the entries of some rows."""

    x: Array
    """z w, rows x features."""
    phi: Array
    """Features x columns."""
    g_o: float
    """Noise precision."""
    g_w: float
    """Weight precision."""

    @property
    def mean(self) -> Array:
        """Prediction of every entry, rows x columns."""
        return self.x @ self.phi


def posterior_draws(
    posterior: Posterior, batch: Batch, algorithm: Algorithm, *, n_draws: int, stream: Stream
) -> Iterator[PosteriorDraw]:
    """Yield joint draws of globals and locals from q, given the observed entries of the rows.

    Structured algorithms draw the locals given a draw of the globals. Algorithms with an expected view have
    locals that are independent of the globals under q, and draw them independently.

    Parameters
    ----------
    posterior : GlobalPosterior or ChainPosterior
    batch : Batch
    algorithm : Algorithm
        The algorithm by which the posterior was trained.
    n_draws : int
    stream : Stream

    Yields
    ------
    PosteriorDraw

    See Also
    --------
    bpfa.held_out_score : How well a posterior predicts held-out entries.
    bpfa.GlobalPosterior : The posterior of the features.

    References
    ----------
    .. [1] M. D. Hoffman and D. M. Blei, "Structured Stochastic Variational Inference", AISTATS (2015).

    Examples
    --------
    >>> from bpfa import ArrayRows, algorithm
    >>> from bpfa.inference.starts import random_posterior
    >>> rows = ArrayRows(np.random.default_rng(0).normal(size=(50, 4)))
    >>> draws = posterior_draws(random_posterior(rows, 3, seed=0), rows.take(np.arange(5)),
    ...                         algorithm("mf-ssvi"), n_draws=2, stream=Stream.from_seed(0))
    >>> [draw.mean.shape for draw in draws]
    [(5, 4), (5, 4)]
    """
    n_draws = check_integer("n_draws", n_draws, low=1, high=MAX_SWEEP // 2)
    for name, value, kind in (
        ("batch", batch, Batch),
        ("algorithm", algorithm, Algorithm),
        ("stream", stream, Stream),
    ):
        check_instance(name, value, kind)
    globals_stream = stream.child("global")
    views = (posterior.sampled(globals_stream.generator(m)) for m in range(n_draws))
    expected = expected_view(posterior, algorithm, batch)
    # A Gibbs chain continues from one draw of the globals to the next, since they differ little. It then has
    # as many sweeps as all draws together, whereas a new chain would have only a few.
    continues = algorithm.local.continues_from_x
    given = views, n_draws, expected, batch, algorithm, stream.child("local")
    yield from draws_given_globals(*given, continues=continues)


def expected_view(
    posterior: Posterior, algorithm: Algorithm, batch: Batch | None = None
) -> GlobalView | None:
    """Return the expected view of an algorithm that sees expectations; None for one that sees draws.

    If a batch is given, the algorithm is checked to suit it.
    """
    if algorithm.view == "sampled":
        return None
    if not isinstance(posterior, GlobalPosterior):
        raise TypeError(f"posterior: {type(posterior).__name__}; {algorithm.name!r} needs a GlobalPosterior")
    if batch is not None:
        algorithm.check_suits(posterior, batch)
    return posterior.expected()


def draws_given_globals(
    views: Iterable[GlobalView],
    n_draws: int,
    expected: GlobalView | None,
    batch: Batch,
    algorithm: Algorithm,
    stream: Stream,
    *,
    continues: bool,
) -> Iterator[PosteriorDraw]:
    """Yield a draw of the local variables for every draw of the globals.

    Parameters
    ----------
    views : iterable of GlobalView
        Draws of the globals; a generator keeps only one of them in memory.
    n_draws : int
        Their number.
    expected : GlobalView or None
        Of `expected_view`. Under q the locals of algorithms that see expectations are independent of the
        globals, and are drawn given this view alone.
    batch : Batch
    algorithm : Algorithm
    stream : Stream
        Of the local variables.
    continues : bool
        Whether each draw starts where the one before it ended; otherwise all start anew.
    """
    local = algorithm.local
    if expected is not None:
        seen = batch.padded_to(expected.n_columns)
        samples = local.samples(expected, seen, stream.rows(batch.ids, 0), n_draws)
        for view, x in zip(views, samples, strict=True):
            yield PosteriorDraw(x, view.phi, view.g_o, view.g_w)
        return
    state: LocalState | None = None
    for m, view in enumerate(views):
        x = next(iter(local.samples(view, batch, stream.rows(batch.ids, m), 1, state)))
        yield PosteriorDraw(x, view.phi, view.g_o, view.g_w)
        if continues:
            state = LocalState((x != 0).astype(np.float64), x)
