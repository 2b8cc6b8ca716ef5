"""The options of inpaint and denoise are declared once; everything else agrees with the declaration."""

import inspect
import re
from dataclasses import FrozenInstanceError, fields
from typing import get_type_hints

import pytest

import bpfa
from bpfa._support.parameters import summary_of
from bpfa.images.options import OptionArguments, RestorationOptions

DEFAULTS = {
    "channel_axis": None,
    "stack_axis": None,
    "patch_size": None,
    "stride": None,
    "n_components": None,
    "algorithm": "gibbs-ssvi",
    "features": "factorised",
    "priors": None,
    "init": None,
    "dropout": None,
    "max_epochs": None,
    "max_steps": None,
    "max_time": None,
    "n_draws": 8,
    "patch_samples": 1,
    "patch_burn_in": 15,
    "refine": "groups",
    "noise_model": "gaussian",
    "gain": None,
    "read_noise": None,
    "model": None,
    "update": 0,
    "forgetting": 0.0,
    "random_state": None,
    "device": "auto",
    "n_jobs": None,
    "verbose": 0,
    "callbacks": (),
}


@pytest.mark.parametrize("function", [bpfa.inpaint, bpfa.denoise])
def test_the_signature_shows_every_option_with_its_default(function):
    image, mask, *options = inspect.signature(function).parameters.values()
    assert (image.name, image.default) == ("image", inspect.Parameter.empty)
    assert (mask.name, mask.default) == ("mask", None)
    assert {option.name: option.default for option in options} == DEFAULTS
    assert all(option.kind is inspect.Parameter.KEYWORD_ONLY for option in options)
    assert inspect.signature(function).return_annotation == "ImageResult"


def test_keyword_arguments_have_the_types_of_the_options():
    assert get_type_hints(OptionArguments) == get_type_hints(RestorationOptions)
    assert list(get_type_hints(OptionArguments)) == list(DEFAULTS)


def test_every_option_is_documented_once():
    text = inspect.getdoc(bpfa.inpaint)
    parameters = text[text.index("Parameters\n") : text.index("Returns\n")]
    lines = re.findall(r"^(\w[\w, ]*) : ", parameters, flags=re.MULTILINE)
    assert [name for line in lines for name in line.split(", ")] == ["image", "mask", *DEFAULTS]


def test_every_option_has_one_line_about_it():
    for declared in fields(RestorationOptions):
        assert re.fullmatch(r"[A-Z].*\.", summary_of(declared)), declared.name


@pytest.mark.parametrize("function", [bpfa.inpaint, bpfa.denoise])
def test_an_unknown_option_is_refused_by_name(function):
    message = (
        rf"{function.__name__}\(\) got an unexpected keyword argument 'patchsize'; expected .*patch_size"
    )
    with pytest.raises(TypeError, match=message):
        function([[1.0]], patchsize=3)


@pytest.mark.parametrize(
    ("option", "error", "message"),
    [
        ({"stride": 0}, ValueError, "stride=0: expected an integer >= 1"),
        ({"n_draws": 1}, ValueError, "n_draws=1: expected an integer from 2 to"),
        ({"n_draws": None}, TypeError, "n_draws=None: expected an integer from 2 to"),
        ({"n_draws": "8"}, TypeError, "n_draws='8': expected an integer"),
        ({"n_components": 0}, ValueError, "n_components=0: expected an integer >= 1"),
        ({"max_steps": 2.5}, TypeError, "max_steps=2.5: expected an integer >= 1"),
        ({"patch_size": 0}, ValueError, "patch_size=0: expected an integer >= 1"),
        ({"patch_size": (4, 0)}, ValueError, "patch_size=0: expected an integer >= 1"),
    ],
)
def test_integers_are_checked_against_their_range(option, error, message):
    with pytest.raises(error, match=message):
        RestorationOptions(**option)


def test_options_do_not_change():
    options = RestorationOptions(patch_size=(3, 4))
    with pytest.raises(FrozenInstanceError):
        options.stride = 2
