"""BPFA, the estimator."""

from bpfa.estimator.estimator import BPFA

__all__ = ["BPFA"]
