"""BPFA's parameters are declared once: signature, documentation and checks agree with the declaration."""

import inspect
import os
import re

import numpy as np
import pytest
from sklearn.utils._param_validation import InvalidParameterError, validate_parameter_constraints

import bpfa
from bpfa import BPFA, Priors
from bpfa._support import parameters as kinds
from bpfa._support import threads
from bpfa._support.parameters import declarations, kind_of, summary_of
from bpfa.estimator.parameters import Device, Parameters, check_parameters, constraints_of

DECLARED = declarations(Parameters)
X = bpfa.draw_data(60, 5, 3, g_o=100.0, g_w=1.0, seed=0).y
# Parameters that are accepted only together with another one.
COMPANIONS = {"patience": {"held_out": 0.1}, "revise": {"held_out": 0.1}}


def inside(kind):
    """Values that a kind of parameter accepts, with the ends of its range."""
    match kind:
        case kinds.Integer():
            return [kind.low, np.int64(kind.low + 1), *([] if kind.high is None else [kind.high])]
        case kinds.Number():
            lowest = np.nextafter(kind.low, 1) if kind.open_low else kind.low
            return [lowest, 0.5, np.float32(0.5), *([kind.high] if np.isfinite(kind.high) else [1e300, 7])]
        case kinds.Choice():
            return list(kind.names)
        case kinds.Boolean():
            return [True, False, np.True_]
        case kinds.BooleanOrAuto():
            return [True, False, np.True_, "auto"]
        case kinds.Threads():
            return [-100, -2, -1, 1, np.int64(2)]
        case kinds.Seed():
            return [0, np.int64(1), 2**64 - 1, np.random.RandomState(0)]
        case kinds.Instance():
            return [Priors()]
        case Device():
            return ["auto", "cpu", "cuda", "cuda:1", "numpy"]
    raise NotImplementedError(kind)


def outside(kind):
    """Values that a kind of parameter refuses, with those next to its range."""
    match kind:
        case kinds.Integer():
            return [kind.low - 1, kind.low + 0.5, "1", *([] if kind.high is None else [kind.high + 1])]
        case kinds.Number():
            lower = kind.low if kind.open_low else np.nextafter(kind.low, -1)
            higher = [float(np.nextafter(kind.high, 2))] if np.isfinite(kind.high) else []
            return [float(lower), *higher, float("nan"), float("inf"), "1"]
        case kinds.Choice():
            return ["nonsense", "", 3]
        case kinds.Boolean() | kinds.BooleanOrAuto():
            return [1, 0.0, "yes"]
        case kinds.Threads():
            return [0, 1.5, "2"]
        case kinds.Seed():
            return [-1, 2**64, 1.5, "seed"]
        case kinds.Instance():
            return [3, Priors]
        case Device():
            return ["tpu", "cpu:1", "", 3]
    raise NotImplementedError(kind)


def cases(values):
    """Every declared parameter with each of the values for its kind, and with None where it belongs."""
    with_none = values is inside
    return [
        (name, value)
        for name, parameter in DECLARED.items()
        for value in values(kind_of(parameter)) + [None] * (parameter.metadata["optional"] == with_none)
    ]


