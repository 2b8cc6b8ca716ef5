"""Fits that several tests of the estimator share."""

import numpy as np
import pytest
from known_models import NAMES, PHI, PI, SCALE, drawn, known_model
from small_table import HOLED
from small_table import model as small_model


@pytest.fixture
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def fitted():
    """The fit to the small table."""
    return small_model().fit(HOLED)


@pytest.fixture(scope="session")
def model():
    """Two components of separate columns, and a third that no row uses."""
    return known_model(PHI, PI, scale=SCALE, names=NAMES)


@pytest.fixture(scope="session")
def X(model):
    """Its data, a fifth missing."""
    values = drawn(model, 400)
    values[np.random.default_rng(1).random(values.shape) < 0.2] = np.nan
    return values


@pytest.fixture(scope="session")
def drawn_from_model():
    """A model, 6000 rows drawn from it, and one hidden entry a row, so that entries are independent."""
    rng = np.random.default_rng(0)
    model = known_model(
        rng.normal(size=(3, 6)), [0.12, 0.12, 0.12], g_o=4.0, g_w=0.1, scale=np.arange(1.0, 7.0), burn_in=10
    )
    X = drawn(model, 6000)
    hidden = np.arange(6) == rng.integers(6, size=(6000, 1))
    return model, X, hidden
