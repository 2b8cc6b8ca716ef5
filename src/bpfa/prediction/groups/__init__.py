"""Groups of like rows: what all groups of a table or of a picture learn together, and what they predict."""

from bpfa.prediction.groups.beliefs import GroupBeliefs
from bpfa.prediction.groups.like_rows import GroupMixture, LikeRows, completed, row_covariance
from bpfa.prediction.groups.predictor import GroupPredictor, MixturePredictor

__all__ = [
    "GroupBeliefs",
    "GroupMixture",
    "GroupPredictor",
    "LikeRows",
    "MixturePredictor",
    "completed",
    "row_covariance",
]
