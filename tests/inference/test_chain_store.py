"""Chains that go on from visit to visit: what is kept of them, and that they begin where they stood."""

import numpy as np
import pytest
from builders import natural, random_batch, random_view
from hypothesis import given
from hypothesis import strategies as st

from bpfa import ChainStore, Schedule, draw_data, train
from bpfa._support.philox import Stream
from bpfa.backends import cpu as kernels
from bpfa.backends import numpy as local
from bpfa.data import Batch
from bpfa.inference.chain_store import CarriedGibbs
from bpfa.model.local import LocalState

N, K, D = 12, 5, 6


@given(seed=st.integers(0, 99), on_disk=st.booleans())
def test_a_store_returns_what_was_put_last(tmp_path_factory, seed, on_disk):
    rng = np.random.default_rng(seed)
    n_features = 40
    store = ChainStore(N, n_features, tmp_path_factory.mktemp("chains") if on_disk else None)
    kept = np.zeros((2, N, n_features))
    for density in (0.05, 0.9, 0.0, 0.3):
        ids = rng.permutation(N)[:7]
        z = (rng.random((7, n_features)) < density).astype(float)
        w = rng.normal(size=z.shape).astype(np.float32).astype(float)
        store.put(ids, LocalState(z, w))
        kept[:, ids] = z, z * w
        np.testing.assert_array_equal(store.take(np.arange(N)), kept)


def test_a_store_is_small_where_rows_use_few_features(tmp_path):
    store = ChainStore(1000, 1000)
    store.put(np.arange(1000), LocalState(np.eye(1000), np.ones((1000, 1000))))
    assert store.nbytes < 100 * 1000
    on_disk = ChainStore(1000, 1000, tmp_path)
    assert any(tmp_path.iterdir())
    del on_disk
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("methods", [local, kernels], ids=["numpy", "cpu"])
def test_a_chain_goes_on_where_it_stood(methods, joint):
    """Two visits of two sweeps are one of four, but that sums are taken at the end of each."""
    rng = np.random.default_rng(0)
    view, batch = random_view(rng, K, D), random_batch(rng, N, D, "random")
    options = {"dtype": "float64"} if methods is kernels else {}
    first, second = (Stream.from_seed(seed).rows(batch.ids, 1) for seed in (1, 2))
    carried = CarriedGibbs(methods.Gibbs(burn_in=1, n_samples=1, **options), ChainStore(N, K))
    carried.sums(view, batch, first, joint=joint)
    went_on = carried.sums(view, batch, second, joint=joint)
    assert carried.store.take(batch.ids).z.any()

    reference = local.Gibbs(burn_in=1, n_samples=1)
    empty = LocalState(*np.zeros((2, N, K)))
    *_, middle = reference.chain(view, batch, first, 2, empty)
    middle = LocalState(middle.z.copy(), middle.w.astype(np.float32).astype(float))
    expected, _ = reference.sums_and_state(view, batch, second, middle, joint=joint)
    anew, _ = reference.sums_and_state(view, batch, second, empty, joint=joint)
    name = "XY" if joint else "S"
    np.testing.assert_allclose(getattr(went_on, name), getattr(expected, name), rtol=1e-6, atol=1e-6)
    assert not np.allclose(getattr(anew, name), getattr(expected, name), rtol=1e-3)


def test_a_run_that_goes_on_with_its_store_repeats_an_uninterrupted_one():
    data = draw_data(60, D, 3, g_o=100.0, g_w=1.0, seed=0).y
    settings = {"batch_size": 20, "seed": 1, "schedule": Schedule(), "features": "joint"}

    def steps(store, n_steps, **options):
        *_, last = train(data, K, n_steps=n_steps, chains=store, **settings, **options)
        return last.posterior

    whole = steps(ChainStore(60, K), 8)
    store = ChainStore(60, K)
    halves = steps(store, 4, posterior=steps(store, 4), first_step=5)
    cold = steps(None, 8)
    for name, value in natural(whole).items():
        np.testing.assert_array_equal(value, natural(halves)[name], err_msg=name)
    assert any(np.any(value != natural(cold)[name]) for name, value in natural(whole).items())


@pytest.mark.parametrize(
    ("store", "arguments", "message"),
    [
        (ChainStore(9, K), {}, "of 9 rows and 5 features; expected 60 and 5"),
        (ChainStore(60, 4), {}, "of 60 rows and 4 features; expected 60 and 5"),
        (
            ChainStore(60, K),
            {"algorithm": "mf-ssvi"},
            "'gibbs-ssvi' or 'mimno-svi' on the CPU, not 'mf-ssvi'",
        ),
    ],
)
def test_a_store_that_does_not_fit_is_refused(store, arguments, message):
    data = draw_data(60, D, 3, g_o=100.0, g_w=1.0, seed=0).y
    with pytest.raises(ValueError, match=message):
        train(data, K, chains=store, **arguments)


def test_a_warm_chain_leaves_the_posterior_of_a_row():
    """Under a fixed view, visits of one sweep sample what a long chain samples."""
    rng = np.random.default_rng(3)
    view = random_view(rng, 2, 3)
    row = random_batch(rng, 1, 3, "full")
    batch = Batch(np.repeat(row.values, 4000, axis=0))
    carried = CarriedGibbs(kernels.Gibbs(burn_in=0, n_samples=1), ChainStore(4000, 2))
    for visit in range(1, 31):
        sums = carried.sums(view, batch, Stream.from_seed(0).rows(batch.ids, visit))
    long = kernels.Gibbs(burn_in=60, n_samples=1).sums(view, batch, Stream.from_seed(9).rows(batch.ids, 1))
    # Counts out of 4000 chains: four deviations of their difference.
    np.testing.assert_allclose(sums.n, long.n, atol=4 * np.sqrt(2 * 4000 / 4))
