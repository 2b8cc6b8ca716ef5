"""Groups of like rows: what all groups of a table or of a picture learn together."""

from bpfa.prediction.groups.beliefs import GroupBeliefs

__all__ = ["GroupBeliefs"]
