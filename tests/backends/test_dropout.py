"""Entries that chains do not see while features learn from them (`dropout`)."""

from dataclasses import fields, replace

import numpy as np
import pytest

from bpfa import BPFA, Batch, ChainStore, algorithm, draw_data, train
from bpfa._support.philox import Stream
from bpfa.backends import numpy as local
from bpfa.backends.numpy.gibbs import moments
from bpfa.images import inpaint
from bpfa.model.sums import LocalSums
from bpfa.model.view import GlobalView

DROPOUT = 0.3


@pytest.fixture
def rows():
    """A view, rows with missing entries, and their draws."""
    data = draw_data(400, 12, 4, g_o=50.0, g_w=1.0, seed=0)
    view = GlobalView(data.phi, np.zeros((4, 1)), np.log(data.pi / (1 - data.pi)), 50.0, 1.0)
    batch = Batch(data.y, np.random.default_rng(0).random(data.y.shape) < 0.8, np.arange(100, 500))
    return view, batch, Stream.from_seed(1).rows(batch.ids, step=3)


def test_the_share_that_is_hidden(rows):
    _, batch, draws = rows
    dropped = draws.dropped(DROPOUT, batch.n_columns)
    assert dropped.mean() == pytest.approx(DROPOUT, abs=4 * np.sqrt(DROPOUT * (1 - DROPOUT) / dropped.size))
    np.testing.assert_allclose(
        dropped.mean(axis=0), DROPOUT, atol=4 * np.sqrt(DROPOUT * (1 - DROPOUT) / len(dropped))
    )
    assert not draws.dropped(0.0, batch.n_columns).any()


def test_other_entries_at_every_step_and_in_every_row(rows):
    _, batch, draws = rows
    dropped = draws.dropped(DROPOUT, batch.n_columns)
    assert (dropped != replace(draws, step=4).dropped(DROPOUT, batch.n_columns)).mean() > 0.3
    assert (dropped[1:] != dropped[:-1]).mean() > 0.3
    alone = replace(draws, ids=draws.ids[7:8]).dropped(DROPOUT, batch.n_columns)
    np.testing.assert_array_equal(alone[0], dropped[7])


def test_chains_do_not_see_what_features_learn_from(rows):
    """Other values at the dropped entries change what features and the noise learn, but neither z nor w."""
    view, batch, draws = rows
    dropped = draws.dropped(DROPOUT, batch.n_columns)
    other = Batch(batch.values + 5.0 * dropped, batch.observed, batch.ids)
    method = local.Gibbs(dropout=DROPOUT)
    sums, changed = method.sums(view, batch, draws), method.sums(view, other, draws)
    np.testing.assert_array_equal(changed.n, sums.n)
    np.testing.assert_array_equal(changed.T, sums.T)
    assert (changed.ZW2, changed.O) == (sums.ZW2, sums.O)
    assert np.abs(changed.S - sums.S).max() > 1.0
    assert changed.SSE > 2 * sums.SSE
    # The whole of it, put together by hand.
    states = local.Gibbs().chain(view, batch.without(dropped), draws, method.burn_in + method.n_samples)
    after_each = [LocalSums.of(view, batch, moments(view, state)) for state in states]
    expected = LocalSums.average(after_each[method.burn_in :])
    for field in fields(LocalSums):
        np.testing.assert_allclose(getattr(sums, field.name), getattr(expected, field.name))


def test_predictions_see_everything(rows):
    view, batch, draws = rows
    plain, hiding = (local.Gibbs(dropout=dropout) for dropout in (0.0, DROPOUT))
    for ours, theirs in zip(
        hiding.samples(view, batch, draws, 2), plain.samples(view, batch, draws, 2), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(
        hiding.row_moments(view, batch, draws).x, plain.row_moments(view, batch, draws).x
    )


@pytest.mark.parametrize("features", ["factorised", "joint"])
def test_training(features):
    """The noise is what dropped entries are off by: a little more than it is, where columns are many."""
    data = draw_data(2000, 16, 4, g_o=25.0, g_w=1.0, seed=0)

    def noise_std(dropout):
        options = {
            "features": features,
            "weight_precision": "active",
            "n_steps": 300,
            "seed": 0,
            "dropout": dropout,
        }
        return list(train(data.y, 8, **options))[-1].posterior.noise_std

    assert noise_std(0.0) < noise_std(DROPOUT) < 1.3 * 0.2


@pytest.mark.parametrize("name", ["mimno-svi", "gibbs"])
def test_for_gibbs_ssvi_alone(name):
    with pytest.raises(ValueError, match=rf"dropout=0\.3: for 'gibbs-ssvi', not for '{name}'"):
        algorithm(name, dropout=DROPOUT)


@pytest.mark.parametrize("dropout", [-0.1, 0.95, np.nan])
def test_bad_shares(dropout):
    with pytest.raises(ValueError, match=r"dropout=.*: expected a number >= 0 and <= 0\.9"):
        algorithm("gibbs-ssvi", dropout=dropout)


def test_not_where_chains_go_on():
    with pytest.raises(ValueError, match=r"dropout=0\.3: expected 0 where chains continue between visits"):
        train(np.ones((5, 2)), 3, dropout=DROPOUT, chains=ChainStore(5, 3))


def test_of_a_fit(tmp_path):
    """A fit hides entries from its chains, and its file says so; predictions see everything."""
    data = draw_data(300, 12, 4, g_o=50.0, g_w=1.0, seed=0)
    plain, hiding = (
        BPFA(4, max_steps=20, random_state=0, n_jobs=1, dropout=dropout).fit(data.y)
        for dropout in (0.0, DROPOUT)
    )
    assert plain.posterior_.noise_std < hiding.posterior_.noise_std
    assert hiding.settings_.options["dropout"] == DROPOUT
    hiding.save(tmp_path / "model")
    loaded = BPFA.load(tmp_path / "model")
    assert loaded.settings_ == hiding.settings_
    np.testing.assert_array_equal(loaded.transform(data.y), hiding.transform(data.y))


@pytest.mark.parametrize("name", ["mf-ssvi", "mimno-svi", "gibbs"])
def test_of_a_fit_that_cannot_hide(name):
    with pytest.raises(ValueError, match=r"dropout=0\.3: for 'gibbs-ssvi'"):
        BPFA(2, algorithm=name, max_steps=2, dropout=DROPOUT).fit(
            np.random.default_rng(0).normal(size=(20, 3))
        )


@pytest.mark.parametrize(("share", "dropout"), [(0.2, 0.1), (0.6, 0.0)])
def test_of_pictures(share, dropout):
    """By default where few pixels are observed; never by another algorithm."""
    rng = np.random.default_rng(0)
    picture, missing = rng.normal(size=(16, 16)), rng.random((16, 16)) > share
    small = {"patch_size": 4, "n_components": 4, "max_steps": 2, "n_draws": 2, "random_state": 0}
    assert inpaint(picture, missing, **small).model.settings_.options["dropout"] == dropout
    assert inpaint(picture, missing, dropout=0.5, **small).model.settings_.options["dropout"] == 0.5
    for name in ("mf-ssvi", "mimno-svi", "gibbs"):
        assert not inpaint(picture, missing, algorithm=name, **small).model.settings_.options.get("dropout")
