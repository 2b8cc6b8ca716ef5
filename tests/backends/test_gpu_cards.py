"""Cards other than the one at hand: without tensor cores for single precision, with less shared memory."""

import numpy as np
import pytest
from kernel_problems import METHODS, assert_same_sums
from test_gpu import check_against_specification, check_sums_of_samples, problem
from test_groups import group, model_of

import bpfa.backends.cuda.local
from bpfa import BPFA
from bpfa.backends import cpu as kernels
from bpfa.backends.cuda import gibbs, runtime
from bpfa.backends.cuda.groups import CudaGroups
from bpfa.backends.cuda.runtime import CurrentDevice
from bpfa.backends.numpy.groups import NumpyGroups
from bpfa.backends.registry import check_device

pytestmark = pytest.mark.gpu

# Compute capability and bytes of shared memory of a block: Turing, Ampere, and cards for desktops since.
CARDS = {"7.5": 65_536, "8.0": 166_912, "8.6": 101_376}


@pytest.fixture(params=CARDS)
def card(request, monkeypatch, tmp_path):
    """The kernels as they are on another card, translated for the one at hand when they are loaded."""
    monkeypatch.setenv(runtime.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(CurrentDevice, "shared_memory", lambda: CARDS[request.param])
    monkeypatch.setattr(CurrentDevice, "architecture", lambda: request.param.replace(".", ""))
    monkeypatch.setattr(runtime, "compiled", assembly)
    caches = runtime._kernel, runtime._module, gibbs._launch_for
    for cache in caches:
        cache.cache_clear()
    yield request.param
    for cache in caches:
        cache.cache_clear()


def assembly(source, macros, architecture):
    """Return a source as PTX, which runs on later cards too."""
    from cupy_backends.cuda.libs import nvrtc

    program = nvrtc.createProgram(runtime.source_text(source), source, (), ())
    options = (*runtime.OPTIONS, f"--gpu-architecture=compute_{architecture}")
    nvrtc.compileProgram(program, (*options, *(f"-D{macro}" for macro in macros)))
    return nvrtc.getPTX(program)


@pytest.mark.parametrize("name", METHODS)
def test_kernels_equal_the_specification(name, card):
    # Rows with all entries and with few; dictionaries that fit shared memory, are streamed, and do neither.
    for seed, (N, K, D, observed) in enumerate(
        ((3, 2, 5, 0.6), (34, 64, 32, 1.0), (35, 65, 33, 0.5), (5, 200, 450, 0.9), (5, 300, 450, 1.0))
    ):
        check_against_specification(name, seed, N, K, D, observed, seed == 2, False)


@pytest.mark.parametrize(("n_members", "n_columns"), [(50, 49), (60, 64)])
def test_groups_equal_the_specification(n_members, n_columns, card):
    windows, _, first = group(np.random.default_rng(0), n_members, n_columns, observed=0.45)
    model = model_of(n_columns)
    expected, found = (k.fit_members(windows, first, n_members, model) for k in (NumpyGroups(), CudaGroups()))
    np.testing.assert_array_equal(found.ranks, expected.ranks)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=0, atol=2e-3)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=2e-2, atol=1e-4)


@pytest.mark.parametrize("observed", [0.2, 0.6, 1.0])
@pytest.mark.parametrize("columns", [20, 64, 100])
def test_sums_in_single_precision(columns, observed, card):
    view, batch, draws = problem(0, 3000, 70, columns, observed)
    spec = kernels.Gibbs(burn_in=1, n_samples=2, dtype="float64")
    ours = bpfa.backends.cuda.local.Gibbs(burn_in=1, n_samples=2).sums(view, batch, draws)
    # A coin may fall on the other side now and then.
    assert_same_sums(ours, spec.sums(view, batch, draws), 2e-3)


@pytest.mark.parametrize("n_samples", [2, 5])
@pytest.mark.parametrize("observed", [0.5, 1.0])
def test_sums_of_samples_are_products_of_matrices(observed, n_samples, card):
    check_sums_of_samples(700, 300, 70, observed, n_samples)


@pytest.mark.parametrize("features", ["factorised", "joint"])
@pytest.mark.parametrize("hidden", [0.0, 0.2])
def test_fits(features, hidden, card):
    rng = np.random.default_rng(0)
    y = (rng.random((2000, 10)) < 0.3) * rng.normal(size=(2000, 10)) @ rng.normal(size=(10, 30))
    y += 0.1 * rng.normal(size=y.shape)
    seen = np.where(rng.random(y.shape) < hidden, np.nan, y)
    scores = {}
    for device in ("cpu", "cuda"):
        model = BPFA(15, features=features, max_steps=100, device=device, random_state=0).fit(seen)
        scores[device] = model.noise_std_.mean()
    assert scores["cuda"] == pytest.approx(scores["cpu"], rel=0.05)


def test_a_card_that_is_too_old_is_named(monkeypatch):
    found = runtime.cupy_module().cuda.runtime.getDeviceProperties(0) | {"major": 6, "minor": 1}
    monkeypatch.setattr(runtime.cupy_module().cuda.runtime, "getDeviceProperties", lambda index: found)
    runtime.device_index.cache_clear()
    with pytest.raises(RuntimeError, match=r"compute capability 6\.1, and 7\.5 \(Turing\) is needed"):
        runtime.device_index("cuda")
    assert check_device("auto") == "cpu"
    monkeypatch.undo()
    runtime.device_index.cache_clear()
