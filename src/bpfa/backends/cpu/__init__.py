"""Compiled kernels: the local methods of `bpfa.backends.numpy`, fast."""

from bpfa.backends.cpu.local import Gibbs, MeanField, SpikeSlab, instruction_sets

__all__ = ["Gibbs", "MeanField", "SpikeSlab", "instruction_sets"]
