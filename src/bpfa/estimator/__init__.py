"""BPFA, the scikit-learn estimator, and BPFAImputer, which fills in missing entries in pipelines."""

from bpfa.estimator.estimator import BPFA
from bpfa.estimator.grouping import RowsNotSavedWarning
from bpfa.estimator.hidden_entries import SeenInFitWarning
from bpfa.estimator.imputer import BPFAImputer

__all__ = ["BPFA", "BPFAImputer", "RowsNotSavedWarning", "SeenInFitWarning"]
