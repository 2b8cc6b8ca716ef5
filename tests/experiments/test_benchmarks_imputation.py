"""The baselines that bpfa is compared with do what they say; otherwise the comparison would be worthless."""

import numpy as np
import pytest

from benchmarks import factor_analysis, iterative_pca
from benchmarks.baselines import column_means
from benchmarks.imputation import cells, markdown, scores
from experiments.tables import SOURCES, hide


def drawn(n_rows, missing, seed=0):
    """Rows of a factor model with noise of its own in every column, and the model."""
    rng = np.random.default_rng(seed)
    model = factor_analysis.FactorModel(np.zeros(6), rng.normal(size=(6, 2)), np.linspace(0.1, 0.5, 6))
    z = rng.normal(size=(n_rows, 2))
    data = z @ model.loadings.T + rng.normal(size=(n_rows, 6)) * np.sqrt(model.noise)
    return np.where(rng.random(data.shape) < missing, np.nan, data), model


def test_prediction_is_the_conditional_gaussian():
    data, model = drawn(50, 0.4)
    mean, variance = factor_analysis.predict(model, data)
    covariance = model.loadings @ model.loadings.T + np.diag(model.noise)
    for row in range(len(data)):
        seen = ~np.isnan(data[row])
        weights = covariance[np.ix_(~seen, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
        np.testing.assert_allclose(mean[row, ~seen], weights @ data[row, seen])
        rest = covariance[np.ix_(~seen, ~seen)] - weights @ covariance[np.ix_(seen, ~seen)]
        np.testing.assert_allclose(variance[row, ~seen], np.diag(rest))


def test_log_likelihood_is_that_of_the_observed_entries_and_em_never_lowers_it():
    data, model = drawn(300, 0.3)
    blocks = factor_analysis.in_blocks(data)
    covariance, expected = model.loadings @ model.loadings.T + np.diag(model.noise), 0.0
    for values in data:
        seen = ~np.isnan(values)
        part = covariance[np.ix_(seen, seen)]
        quadratic = values[seen] @ np.linalg.solve(part, values[seen])
        expected -= 0.5 * (np.linalg.slogdet(2 * np.pi * part)[1] + quadratic)
    reached = []
    for _ in range(30):
        model, log_likelihood = factor_analysis.improved(model, blocks)
        reached.append(log_likelihood)
    assert reached[0] == pytest.approx(expected)
    assert (np.diff(reached) > -1e-8).all()


def test_em_finds_the_covariance():
    data, model = drawn(20_000, 0.2)
    fitted, _ = factor_analysis.fit(data, 2, tolerance=1e-9)
    np.testing.assert_allclose(fitted.noise, model.noise, atol=0.03)
    expected = model.loadings @ model.loadings.T
    np.testing.assert_allclose(fitted.loadings @ fitted.loadings.T, expected, atol=0.1)


def test_iterative_pca_is_the_published_update():
    data, _ = drawn(200, 0.1)
    (n, p), missing, k = data.shape, np.isnan(data), 2
    filled = np.where(missing, np.nanmean(data, axis=0), data)
    for _ in range(20):
        mean, scale = filled.mean(axis=0), filled.std(axis=0)
        u, d, vt = np.linalg.svd((filled - mean) / scale / np.sqrt(n), full_matrices=False)
        noise = n * p / min(p, n - 1) * (d[k:] ** 2).sum() / ((n - 1) * p - (n - 1) * k - p * k + k**2)
        shrunk = (d[:k] ** 2 - min(noise, d[k] ** 2)) / d[:k]
        fitted = np.sqrt(n) * (u[:, :k] * shrunk) @ vt[:k] * scale + mean
        filled = np.where(missing, fitted, data)
    ours, iterations = iterative_pca.fit(data, k, tolerance=0.0, max_iterations=20)
    assert iterations == 20
    np.testing.assert_allclose(ours, fitted, atol=1e-10)


def test_validation_errors_are_those_of_entries_it_has_not_seen():
    task = hide(drawn(5000, 0.0)[0], 0.1, seed=0)
    n_components, std = iterative_pca.validated(task.train, seed=0, share=0.1)
    fitted, _ = iterative_pca.fit(task.train, n_components)
    squares = np.zeros(task.hidden.shape)
    squares[task.hidden] = (fitted[task.hidden] - task.truth) ** 2
    np.testing.assert_allclose(std**2, squares.sum(axis=0) / task.hidden.sum(axis=0), rtol=0.2)


def test_scores_of_a_perfect_prediction_and_of_the_means():
    rng = np.random.default_rng(0)
    task = hide(rng.normal(size=(5000, 4)), 0.1, seed=1)
    means = column_means(task.train, 0, 0)
    result = scores(task, means)
    assert result["mse"] == pytest.approx(1.0, abs=0.1)
    assert result["coverage"] == pytest.approx(0.95, abs=0.02)
    assert result["log_likelihood"] == pytest.approx(-0.5 * np.log(2 * np.pi) - 0.5, abs=0.05)
    exact = np.where(task.hidden, 0.0, task.train)
    exact[task.hidden] = task.truth
    assert scores(task, means._replace(mean=exact))["mse"] == 0.0


def test_a_missing_file_is_one_line(tmp_path):
    line = SOURCES["cytometry"].file.missing_from(tmp_path)
    assert "bcr_xl.npz" in line
    assert "\n" not in line


def test_the_table_has_a_row_without_scores():
    result = {
        "dataset": "cytometry",
        "contestant": "mofapy2",
        "components": 15,
        "note": "not finished in 1 s",
    }
    settings = {"hidden": {"cytometry": 0.05}}
    assert cells(result)[-1] == "not finished in 1 s"
    assert "| mofapy2 | 15 |" in markdown({"settings": settings, "variances": {}, "rows": [result]})
