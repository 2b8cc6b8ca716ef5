"""Whatever is handed to the estimator: it works, or says why not; it never crashes and never returns NaN."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from bpfa import BPFA

DTYPES = [
    "f2",
    "f4",
    "f8",
    ">f4",
    ">f8",
    "i1",
    "i4",
    "u2",
    "u8",
    "?",
    "O",
    "c16",
    "U3",
    "S2",
    "M8[s]",
    "m8[s]",
]
FAST = {"n_components": 2, "max_steps": 3, "random_state": 0}


@st.composite
def matrices(draw):
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=7))
    if dtype.kind == "O":
        elements = st.none() | st.floats() | st.integers(-5, 5) | st.text(max_size=2) | st.booleans()
    elif dtype.kind == "f":
        elements = st.floats(width=8 * dtype.itemsize) | st.just(np.nan) | st.floats(-3, 3, width=16)
    else:
        elements = npst.from_dtype(dtype)
    array = draw(npst.arrays(dtype, shape, elements=elements))
    layout = draw(st.sampled_from(["C", "F", "strided", "read-only", "list"]))
    if layout == "F":
        return np.asfortranarray(array)
    if layout == "strided" and array.ndim:
        return np.repeat(array, 2, axis=0)[::2]
    if layout == "list":
        return array.tolist()
    if layout == "read-only":
        array.setflags(write=False)
    return array


def check_finite(*arrays):
    for array in arrays:
        assert np.isfinite(np.asarray(array, dtype=float)).all()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(X=matrices())
def test_fit_works_or_says_why(X):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model = BPFA(**FAST).fit(X)
        except (ValueError, TypeError, ArithmeticError):
            return
        filled, std = model.impute(X, return_std=True)
        check_finite(filled, std, model.transform(X), model.components_, model.noise_std_, model.sample(3))


@pytest.fixture(scope="module")
def fitted():
    return BPFA(**FAST).fit(np.random.default_rng(0).normal(size=(30, 3)))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(X=matrices())
def test_use_works_or_says_why(fitted, X):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for method in (fitted.transform, fitted.impute, fitted.score, fitted.inverse_transform):
            try:
                result = method(X)
            except (ValueError, TypeError, ArithmeticError):
                continue
            check_finite(result)
