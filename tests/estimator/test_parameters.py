"""The parameters of BPFA are declared once; the constructor and the documentation agree with that."""

import inspect
import re
from dataclasses import fields

import pytest

from bpfa import BPFA
from bpfa._support.parameters import Choice, kind_of, summary_of
from bpfa.estimator.parameters import DEFAULTS, Parameters, scikit_learn_constraints

NAMES = [parameter.name for parameter in fields(Parameters)]


def documented():
    """Return the line of kind and default, and the description, of every documented parameter."""
    text = inspect.getdoc(BPFA)
    section = text[text.index("Parameters\n---") : text.index("Attributes\n---")]
    entries = re.split(r"(?m)^(\w+) : (.*)$", section)[1:]
    return {name: (kind, text) for name, kind, text in zip(*[iter(entries)] * 3, strict=True)}


def test_the_constructor_has_the_declared_parameters():
    signature = inspect.signature(BPFA).parameters
    assert {name: given.default for name, given in signature.items()} == vars(DEFAULTS)
    assert list(signature) == NAMES
    assert BPFA().get_params() == vars(DEFAULTS)


def test_every_parameter_is_documented_in_order():
    assert list(documented()) == NAMES
    assert all(text.strip() for _, text in documented().values())


@pytest.mark.parametrize("parameter", fields(Parameters), ids=NAMES)
def test_the_documentation_agrees_with_the_declaration(parameter):
    kind, text = documented()[parameter.name]
    if parameter.name == "random_state" or parameter.default is not None:
        assert kind.endswith(f"default={parameter.default!r}".replace("'", '"'))
    else:
        assert kind.endswith(", optional")
    if isinstance(kind_of(parameter), Choice):
        named = set(re.findall(r'"([\w-]+)"', kind.rpartition(", default=")[0] + text))
        assert set(kind_of(parameter).names) <= named


def test_summaries_are_sentences():
    for parameter in fields(Parameters):
        assert re.fullmatch(r"[A-Z1].*\.", summary_of(parameter)), parameter.name


def test_scikit_learn_knows_every_parameter():
    assert scikit_learn_constraints().keys() == set(NAMES)
    BPFA()._validate_params()
