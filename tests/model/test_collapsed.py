"""Chains of z with the weights integrated out: against enumeration, and kernel against specification."""

import numpy as np
import pytest
from builders import MASKS, random_batch, random_view
from enumeration import enumerate_row
from scipy import stats

from bpfa import Batch
from bpfa._support.philox import Stream
from bpfa.backends.cpu import instruction_sets
from bpfa.backends.cpu.collapsed import add_draws as fast_add_draws
from bpfa.model.collapsed import MissingEntries, add_draws

STREAM = Stream.from_seed(0)
N_CHAINS = 4000


def after_draws(draws_of, views, batch, n_sweeps=4, start=None, **options):
    start = np.zeros(views[0].n_features, dtype=bool) if start is None else start
    found = MissingEntries.before_draws(batch, start)
    draws_of(found, views, batch, STREAM, n_sweeps, **options)
    return found


@pytest.mark.parametrize("mask", [mask for mask in MASKS if mask != "full"])
def test_the_chain_has_the_exact_distribution_of_states(mask):
    rng = np.random.default_rng(0)
    view, row = random_view(rng, 4, 5), random_batch(rng, 1, 5, mask)
    row.values[:] *= 2
    exact = enumerate_row(view, row.values[0], row.observed[0])
    batch = Batch(np.repeat(row.values, N_CHAINS, axis=0), np.repeat(row.observed, N_CHAINS, axis=0))
    on = after_draws(add_draws, [view], batch, n_sweeps=12).on
    counts = np.bincount(on @ (2 ** np.arange(4)[::-1]), minlength=16)
    rare = exact.p * N_CHAINS < 5
    observed, expected = (np.append(each[~rare], each[rare].sum()) for each in (counts, exact.p * N_CHAINS))
    assert stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue > 1e-4


def test_one_sweep_keeps_the_exact_distribution():
    """Chains that start from exact draws still have the exact distribution after a sweep."""
    rng = np.random.default_rng(1)
    view, row = random_view(rng, 3, 4), random_batch(rng, 1, 4)
    row.values[:] *= 2
    exact = enumerate_row(view, row.values[0], row.observed[0])
    batch = Batch(np.repeat(row.values, N_CHAINS, axis=0), np.repeat(row.observed, N_CHAINS, axis=0))
    found = MissingEntries.before_draws(batch, np.zeros(3, dtype=bool))
    found.on[:] = exact.states[rng.choice(len(exact.p), size=N_CHAINS, p=exact.p)] == 1
    add_draws(found, [view], batch, STREAM, 1)
    error = np.sqrt(exact.z * (1 - exact.z) / N_CHAINS)
    assert (np.abs(found.on.mean(axis=0) - exact.z) < 4.5 * error).all()


@pytest.mark.parametrize("draws_of", [add_draws, fast_add_draws], ids=["specification", "kernel"])
def test_predictions_are_the_exact_ones(draws_of):
    """With many draws of z, mean and variance are those of the mixture over all states."""
    rng = np.random.default_rng(2)
    view, batch = random_view(rng, 4, 5), Batch(rng.normal(size=(1, 5)), [[True, False, True, True, False]])
    exact = enumerate_row(view, batch.values[0], batch.observed[0])
    many = Batch(np.repeat(batch.values, 500, axis=0), np.repeat(batch.observed, 500, axis=0))
    found = after_draws(draws_of, [view] * 20, many)
    mean = found.mean.mean(axis=0)
    error = found.mean.std(axis=0) / np.sqrt(500)
    missing = ~batch.observed[0]
    assert (np.abs(mean - exact.x @ view.phi)[missing] < 4.5 * error[missing]).all()
    second = np.zeros(5)
    for z, p in zip(exact.states, exact.p, strict=True):
        phi, seen = view.phi[z == 1], view.phi[z == 1][:, batch.observed[0]]
        covariance = np.linalg.inv(view.g_w * np.eye(len(phi)) + view.g_o * seen @ seen.T)
        weights = covariance @ (view.g_o * seen @ batch.values[0][batch.observed[0]])
        second += p * ((weights @ phi) ** 2 + np.einsum("kd,kj,jd->d", phi, covariance, phi))
    variance = second - (exact.x @ view.phi) ** 2 + 1 / view.g_o
    total = found.variance.mean(axis=0) + found.mean.var(axis=0)
    np.testing.assert_allclose(total[missing], variance[missing], rtol=0.03)
    assert (found.mean[:, ~missing] == 0).all()


@pytest.mark.parametrize("observed", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize(
    ("n_rows", "n_features", "n_columns"), [(0, 3, 4), (1, 1, 1), (150, 11, 24), (30, 70, 90)]
)
def test_kernel_equals_the_specification(n_rows, n_features, n_columns, observed):
    rng = np.random.default_rng(0)
    views = [random_view(rng, n_features, n_columns, g_o=25.0, g_w=0.5) for _ in range(5)]
    shape = n_rows, n_columns
    batch = Batch(rng.normal(size=shape), rng.random(shape) < observed, rng.integers(2**40, size=n_rows))
    start = rng.random(n_features) < 0.5
    expected = after_draws(add_draws, views, batch, start=start)
    for instruction_set in instruction_sets():
        # In two calls, the second of which continues the chains of the first.
        found = after_draws(fast_add_draws, views[:2], batch, start=start, instruction_set=instruction_set)
        fast_add_draws(found, views[2:], batch, STREAM, 4, instruction_set=instruction_set)
        assert found.n_draws == expected.n_draws == 5
        np.testing.assert_array_equal(found.on, expected.on)
        for name in ("mean", "squares", "within"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-10)


def test_kernel_keeps_digits_where_a_feature_is_all_but_missing():
    """Subtracting the missing columns from the Gram matrix would leave nothing but rounding errors."""
    view = random_view(np.random.default_rng(0), 3, 6, g_o=1e6)
    view.phi[0] = [1e6, 1e-4, 0.0, 0.0, 1e-4, 0.0]
    batch = Batch(np.random.default_rng(1).normal(size=(20, 6)), np.arange(6) > np.zeros((20, 1)))
    expected, found = (after_draws(f, [view] * 3, batch) for f in (add_draws, fast_add_draws))
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-6)
    np.testing.assert_allclose(found.within, expected.within, rtol=1e-6)


def test_bits_do_not_depend_on_threads_or_on_other_rows():
    rng = np.random.default_rng(0)
    views = [random_view(rng, 9, 20) for _ in range(3)]
    batch = Batch(rng.normal(size=(500, 20)), rng.random((500, 20)) < 0.95)
    one, two = (after_draws(fast_add_draws, views, batch, n_jobs=n_jobs) for n_jobs in (1, 2))
    some = np.arange(0, 500, 7)
    alone = after_draws(
        fast_add_draws, views, Batch(batch.values[some], batch.observed[some], batch.ids[some])
    )
    for name in ("on", "mean", "squares", "within"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        np.testing.assert_array_equal(getattr(one, name)[some], getattr(alone, name))


def test_rows_settle_when_the_error_of_the_mean_is_small():
    found = MissingEntries.before_draws(Batch(np.full((3, 2), np.nan)), np.array([True]))
    found.n_draws = 16
    found.within[:] = 1.0
    found.squares[1, 0] = 15 * 16 * 0.0011
    found.squares[2, 0] = 15 * 16 * 0.0009
    assert found.is_settled(0.001).tolist() == [True, False, True]
