"""What all tests share: one thread a process, the backends as fixtures, and no GPU tests without a GPU."""

import os
import signal
from functools import partial
from types import SimpleNamespace

import pytest

# Test processes run side by side: with two threads each they would mostly wait for one another. Tests about
# threads ask for them explicitly. OpenMP reads this variable when the kernels are loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import bpfa.backends.cpu
import bpfa.backends.cuda.local
import bpfa.backends.numpy
from bpfa.backends.cuda.runtime import cuda_problem


def pytest_configure():
    """Let Ctrl-C interrupt, also where a shell in the background has made its children ignore it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# Long repetitions of what other tests run too: counting their lines would cost much time and add no line.
NOT_MEASURED = (
    "tests/golden",
    "tests/experiments",
    "test_geweke",
    "test_enumeration",
    "test_fuzzed_input",
    "test_sklearn",
    "test_epochs_and_steps",
    "test_killed_ten_times",
)


def pytest_collection_modifyitems(items):
    """Skip the tests that need a GPU where none can be used, and measure the coverage of those that count."""
    for item in items:
        repeats = any(name in item.nodeid for name in NOT_MEASURED)
        if repeats or getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("no_cover")
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    problem = cuda_problem() if on_gpu else None
    if problem is not None:
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason=problem))


def compiled(dtype, kernels=bpfa.backends.cpu):
    """The compiled methods in one precision."""
    names = ("Gibbs", "MeanField", "SpikeSlab")
    return SimpleNamespace(**{name: partial(getattr(kernels, name), dtype=dtype) for name in names})


# Each has the classes Gibbs, MeanField and SpikeSlab. A new backend needs a new line here.
BACKENDS = {
    "numpy": bpfa.backends.numpy,
    "float64": compiled("float64"),
    "float32": compiled("float32"),
    "cuda float64": compiled("float64", bpfa.backends.cuda.local),
    "cuda float32": compiled("float32", bpfa.backends.cuda.local),
}


def backends(*names):
    """Return the names as parameters of tests, those of the GPU marked."""
    return [pytest.param(name, marks=[pytest.mark.gpu] if "cuda" in name else []) for name in names]


@pytest.fixture(params=backends(*BACKENDS))
def methods(request):
    """The three local methods of a backend."""
    return BACKENDS[request.param]


@pytest.fixture(params=backends(*(name for name in BACKENDS if "float32" not in name)))
def precise_methods(request):
    """The three local methods of a backend in double precision, for what single precision cannot show."""
    return BACKENDS[request.param]
