"""BPFAImputer: the transformer that fills in missing entries, as scikit-learn knows imputers."""

import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from small_table import HIDDEN, HOLED, D, N, X

from bpfa import BPFA, BPFAImputer

pandas = pytest.importorskip("pandas")

FAST = {"n_components": 4, "max_steps": 20, "random_state": 0}
NAMES = [f"gene {d}" for d in range(D)]


@parametrize_with_checks([BPFAImputer(**FAST)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_it_has_the_parameters_of_the_model():
    assert inspect.signature(BPFAImputer) == inspect.signature(BPFA)
    imputer = BPFAImputer(**FAST, dropout=0.1)
    assert imputer.get_params() == BPFA(**FAST, dropout=0.1).get_params()
    assert clone(imputer).set_params(n_components=3).n_components == 3


def test_it_fills_in_what_the_model_does():
    filled = BPFAImputer(**FAST).fit_transform(HOLED)
    np.testing.assert_array_equal(filled, BPFA(**FAST).fit(HOLED).impute(HOLED))
    np.testing.assert_array_equal(BPFAImputer(**FAST).fit_transform(X, missing=HIDDEN), filled)
    imputer = BPFAImputer(**FAST).fit(X, missing=HIDDEN)
    np.testing.assert_array_equal(imputer.transform(X, missing=HIDDEN), filled)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(imputer)).transform(HOLED), filled)
    assert imputer.model_.noise_std_.shape == (D,)


def test_single_precision_stays():
    filled = BPFAImputer(**FAST).fit_transform(HOLED.astype(np.float32))
    assert filled.dtype == np.float32
    assert np.isfinite(filled).all()


def test_frames_and_names():
    frame = pandas.DataFrame(HOLED, columns=NAMES, index=[f"sample {i}" for i in range(N)])
    imputer = BPFAImputer(**FAST).fit(frame)
    assert isinstance(imputer.transform(frame), np.ndarray)
    assert list(imputer.get_feature_names_out()) == NAMES
    filled = imputer.set_output(transform="pandas").transform(frame)
    assert list(filled.columns) == NAMES
    assert list(filled.index) == list(frame.index)
    with pytest.raises(ValueError, match="feature names"):
        imputer.transform(frame[NAMES[::-1]])


def test_in_a_pipeline_and_a_search():
    pipeline = make_pipeline(BPFAImputer(**FAST), PCA(2))
    assert pipeline.fit_transform(HOLED).shape == (N, 2)
    search = GridSearchCV(pipeline, {"bpfaimputer__n_components": [1, 3]}, cv=2).fit(HOLED)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_columns_of_which_nothing_is_known_stay():
    odd = HOLED.copy()
    odd[:, 3] = np.nan
    with pytest.warns(UserWarning, match="no entry of column x3"):
        filled = BPFAImputer(**FAST).fit_transform(odd)
    np.testing.assert_array_equal(np.isnan(filled).all(axis=0), np.arange(D) == 3)
