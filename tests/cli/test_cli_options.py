"""The options of the program agree with the declarations of the library, and reach it."""

import inspect
import re

import numpy as np
import pytest
from cli_run import refused, runner

import bpfa
from bpfa._support import parameters as kinds
from bpfa._support.parameters import declarations, default_text_of, kind_of, summary_of
from bpfa.estimator.parameters import Parameters
from bpfa.images.options import RestorationOptions

pytest.importorskip("typer")

from bpfa.cli import demo, images, tables
from bpfa.cli.options import LIBRARY_NAMES

# Every command with what declares its parameters.
COMMANDS = {
    "fit": (tables.fit, Parameters),
    "transform": (tables.transform, Parameters),
    "impute": (tables.impute, Parameters),
    "inpaint": (images.inpaint, RestorationOptions),
    "denoise": (images.denoise, RestorationOptions),
    "demo": (demo.demo, RestorationOptions),
}
# A command gives the same result every time, and reads the axes from the file.
OWN_DEFAULTS = {"random_state": 0}
OWN_DEFAULT_TEXTS = {"channel_axis": "from the file", "stack_axis": "from the file"}
OPTIONS = [
    (command, option)
    for command, (function, _) in COMMANDS.items()
    for option in inspect.signature(function).parameters
    if option in LIBRARY_NAMES
]

# A value for each option that is not its default: as it is written, and as the library receives it.
VALUES = {
    "update": ("7", 7),
    "forgetting": ("0.25", 0.25),
    "components": ("5", 5),
    "algorithm": ("titsias-ssvi", "titsias-ssvi"),
    "sparse": ("rows", "rows"),
    "prefer": ("balance", "balance"),
    "init": ("random", "random"),
    "dropout": ("0.25", 0.25),
    "max_epochs": ("1.5", 1.5),
    "max_steps": ("7", 7),
    "max_time": ("2.5", 2.5),
    "held_out": ("0.2", 0.2),
    "patience": ("3", 3),
    "revise": (None, True),
    "groups": ("no", False),
    "group_rows": ("300", 300),
    "seed": ("11", 11),
    "jobs": ("-1", -1),
    "device": ("numpy", "numpy"),
    "patch": ("3", 3),
    "stride": ("2", 2),
    "refine": ("none", None),
    "noise_model": ("poisson", "poisson"),
    "gain": ("2.5", 2.5),
    "read_noise": ("0.5", 0.5),
    "channel_axis": ("-1", -1),
    "stack_axis": ("0", 0),
}


class Reached(Exception):
    """Ends a command as soon as the library has received its settings."""


@pytest.fixture
def run(capfd):
    return runner(capfd)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    holed = np.random.default_rng(0).normal(size=(30, 4))
    holed[0, 0] = np.nan
    np.save("t.npy", holed)
    np.save("image.npy", np.random.default_rng(0).normal(size=(6, 9, 8, 3)))
    return tmp_path


def option_of(command, option):
    """Return an option as it is declared to typer, its default, and the library's declaration."""
    function, declared = COMMANDS[command]
    parameter = inspect.signature(function).parameters[option]
    return (
        parameter.annotation.__metadata__[0],
        parameter.default,
        declarations(declared)[LIBRARY_NAMES[option]],
    )


def flag(option):
    return f"--{option.replace('_', '-')}"


def range_of(kind):
    """Return the range of a kind as it stands in the help."""
    match kind:
        case kinds.Seed():
            return "[x>=0]"
        case kinds.Integer(low=low, high=None):
            return f"[x>={low}]"
        case kinds.Number(low=low, high=np.inf, open_low=is_open):
            return f"[x{'>' if is_open else '>='}{low:g}]"
        case kinds.Number(low=low, high=high, open_low=False):
            return f"[{low:g}<=x<={high:g}]"
    return ""


def help_of(run, command, option):
    """Return what `--help` says about an option, in one line."""
    text = run(command, "--help").out
    found = re.search(rf"^  (?:-\w, )?{flag(option)} (.*?)(?=^  -|\Z)", text, re.MULTILINE | re.DOTALL)
    # Lines may be broken after a hyphen.
    return re.sub(r"- (?=\w)", "-", " ".join(found[1].split()))


