"""What diagnostics say of the components of a model, against known answers."""

import numpy as np
from known_models import as_names, known_model


def test_component_summary(model):
    summary = model.component_summary()
    assert summary.index.tolist() == ["bpfa0", "bpfa1", "bpfa2"]
    np.testing.assert_allclose(summary["usage"], [0.4, 0.2, 0.0], atol=1e-3)
    assert summary["in_use"].tolist() == [True, True, False]
    np.testing.assert_allclose(summary["size"], [10**0.5, 5**0.5, 1.0])
    np.testing.assert_allclose(summary["variance_share"], [4 / 5, 1 / 5, 0.0], atol=1e-3)
    # The largest loading of every component is positive, whatever sign it was learned with.
    assert summary["largest_columns"].tolist()[:2] == ["CD8, CD19, CD3", "CD4, -CD3, CD8"]


def test_component_in_use_by_the_rule_of_the_posterior():
    model = known_model(np.eye(4), [0.0011, 0.0009, 0.5, 0.0])
    assert model.n_components_used_ == 2
    assert model.component_summary()["in_use"].tolist() == [True, True, False, False]


def test_what_a_component_explains_is_what_is_lost_without_it(model, X):
    standardised = (X - model.mean_) / model.scale_
    weights, phi = model.transform(as_names(X)), model.components_ / model.scale_

    def squared_error(weights):
        return np.nansum((standardised - weights @ phi) ** 2)

    expected = []
    for k in range(3):
        without = weights.copy()
        without[:, k] = 0.0
        expected.append((squared_error(without) - squared_error(weights)) / np.nansum(standardised**2))
    explained = model.component_summary(as_names(X))["variance_explained"]
    np.testing.assert_allclose(explained, expected, rtol=1e-6, atol=1e-12)
    assert explained.iloc[2] == 0.0
    # The two share no column, so that what they explain adds up.
    np.testing.assert_allclose(
        explained.sum(), 1 - squared_error(weights) / np.nansum(standardised**2), rtol=1e-6
    )
    assert explained.sum() > 0.95


def test_top_columns(model):
    top = model.top_columns(2)
    assert top["component"].tolist() == ["bpfa0", "bpfa0", "bpfa1", "bpfa1", "bpfa2", "bpfa2"]
    assert top["rank"].tolist() == [1, 2] * 3
    # Sorted by the standardised loading: in the units of the data CD19 would lead in the first component.
    assert top["column"].tolist()[:4] == ["CD8", "CD19", "CD4", "CD3"]
    np.testing.assert_allclose(top["standardised_loading"][:4], [3.0, 1.0, 2.0, -1.0])
    np.testing.assert_allclose(top["loading"][:4], [1.5, 10.0, 4.0, -1.0])
    assert len(model.top_columns(100)) == 3 * 4


def test_merge_report():
    a, b = np.array([1.0, 2.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0, 0.0])
    phi = [a, 3 * a + 0.1 * b, b, -b, b, np.zeros(4)]
    model = known_model(phi, [0.5, 0.3, 0.2, 0.1, 0.0, 0.05], scale=[1.0, 10.0, 100.0, 1.0])
    report = model.merge_report()
    assert report["component"].tolist() == ["bpfa2", "bpfa0", "bpfa4", "bpfa5"]
    assert report["other"].tolist() == ["bpfa3", "bpfa1", None, None]
    np.testing.assert_allclose(report["usage"], [0.2, 0.3, 0.0, 0.05], atol=1e-3)
    np.testing.assert_allclose(report["other_usage"], [0.1, 0.5, np.nan, np.nan], atol=1e-3)
    np.testing.assert_allclose(report["cosine"], [1.0, 15 / (5 * 45.01) ** 0.5, np.nan, np.nan])
    assert report["advice"].tolist() == ["merge", "merge", "prune", "prune"]
    assert model.merge_report(similarity=0.9999)["advice"].tolist() == ["merge", "prune", "prune"]


def test_merge_report_with_nothing_to_say():
    report = known_model(np.eye(3), [0.5, 0.3, 0.2]).merge_report()
    assert len(report) == 0
    assert report.columns.tolist() == ["component", "other", "usage", "other_usage", "cosine", "advice"]
