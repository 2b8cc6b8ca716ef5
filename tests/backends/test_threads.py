"""Parallel loops of the compiled modules: several Python threads at once, and more threads than work."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from builders import random_batch, random_view

from bpfa._support.gaussian import gaussian_draws, moved_numbers, moved_precisions
from bpfa._support.philox import Stream
from bpfa._support.threads import limited_threads
from bpfa.backends import cpu

K, D, N = 20, 12, 400
RNG = np.random.default_rng(0)
VIEW, BATCH = random_view(RNG, K, D), random_batch(RNG, N, D, "random")
P = np.stack([matrix @ matrix.T + np.eye(K) for matrix in RNG.normal(size=(D, K, K))])
H, NOISE = RNG.normal(size=(2, K, D))


def sums(n_jobs, seed=0):
    draws = Stream.from_seed(seed).rows(BATCH.ids, step=1)
    return cpu.Gibbs(n_jobs=n_jobs).sums(VIEW, BATCH, draws, joint=True)


def test_loops_of_several_callers_do_not_mix():
    """Eight callers share the helpers of one pool; each gets what it would get alone."""
    alone = [sums(1, seed).XX for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            together = list(pool.map(lambda seed: sums(4, seed).XX, range(8)))
            for found, expected in zip(together, alone, strict=True):
                np.testing.assert_array_equal(found, expected)


def test_draws_and_steps_of_several_callers_do_not_mix():
    with limited_threads(1):
        expected = gaussian_draws(P, H, NOISE), moved_precisions(P, P, keep=0.5, gain=2.0, diagonal=1.0)
    with ThreadPoolExecutor(6) as pool:
        draws = [pool.submit(gaussian_draws, P, H, NOISE) for _ in range(60)]
        steps = [pool.submit(moved_precisions, P, P, keep=0.5, gain=2.0, diagonal=1.0) for _ in range(60)]
        for draw, step in zip(draws, steps, strict=True):
            np.testing.assert_array_equal(draw.result(), expected[0])
            moved, finite = step.result()
            np.testing.assert_array_equal(moved, expected[1][0])
            assert finite


@pytest.mark.parametrize("n_jobs", [2, 3, 8])
def test_more_threads_than_processors_or_tasks(n_jobs):
    few = BATCH.ids[:3]
    batch = type(BATCH)(BATCH.values[:3], BATCH.observed[:3], few)
    draws = Stream.from_seed(0).rows(few, step=1)
    one, many = (cpu.Gibbs(n_jobs=n).sums(VIEW, batch, draws) for n in (1, n_jobs))
    np.testing.assert_array_equal(many.S, one.S)


def test_draws_are_those_of_the_definition():
    """P_d^-1 h_d + L_d^-T noise_d for every column, with a matrix for each of them and with one for all."""
    for matrices in (P, P[:1]):
        found = gaussian_draws(matrices, H, NOISE)
        for d in range(D):
            L = np.linalg.cholesky(matrices[d % len(matrices)])
            expected = np.linalg.solve(L @ L.T, H[:, d]) + np.linalg.solve(L.T, NOISE[:, d])
            np.testing.assert_allclose(found[:, d], expected, rtol=1e-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_moves_say_whether_all_of_their_results_are_finite(bad):
    spoilt = P.copy()
    spoilt[3, 2, 1] = bad
    for start, target in ((P, P), (P, spoilt), (spoilt, P)):
        moved, finite = moved_precisions(start, target, keep=0.5, gain=2.0, diagonal=1.0)
        np.testing.assert_array_equal(moved, 0.5 * start + 2.0 * target + np.eye(K))
        assert finite == np.isfinite(moved).all()
        numbers, finite = moved_numbers(start[3], target[3], keep=0.5, gain=2.0)
        np.testing.assert_array_equal(numbers, 0.5 * start[3] + 2.0 * target[3])
        assert finite == np.isfinite(numbers).all()


def test_the_column_that_fails_is_named_whichever_thread_meets_it():
    bad = P.copy()
    bad[[4, 7, 9]] = -np.eye(K)
    for _ in range(20):
        with pytest.raises(ValueError, match="the matrix of column 4 is not positive definite"):
            gaussian_draws(bad, H, NOISE)
