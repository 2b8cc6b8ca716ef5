"""BPFA as scikit-learn knows estimators: its own checks, pipelines, searches, frames in and out."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from bpfa import BPFA

FAST = {"n_components": 4, "max_steps": 20, "random_state": 0}


@parametrize_with_checks([BPFA(**FAST), BPFA(**FAST, algorithm="mf-svi"), BPFA(**FAST, algorithm="gibbs")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