def test_which_parameters_of_the_library_are_options():
    # The others are for those who write Python.
    python_only = {"features", "priors", "verbose"}
    image, table = ({LIBRARY_NAMES[o] for c, o in OPTIONS if c == name} for name in ("inpaint", "fit"))
    # The option --model is a file, where the library takes the model itself.
    others = {"n_draws", "patch_samples", "patch_burn_in", "callbacks", "model"}
    assert declarations(RestorationOptions).keys() - image == python_only | others
    assert declarations(Parameters).keys() - table == python_only | {
        "weight_precision",
        "batch_size",
        "step_delay",
        "step_decay",
        "burn_in",
        "n_samples",
        "n_sweeps",
        "standardize",
        "noise",
        "total_rows",
        "sparse_output",
    }
    assert {option for _, option in OPTIONS} == LIBRARY_NAMES.keys() == VALUES.keys()


@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_default_and_type_are_the_declared_ones(command, option):
    _, default, parameter = option_of(command, option)
    assert default == OWN_DEFAULTS.get(parameter.name, parameter.default)
    hint = inspect.signature(COMMANDS[command][0]).parameters[option].annotation.__origin__
    value_type = kind_of(parameter).value_type
    assert hint == (value_type | None if default is None else value_type)


@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_help_is_the_declared_one(run, monkeypatch, command, option):
    monkeypatch.setenv("COLUMNS", "80")
    _, default, parameter = option_of(command, option)
    kind, text = kind_of(parameter), help_of(run, command, option)
    assert summary_of(parameter) in text
    assert text.count("[default:") <= 1
    stated = OWN_DEFAULT_TEXTS.get(parameter.name, default_text_of(parameter))
    stated = stated if stated is not None or default is None or default is False else str(default)
    assert re.findall(r"\[default: ([^;\]]*)", text) == ([] if stated is None else [stated])
    assert range_of(kind) in text
    assert ("[x" in text or "<=x" in text) == bool(range_of(kind))
    if isinstance(kind, kinds.Choice):
        assert f"One of {', '.join(kind.names)}." in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_into_a_terminal(run, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, run(command, "--help").out.splitlines())) <= 80


def given(options):
    """Return options as arguments of a command."""
    return [part for option in options for part in (flag(option), VALUES[option][0]) if part is not None]


def expected(options):
    return {LIBRARY_NAMES[option]: VALUES[option][1] for option in options}


def test_options_reach_the_fit(run, folder, monkeypatch):
    seen = {}

    def fit(model, *arguments, **options):
        seen.update(model.get_params())
        raise Reached

    monkeypatch.setattr(bpfa.BPFA, "fit", fit)
    options = [option for command, option in OPTIONS if command == "fit"]
    assert "Reached" in run("fit", "t.npy", "m.bpfa", *given(options)).err
    assert {name: seen[name] for name in expected(options)} == expected(options)
    untouched = seen.keys() - expected(options).keys() - {"verbose"}
    assert {name: seen[name] for name in untouched} == {
        name: declarations(Parameters)[name].default for name in untouched
    }


@pytest.mark.parametrize("command", ["inpaint", "denoise"])
def test_options_reach_the_restoration(run, folder, monkeypatch, command):
    seen = {}

    def restore(image, missing, **options):
        seen.update(options)
        raise Reached

    restore.__name__ = command
    monkeypatch.setattr(bpfa, command, restore)
    options = [option for name, option in OPTIONS if name == command]
    image = np.load("image.npy")
    image[0, 0, 0] = np.nan
    np.save("image.npy", image)
    assert "Reached" in run(command, "image.npy", "o.npy", *given(options)).err
    assert seen == expected(options) | {"verbose": 1, "channel_axis": 3}


