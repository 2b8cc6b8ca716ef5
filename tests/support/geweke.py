"""Geweke's joint distribution test, in the form with an exact start (Gandy & Scott, 2020).

Draw everything from the prior, data included. Then alternate the sampler and a redraw of the data given all
variables. A right sampler leaves the joint distribution where it was: replicates after some such steps and
fresh draws from the prior differ by chance only. Each twin that is broken on purpose must fail the same test.
"""

import numpy as np
from scipy.special import expit
from scipy.stats import ks_2samp

from bpfa.backends.numpy.base import slab
from bpfa.model.local import LocalState

# A right sampler fails by a chance of 1e-3, whatever the number of statistics; a broken one fails by far.
RIGHT, BROKEN = 1e-3, 1e-8


def smallest_pvalue(ours, fresh):
    """Of Kolmogorov and Smirnov's tests over all statistics, corrected for their number."""
    return min(ks_2samp(ours[name], fresh[name]).pvalue for name in ours) * len(ours)


def draw_locals(view, n_rows, rng):
    """z and x = z w of rows from their prior; a weight at rest is of no effect."""
    shape = (n_rows, view.n_features)
    z = (rng.random(shape) < expit(view.logit)).astype(float)
    return LocalState(z, z * rng.normal(scale=view.g_w**-0.5, size=shape))


def draw_values(view, x, rng):
    return x @ view.phi + rng.normal(scale=view.g_o**-0.5, size=(len(x), view.phi.shape[1]))


def forget_the_occam_factor(view, k, s, c):
    """slab, its log odds without (log g_w - log kappa)/2."""
    kappa, m, log_odds = slab(view, k, s, c)
    return kappa, m, log_odds - (np.log(view.g_w) - np.log(kappa)) / 2


def halve_the_mean(view, k, s, c):
    """slab, its mean m too small."""
    kappa, m, log_odds = slab(view, k, s, c)
    return kappa, m / 2, log_odds


BROKEN_SLABS = [forget_the_occam_factor, halve_the_mean]
