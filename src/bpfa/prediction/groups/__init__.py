"""Groups of like rows: what all groups of a table or of a picture learn together, and what they predict."""

from bpfa.prediction.groups.beliefs import GroupBeliefs
from bpfa.prediction.groups.kinds import fit_kinds
from bpfa.prediction.groups.like_rows import (
    GroupMixture,
    LikeRows,
    completed,
    model_features,
    row_covariance,
)
from bpfa.prediction.groups.predictor import GroupPredictor, MixturePredictor

__all__ = [
    "GroupBeliefs",
    "GroupMixture",
    "GroupPredictor",
    "LikeRows",
    "MixturePredictor",
    "completed",
    "fit_kinds",
    "model_features",
    "row_covariance",
]
