"""Predictions and their scores; the predictive against exact evidence is in test_errata.py."""

import numpy as np
import pytest
from builders import random_posterior, random_view
from enumeration import enumerate_row
from scipy.stats import norm

from bpfa import (
    ALGORITHMS,
    Batch,
    ChainPosterior,
    GlobalPosterior,
    Priors,
    algorithm,
    held_out_score,
    posterior_draws,
    psnr,
)
from bpfa._support.philox import Stream
from bpfa.backends.numpy import Gibbs
from bpfa.model.features import FactorisedFeatures
from bpfa.model.local import LocalState
from bpfa.prediction.draws import PosteriorDraw
from bpfa.prediction.scores import score_draws

N, K, D = 8, 3, 4
RNG = np.random.default_rng(0)
Y = RNG.normal(size=(N, D))
HIDDEN = RNG.random((N, D)) < 0.4
HIDDEN[0], HIDDEN[1] = True, False


def posterior_for(name):
    if name == "gibbs":
        views = tuple(random_view(np.random.default_rng(i), K, D) for i in range(3))
        return ChainPosterior(views, LocalState(np.zeros((N, K)), np.zeros((N, K))))
    return random_posterior(np.random.default_rng(1), N, K, D)


def draws_of(name, n_draws):
    """The draws that `held_out_score` makes with seed 0, given NaN in place of what is hidden."""
    stream = Stream.from_seed(0).child("prediction")
    batch = Batch(np.where(HIDDEN, np.nan, Y))
    return list(posterior_draws(posterior_for(name), batch, algorithm(name), n_draws=n_draws, stream=stream))


@pytest.mark.parametrize("n_draws", [1, 5])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_scores_against_loops(name, n_draws):
    draws = draws_of(name, n_draws)
    total, squared_error = 0.0, 0.0
    for i in range(N):
        hidden = np.flatnonzero(HIDDEN[i])
        density = [np.prod(norm.pdf(Y[i, hidden], (m.x @ m.phi)[i, hidden], m.g_o**-0.5)) for m in draws]
        total += np.log(np.mean(density))
        mean = np.mean([(m.x @ m.phi)[i] for m in draws], axis=0)
        squared_error += sum((Y[i, d] - mean[d]) ** 2 for d in hidden)
    score = held_out_score(posterior_for(name), Y, HIDDEN, algorithm(name), n_draws=n_draws, seed=0)
    assert score.n_entries == HIDDEN.sum()
    np.testing.assert_allclose(score.log_likelihood, total / HIDDEN.sum())
    np.testing.assert_allclose(score.mse, squared_error / HIDDEN.sum())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_hidden_values_do_not_leak(name):
    """Another truth at the hidden entries changes the score by itself alone, and no prediction."""
    posterior, chosen = posterior_for(name), algorithm(name)

    def score(truth):
        return held_out_score(posterior, np.where(HIDDEN, truth, Y), HIDDEN, chosen, n_draws=3, seed=0)

    prediction = sum(draw.mean for draw in draws_of(name, 3)) / 3
    for truth in (0.0, 2.0, 1e3):
        np.testing.assert_allclose(score(truth).mse, ((truth - prediction)[HIDDEN] ** 2).mean())


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "gibbs"])
def test_expected_view_draws_locals_independent_of_globals(name):
    """A row repeated: the mean of its x moves with the draw of the globals under a sampled view only."""
    n_rows, n_draws = 3000, 10
    batch, chosen, posterior = Batch(np.repeat(Y[1:2], n_rows, axis=0)), algorithm(name), posterior_for(name)
    view = posterior.expected()
    if name == "mimno-svi":
        chosen = algorithm(name, burn_in=50)
    if isinstance(chosen.local, Gibbs):
        local = enumerate_row(view, Y[1], np.ones(D, dtype=bool))
        x, zw2 = local.x, local.zw2
    else:
        moments = chosen.local.moments(view, chosen.local.fit(view, Batch(Y[1:2])))
        x, zw2 = moments.x[0], moments.zw2[0]
    draws = posterior_draws(posterior, batch, chosen, n_draws=n_draws, stream=Stream.from_seed(0))
    errors = np.sqrt((zw2 - x**2) / n_rows)
    furthest = max(np.abs((draw.x.mean(axis=0) - x) / errors).max() for draw in draws)
    assert furthest < 4.5 if chosen.view == "expected" else furthest > 10


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_draw_has_its_own_globals(name):
    draws = draws_of(name, 10)
    different = {draw.phi.tobytes() for draw in draws}
    if name == "gibbs":
        assert different <= {view.phi.tobytes() for view in posterior_for(name).views}
        assert len(different) > 1
    else:
        assert len(different) == len({draw.g_o for draw in draws}) == 10


