"""What a batch adds up to: against loops, additive over rows, unbiased over batches."""

from dataclasses import fields
from itertools import islice

import numpy as np
import pytest
from builders import MASKS, VIEWS, natural, random_batch, random_mask, random_posterior, random_view

from bpfa import Batch
from bpfa._support.philox import Stream
from bpfa.data import batch_ids
from bpfa.model.sums import LocalMoments, LocalSums

K, D = 4, 5
NAMES = ("Gibbs", "MeanField", "SpikeSlab")


@pytest.fixture(params=NAMES)
def method(request, precise_methods):
    return getattr(precise_methods, request.param)()


def part(batch, ids):
    return Batch(batch.values[ids], batch.observed[ids], batch.ids[ids])


def sums_of(method, view, batch):
    return method.sums(view, batch, Stream.from_seed(5).rows(batch.ids, step=1))


def assert_equal_sums(a, b, rtol=1e-10):
    for field in fields(a):
        ours, theirs = np.broadcast_arrays(getattr(a, field.name), getattr(b, field.name))
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-10, err_msg=field.name)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("view", VIEWS)
def test_sums_against_loops(view, mask):
    """Every sum as docs/math.md section 4 writes it."""
    rng, N = np.random.default_rng(0), 6
    view, batch = random_view(rng, K, D, view), random_batch(rng, N, D, mask)
    z, x = rng.random((N, K)), rng.normal(size=(N, K))
    zw2, w2 = x**2 + rng.random((N, K)), 2 * x**2 + 1
    y, o = batch.values, batch.observed
    v = np.broadcast_to(view.v, (K, D))
    T, S, SSE = np.zeros((K, D)), np.zeros((K, D)), 0.0
    for i in range(N):
        for d in np.flatnonzero(o[i]):
            SSE += (y[i, d] - sum(x[i, k] * view.phi[k, d] for k in range(K))) ** 2
            for k in range(K):
                rest = y[i, d] - sum(x[i, j] * view.phi[j, d] for j in range(K) if j != k)
                T[k, d] += zw2[i, k]
                S[k, d] += x[i, k] * rest
                SSE += zw2[i, k] * (view.phi[k, d] ** 2 + v[k, d]) - x[i, k] ** 2 * view.phi[k, d] ** 2
    sums = LocalSums.of(view, batch, LocalMoments(z, x, zw2, w2))
    assert (sums.n_rows, sums.O) == (N, o.sum())
    np.testing.assert_allclose(sums.n, z.sum(axis=0))
    np.testing.assert_allclose([sums.W2, sums.ZW2, sums.SSE], [w2.sum(), zw2.sum(), SSE])
    np.testing.assert_allclose(np.broadcast_to(sums.T, (K, D)), T)
    np.testing.assert_allclose(sums.S, S)


@pytest.mark.parametrize("view", VIEWS)
def test_gibbs_sums_average_the_kept_sweeps(precise_methods, view):
    rng = np.random.default_rng(1)
    view, batch = random_view(rng, K, D, view), random_batch(rng, 20, D)
    gibbs, draws = precise_methods.Gibbs(burn_in=2, n_samples=3), Stream.from_seed(5).rows(batch.ids, step=1)
    kept = [
        LocalSums.of(view, batch, LocalMoments(x != 0, x, x**2, np.where(x != 0, x**2, 1 / view.g_w)))
        for x in gibbs.samples(view, batch, draws, 3)
    ]
    sums = gibbs.sums(view, batch, draws)
    for name in ("n", "T", "S", "W2", "ZW2", "SSE"):
        average = sum(getattr(sample, name) for sample in kept) / 3
        np.testing.assert_allclose(getattr(sums, name), average, err_msg=name)
    assert (sums.n_rows, sums.O) == (20, batch.observed.sum())


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("mask", MASKS)
def test_sums_add_up_over_rows(method, view, mask):
    rng = np.random.default_rng(2)
    view, batch = random_view(rng, K, D, view), random_batch(rng, 30, D, mask)
    split = rng.permutation(30)
    whole = sums_of(method, view, batch)
    assert_equal_sums(
        sums_of(method, view, part(batch, split[:7])) + sums_of(method, view, part(batch, split[7:])), whole
    )
    assert_equal_sums(whole + sums_of(method, view, part(batch, split[:0])), whole)


@pytest.mark.parametrize("view", VIEWS)
def test_complete_and_incomplete_rows_add_up(method, view):
    rng = np.random.default_rng(3)
    view, observed = random_view(rng, K, D, view), random_mask(rng, 10, D)
    observed[:4] = True
    batch = Batch(rng.normal(size=(10, D)), observed)
    complete, holes = part(batch, np.arange(4)), part(batch, np.arange(4, 10))
    assert complete.complete
    assert not holes.complete
    both = sums_of(method, view, complete) + sums_of(method, view, holes)
    assert_equal_sums(both, sums_of(method, view, batch))


@pytest.mark.parametrize("mask", MASKS)
def test_view_without_variance_is_a_sampled_view(method, mask):
    rng = np.random.default_rng(4)
    view, batch = random_view(rng, K, D, "sampled"), random_batch(rng, 10, D, mask)
    without_variance = view._replace(v=np.zeros((K, D)))
    assert_equal_sums(sums_of(method, view, batch), sums_of(method, without_variance, batch), rtol=1e-13)


def test_variance_of_a_feature_may_be_one_number(method):
    rng = np.random.default_rng(5)
    view, batch = random_view(rng, K, D, "sampled"), random_batch(rng, 10, D)
    v = rng.random((K, 1))
    one, many = view._replace(v=v), view._replace(v=np.repeat(v, D, axis=1))
    assert_equal_sums(sums_of(method, one, batch), sums_of(method, many, batch))


@pytest.mark.parametrize("mask", ["full", "random"])
def test_batches_scaled_to_all_rows_are_unbiased(method, mask):
    """The targets of an epoch's equal batches average to the target of all rows: every one of them moves
    the posterior, on average, to where the whole data set would."""
    rng, N = np.random.default_rng(6), 24
    posterior = random_posterior(rng, N, K, D, per_column=mask != "full")
    view, batch = posterior.expected(), random_batch(rng, N, D, mask)
    whole = posterior.target(sums_of(method, view, batch), view.g_o)
    epoch = islice(batch_ids(N, 6, Stream.from_seed(1)), 4)
    targets = [posterior.target(sums_of(method, view, part(batch, ids)), view.g_o) for ids in epoch]
    for name, value in natural(whole).items():
        average = np.mean([natural(target)[name] for target in targets], axis=0)
        np.testing.assert_allclose(average, value, err_msg=name)
