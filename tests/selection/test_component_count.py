"""How many features are found: those that stand out from the noise, whatever the shape of the table."""

import numpy as np
import pytest

from bpfa import BPFA
from bpfa._support.philox import Stream
from bpfa.data import ArrayRows
from bpfa.inference.eigenpairs import EXACT_COLUMNS, largest_eigenpairs
from bpfa.inference.factor_analysis import FactorAnalysis
from bpfa.selection.column_noise import column_noise, posterior_variances
from bpfa.selection.component_count import component_count
from bpfa.selection.significant_factors import significant_factors


def table(n_rows, n_columns, n_factors, *, missing=0.0, noise=None, seed=0):
    rng = np.random.default_rng(seed)
    noise = np.ones(n_columns) if noise is None else noise
    X = rng.normal(size=(n_rows, n_factors)) @ rng.normal(size=(n_factors, n_columns))
    X += noise * rng.normal(size=X.shape)
    X[rng.random(X.shape) < missing] = np.nan
    return (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize(
    "shape", [(300, 20, 5), (2000, 50, 12), (60, 1000, 6), (400, 600, 20), (80, 3000, 4)]
)
def test_factors_are_counted_in_tables_of_any_shape(shape, missing):
    X = table(*shape, missing=missing)
    largest = 2 * min(X.shape) // 3
    assert component_count(ArrayRows(X), largest, Stream.from_seed(0)) == shape[2]


def test_noise_of_any_level_is_no_factor():
    rng = np.random.default_rng(1)
    levels = rng.uniform(0.1, 5.0, size=30)
    X = table(1000, 30, 4, noise=levels, seed=1)
    assert significant_factors(X, ~np.isnan(X), 20, rng) == 4
    heavy = rng.standard_t(3, size=(1000, 30))
    assert significant_factors(heavy, np.ones(heavy.shape, dtype=bool), 20, rng) <= 1


def test_a_feature_of_few_rows_is_counted_though_its_variance_is_small(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 40))
    # Its variance, 0.12 in units of the noise, is below sqrt(40 / 2000) = 0.14, the least that could be seen
    # in all rows together.
    X[:6] += np.outer(rng.choice([-1.0, 1.0], size=6), rng.normal(size=40))
    X, observed = X - X.mean(axis=0), np.ones(X.shape, dtype=bool)
    assert significant_factors(X, observed, 26, np.random.default_rng(0)) == 1
    monkeypatch.setattr("bpfa.selection.significant_factors.WORST_SHARES", ())
    assert significant_factors(X, observed, 26, np.random.default_rng(0)) == 0


def test_a_row_that_stands_alone_is_no_factor():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 20))
    X[7] *= 50
    assert significant_factors(X, np.ones(X.shape, dtype=bool), 13, rng) == 0


def test_nothing_but_zeros_has_no_factor():
    zeros = np.zeros((50, 10))
    assert significant_factors(zeros, np.ones(zeros.shape, dtype=bool), 5, np.random.default_rng(0)) == 0


def test_large_matrices_are_decomposed_by_products():
    rng = np.random.default_rng(0)
    D = EXACT_COLUMNS + 100
    A = rng.normal(size=(200, 10)) @ rng.normal(size=(10, D)) * 3 + rng.normal(size=(200, D))
    extra = rng.random(D)
    values, vectors = largest_eigenpairs(A, extra, 10)
    exact, exact_vectors = np.linalg.eigh(A.T @ A / 200 + np.diag(extra))
    np.testing.assert_allclose(values, exact[-10:], rtol=1e-6)
    np.testing.assert_allclose(np.abs((vectors * exact_vectors[:, -10:]).sum(axis=0)), 1.0, rtol=1e-6)


def test_few_rows_do_not_make_factors_larger():
    """Without the correction the variance of a factor is too large by the number of columns for each row."""
    X = table(100, 2000, 3, seed=2)
    analysis = FactorAnalysis(X, ~np.isnan(X))
    analysis.fit(3, 20)
    rng = np.random.default_rng(2)
    signal = rng.normal(size=(100, 3)) @ rng.normal(size=(3, 2000))
    # The noise is 1 of a variance of about 4, in units of the columns.
    noise = 1 / (signal + rng.normal(size=signal.shape)).var(axis=0)
    assert np.mean(analysis.noise) == pytest.approx(np.mean(noise), rel=0.03)


def test_wide_tables_are_fitted_from_components():
    X = table(50, 2500, 5, seed=3)
    hidden = np.random.default_rng(0).random(X.shape) < 0.1
    model = BPFA(random_state=0, max_steps=20).fit(np.where(hidden, np.nan, X))
    assert model.settings_.init == "principal"
    assert len(model.components_) == 5
    error = np.mean((model.impute(np.where(hidden, np.nan, X)) - X)[hidden] ** 2)
    # Three quarters or more of the variance is signal.
    assert error < 0.35


def test_components_fitted_to_noise_are_not_in_use_but_weak_factors_are():
    X = table(300, 40, 4, missing=0.3)
    assert BPFA(n_components=8, random_state=0).fit(X).n_components_used_ == 4
    rng = np.random.default_rng(0)
    # Its variance is 0.6 in units of the noise, and that of the largest component of noise 0.3.
    weak = rng.normal(size=(1000, 1)) @ np.full((1, 20), (0.6 / 20) ** 0.5) + rng.normal(size=(1000, 20))
    assert BPFA(n_components=3, random_state=0).fit(weak).n_components_used_ == 1


def test_a_nearly_constant_column_does_not_lose_its_noise():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3)) @ rng.normal(size=(3, 12)) + 0.7 * rng.normal(size=(1500, 12))
    spikes = np.zeros((1500, 2))
    # Two columns that are constant but for the same three rows explain one another perfectly.
    spikes[[3, 500, 900]] = 1.0
    X = np.hstack([X, spikes])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    ratio = column_noise(ArrayRows(X), 4, Stream.from_seed(0))
    assert ratio[-2:].min() > 0.3


def test_variances_are_shrunk_as_far_as_they_are_uncertain():
    rng = np.random.default_rng(0)
    true = 20 / rng.chisquare(20, size=5000)
    freedom = rng.choice([2.0, 10.0, 500.0], size=5000)
    found = true * rng.chisquare(freedom) / freedom
    shrunk = posterior_variances(found, freedom)

    def error(variances, of):
        return np.mean((np.log(variances) - np.log(true))[freedom == of] ** 2)

    assert error(shrunk, 2.0) < 0.2 * error(found, 2.0)
    assert error(shrunk, 10.0) < 0.6 * error(found, 10.0)
    assert error(shrunk, 500.0) <= 1.01 * error(found, 500.0)
