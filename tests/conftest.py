import os
from functools import partial
from types import SimpleNamespace

import pytest

# Test processes run side by side: two threads in each would wait for one another most of the time. What
# concerns threads asks for them by name. Read by OpenMP when the kernels are loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import bpfa.kernels
import bpfa.local


def compiled(dtype):
    """The compiled methods in one precision."""
    names = ("Gibbs", "MeanField", "SpikeSlab")
    return SimpleNamespace(**{name: partial(getattr(bpfa.kernels, name), dtype=dtype) for name in names})


# Whatever has the classes Gibbs, MeanField and SpikeSlab; a new backend is a new line.
BACKENDS = {
    "numpy": bpfa.local,
    "float64": compiled("float64"),
    "float32": compiled("float32"),
}


@pytest.fixture(params=BACKENDS)
def methods(request):
    """The three local methods of a backend."""
    return BACKENDS[request.param]


@pytest.fixture(params=[name for name in BACKENDS if name != "float32"])
def precise_methods(request):
    """The three local methods of a backend, for what must hold to more digits than single precision has."""
    return BACKENDS[request.param]
