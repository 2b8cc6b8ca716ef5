"""Fits that are to be read: few features in a row, the same ones for every seed."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from bpfa import BPFA, Priors
from bpfa.selection.preferences import PREFERENCES

READ = ("balance", "readability")
X = load_digits().data[:600, 10:50:2]


@pytest.fixture(scope="module")
def fits():
    """Return a fit for every value of `prefer`."""
    return {prefer: BPFA(prefer=prefer, random_state=0, n_jobs=1).fit(X) for prefer in PREFERENCES}


def features_of_a_row(model):
    return (model.transform(X) != 0).sum(axis=1).mean()


def test_rows_use_fewer_features_the_more_a_fit_is_to_be_read(fits):
    numbers = [features_of_a_row(fits[prefer]) for prefer in ("prediction", "balance", "readability")]
    assert numbers[0] > 1.2 * numbers[1] > 1.2 * 1.2 * numbers[2], numbers
    shares = [model.component_probabilities_.mean() for model in fits.values()]
    assert shares[0] > shares[1] > shares[2], shares


def test_usage_is_the_share_of_the_rows(fits):
    for prefer in READ:
        model = fits[prefer]
        posterior = model.posterior_
        n_using = posterior.a - posterior.priors.beta(posterior.n_features)[0]
        shares = n_using[model._component_order] / len(X)
        np.testing.assert_allclose(model.component_probabilities_, shares, atol=0.02)


def test_settings_follow_from_the_preference(fits):
    for prefer in READ:
        settings = fits[prefer].settings_
        assert (settings.prefer, settings.init, settings.options["dropout"]) == (prefer, "varimax", 0.02)
        assert fits[prefer].n_steps_ == 200
    assert fits["balance"].settings_.priors == Priors()
    n_features = fits["readability"].settings_.n_features
    assert fits["readability"].settings_.priors.beta(n_features)[1] == pytest.approx(
        Priors().beta(n_features)[1] + 0.1 * len(X)
    )


def test_what_the_user_sets_is_kept():
    model = BPFA(5, prefer="readability", init="random", dropout=0.3, max_steps=3, random_state=0).fit(X)
    settings = model.settings_
    assert (settings.init, settings.options["dropout"], settings.n_features) == ("random", 0.3, 5)


@pytest.mark.parametrize("algorithm", ["mf-svi", "titsias-ssvi", "mimno-svi", "gibbs"])
def test_every_algorithm_can_be_read(algorithm):
    model = BPFA(4, algorithm=algorithm, prefer="readability", max_steps=3, random_state=0).fit(X)
    assert np.isfinite(model.transform(X)).all()


@pytest.mark.parametrize("prefer", READ)
def test_features_are_the_same_for_every_seed(fits, prefer):
    first, other = fits[prefer], BPFA(prefer=prefer, random_state=1, n_jobs=1).fit(X)
    assert first.components_.shape == other.components_.shape
    a, b = (model.components_ / model.scale_ for model in (first, other))
    cosines = (a @ b.T) / np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1))
    # Signs agree, too: no absolute values are taken.
    assert np.median(cosines.max(axis=1)) > 0.95


def test_unlikely_features_have_weight_zero(fits):
    model = fits["balance"]
    weights = model.transform(X)
    assert (weights == 0).mean() > 0.2
    assert not np.signbit(weights[weights == 0]).any()


def test_a_saved_model_is_read_as_before(fits, tmp_path):
    fits["readability"].save(tmp_path / "model.bpfa")
    loaded = BPFA.load(tmp_path / "model.bpfa")
    assert loaded.prefer == "readability"
    np.testing.assert_array_equal(loaded.transform(X[:50]), fits["readability"].transform(X[:50]))


def test_a_fit_that_is_to_be_read_is_resumed_to_the_same_bits(tmp_path):
    settings = {"prefer": "readability", "random_state": 0, "n_jobs": 1}
    whole = BPFA(max_steps=6, **settings).fit(X)
    BPFA(max_steps=3, **settings).fit(X, checkpoint=tmp_path / "half.bpfa")
    resumed = BPFA(max_steps=6, **settings).fit(X, resume=tmp_path / "half.bpfa")
    np.testing.assert_array_equal(resumed.components_, whole.components_)
    with pytest.raises(ValueError, match="expected the same parameters"):
        BPFA(max_steps=6, **settings | {"prefer": "balance"}).fit(X, resume=tmp_path / "half.bpfa")


def test_loadings_can_be_read_too():
    model = BPFA(prefer="balance", sparse="columns", max_steps=20, random_state=0).fit(X[:30])
    assert model.loading_probabilities_.shape == model.components_.shape


def test_an_unknown_preference_is_refused():
    with pytest.raises(ValueError, match="prefer='speed': expected one of 'prediction', 'balance'"):
        BPFA(prefer="speed").fit(X)
