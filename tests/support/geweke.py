"""Geweke's joint distribution test, in the form with an exact start (Gandy & Scott, 2020).

Draw everything from the prior, data included. Then alternate between a step of the sampler and a new draw
of the data given all variables. A correct sampler leaves the joint distribution as it is: after some such
steps, replicates differ from fresh draws from the prior only by chance. Samplers that are broken on purpose
must fail the same test.
"""

import numpy as np
from scipy.special import expit
from scipy.stats import ks_2samp

from bpfa.backends.numpy.base import slab
from bpfa.model.local import LocalState

# A correct sampler fails with probability 1e-3, however many statistics there are; a broken one by far.
RIGHT, BROKEN = 1e-3, 1e-8


def smallest_pvalue(ours, fresh):
    """Return the smallest p-value of Kolmogorov-Smirnov tests, corrected for the number of statistics."""
    return min(ks_2samp(ours[name], fresh[name]).pvalue for name in ours) * len(ours)


def draw_locals(view, n_rows, rng):
    """Draw z and x = z w of rows from their prior; the weight of a feature that is off has no effect."""
    shape = (n_rows, view.n_features)
    z = (rng.random(shape) < expit(view.logit)).astype(float)
    return LocalState(z, z * rng.normal(scale=view.g_w**-0.5, size=shape))


def draw_values(view, x, rng):
    return x @ view.phi + rng.normal(scale=view.g_o**-0.5, size=(len(x), view.phi.shape[1]))


def forget_the_occam_factor(view, k, s, c):
    """Return what `slab` does, but leave (log g_w - log kappa)/2 out of the log odds."""
    kappa, m, log_odds = slab(view, k, s, c)
    return kappa, m, log_odds - (np.log(view.g_w) - np.log(kappa)) / 2


def halve_the_mean(view, k, s, c):
    """Return what `slab` does, but with half the mean m."""
    kappa, m, log_odds = slab(view, k, s, c)
    return kappa, m / 2, log_odds


BROKEN_SLABS = [forget_the_occam_factor, halve_the_mean]
