"""Whole steps with the compiled kernels, against those of the specification."""

import numpy as np
import pytest

from bpfa import draw_data, train

ALGORITHMS = ("gibbs-ssvi", "mimno-svi", "titsias-ssvi", "titsias-svi", "mf-ssvi", "mf-svi")


@pytest.mark.parametrize("share", [0.0, 0.4])
@pytest.mark.parametrize("features", ["factorised", "joint"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_fit_equals_that_of_the_specification(name, features, share):
    """For the first steps, to rounding; all rows complete and rows with holes take different ways."""
    if features == "joint" and name.endswith("-svi") and share:
        with pytest.raises(ValueError, match="joint"):
            list(train(holed(share), 8, algorithm=name, features=features, n_steps=1))
        return
    options = {"algorithm": name, "features": features, "n_steps": 4, "batch_size": 200, "seed": 1}
    runs = [
        list(train(holed(share), 8, device=device, **extra, **options))
        for device, extra in (("cpu", {"dtype": "float64"}), ("numpy", {}))
    ]
    for ours, theirs in zip(*runs, strict=True):
        for values in ("a", "b", "c", "d", "e", "f"):
            ours_now, theirs_now = getattr(ours.posterior, values), getattr(theirs.posterior, values)
            np.testing.assert_allclose(ours_now, theirs_now, rtol=1e-9, err_msg=values)


def holed(share):
    """600 rows of 12 columns, of whose entries a share is missing."""
    y = draw_data(600, 12, 6, g_o=50.0, g_w=1.0, seed=0).y
    y[np.random.default_rng(0).random(y.shape) < share] = np.nan
    return y
