"""The training loop: its batches, its steps, and what is left when it is stopped."""

from itertools import islice

import numpy as np
import pytest
from builders import natural, random_batch, random_posterior
from hypothesis import given
from hypothesis import strategies as st

from bpfa import ALGORITHMS, Algorithm, ArrayRows, NonFiniteError, Schedule, algorithm, draw_data, train
from bpfa._support.philox import Stream
from bpfa.backends.numpy import MeanField
from bpfa.data import ShuffledEpochs, batch_ids
from bpfa.inference.svi import svi

N, K, D = 30, 3, 4
GRID = [name for name in ALGORITHMS if name != "gibbs"]


@pytest.fixture
def rows():
    batch = random_batch(np.random.default_rng(0), N, D, "empty row")
    return ArrayRows(batch.values, ~batch.observed)


@pytest.fixture
def posterior():
    return random_posterior(np.random.default_rng(1), N, K, D)


def run(rows, posterior, name="mf-ssvi", n_steps=7, batch_size=8, seed=2, schedule=None, **options):
    return svi(
        rows,
        posterior,
        algorithm(name),
        visits=ShuffledEpochs(batch_size, Stream.from_seed(seed)),
        n_steps=n_steps,
        schedule=schedule or Schedule(),
        stream=Stream.from_seed(seed),
        **options,
    )


def assert_same_bits(a, b):
    theirs = natural(b)
    for name, value in natural(a).items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


