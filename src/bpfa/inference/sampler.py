"""The uncollapsed Gibbs sampler (docs/math.md section 8), as an algorithm and as a start for the others."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from bpfa._support.checks import Array, check_choice, check_integer
from bpfa._support.philox import GlobalDraws, Stream
from bpfa.backends import cpu
from bpfa.backends.numpy import Gibbs
from bpfa.backends.numpy.gibbs import moments
from bpfa.data import Batch, Rows
from bpfa.inference.progress import NonFiniteError, Progress, step_numbers
from bpfa.model.features import FEATURES, JointFeatures
from bpfa.model.local import LocalState
from bpfa.model.posterior import WEIGHT_PRECISIONS, Posterior
from bpfa.model.priors import Priors, log_odds_draw
from bpfa.model.summary import Summary
from bpfa.model.sums import JointSums
from bpfa.model.view import GlobalView

__all__ = ["ChainPosterior", "GibbsSampler", "gibbs_sampler"]


@dataclass(frozen=True)
class ChainPosterior(Posterior):
    """The posterior of the globals as the last states of a chain.

    Attributes
    ----------
    views : tuple of GlobalView
        The kept states of the globals, the newest last.
    state : LocalState
        The newest z and w of every row, from which the chain can continue.

    See Also
    --------
    bpfa.GlobalPosterior : The posterior of the features.

    References
    ----------
    .. [1] J. Paisley and L. Carin, "Nonparametric Factor Analysis with Beta Process Priors", ICML (2009).
    .. [2] A. Shah, D. A. Knowles and Z. Ghahramani, "An Empirical Study of Stochastic Variational Algorithms
       for the Beta Bernoulli Process", ICML (2015).

    Examples
    --------
    >>> import bpfa
    >>> y = bpfa.draw_data(100, 4, 2, g_o=100.0, g_w=1.0, seed=0).y
    >>> *_, progress = bpfa.train(y, n_features=3, algorithm="gibbs", n_steps=5, seed=0)
    >>> posterior = progress.posterior
    >>> posterior.n_features, posterior.n_columns
    (3, 4)
    """

    views: tuple[GlobalView, ...]
    state: LocalState

    @property
    def n_features(self) -> int:
        """Number of features K."""
        return self.views[-1].n_features

    @property
    def n_columns(self) -> int:
        """Number of columns D."""
        return int(self.views[-1].phi.shape[1])

    @property
    def noise_std(self) -> float:
        """Noise standard deviation at the average precision of the kept states."""
        return float(np.mean([view.g_o for view in self.views]) ** -0.5)

    def n_active(self, share: float = 0.001) -> int:
        """Count the features that are used by more than this share of the rows, and by more than one row.

        Parameters
        ----------
        share : float

        Returns
        -------
        int

        See Also
        --------
        bpfa.ChainPosterior.summary : The same, with the noise.

        Examples
        --------
        >>> from bpfa import BPFA, draw_data
        >>> X = draw_data(100, 4, 2, g_o=100.0, g_w=1.0, seed=0).y
        >>> posterior = BPFA(3, algorithm="gibbs", max_steps=5, random_state=0).fit(X).posterior_
        >>> posterior.n_active(share=0.5) <= posterior.n_active() <= posterior.n_features
        True
        """
        used = self.state.z.sum(axis=0)
        return int((used > max(1.0, share * len(self.state.z))).sum())

    def host(self) -> ChainPosterior:
        """Return this posterior, which is in the memory of the host."""
        return self

    def summary(self) -> Summary:
        """Return what the history of a fit records of this posterior."""
        return Summary(self.noise_std, self.n_active())

    def check_finite(self) -> None:
        """Do nothing: the sampler checks every state before it keeps it."""

    def sampled(self, rng: np.random.Generator | GlobalDraws) -> GlobalView:
        """Return one of the kept states."""
        return self.views[rng.integers(len(self.views))]


class GibbsSampler:
    """One chain over all variables: a sweep draws z and w of every row, then each global given the rest.

    Parameters
    ----------
    batch : Batch
        All rows; z and w of all of them are held in memory.
    priors : Priors
    view : GlobalView
        Where the globals start.
    stream : Stream
    local : Gibbs, optional
        Its option `blocked` decides how z and w are drawn.
    state : LocalState, optional
        Where z and w start; z = 0 by default.
    features : str
        "factorised": phi is drawn feature by feature, as in the paper; "joint": all features of a column are
        drawn at once.
    weight_precision : str
        "all": g_w is drawn given all weights, as in the paper; "active": it is drawn given the active ones,
        and the idle ones are integrated out.
    """

    def __init__(
        self,
        batch: Batch,
        priors: Priors,
        view: GlobalView,
        stream: Stream,
        local: Gibbs | None = None,
        state: LocalState | None = None,
        *,
        features: str = "factorised",
        weight_precision: str = "all",
    ) -> None:
        check_choice("features", features, tuple(FEATURES))
        check_choice("weight_precision", weight_precision, WEIGHT_PRECISIONS)
        self.features, self.weight_precision = features, weight_precision
        self.batch = batch
        self.priors = priors
        self.view = view.checked()
        self.local = cpu.Gibbs() if local is None else local
        shape = (len(batch), view.n_features)
        self.state = LocalState(np.zeros(shape), np.zeros(shape)) if state is None else state
        self.local_stream, self.global_stream = stream.child("local"), stream.child("global")
        self.n_sweeps = 0

    def sweep(self) -> None:
        """Draw every variable once."""
        step = self.n_sweeps + 1
        draws = self.local_stream.rows(self.batch.ids, step)
        self.state = next(self.local.chain(self.view, self.batch, draws, 1, self.state))
        self.view = self.draw_globals(self.global_stream.generator(step))
        self.n_sweeps = step

    def draw_globals(self, rng: np.random.Generator) -> GlobalView:
        """Draw phi, g_o, pi and g_w, each given all the rest."""
        z, x, priors = self.state.z, self.state.x, self.priors
        n_rows, n_features = z.shape
        draw_phi = self._draw_phi_jointly if self.features == "joint" else self._draw_phi
        phi, residual = draw_phi(x, rng)
        g_o = rng.gamma(priors.c0 + self.batch.observed.sum() / 2) / (priors.d0 + (residual**2).sum() / 2)
        n = z.sum(axis=0)
        a0, b0 = priors.beta(n_features)
        logit = log_odds_draw(a0 + n, b0 + n_rows - n, rng)
        n_weights, squares = float(n.sum()), float((x**2).sum())
        if self.weight_precision == "all" and n_weights < z.size:
            # Given the rest, the idle weights are N(0, 1/g_w), and only the sum of their squares is needed.
            squares += rng.chisquare(z.size - n_weights) / self.view.g_w
            n_weights = z.size
        g_w = rng.gamma(priors.e0 + n_weights / 2) / (priors.f0 + squares / 2)
        return GlobalView(phi, np.zeros((n_features, 1)), logit, float(g_o), float(g_w))

    def _draw_phi(self, x: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draw phi feature by feature given the current residual, and return both."""
        phi, g_o, observed = self.view.phi.copy(), self.view.g_o, self.batch.observed
        n_features, D = phi.shape
        residual = self.batch.values - (x @ phi) * observed
        noise = rng.standard_normal(phi.shape)
        for k in range(n_features):
            rows = np.flatnonzero(x[:, k])
            x_k, o = x[rows, k], observed[rows]
            without_k = residual[rows] + x_k[:, None] * (o * phi[k])
            tau = D + g_o * (x_k**2 @ o)
            phi[k] = g_o * (x_k @ without_k) / tau + noise[k] / np.sqrt(tau)
            residual[rows] = without_k - x_k[:, None] * (o * phi[k])
        return phi, residual

    def _draw_phi_jointly(self, x: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draw all features of a column at once, and return them with the residual."""
        batch, view = self.batch, self.view
        sums = JointSums.of(view, batch, moments(view, self.state))
        prior = JointFeatures.around(np.zeros_like(view.phi), tau=1.0)
        phi = prior.target(sums, view.g_o).sampled(rng)
        return phi, batch.values - (x @ phi) * batch.observed


def gibbs_sampler(
    rows: Rows,
    view: GlobalView,
    priors: Priors,
    *,
    n_steps: int | None,
    stream: Stream,
    local: Gibbs | None = None,
    features: str = "factorised",
    weight_precision: str = "all",
    n_kept: int = 20,
    chain: ChainPosterior | None = None,
    first_step: int = 1,
) -> Generator[Progress, None, None]:
    """Run the uncollapsed Gibbs sampler and yield its progress after every sweep.

    Parameters
    ----------
    rows : Rows
        All of them are read into memory.
    view : GlobalView
        Where the globals start.
    priors : Priors
    n_steps : int or None
        Number of sweeps; None for a run that only the caller ends.
    stream : Stream
    local : Gibbs, optional
    features, weight_precision : str
        How phi and g_w are drawn, as in `GibbsSampler`.
    n_kept : int
        The number of states of the globals to keep. The newest are kept, and never more than half of all, so
        that the first half of a short run is discarded as burn-in.
    chain : ChainPosterior, optional
        The result of an earlier run, whose newest state takes the place of `view`.
    first_step : int
        Number of the first sweep. A run that continues from the chain of sweep t starts at t + 1, and makes
        the same sweeps as an uninterrupted run.

    Yields
    ------
    Progress
        Its posterior is a `ChainPosterior`.
    """
    steps = step_numbers(n_steps, first_step)
    n_kept = check_integer("n_kept", n_kept, low=1)
    view, state = (view, None) if chain is None else (chain.views[-1], chain.state)
    batch = rows.take(np.arange(rows.n_rows))
    sampler = GibbsSampler(
        batch, priors, view, stream, local, state, features=features, weight_precision=weight_precision
    )
    sampler.n_sweeps = first_step - 1
    views = deque(() if chain is None else chain.views, maxlen=n_kept)
    posterior = ChainPosterior((sampler.view,), sampler.state) if chain is None else chain
    seconds = 0.0
    for step in steps:
        started = time.perf_counter()
        sampler.sweep()
        seconds += time.perf_counter() - started
        try:
            sampler.view.checked()
        except ValueError as error:
            raise NonFiniteError(step, posterior, str(error)) from error
        views.append(sampler.view)
        kept = tuple(views)[-max(1, step // 2) :]
        posterior = ChainPosterior(kept, sampler.state)
        yield Progress(step, float(step), seconds, 1.0, posterior)
