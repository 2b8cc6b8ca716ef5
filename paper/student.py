"""The uncollapsed sampler with heavier-tailed noise: a precision for every entry, Gamma, conjugate.

The noise of entry (i, d) is N(0, 1 / (g_o l_id)) with l_id ~ Gamma(nu / 2, nu / 2), so that with l integrated
out it is Student's t with nu degrees of freedom. Given l, every update of the sampler is the usual one with
l_id in the place of the mask o_id, and l_id y_id in the place of the values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from bpfa.backends.numpy import Gibbs
from bpfa.data import Batch
from bpfa.inference.sampler import GibbsSampler
from bpfa.model.view import GlobalView
from experiments import Array

DEGREES = np.array([1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 30.0, 100.0])
"""The degrees of freedom among which nu is drawn, with equal probabilities beforehand."""


def log_density(error: Array, g_o: float, nu: float | None = None) -> Array:
    """Return the log density of errors under Gaussian noise, or Student's t with nu degrees of freedom.

    Examples
    --------
    >>> round(float(log_density(np.array(1.0), 1.0)), 4)
    -1.4189
    >>> round(float(log_density(np.array(1.0), 1.0, 1.0)), 4)  # Cauchy: 1 / (2 pi)
    -1.8379
    """
    if nu is None:
        gaussian: Array = (np.log(g_o / (2 * np.pi)) - g_o * error**2) / 2
        return gaussian
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) + np.log(g_o / (np.pi * nu)) / 2
    heavy: Array = constant - (nu + 1) / 2 * np.log1p(g_o * error**2 / nu)
    return heavy


class StudentSampler(GibbsSampler):
    """`GibbsSampler` with a precision for every entry; nu is learned.

    The parameters are those of `GibbsSampler`; the local method is that of the specification, whose formulas
    hold for any weights of the entries.
    """

    def __init__(self, batch: Batch, *rest: Any, **options: Any) -> None:
        super().__init__(batch, *rest, **options)
        self.whole, self.local = batch, Gibbs()
        self.nu = 10.0

    def draw_globals(self, rng: np.random.Generator) -> GlobalView:
        """Draw the globals, then nu with the precisions integrated out, then the precisions."""
        view = super().draw_globals(rng)
        seen = self.whole.observed
        error2 = (self.whole.values - self.state.x @ view.phi)[seen] ** 2
        weights, priors = self.batch.observed[seen], self.priors
        rate = priors.d0 + float((weights * error2).sum()) / 2
        g_o = float(rng.gamma(priors.c0 + error2.size / 2) / rate)
        evidence = np.array([log_density(np.sqrt(error2), g_o, nu).sum() for nu in DEGREES])
        chances = np.exp(evidence - evidence.max())
        self.nu = float(rng.choice(DEGREES, p=chances / chances.sum()))
        precision = np.zeros(seen.shape)
        precision[seen] = rng.gamma((self.nu + 1) / 2, size=error2.size) / ((self.nu + g_o * error2) / 2)
        values = np.where(seen, precision * self.whole.values, 0.0)
        self.batch = Batch.unchecked(values, precision, self.whole.ids)  # type: ignore[arg-type]
        return view._replace(g_o=g_o)