@given(n_rows=st.integers(1, 60), batch_size=st.integers(1, 70), seed=st.integers(0, 9))
def test_batches_partition_each_epoch(n_rows, batch_size, seed):
    per_epoch = -(-n_rows // batch_size)
    ids = batch_ids(n_rows, batch_size, Stream.from_seed(seed))
    for _ in range(2):
        epoch = list(islice(ids, per_epoch))
        sizes = [len(batch) for batch in epoch]
        assert max(sizes) <= batch_size
        assert max(sizes) - min(sizes) <= 1
        np.testing.assert_array_equal(np.sort(np.concatenate(epoch)), np.arange(n_rows))


def test_every_epoch_and_seed_has_its_own_order():
    orders = [
        np.concatenate(list(islice(batch_ids(100, 10, Stream.from_seed(seed), first_step), 10)))
        for seed in (0, 1)
        for first_step in (1, 11)
    ]
    assert len({tuple(order) for order in orders}) == 4


@given(first_step=st.integers(1, 20))
def test_batch_of_a_step_does_not_depend_on_the_first_step(first_step):
    late = batch_ids(10, 3, Stream.from_seed(0), first_step)
    early = islice(batch_ids(10, 3, Stream.from_seed(0)), first_step - 1, None)
    for _ in range(5):
        np.testing.assert_array_equal(next(late), next(early))


@pytest.mark.parametrize("rho_is_one", [True, False])
def test_a_step_moves_to_the_target_of_its_batch(rows, posterior, rho_is_one):
    """With the whole data set for a batch, the expected view and rho_1 = 1 the start itself is forgotten."""
    schedule = Schedule(delay=0 if rho_is_one else 1, decay=0.5)
    mean_field = algorithm("mf-svi", dtype="float64").local
    (progress,) = svi(
        rows,
        posterior,
        Algorithm("mf-svi", "expected", mean_field),
        visits=ShuffledEpochs(N, Stream.from_seed(2)),
        n_steps=1,
        schedule=schedule,
        stream=Stream.from_seed(2),
    )
    view = posterior.expected()
    sums = mean_field.sums(view, rows.take(np.arange(N)), Stream.from_seed(0).rows(np.arange(N), 1))
    old, target, rho = natural(posterior), natural(posterior.target(sums, view.g_o)), schedule(1)
    assert (rho == 1) == rho_is_one
    for name, value in natural(progress.posterior).items():
        np.testing.assert_allclose(value, (1 - rho) * old[name] + rho * target[name], err_msg=name)


def test_a_batch_speaks_for_all_rows(posterior):
    rows = ArrayRows(np.random.default_rng(3).normal(size=(N, D)))
    (progress,) = run(rows, posterior, n_steps=1, batch_size=5)
    a0, b0 = posterior.priors.beta(K)
    np.testing.assert_allclose(progress.posterior.a + progress.posterior.b, a0 + b0 + N)
    np.testing.assert_allclose(progress.posterior.c, posterior.priors.c0 + N * D / 2)


def test_progress(rows, posterior):
    progress = list(run(rows, posterior, n_steps=6, batch_size=8))
    assert [p.step for p in progress] == [1, 2, 3, 4, 5, 6]
    assert [p.rho for p in progress] == [Schedule()(t) for t in range(1, 7)]
    # 30 rows in four batches of 8, 8, 7 and 7
    np.testing.assert_allclose([p.epoch for p in progress], np.cumsum([8, 8, 7, 7, 8, 8]) / N)
    assert (np.diff([p.seconds for p in progress]) >= 0).all()


def test_every_step_has_its_own_draws(rows, posterior):
    seen = []

    class Recorder(MeanField):
        def sums(self, view, batch, draws, start=None, *, joint):
            seen.append((view.phi[0, 0], draws.uniform(1, 1)[0, 0]))
            return super().sums(view, batch, draws, start, joint=joint)

    stay = Schedule(delay=1e300, decay=1.0)
    recorder = Algorithm("recorder", "sampled", Recorder())
    stream = Stream.from_seed(0)
    list(
        svi(
            rows,
            posterior,
            recorder,
            visits=ShuffledEpochs(N, stream),
            n_steps=5,
            schedule=stay,
            stream=stream,
        )
    )
    views, draws = zip(*seen, strict=True)
    assert len(set(views)) == len(set(draws)) == 5


@pytest.mark.parametrize("name", GRID)
def test_resumed_run_equals_an_uninterrupted_one(rows, posterior, name):
    whole = list(run(rows, posterior, name, n_steps=9))
    for t in (1, 4, 6):
        resumed = list(run(rows, whole[t - 1].posterior, name, n_steps=9 - t, first_step=t + 1))
        assert [(p.step, p.rho) for p in resumed] == [(p.step, p.rho) for p in whole[t:]]
        assert_same_bits(resumed[-1].posterior, whole[-1].posterior)


def test_resumed_run_counts_its_epochs_on(rows, posterior):
    whole = list(run(rows, posterior, n_steps=9))
    resumed = list(run(rows, posterior, n_steps=3, first_step=7))
    np.testing.assert_allclose([p.epoch for p in resumed], [p.epoch for p in whole[6:]])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_seed(name):
    y = draw_data(40, D, K, g_o=100.0, g_w=1.0, seed=0).y

    def phi(seed):
        *_, last = train(y, K, algorithm=name, n_steps=4, batch_size=15, seed=seed)
        return last.posterior.sampled(np.random.default_rng(0)).phi

    np.testing.assert_array_equal(phi(1), phi(1))
    assert (phi(1) != phi(2)).all()


def test_batch_larger_than_the_data_is_all_of_it(rows, posterior):
    large, exact = (list(run(rows, posterior, batch_size=size)) for size in (10 * N, N))
    assert [p.epoch for p in large] == [1, 2, 3, 4, 5, 6, 7]
    assert_same_bits(large[-1].posterior, exact[-1].posterior)


@pytest.mark.parametrize("name", GRID)
def test_column_with_nothing_observed_keeps_its_prior(posterior, name):
    y = np.random.default_rng(4).normal(size=(N, D))
    y[:, 2] = np.nan
    *_, last = run(ArrayRows(y), posterior, name)
    np.testing.assert_allclose(last.posterior.features.mu[:, 2], 0.0)
    np.testing.assert_allclose(last.posterior.features.tau[:, 2], D)
    assert (last.posterior.features.tau[:, 0] > D).all()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_data_is_not_changed(name):
    y = np.random.default_rng(5).normal(size=(20, D))
    y[3, 1] = np.nan
    before = y.copy()
    list(train(y, K, algorithm=name, n_steps=3, batch_size=7, seed=0))
    np.testing.assert_array_equal(y, before)


@pytest.mark.parametrize("name", GRID)
def test_non_finite_step_keeps_the_last_good_posterior(posterior, name):
    y = np.random.default_rng(6).normal(size=(N, D))
    y[next(islice(batch_ids(N, 5, Stream.from_seed(2)), 3, None))] = 1e200
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(NonFiniteError, match="step 4 gave numbers that are not finite") as failure,
    ):
        list(run(ArrayRows(y), posterior, name, batch_size=5))
    assert failure.value.step == 4
    again = list(run(ArrayRows(y), posterior, name, batch_size=5, n_steps=3))
    assert_same_bits(failure.value.posterior, again[-1].posterior)


