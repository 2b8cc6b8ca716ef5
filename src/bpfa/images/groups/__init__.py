"""The second stage of a restoration: groups of like patches, each with a factor model of its own."""

from bpfa.images.groups.features import FinishedGroups, GroupFeatures
from bpfa.images.groups.refine import Refined, refine

__all__ = ["FinishedGroups", "GroupFeatures", "Refined", "refine"]
