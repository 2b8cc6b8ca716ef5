"""The local methods of `bpfa.backends.numpy` as compiled kernels, which are many times faster."""

from bpfa.backends.cpu.local import Gibbs, MeanField, SpikeSlab, instruction_sets

__all__ = ["Gibbs", "MeanField", "SpikeSlab", "instruction_sets"]
