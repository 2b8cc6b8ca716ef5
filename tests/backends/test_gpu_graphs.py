"""Steps that are replayed as graphs on a GPU are the steps that they were recorded from, to the bit."""

import gc
from itertools import islice

import numpy as np
import pytest
from builders import data_with_holes

import bpfa
from bpfa import train
from bpfa.backends.cuda import graphs
from bpfa.backends.cuda.posterior import DevicePosterior
from bpfa.backends.cuda.products import products_of_rows
from bpfa.backends.cuda.runtime import cupy_module, on_device
from bpfa.backends.cuda.step_arguments import StepOnDevice
from bpfa.inference.progress import NonFiniteError

pytestmark = pytest.mark.gpu


@pytest.fixture
def replayed(monkeypatch):
    """The numbers of the steps that are replayed."""
    steps, replay = [], graphs.StepGraph.replay

    def noted(self, posterior, batch, step, rho):
        steps.append(step)
        return replay(self, posterior, batch, step, rho)

    monkeypatch.setattr(graphs.StepGraph, "replay", noted)
    return steps


@pytest.fixture
def without(monkeypatch):
    """Calls a function where nothing is recorded."""

    def call(function, *arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(graphs, "MOST_BYTES", 0)
            return function(*arguments, **options)

    return call


def steps_of(y, n_features=9, **options):
    """All steps of a run, kept until the last one is made."""
    options = {"n_steps": 20, "batch_size": 150, "seed": 1, "device": "cuda", **options}
    return list(train(y, n_features, **options))


def assert_same_steps(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        for mine, other in zip(a.state.arrays, b.state.arrays, strict=True):
            np.testing.assert_array_equal(mine.get(), other.get(), err_msg=f"step {a.step}")


@pytest.mark.parametrize("share", [0.0, 0.4])
@pytest.mark.parametrize("n_columns", [12, 150])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"algorithm": "mimno-svi"},
        {"dtype": "float64"},
        {"blocked": False},
        {"weight_precision": "active"},
        {"dropout": 0.2},
        {"features": "joint"},
    ],
)
def test_the_same_bits(options, n_columns, share, replayed, without):
    """Whoever keeps the posteriors of all steps: batches have two sizes, of which each is recorded once."""
    y = data_with_holes(N=601, D=n_columns, share=share)
    ours = steps_of(y, **options)
    assert len(replayed) >= 20 - 2 * 2
    assert max(replayed) == 20
    n_replayed = len(replayed)
    theirs = without(steps_of, y, **options)
    assert len(replayed) == n_replayed
    assert_same_steps(ours, theirs)


@pytest.mark.parametrize("options", [{"features": "joint", "n_features": 180}, {"algorithm": "titsias-ssvi"}])
def test_what_cannot_be_recorded_is_made_as_it_is(options, replayed, without):
    """Libraries that CuPy does not let be recorded: cuSOLVER, cuBLAS."""
    y = data_with_holes()
    ours = steps_of(y, **options)
    assert not replayed
    assert_same_steps(ours, without(steps_of, y, **options))


def test_rows_that_are_not_on_the_device_are_not_replayed(monkeypatch, replayed):
    y = data_with_holes()
    inside = steps_of(y)
    assert replayed
    replayed.clear()
    monkeypatch.setattr(bpfa.backends.cuda.rows, "MEMORY_SHARE", 0.0)
    outside = steps_of(y)
    assert not replayed
    assert_same_steps(inside, outside)


def test_large_steps_are_not_recorded(monkeypatch, replayed):
    monkeypatch.setattr(graphs, "MOST_BYTES", 2**16)
    steps_of(data_with_holes())
    assert not replayed


def test_fits_checkpoints_and_callbacks(tmp_path, replayed, without):
    y, path = data_with_holes(), tmp_path / "model.bpfa"
    fixed = {
        "features": "factorised",
        "batch_size": 100,
        "held_out": 0.1,
        "device": "cuda",
        "random_state": 0,
    }
    kept = []

    def keep(progress, history):
        kept.append((progress.state, progress.posterior.a.copy()))

    whole = bpfa.BPFA(8, max_steps=120, **fixed).fit(y, callbacks=[keep])
    assert len(replayed) > 100
    for state, a in kept:
        np.testing.assert_array_equal(state.ab[0].get(), a)
    plain = without(bpfa.BPFA(8, max_steps=120, **fixed).fit, y)
    bpfa.BPFA(8, max_steps=70, **fixed).fit(y, checkpoint=path)
    resumed = bpfa.BPFA(8, max_steps=120, **fixed).fit(y, resume=path)
    for other in (plain, resumed):
        np.testing.assert_array_equal(whole.components_, other.components_)
        for name in ("noise_std", "n_active", "held_out_log_likelihood"):
            np.testing.assert_array_equal(whole.history_[name], other.history_[name])


def test_features_that_are_revised(replayed, without):
    y = data_with_holes(N=1000)
    fixed = {"features": "factorised", "max_steps": 160, "revise": True, "held_out": 0.1, "batch_size": 100}
    model = bpfa.BPFA(5, device="cuda", random_state=0, **fixed)
    components = model.fit(y).components_
    assert len(replayed) > 100
    np.testing.assert_array_equal(components, without(model.fit, y).components_)


def test_a_replayed_step_that_is_not_finite_keeps_the_last_good_state(replayed):
    cupy = cupy_module()
    y = cupy.asarray(data_with_holes(share=0.3), cupy.float32)
    steps = train(y, 6, n_steps=60, batch_size=100, seed=0, device="cuda")
    *_, last = islice(steps, 20)
    y[...] = 1e38
    with pytest.raises(NonFiniteError, match=r"step 50 .*the sums of step 21 are not finite") as raised:
        list(steps)
    assert 21 in replayed
    np.testing.assert_array_equal(raised.value.posterior.a, last.posterior.a)


def test_a_recording_that_is_interrupted(monkeypatch, replayed):
    y, step = data_with_holes(), DevicePosterior.step

    def interrupted(self, sums, rho, g_o):
        if isinstance(rho, StepOnDevice):
            raise KeyboardInterrupt
        return step(self, sums, rho, g_o)

    with monkeypatch.context() as patch:
        patch.setattr(DevicePosterior, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            steps_of(y)
    assert not replayed
    steps_of(y)
    assert replayed


def test_memory_is_given_back(replayed):
    pool, y = cupy_module().get_default_memory_pool(), data_with_holes()
    steps_of(y)
    gc.collect()
    before = pool.used_bytes()
    run = train(y, 9, batch_size=150, seed=1, device="cuda")
    next(islice(run, 20, None))
    assert replayed
    assert pool.used_bytes() > before
    run.close()
    del run
    gc.collect()
    assert pool.used_bytes() == before


@pytest.mark.parametrize("real", ["float32", "float64"])
@pytest.mark.parametrize(("n", "m", "D"), [(1, 1, 1), (63, 65, 17), (200, 130, 64), (1000, 900, 700)])
def test_products_of_rows(n, m, D, real):
    """The last are so many that cuBLAS makes them."""
    cupy, rng = cupy_module(), np.random.default_rng(0)
    A, B = rng.normal(size=(n, D)).astype(real), rng.normal(size=(m, D)).astype(real)
    with on_device("cuda"):
        found = products_of_rows(cupy.asarray(A), cupy.asarray(B)).get()
    exact = A.astype(np.float64) @ B.astype(np.float64).T
    np.testing.assert_allclose(found, exact, rtol=0, atol=100 * np.finfo(real).eps * D**0.5)
