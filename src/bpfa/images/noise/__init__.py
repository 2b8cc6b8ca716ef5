"""Noise whose variance grows with the signal, and noise that neighbouring pixels share."""

from bpfa.images.noise.choice import choose_noise
from bpfa.images.noise.correlation import CorrelatedNoiseWarning, warn_of_correlation
from bpfa.images.noise.level import channel_noise
from bpfa.images.noise.stabiliser import Stabiliser

__all__ = ["CorrelatedNoiseWarning", "Stabiliser", "channel_noise", "choose_noise", "warn_of_correlation"]