def sections(docstring):
    """Return the sections of a numpydoc docstring by their titles."""
    parts = re.split(r"^(\w+)\n-+\n", inspect.cleandoc(docstring), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def documented():
    """Return what the documentation of BPFA states about the type of each parameter, in order."""
    lines = re.findall(r"^(\w[\w, ]*) : (.*)$", sections(BPFA.__doc__)["Parameters"], flags=re.MULTILINE)
    return {name: stated for names, stated in lines for name in names.split(", ")}


def test_defaults_are_the_declared_ones():
    signature = dict(inspect.signature(BPFA.__init__).parameters)
    del signature["self"]
    expected = {name: parameter.default for name, parameter in DECLARED.items()}
    assert list(signature) == list(DECLARED)
    assert {name: parameter.default for name, parameter in signature.items()} == expected
    assert {name: parameter.annotation for name, parameter in signature.items()} == {
        name: parameter.type for name, parameter in DECLARED.items()
    }
    assert BPFA().get_params() == expected


def test_every_parameter_is_documented_once_and_in_order():
    assert list(documented()) == list(DECLARED)


@pytest.mark.parametrize("name", DECLARED)
def test_the_documented_type_is_the_declared_one(name):
    parameter = DECLARED[name]
    kind = kind_of(parameter)
    stated, _, default = documented()[name].partition(", default=")
    if default:
        assert default == repr(parameter.default).replace("'", '"')
    else:
        assert parameter.default is None
    assert ("optional" in stated or "None" in (stated + default)) == parameter.metadata["optional"]
    if isinstance(kind, kinds.NumberOrAuto):
        assert stated == 'float or "auto"'
    elif isinstance(kind, kinds.BooleanOrAuto):
        assert stated == 'bool or "auto"'
    elif isinstance(kind, (kinds.Integer, kinds.Number, kinds.Boolean)):
        assert stated.split(",")[0] == kind.value_type.__name__
    choices = re.findall(r'"([^"]*)"', stated)
    if isinstance(kind, kinds.Choice) and stated != "str":
        assert sorted(choices) == sorted(kind.names)
    elif isinstance(kind, Device):
        assert set(choices) <= set(inside(kind))
    else:
        assert choices == (["auto"] if isinstance(kind, (kinds.NumberOrAuto, kinds.BooleanOrAuto)) else [])


def test_all_algorithms_are_documented():
    names = re.findall(r'"([^"]*)"', sections(BPFA.__doc__)["Parameters"])
    assert set(kind_of(DECLARED["algorithm"]).names) <= set(names)


@pytest.mark.parametrize("name", DECLARED)
def test_a_summary_is_one_sentence(name):
    assert re.fullmatch(r"[A-Z][^\n]*\.", summary_of(DECLARED[name]))


@pytest.mark.parametrize(("name", "value"), cases(outside))
def test_values_outside_are_refused_by_fit(name, value):
    message = rf"^{name}={re.escape(repr(value))}: expected \S"
    with pytest.raises((ValueError, TypeError), match=message):
        BPFA(**{"max_steps": 1} | {name: value}).fit(X)


@pytest.mark.parametrize(("name", "value"), cases(inside))
def test_values_inside_are_accepted(name, value):
    kept = getattr(check_parameters({name: value} | COMPANIONS.get(name, {})), name)
    assert kept is value or kept == value


@pytest.mark.parametrize("name", [n for n, p in DECLARED.items() if isinstance(kind_of(p), kinds.Integer)])
def test_true_is_not_an_integer(name):
    with pytest.raises(TypeError, match=f"^{name}=True: expected"):
        check_parameters({name: True})


def scikit_learn_accepts(name, value):
    try:
        validate_parameter_constraints(BPFA._parameter_constraints, {name: value}, caller_name="BPFA")
    except InvalidParameterError:
        return False
    return True


def test_scikit_learn_knows_every_parameter():
    assert list(BPFA._parameter_constraints) == list(DECLARED)


@pytest.mark.parametrize(("name", "value"), cases(inside))
def test_scikit_learn_accepts_the_same(name, value):
    assert scikit_learn_accepts(name, value)


@pytest.mark.parametrize(("name", "value"), cases(outside))
def test_scikit_learn_refuses_the_same(name, value):
    # It has no way to state which names are those of devices.
    assert scikit_learn_accepts(name, value) == (name == "device" and isinstance(value, str))


@pytest.mark.parametrize("high", [np.inf, 1.0])
@pytest.mark.parametrize("open_low", [False, True])
def test_scikit_learn_knows_every_form_of_range(high, open_low):
    kind = kinds.Number(low=0.0, high=high, open_low=open_low)
    for value in inside(kind):
        validate_parameter_constraints({"x": constraints_of(kind)}, {"x": value}, caller_name="test")
    for value in outside(kind):
        with pytest.raises(InvalidParameterError):
            validate_parameter_constraints({"x": constraints_of(kind)}, {"x": value}, caller_name="test")


class TestJobs:
    """The number of threads as scikit-learn counts it; the bits are the same for all of them."""

    IMAGE = np.where(
        np.random.default_rng(0).random((12, 10)) < 0.3, np.nan, np.add.outer(range(12), range(10))
    )

    def components(self, n_jobs):
        return BPFA(4, max_steps=5, random_state=0, n_jobs=n_jobs).fit(X).components_

    def trained(self, n_jobs):
        steps = bpfa.train(X, 4, n_steps=5, seed=0, device="cpu", n_jobs=n_jobs)
        return np.array([step.posterior.noise_std for step in steps])

    def restored(self, n_jobs):
        options = {"patch_size": 3, "n_components": 4, "max_steps": 5, "n_draws": 2, "random_state": 0}
        return bpfa.inpaint(self.IMAGE, n_jobs=n_jobs, **options).image

    def algorithm(self, n_jobs):
        return bpfa.algorithm("gibbs-ssvi", device="cpu", n_jobs=n_jobs).local.n_jobs

    def test_negative_numbers_count_from_the_processors(self, monkeypatch):
        affinity = getattr(os, "sched_getaffinity", lambda process: range(os.cpu_count()))
        assert self.algorithm(-1) == len(affinity(0))
        monkeypatch.setattr(threads, "_processors", lambda: 5)
        assert [self.algorithm(n_jobs) for n_jobs in (-1, -2, -5, -6, 3)] == [5, 4, 1, 1, 3]
        assert self.algorithm(None) is None

    def test_the_estimator_uses_as_many(self, monkeypatch):
        used = []
        limited = threads.limited_threads
        monkeypatch.setattr(threads, "_processors", lambda: 3)
        monkeypatch.setattr(
            "bpfa.estimator.estimator.limited_threads", lambda n: used.append(n) or limited(n)
        )
        for n_jobs in (-1, -2, 2, None):
            self.components(n_jobs)
        assert used == [3, 2, 2, None]

    @pytest.mark.parametrize("result", ["components", "trained", "restored"])
    def test_the_bits_are_the_same(self, monkeypatch, result):
        monkeypatch.setattr(threads, "_processors", lambda: 2)
        one, *others = (getattr(self, result)(n_jobs) for n_jobs in (1, -1, -2, 2, None))
        for other in others:
            np.testing.assert_array_equal(other, one)

    @pytest.mark.parametrize("result", ["components", "trained", "restored", "algorithm"])
    @pytest.mark.parametrize("n_jobs", [0, 1.5, "2", True])
    def test_others_are_refused(self, result, n_jobs):
        with pytest.raises(
            (ValueError, TypeError), match=rf"n_jobs={n_jobs!r}: expected an integer >= 1, or -1"
        ):
            getattr(self, result)(n_jobs)
