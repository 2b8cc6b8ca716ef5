"""From the outcome of a run to the attributes of a fitted estimator."""

from dataclasses import replace

import numpy as np
from known_models import PHI, PI, drawn, known_model
from small_table import HOLED, X, model

from bpfa import BPFA
from bpfa.estimator.publishing import fitted_attributes, publish
from bpfa.prediction.predictions import features_in_use


def reordered(outcome, usage):
    """Return an outcome whose features are used by these shares of the rows."""
    posterior, usage = outcome.posterior, np.asarray(usage)
    a0, b0 = posterior.priors.beta(posterior.n_features)
    n_rows = 10**6
    # There is so little noise that all features stand out.
    used = replace(
        posterior, n_rows=n_rows, a=a0 + n_rows * usage, b=b0 + n_rows * (1 - usage), d=posterior.d / 1000
    )
    return replace(outcome, posterior=used)


def test_components_are_sorted_by_what_they_explain(fitted):
    usage = np.array([0.3, 0.0, 0.9, 0.1, 0.9, 0.5])
    outcome = reordered(fitted._outcome, usage)
    attributes = fitted_attributes(outcome)
    standardised = outcome.posterior.features.mean * outcome.scale.noise_ratio
    explained = usage * (standardised**2).sum(axis=1)
    order = np.argsort(-explained)
    assert order[-1] == 1, "the one that is not in use"
    assert attributes["_component_order"].tolist() == order.tolist() != np.argsort(-usage).tolist()
    np.testing.assert_allclose(attributes["component_probabilities_"], usage[order], atol=1e-4)
    means = outcome.posterior.features.mean * outcome.scale.unit
    np.testing.assert_array_equal(np.abs(attributes["components_"]), np.abs(means[order]))
    assert attributes["n_components_used_"] == 5
    assert attributes["n_features_in_"] == HOLED.shape[1]
    assert "feature_names_in_" not in attributes


def test_the_largest_loading_of_a_component_is_positive():
    one, other = (known_model(sign * PHI, PI) for sign in (1, -1))
    assert one.components_[:2].tolist() == [[0.0, 0.0, 3.0, 1.0], [-1.0, 2.0, 0.0, 0.0]]
    np.testing.assert_array_equal(other.components_, one.components_)
    # Weights have the signs of the components.
    rows = drawn(one, 200)
    np.testing.assert_allclose(other.transform(rows), one.transform(rows), atol=0.1)


def test_attributes_are_in_the_units_of_the_data(fitted):
    attributes = fitted_attributes(fitted._outcome)
    scale = fitted._outcome.scale
    np.testing.assert_allclose(
        attributes["noise_std_"], fitted.posterior_.noise_std * scale.scale * scale.noise_ratio
    )
    for name, value in (("mean_", scale.mean), ("scale_", scale.scale), ("noise_ratio_", scale.noise_ratio)):
        np.testing.assert_array_equal(attributes[name], value)


def test_names_of_an_earlier_fit_are_removed(fitted):
    estimator = BPFA()
    named = replace(fitted._outcome, column_names=np.array(list("abcdef"), dtype=object))
    publish(estimator, named)
    assert estimator.feature_names_in_.tolist() == list("abcdef")
    publish(estimator, fitted._outcome)
    assert not hasattr(estimator, "feature_names_in_")
    np.testing.assert_array_equal(estimator.impute(HOLED), fitted.impute(HOLED))


def test_a_refit_replaces_every_attribute():
    again = model(max_steps=5).fit(X[:, :4]).set_params(n_components=3).fit(HOLED)
    fresh = model(max_steps=5, n_components=3).fit(HOLED)
    assert vars(again).keys() == vars(fresh).keys()
    np.testing.assert_array_equal(again.components_, fresh.components_)


def test_features_of_noise_in_a_large_table_are_not_in_use():
    """They contain the noise of the rows that they were learned from, which are not all rows."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(100_000, 10)) * (rng.random((100_000, 10)) < 0.3)
    y = weights @ rng.normal(size=(10, 40)) / 40**0.5 + 0.1 * rng.normal(size=(100_000, 40))
    fitted = BPFA(16, max_steps=200, groups=False, random_state=0, n_jobs=1).fit(y.astype(np.float32))
    assert fitted.n_components_used_ == 10
    assert features_in_use(fitted.posterior_).sum() > 10
