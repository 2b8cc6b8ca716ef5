"""Whatever is handed to the estimator: it works, or says why not, and it never crashes.

NaN is returned only for columns of which nothing is observed.
"""

import warnings
from collections import Counter

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


ANY_NUMBER = st.integers(1, 7)


@st.composite
def matrices(draw, n_columns=ANY_NUMBER):
    """Arrays of any kind, most of which are matrices of numbers that a model can be fitted to."""
    usual = draw(st.integers(0, 3)) > 0
    dtype = np.dtype(draw(st.sampled_from(DTYPES[:5] if usual else DTYPES)))
    any_shape = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=7)
    shape = draw(st.tuples(st.integers(1, 15), n_columns) if usual else any_shape)
    tame = st.floats(-3, 3, width=16)
    if dtype.kind == "O":
        elements = st.none() | st.floats() | st.integers(-5, 5) | st.text(max_size=2) | st.booleans()
    elif dtype.kind == "f":
        wild = st.floats(width=8 * dtype.itemsize) | st.just(np.nan) | tame
        elements = draw(st.sampled_from([tame, tame | st.just(np.nan), wild]))
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


# Both tests count what got through: a test in which everything is refused would show nothing.
SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_fit_works_or_says_why():
    outcomes = Counter()

    @settings(SETTINGS, max_examples=300)
    @given(X=matrices())
    def check(X):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                model = BPFA(**FAST).fit(X)
            except (ValueError, TypeError, ArithmeticError):
                outcomes["refused"] += 1
                return
            seen = ~np.isnan(np.asarray(X, dtype=float)).all(axis=0)
            for result in (*model.impute(X, return_std=True), model.sample(3), model.noise_std_):
                check_finite(np.asarray(result)[..., seen])
                assert np.isnan(np.asarray(result)[..., ~seen]).all()
            check_finite(model.components_, model.transform(X))
            outcomes["fitted"] += 1

    check()
    assert min(outcomes["fitted"], outcomes["refused"]) >= 30, outcomes


@pytest.mark.parametrize("method", ["transform", "impute", "score", "inverse_transform"])
def test_use_works_or_says_why(method):
    fitted = BPFA(**FAST).fit(np.random.default_rng(0).normal(size=(30, 3)))
    n_columns = FAST["n_components"] if method == "inverse_transform" else fitted.n_features_in_
    outcomes = Counter()

    @settings(SETTINGS, max_examples=100)
    @given(X=matrices(st.just(n_columns)))
    def check(X):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                result = getattr(fitted, method)(X)
            except (ValueError, TypeError, ArithmeticError):
                outcomes["refused"] += 1
                return
            if method == "score":
                # The logarithm of a density may be too small for floating point.
                assert not np.isnan(result)
            else:
                check_finite(result)
            outcomes["used"] += 1

    check()
    assert min(outcomes["used"], outcomes["refused"]) >= 5, outcomes
