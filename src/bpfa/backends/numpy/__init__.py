"""Local methods: how the variables z and w of each row are inferred given a view of the globals.

Each method has a file of its own. They are written in NumPy, to be read: they are the specification that the
kernels follow.
"""

from bpfa.backends.numpy.gibbs import Gibbs
from bpfa.backends.numpy.mean_field import MeanField
from bpfa.backends.numpy.spike_slab import SpikeSlab

__all__ = ["Gibbs", "MeanField", "SpikeSlab"]
