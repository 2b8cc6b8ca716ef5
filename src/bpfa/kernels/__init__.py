"""Compiled kernels: the local methods of `bpfa.local`, fast."""

from bpfa.kernels.local import Gibbs, MeanField, SpikeSlab, instruction_sets

__all__ = ["Gibbs", "MeanField", "SpikeSlab", "instruction_sets"]