class InterruptedRows(ArrayRows):
    """Rows that are read while the user presses Ctrl-C in the fourth step."""

    n_taken = 0

    def take(self, ids):
        self.n_taken += 1
        if self.n_taken == 4:
            raise KeyboardInterrupt
        return super().take(ids)


def test_interrupted_run_leaves_its_last_progress(rows, posterior):
    whole = list(run(rows, posterior))
    interrupted = InterruptedRows(rows.values, ~rows.observed)
    progress = None
    with pytest.raises(KeyboardInterrupt):
        for progress in run(interrupted, posterior):  # noqa: B007 - what a user's loop holds at the end
            pass
    assert progress.step == 3
    assert_same_bits(progress.posterior, whole[2].posterior)
    *_, last = run(interrupted, progress.posterior, n_steps=4, first_step=4)
    assert_same_bits(last.posterior, whole[-1].posterior)


def test_a_fault_of_the_source_is_not_called_non_finite(posterior):
    class Broken(ArrayRows):
        def take(self, ids):
            raise ValueError("the file is gone")

    rows = Broken(np.zeros((N, D)))
    with pytest.raises(ValueError, match="the file is gone"):
        list(run(rows, posterior))


@pytest.mark.parametrize("name", GRID)
@pytest.mark.parametrize("features", ["factorised", "joint"])
def test_every_cell_learns(name, features):
    """The noise comes down to its 0.1 on complete data, where every cell can have either form of features."""
    data = draw_data(2000, 8, 3, g_o=100.0, g_w=1.0, seed=2)
    weights = "all" if name.startswith("mf") else "active"
    options = {
        "features": features,
        "weight_precision": weights,
        "n_steps": 150,
        "batch_size": 400,
        "seed": 0,
    }
    *_, last = train(data.y, 6, algorithm=name, **options)
    assert 0.08 < last.posterior.noise_std < 0.13


@pytest.mark.parametrize("name", GRID)
def test_joint_features_with_missing_entries(name):
    data = draw_data(300, 8, 3, g_o=100.0, g_w=1.0, seed=3)
    missing = np.random.default_rng(0).random(data.y.shape) < 0.2
    run = train(data.y, 6, missing=missing, algorithm=name, features="joint", n_steps=5, seed=0)
    if ALGORITHMS[name].view == "sampled":
        first, *_, last = run
        P = last.posterior.features.P
        assert P.shape == (8, 6, 6)
        # Every column has a precision matrix of its own, with correlations in it, and the noise comes down.
        assert (np.ptp(P, axis=0) > 0).all()
        assert (np.abs(P - P * np.eye(6)).max(axis=(1, 2)) > 1).all()
        assert (np.linalg.eigvalsh(P) > 0).all()
        assert last.posterior.noise_std < 0.8 * first.posterior.noise_std
    else:
        with pytest.raises(ValueError, match=f"features='joint': '{name}' sees expectations"):
            next(run)


@pytest.mark.parametrize("name", ["mf-svi", "mf-ssvi"])
def test_mean_field_has_no_idle_weights(name):
    with pytest.raises(ValueError, match="weight_precision='active'"):
        train(np.ones((3, 2)), 2, algorithm=name, weight_precision="active")
