"""BPFA, the scikit-learn estimator."""

from bpfa.estimator.estimator import BPFA

__all__ = ["BPFA"]
