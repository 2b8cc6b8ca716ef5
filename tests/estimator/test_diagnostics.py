"""What all diagnostics have in common: inputs, blocks of rows, algorithms and bad arguments."""

import sys

import numpy as np
import pandas
import polars
import pytest
from known_models import NAMES, PHI, as_names, known_model
from sklearn.exceptions import NotFittedError

from bpfa import BPFA, ArrayRows

METHODS = (
    "component_summary",
    "variance_explained",
    "top_columns",
    "merge_report",
    "calibration",
    "residuals",
)
OF_DATA = ("component_summary", "variance_explained", "calibration", "residuals")


@pytest.mark.parametrize("name", OF_DATA)
def test_frames_and_arrays_say_the_same(model, X, name):
    frame = as_names(X)
    first = getattr(model, name)(frame)
    for other in (polars.DataFrame(X, schema=NAMES), ArrayRows(X)):
        pandas.testing.assert_frame_equal(getattr(model, name)(other), first)
    # What a missing entry holds is of no matter.
    filled = ArrayRows(np.nan_to_num(X, nan=1e6), np.isnan(X))
    pandas.testing.assert_frame_equal(getattr(model, name)(filled), first)


@pytest.mark.parametrize("name", OF_DATA)
def test_rows_are_read_in_blocks_without_effect(model, X, name, monkeypatch):
    whole = getattr(model, name)(as_names(X))
    sizes = []

    class Watched(ArrayRows):
        def take(self, ids):
            sizes.append(len(ids))
            return super().take(ids)

    monkeypatch.setattr("bpfa.estimator.frames.BLOCK_ENTRIES", 4 * 30)
    # The noise of predictive draws is another.
    tolerance = 0.15 if name == "calibration" else 1e-6
    pandas.testing.assert_frame_equal(getattr(model, name)(Watched(X)), whole, rtol=tolerance)
    assert max(sizes) == 30
    assert sum(sizes) == len(X)


def test_what_is_said_does_not_depend_on_the_order_of_rows(X):
    model = known_model(PHI, [0.3, 0.3, 0.3])
    pandas.testing.assert_frame_equal(model.residuals(X), model.residuals(X[::-1]))
    explained = (model.component_summary(rows) for rows in (X, X[::-1]))
    pandas.testing.assert_frame_equal(*explained)


@pytest.mark.parametrize("algorithm", ["gibbs", "mf-svi", "titsias-ssvi"])
def test_every_kind_of_model_can_be_read(algorithm):
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = BPFA(4, algorithm=algorithm, max_steps=5, random_state=0).fit(X)
    frames = {}
    for name in METHODS:
        frames[name], again = (
            getattr(model, name)(X) if name in OF_DATA else getattr(model, name)() for _ in range(2)
        )
        pandas.testing.assert_frame_equal(frames[name], again)
    np.testing.assert_array_equal(frames["component_summary"]["usage"], model.component_probabilities_)
    assert frames["component_summary"]["in_use"].sum() == model.n_components_used_
    assert frames["variance_explained"]["n_entries"].sum() == X.size
    assert (frames["variance_explained"]["variance_explained"] < 1).all()
    assert len(frames["top_columns"]) == 4 * 3
    assert frames["calibration"]["coverage"].between(0, 1).all()
    assert (frames["calibration"]["width"] > 0).all()
    assert (frames["residuals"]["n_entries"] == 60).all()
    # Residuals of standardised columns, in units of the noise that the model has found.
    signal = model.inverse_transform(model.transform(X))
    expected = ((X - signal) / model.noise_std_).mean(axis=0)
    np.testing.assert_allclose(frames["residuals"]["mean"], expected, atol=0.1)


@pytest.mark.parametrize("name", METHODS)
def test_a_model_without_fit_says_nothing(name):
    with pytest.raises(NotFittedError):
        getattr(BPFA(), name)(*[np.ones((2, 2))] * (name in OF_DATA))


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("top_columns", {"n": 0}, "n=0: expected an integer >= 1"),
        ("merge_report", {"similarity": 1.5}, r"similarity=1\.5: expected a number >= 0 and <= 1"),
        ("calibration", {"levels": (0.5, 1.0)}, r"levels=\(0\.5, 1\.0\): expected numbers between 0 and 1"),
        ("calibration", {"levels": ()}, r"levels=\(\): expected numbers between 0 and 1, at least one"),
        ("calibration", {"n_draws": 0}, "n_draws=0: expected an integer >= 1"),
        ("calibration", {"held_out": np.zeros((400, 4))}, "held_out: no entry is held out among 400 rows"),
        (
            "variance_explained",
            {"held_out": np.ones((3, 4))},
            r"held_out: shape \(3, 4\), expected \(400, 4\)",
        ),
        ("variance_explained", {"held_out": np.ones((400, 4))}, "held_out: the entry at row .* is missing"),
        ("variance_explained", {"n_draws": 0}, "n_draws=0: expected an integer from 1"),
    ],
)
def test_bad_arguments(model, X, name, arguments, error):
    data = [as_names(X)] * (name in OF_DATA)
    with pytest.raises(ValueError, match=error):
        getattr(model, name)(*data, **arguments)


def test_without_pandas_the_way_out_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"pip install 'bpfa\[tables\]'"):
        model.top_columns()
