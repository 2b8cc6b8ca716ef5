"""The options that commands share, in groups."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import typer

from bpfa._support.parameters import declarations
from bpfa.cli.declared import RENAMED, library_options, option
from bpfa.estimator.parameters import Parameters
from bpfa.images.options import RestorationOptions

__all__ = [
    "DEMO",
    "FIT",
    "IMAGE",
    "JOBS",
    "LIBRARY_NAMES",
    "OUTPUT",
    "TABLE",
    "command_line",
    "fit_settings",
    "in_terms_of_options",
]

OUTPUT = (
    option("force", bool, False, "--force", "-f", help="Replace files that exist."),
    option("quiet", bool, False, "--quiet", "-q", help="Print nothing but errors."),
    option("as_json", bool, False, "--json", help="Print the result as one JSON object."),
)
"""What a command writes and prints."""

JOBS = library_options(Parameters, "n_jobs")
DEMO = library_options(RestorationOptions, "random_state", "n_jobs")

TABLE = (
    option(
        "columns",
        str | None,
        None,
        help="Columns or channels to use, separated by commas. [default: all, or the model's]",
    ),
    option("key", str | None, None, help="Name of the array in .npz, .h5 or .zarr."),
    option("layer", str | None, None, help="Layer of .h5ad. [default: X]"),
    option(
        "absent",
        str | None,
        None,
        help="Meaning of the entries that a sparse matrix does not store: 'missing' or 'zero'.",
    ),
    option(
        "cofactor",
        float | None,
        None,
        help="Transform FCS values to arcsinh(x / cofactor); 0 leaves them unchanged. [default: 5]",
    ),
)
"""How a table is read."""

MODEL_NAMES = ("n_components", "algorithm", "init", "dropout", "max_epochs", "max_steps", "max_time")
RUN_NAMES = ("random_state", "n_jobs", "device")

FIT = (
    *library_options(Parameters, *MODEL_NAMES, "held_out", "patience", "revise"),
    option("checkpoint", Path | None, None, help="File to save the fit to while it runs."),
    option(
        "checkpoint_every",
        float | None,
        None,
        metavar="MINUTES",
        help="Minutes between two saves of the checkpoint. [x>=0] [default: 5]",
    ),
    option("resume", bool, False, "--resume", help="Continue from the checkpoint."),
    *library_options(Parameters, *RUN_NAMES),
)
"""How a model is fitted to a table."""

IMAGE = (
    option("mask", Path | None, None, help="Image that is not 0 where a pixel of IN is missing."),
    option(
        "missing",
        float | None,
        None,
        help="Value that marks missing pixels. NaN and transparent pixels are always missing.",
    ),
    option(
        "std",
        Path | None,
        None,
        help="Write the uncertainty of each pixel, in image units: .npy, .tif or .hspy.",
    ),
    option("report", Path | None, None, help="Write a report on the result, one .html file."),
    *library_options(
        RestorationOptions,
        "patch_size",
        "stride",
        "channel_axis",
        "stack_axis",
        "refine",
        "noise_model",
        "gain",
        "read_noise",
        *MODEL_NAMES,
        *RUN_NAMES,
    ),
)
"""How an image is read and restored."""

LIBRARY_NAMES = {
    RENAMED.get(name, name): name
    for name in (declarations(Parameters) | declarations(RestorationOptions))
    if RENAMED.get(name, name) in {shared.name for shared in (*FIT, *IMAGE)}
}
"""The library's names for the options that are parameters of the library."""


def fit_settings(context: typer.Context) -> dict[str, Any]:
    """Return the options of a fit by the library's names for them."""
    return {name: context.params[own] for own, name in LIBRARY_NAMES.items() if own in context.params}


def command_line(context: typer.Context) -> str:
    """Return the command that repeats this one and replaces the files that it has written."""
    arguments = ["bpfa", *context.obj]
    if not {"--force", "-f"} & set(arguments):
        arguments.append("--force")
    return shlex.join(arguments)


def in_terms_of_options(text: str) -> str:
    """Return a message of the library with the names of command-line options instead of parameters.

    Parameters are recognised at the beginning of a message, where they are followed by their value or by a
    colon, and a choice of columns anywhere.

    Examples
    --------
    >>> in_terms_of_options("n_components=0: expected an integer >= 1")
    '--components 0: expected an integer >= 1'
    >>> in_terms_of_options("revise=True: nothing is held out to judge a change by; expected held_out > 0")
    '--revise: nothing is held out to judge a change by; expected --held-out > 0'
    >>> in_terms_of_options("layer: not an option of .npy files; expected no options")
    '--layer: not an option of .npy files; expected no options'
    >>> in_terms_of_options("t.csv: column 'a' is not numbers; expected a choice such as columns=['b', 'c']")
    "t.csv: column 'a' is not numbers; expected a choice such as --columns 'b,c'"
    """
    text = re.sub(r"columns=\[(.*?)\]", _columns, text)
    names = {name: f"--{own.replace('_', '-')}" for own, name in LIBRARY_NAMES.items()}
    names |= {shared.name: f"--{shared.name}" for shared in TABLE}
    begin = re.match(r"(\w+)([=:])", text)
    if begin is None or begin[1] not in names:
        return text
    name, sign, rest = begin[1], begin[2], text[begin.end() :]
    if sign == ":":
        return f"{names[name]}:{rest}"
    # Only names that contain an underscore can be told from ordinary words.
    for other, flag in names.items():
        if "_" in other:
            rest = re.sub(rf"\b{other}\b", flag, rest)
    # A flag is either given or not, and has no value to show.
    return names[name] + (rest.removeprefix("True") if rest.startswith("True:") else f" {rest}")


def _columns(choice: re.Match[str]) -> str:
    """Return a list of columns as the value of an option."""
    names = re.findall(r"'([^']*)'", choice[1])
    return f"--columns {','.join(names)!r}"
