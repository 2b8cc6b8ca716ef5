"""Parameters with wrong values are named in the error."""

import numpy as np
import pytest
from small_table import X, model

from bpfa import BPFA

WRONG = {
    "n_components": [0, -1, 1.5, "many"],
    "algorithm": ["gibs", None],
    "features": ["both", 1],
    "weight_precision": ["idle"],
    "priors": [3, "paper"],
    "batch_size": [0, 2.5],
    "max_epochs": [0, -1, "two", np.nan],
    "max_steps": [0, 1.5],
    "max_time": [0, -1, np.inf],
    "step_delay": [-1],
    "step_decay": [1.5, "fast"],
    "burn_in": [-1, 0.5],
    "n_samples": [0],
    "init": ["zeros", None],
    "standardize": ["yes", 3],
    "noise": ["rows", 3],
    "held_out": [-0.1, 1.0, "some"],
    "patience": [0, 3],
    "device": ["tpu"],
    "n_jobs": [0, "all"],
    "random_state": [-1, "seed"],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in WRONG.items() for v in values])
def test_wrong_parameters_are_named(name, value):
    parameters = {
        "max_steps": 2,
        "random_state": 0,
        "held_out": 0.5 if name == "patience" and value == 0 else 0.0,
    }
    with pytest.raises((ValueError, TypeError), match=name if name != "random_state" else "seed"):
        BPFA(**parameters | {name: value}).fit(X)


def test_variational_option():
    with pytest.raises(ValueError, match="n_sweeps"):
        model(algorithm="mf-svi", n_sweeps=0, features="factorised").fit(X)
