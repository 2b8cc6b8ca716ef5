import numpy as np
import pytest
from builders import random_posterior

from bpfa import ALGORITHMS, algorithm
from bpfa.backends import cpu as kernels
from bpfa.backends import numpy as local

# docs/math.md section 3
GRID = {
    "mf-svi": ("expected", "MeanField"),
    "mf-ssvi": ("sampled", "MeanField"),
    "titsias-svi": ("expected", "SpikeSlab"),
    "titsias-ssvi": ("sampled", "SpikeSlab"),
    "mimno-svi": ("expected", "Gibbs"),
    "gibbs-ssvi": ("sampled", "Gibbs"),
    "gibbs": ("sampled", "Gibbs"),
}


def test_the_grid_has_no_other_names():
    assert set(ALGORITHMS) == set(GRID)


@pytest.mark.parametrize(("device", "home"), [("cpu", kernels), ("numpy", local)])
@pytest.mark.parametrize("name", GRID)
def test_grid(name, device, home):
    view, method = GRID[name]
    chosen = algorithm(name, device=device)
    assert (chosen.name, chosen.view, type(chosen.local)) == (name, view, getattr(home, method))
    posterior = random_posterior(np.random.default_rng(0), 5, 2, 3)
    seen = chosen.view_of(posterior, np.random.default_rng(1))
    other = posterior.expected() if view == "expected" else posterior.sampled(np.random.default_rng(1))
    for ours, theirs in zip(seen, other, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_options_reach_the_local_method():
    assert algorithm("mf-svi", n_sweeps=4, n_jobs=2).local == kernels.MeanField(n_sweeps=4, n_jobs=2)
    options = {"burn_in": 1, "n_samples": 2, "blocked": False}
    assert algorithm("gibbs-ssvi", device="numpy", **options).local == local.Gibbs(**options)


def test_papers_chain_is_the_default():
    assert algorithm("gibbs-ssvi").local == kernels.Gibbs(burn_in=3, n_samples=3, blocked=True)
