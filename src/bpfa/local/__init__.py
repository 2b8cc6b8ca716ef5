"""Local methods: how the variables z and w of each row are inferred given a view of the globals.

One method a file, in NumPy, written to be read: they are the specification that the kernels follow.
"""

from bpfa.local.base import LocalMethod, LocalState
from bpfa.local.gibbs import Gibbs
from bpfa.local.mean_field import MeanField
from bpfa.local.spike_slab import SpikeSlab

__all__ = ["Gibbs", "LocalMethod", "LocalState", "MeanField", "SpikeSlab"]
