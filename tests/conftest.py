import pytest

import bpfa.local

# Whatever has the classes Gibbs, MeanField and SpikeSlab; a new backend is a new line.
BACKENDS = {
    "numpy": bpfa.local,
}


@pytest.fixture(params=BACKENDS)
def methods(request):
    """The three local methods of a backend."""
    return BACKENDS[request.param]
