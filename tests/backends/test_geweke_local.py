"""Local Gibbs alone: the globals are fixed, and every row is a replicate."""

import numpy as np
import pytest
from builders import random_mask, random_view
from geweke import BROKEN, BROKEN_SLABS, RIGHT, draw_locals, draw_values, smallest_pvalue

import bpfa.backends.numpy.gibbs
from bpfa import Batch
from bpfa._support.philox import Stream
from bpfa.model.local import LocalState

N_ROWS, N_STEPS, K, D = 20_000, 5, 3, 4


def statistics(view, x, y, observed):
    residual = np.where(observed, y - x @ view.phi, 0.0)
    return {
        "x_0": x[:, 0],
        "x_1": x[:, 1],
        "x_2": x[:, 2],
        "x_0 x_1": x[:, 0] * x[:, 1],
        "n_active": (x != 0).sum(axis=1),
        "|x|^2": (x**2).sum(axis=1),
        "|y|^2": (np.where(observed, y, 0.0) ** 2).sum(axis=1),
        "|r|^2": (residual**2).sum(axis=1),
    }


def geweke(gibbs):
    rng, stream = np.random.default_rng(1), Stream.from_seed(2)
    view, observed = random_view(rng, K, D), random_mask(rng, N_ROWS, D)
    state = draw_locals(view, N_ROWS, rng)
    y = draw_values(view, state.x, rng)
    for step in range(N_STEPS):
        batch = Batch(y, observed)
        x = next(gibbs.samples(view, batch, stream.rows(batch.ids, step), 1, state))
        state = LocalState((x != 0).astype(float), x)
        y = draw_values(view, x, rng)
    fresh = draw_locals(view, N_ROWS, rng).x
    return smallest_pvalue(
        statistics(view, state.x, y, observed),
        statistics(view, fresh, draw_values(view, fresh, rng), observed),
    )


@pytest.mark.parametrize("blocked", [True, False])
def test_local_gibbs_leaves_the_joint_distribution(methods, blocked):
    assert geweke(methods.Gibbs(burn_in=0, blocked=blocked)) > RIGHT


@pytest.mark.parametrize("broken", BROKEN_SLABS)
def test_broken_local_gibbs_is_caught(monkeypatch, broken):
    monkeypatch.setattr(bpfa.backends.numpy.gibbs, "slab", broken)
    assert geweke(bpfa.backends.numpy.Gibbs(burn_in=0)) < BROKEN
