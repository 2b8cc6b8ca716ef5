import os
from functools import partial
from types import SimpleNamespace

import pytest

# Test processes run side by side: two threads in each would wait for one another most of the time. What
# concerns threads asks for them by name. Read by OpenMP when the kernels are loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import bpfa.backends.cpu
import bpfa.backends.cuda.local
import bpfa.backends.numpy
from bpfa.backends.cuda.runtime import cuda_problem


def pytest_collection_modifyitems(items):
    """Skip what needs a GPU where none can be used."""
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    problem = cuda_problem() if on_gpu else None
    if problem is not None:
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason=problem))


def compiled(dtype, kernels=bpfa.backends.cpu):
    """The compiled methods in one precision."""
    names = ("Gibbs", "MeanField", "SpikeSlab")
    return SimpleNamespace(**{name: partial(getattr(kernels, name), dtype=dtype) for name in names})


# Whatever has the classes Gibbs, MeanField and SpikeSlab; a new backend is a new line.
BACKENDS = {
    "numpy": bpfa.backends.numpy,
    "float64": compiled("float64"),
    "float32": compiled("float32"),
    "cuda float64": compiled("float64", bpfa.backends.cuda.local),
    "cuda float32": compiled("float32", bpfa.backends.cuda.local),
}


def backends(*names):
    """As parameters, those of the GPU marked."""
    return [pytest.param(name, marks=[pytest.mark.gpu] if "cuda" in name else []) for name in names]


@pytest.fixture(params=backends(*BACKENDS))
def methods(request):
    """The three local methods of a backend."""
    return BACKENDS[request.param]


@pytest.fixture(params=backends(*(name for name in BACKENDS if "float32" not in name)))
def precise_methods(request):
    """The three local methods of a backend, for what must hold to more digits than single precision has."""
    return BACKENDS[request.param]