def test_gibbs_chain_goes_on_from_draw_to_draw():
    """Two features that are nearly one: one sweep leaves them where they began, many do not."""
    certain = 1e8
    phi = np.array([[1.0, 0.0], [0.99, 0.14]])
    posterior = GlobalPosterior(
        priors=Priors(),
        n_rows=100,
        a=np.full(2, certain),
        b=np.full(2, 1.0),
        c=certain,
        d=certain / 100.0,
        e=certain,
        f=certain,
        features=FactorisedFeatures.around(phi, certain),
    )
    y = np.array([[0.0, 1.0]])
    batch, chosen = Batch(np.repeat(y, 500, axis=0)), algorithm("gibbs-ssvi", burn_in=0)
    draws = posterior_draws(posterior, batch, chosen, n_draws=400, stream=Stream.from_seed(0))
    means = [draw.mean.mean(axis=0) for draw in draws]
    exact = y @ np.linalg.solve(np.eye(2) / 100 + phi.T @ phi, phi.T @ phi)
    np.testing.assert_allclose(means[-1], exact[0], atol=0.05)
    assert np.abs(means[0] - exact[0]).max() > 0.3


def test_seed():
    posterior, chosen = posterior_for("gibbs-ssvi"), algorithm("gibbs-ssvi")
    first, again, other = (held_out_score(posterior, Y, HIDDEN, chosen, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first.mse != other.mse


def test_rows_are_predicted_in_blocks_without_effect(monkeypatch):
    posterior, chosen = posterior_for("gibbs-ssvi"), algorithm("gibbs-ssvi")
    whole = held_out_score(posterior, Y, HIDDEN, chosen, seed=0)
    monkeypatch.setattr("bpfa.prediction.scores.BLOCK_ROWS", 3)
    np.testing.assert_allclose(held_out_score(posterior, Y, HIDDEN, chosen, seed=0), whole)


def test_missing_entries_are_neither_seen_nor_scored():
    posterior, chosen = posterior_for("mf-svi"), algorithm("mf-svi")
    y = np.where(HIDDEN, Y, np.nan)
    y[1] = Y[1]
    score = held_out_score(posterior, y, HIDDEN, chosen, n_draws=5, seed=0)
    assert score.n_entries == HIDDEN.sum()
    assert score.mse != held_out_score(posterior, Y, HIDDEN, chosen, n_draws=5, seed=0).mse
    # Nothing is observed but the second row, in which nothing is hidden.
    seen, stream = Batch(np.where(np.arange(N)[:, None] == 1, Y, np.nan)), Stream.from_seed(0)
    draws = posterior_draws(posterior, seen, chosen, n_draws=5, stream=stream.child("prediction"))
    prediction = sum(draw.mean for draw in draws) / 5
    np.testing.assert_allclose(score.mse, ((Y - prediction)[HIDDEN] ** 2).mean())


def test_psnr_of_three_regions():
    truth = np.full((4, 5), 100.0)
    missing = np.zeros(truth.shape, dtype=bool)
    missing[0] = True
    restored = truth + np.where(missing, 10.0, 1.0)
    # rmse 10 on a quarter of the pixels, 1 on the rest
    np.testing.assert_allclose(psnr(truth, restored, missing), 20 * np.log10(255 / 10))
    np.testing.assert_allclose(psnr(truth, restored, ~missing), 20 * np.log10(255))
    np.testing.assert_allclose(psnr(truth, restored), 20 * np.log10(255 / (103 / 4) ** 0.5))
    np.testing.assert_allclose(psnr(truth / 255, restored / 255, peak=1.0), psnr(truth, restored))
    assert psnr(truth, truth) == np.inf


@pytest.mark.parametrize("integrated", [False, True])
def test_entries_whose_squares_overflow(integrated):
    """Their density is 0; rows with such entries among the observed ones, and none held out, do not count."""
    values = np.array([[1e155, 0.0], [1e155, 0.0], [0.5, 0.0]])
    held_out = np.array([[True, False], [False, False], [True, False]])
    draw = PosteriorDraw(np.ones((3, 1)), np.ones((1, 2)), g_o=1.0, g_w=1.0)

    def score(rows):
        batch = Batch(values[rows], ~held_out[rows])
        with np.errstate(all="ignore"):
            return score_draws(
                [draw._replace(x=draw.x[rows])],
                batch,
                values[rows],
                held_out[rows],
                n_draws=1,
                integrated=integrated,
            )

    assert score([0, 1, 2]).log_likelihood == -np.inf
    assert score([0]).log_likelihood == -np.inf
    assert score([1, 2]).log_likelihood == score([2]).log_likelihood > -np.inf
