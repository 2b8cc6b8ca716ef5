"""Residuals of models that are right, and of models without components."""

import numpy as np
from known_models import known_model
from scipy import stats


def test_residuals_are_standard_normal_if_the_model_is_right(drawn_from_model):
    model, X, _ = drawn_from_model
    residuals, n = model.residuals(X), len(X)
    assert (residuals["n_entries"] == n).all()
    for name, expected, error in (
        ("mean", 0.0, n**-0.5),
        ("std", 1.0, (2 * n) ** -0.5),
        ("skewness", 0.0, (6 / n) ** 0.5),
        ("excess_kurtosis", 0.0, (24 / n) ** 0.5),
        ("beyond_3", 0.0027, (0.0027 / n) ** 0.5),
    ):
        assert (np.abs(residuals[name] - expected) < 4 * error).all(), name


def test_residuals_of_a_model_without_components_are_the_data():
    """Moments against SciPy's, missing entries left out."""
    model = known_model(np.zeros((2, 3)), [0.5, 0.5], g_o=4.0, scale=[1.0, 2.0, 3.0])
    rng = np.random.default_rng(0)
    X = 5 + (rng.gamma(1.0, size=(500, 3)) - 0.7) * [1.0, 2.0, 3.0]
    X[:5] -= 10
    X[rng.random(X.shape) < 0.3] = np.nan
    X[:, 2] = np.nan
    residuals = model.residuals(X)
    expected = (X - 5) / [1.0, 2.0, 3.0] / 0.5
    for d in range(2):
        r = expected[~np.isnan(X[:, d]), d]
        moments = [len(r), r.mean(), r.std(), stats.skew(r), stats.kurtosis(r), (np.abs(r) > 3).mean()]
        # SURE is no more than that.
        np.testing.assert_allclose(residuals.iloc[d], moments, rtol=1e-3)
    assert residuals.iloc[2, 0] == 0
    assert residuals.iloc[2, 1:].isna().all()