@pytest.mark.parametrize("command", ["transform", "impute"])
def test_options_reach_the_prediction(run, folder, monkeypatch, command):
    bpfa.BPFA(3, max_steps=2, random_state=0, n_jobs=2).fit(np.load("t.npy")).save("m.bpfa")
    seen = {}

    def predict(model, *arguments, **options):
        seen.update(model.get_params())
        raise Reached

    monkeypatch.setattr(bpfa.BPFA, command, predict)
    assert "Reached" in run(command, "m.bpfa", "t.npy", "o.npy", "--jobs", "-1").err
    assert (seen["n_jobs"], seen["n_components"]) == (-1, 3)


def test_options_reach_the_demo(run, folder, monkeypatch):
    pytest.importorskip("skimage")
    seen = {}

    def inpaint(image, missing, **options):
        seen.update(options)
        raise Reached

    monkeypatch.setattr("bpfa.images.inpaint", inpaint)
    assert "Reached" in run("demo", "--jobs", "-2", "--seed", "3").err
    assert (seen["n_jobs"], seen["random_state"]) == (-2, 3)


WRONG = {
    "components": ("0", "0: expected an integer >= 1"),
    "algorithm": ("em", "'em': expected one of 'mf-svi'"),
    "init": ("nonsense", "'nonsense': expected one of 'auto', 'random'"),
    "dropout": ("2", "2.0: expected a number >= 0 and <= 0.9"),
    "max_epochs": ("0", "0.0: expected a number > 0"),
    "max_steps": ("-3", "-3: expected an integer >= 1"),
    "max_time": ("nan", "nan: expected a number > 0"),
    "held_out": ("1", "1.0: expected a number >= 0 and <= 0.9"),
    "patience": ("0", "0: expected an integer >= 1"),
    "groups": ("some", "'some': expected True, False or 'auto'"),
    "group_rows": ("0", "0: expected an integer >= 1"),
    "seed": ("-1", "-1: expected a seed from 0"),
    "jobs": ("0", "0: expected an integer >= 1, or -1 for all processors"),
    "device": ("gpu", "'gpu': expected one of 'auto', "),
    "patch": ("0", "0: expected an integer >= 1"),
    "stride": ("0", "0: expected an integer >= 1"),
    "refine": ("group", "'group': expected one of 'groups', 'none'"),
    "noise_model": ("shot", "'shot': expected one of 'gaussian', 'poisson'"),
    "gain": ("0", "0.0: expected a number > 0"),
    "read_noise": ("-1", "-1.0: expected a number >= 0"),
}


@pytest.mark.parametrize(("command", "option"), [(c, o) for c, o in OPTIONS if o in WRONG])
def test_values_outside_are_refused_before_any_file_is_read(run, folder, command, option):
    files = {"fit": 2, "transform": 3, "impute": 3, "inpaint": 2, "denoise": 2, "demo": 0}[command]
    value, message = WRONG[option]
    ran = run(command, *["no file"] * files, flag(option), value)
    refused(ran, f"bpfa: {flag(option)} {message}", f"; see 'bpfa {command} --help'")


@pytest.mark.parametrize("value", ["1.5", "many", ""])
def test_jobs_are_an_integer(run, folder, value):
    refused(run("fit", "t.npy", "m.bpfa", "--jobs", value), "--jobs", "--help'")


def test_jobs_do_not_change_the_bits(run, folder):
    models = []
    for jobs in ("1", "-1", "-2", "2"):
        ran = run("fit", "t.npy", "m.bpfa", "--components", 3, "--max-steps", 5, "--jobs", jobs, "-f")
        assert ran.status == 0, ran
        models.append(bpfa.BPFA.load("m.bpfa"))
    for model in models[1:]:
        np.testing.assert_array_equal(model.components_, models[0].components_)
    assert [model.n_jobs for model in models] == [1, -1, -2, 2]


def test_messages_name_options_and_not_parameters(run, folder):
    refused(run("fit", "t.npy", "m.bpfa", "--patience", "2"), "--patience 2:", "expected --held-out > 0")
    refused(run("fit", "t.npy", "m.bpfa", "--revise"), "--revise:", "expected --held-out > 0")
    ran = run("denoise", "image.npy", "o.npy", "--patch", "20", "--stack-axis", "0", "--channel-axis", "3")
    refused(ran, "--patch 20", "expected a smaller --patch")
