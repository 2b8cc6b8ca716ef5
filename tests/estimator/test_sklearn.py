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


@pytest.fixture(scope="module")
def holed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2)) @ rng.normal(size=(2, 5)) + 0.1 * rng.normal(size=(150, 5))
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def test_in_a_pipeline(holed):
    pipeline = make_pipeline(RobustScaler(), BPFA(**FAST))
    weights = pipeline.fit_transform(holed)
    assert weights.shape == (150, 4)
    np.testing.assert_array_equal(pipeline.transform(holed), weights)
    assert list(pipeline.get_feature_names_out()) == ["bpfa0", "bpfa1", "bpfa2", "bpfa3"]


def test_in_a_search(holed):
    """The number of components is found that the data has, by the predictive log-likelihood."""
    grid = {"n_components": [1, 2], "algorithm": ["gibbs-ssvi"]}
    search = GridSearchCV(BPFA(max_steps=100, random_state=0), grid, cv=3).fit(holed)
    assert search.best_params_["n_components"] == 2
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_clone_is_unfitted_and_equal(holed):
    fitted = BPFA(**FAST, held_out=0.1, patience=2).fit(holed)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "posterior_")
    np.testing.assert_array_equal(copy.fit(holed).components_, fitted.components_)
